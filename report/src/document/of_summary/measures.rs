//! The sections of a run's report that tell how it was reached: rounds, budgets, searching,
//! calibration and latency.

use crate::document::plot::{Histogram, Plot};
use crate::document::{Block, Figure, Section, Table, interval, of, plural};
use crate::number::{Finite, UNDEFINED, count, decimal, duration, money, percent, percent_range};
use crate::statistics::percentile;
use crate::statistics::proportion::Rate;
use crate::statistics::recall::MeanRecall;
use crate::summary::Summary;
use crate::summary::behaviour::Percentiles;
use crate::summary::over_rounds::OverRounds;
use crate::summary::spending::RoleSpending;

pub(super) fn over_rounds(over: &OverRounds) -> Section {
    let mut table = Table::new(["Round", "#Correct", "#Accuracy", "#Wilson 95 %"]);
    for round in &over.rounds {
        table.row(false, [round.round.to_string(), of(&round.rate), percent(round.rate.rate), interval(&round.rate)]);
    }
    let mut passes = Table::new(["pass@k", "#Value", "#Questions"]);
    for pass in &over.pass_at {
        passes.row(false, [format!("pass@{}", pass.k), percent(pass.value), count(pass.questions)]);
    }
    let mut blocks = vec![Block::Table(table), Block::Table(passes)];
    if let Some(spread) = &over.spread {
        let deviation = spread.deviation.map_or_else(|| "unknown".to_owned(), |d| format!("{:.2}", d.get() * 100.0));
        blocks.push(Block::Note(format!(
            "Mean over rounds {} ± {deviation} points (sample standard deviation), from {}.",
            percent(Some(spread.mean)),
            percent_range(spread.low, spread.high),
        )));
    }
    if let Some(clustered) = &over.clustered {
        blocks.push(Block::Note(format!(
            "Drawing whole questions again: {}, 95 % {} ({} resamples of {}, seed {}).",
            percent(Some(clustered.estimate)),
            percent_range(clustered.interval.low, clustered.interval.high),
            count(u64::from(clustered.resamples)),
            plural(clustered.clusters, "question"),
            clustered.seed,
        )));
    }
    blocks.push(Block::Note(format!(
        "Two rounds of one question differ with probability {}; {} of {} came out the same every time.",
        percent(over.repeats.disagreement),
        count(over.repeats.unanimous),
        plural(over.repeats.items, "question"),
    )));
    Section::new("Rounds", Vec::new(), blocks)
}

pub(super) fn spending(summary: &Summary) -> Section {
    let spent = &summary.spending;
    let mut table =
        Table::new(["Role", "#Tokens", "#an episode: mean", "#median", "#Turns", "#an episode: mean", "#median"]);
    let row = |role: &RoleSpending| {
        [
            count(role.total.tokens),
            role.tokens_mean.map_or_else(|| UNDEFINED.to_owned(), |mean| count(mean.get().round() as u64)),
            role.tokens_median.map_or_else(|| UNDEFINED.to_owned(), count),
            count(u64::from(role.total.turns)),
            decimal(role.turns_mean, 1),
            role.turns_median.map_or_else(|| UNDEFINED.to_owned(), |turns| turns.to_string()),
        ]
    };
    for (name, role) in [("coordinator", &spent.coordinator), ("workers", &spent.workers)] {
        table.row(false, [name.to_owned()].into_iter().chain(row(role)));
    }
    let mut blocks = vec![
        Block::Table(table),
        Block::Note(format!(
            "{} with a record; {} asked, {} of them ran out of budget.",
            plural(spent.episodes, "episode"),
            plural(spent.workers_asked, "worker"),
            count(spent.workers_exhausted),
        )),
    ];
    if !spent.budgets.is_empty() {
        let mut budgets = Table::new(["Budget", "#Lent to one", "#Mean use", "#Episodes"]);
        for budget in &spent.budgets {
            let name = format!("{} {}", budget.role, budget.resource);
            budgets.row(false, [name, count(budget.limit), percent(budget.mean), count(budget.episodes)]);
        }
        blocks.push(Block::Table(budgets));
    }
    if let Some(cost) = &spent.cost {
        blocks.push(Block::Note(format!(
            "Cost in the price list's currency: {} in all, {} an episode, {} a correct answer.",
            money(cost.micros as f64),
            cost.micros_per_episode.map_or_else(|| UNDEFINED.to_owned(), |micros| money(micros.get())),
            cost.micros_per_correct.map_or_else(|| UNDEFINED.to_owned(), |micros| money(micros.get())),
        )));
    }
    let figures = spent
        .budgets
        .iter()
        .filter(|budget| budget.resource == "tokens" && budget.episodes > 0)
        .map(|budget| Figure {
            caption: format!("Share of the {} token budget used, episodes by tenth", budget.role),
            plot: Plot::Histogram(Histogram {
                counts: budget.histogram.clone(),
                mean: budget.mean,
                axis: format!("share of {} tokens", count(budget.limit)),
            }),
        })
        .collect();
    Section::new("Budgets", figures, blocks)
}

pub(super) fn searching(summary: &Summary) -> Section {
    let activity = &summary.activity;
    let mut calls = Table::new(["Calls", "#Total", "#an episode"]);
    let rows = [
        ("searches", activity.searches),
        ("pages opened", activity.opens),
        ("malformed turns", activity.malformed_turns),
        ("repeated calls", activity.repeated_calls),
        ("degraded searches", activity.degraded_searches),
    ];
    for (name, total) in rows {
        let mean = Finite::ratio(total, activity.episodes);
        calls.row(false, [name.to_owned(), count(total), decimal(mean, 2)]);
    }
    let mut found = Table::new(["Recall", "#Mean", "#Questions", "#without any"]);
    let retrieval = &summary.retrieval;
    let recalls: [(&str, &MeanRecall); 4] = [
        ("evidence shown by searches", &retrieval.evidence_shown),
        ("gold shown by searches", &retrieval.gold_shown),
        ("evidence opened", &retrieval.evidence_opened),
        ("gold opened", &retrieval.gold_opened),
    ];
    for (name, recall) in recalls {
        found.row(false, [name.to_owned(), percent(recall.mean), count(recall.questions), count(recall.without)]);
    }
    let mut blocks = vec![Block::Table(calls), Block::Table(found)];
    if activity.turns > 0 {
        let readable = Rate::new(activity.turns.saturating_sub(activity.malformed_turns), activity.turns);
        blocks.insert(
            1,
            Block::Note(format!(
                "Turns with a call that could be read: {}, {}, Wilson 95 % {}.",
                percent(readable.rate),
                of(&readable),
                interval(&readable),
            )),
        );
    }
    if activity.degraded_searches > 0 {
        blocks.push(Block::Note(format!(
            "In {} a part of the retriever was missing: their scores are not those of the whole system.",
            plural(activity.degraded_episodes, "episode"),
        )));
    }
    let cited = &summary.citations;
    blocks.push(Block::Note(format!(
        "Citations by the published rule (any digits in brackets): {} of {} cite; precision {} over {}, recall {} over {}.",
        count(cited.citing),
        plural(cited.answers, "answer"),
        percent(cited.precision),
        count(cited.citing),
        percent(cited.recall),
        count(cited.with_evidence),
    )));
    Section::new("Searching", Vec::new(), blocks)
}

pub(super) fn calibration(summary: &Summary) -> Section {
    let calibration = &summary.calibration;
    let mut table = Table::new(["Calibration error", "#Value", "#Answers summed"]);
    let hundred = |value: Option<Finite>| value.map_or_else(|| UNDEFINED.to_owned(), |v| format!("{:.2} %", v.get()));
    table.row(
        false,
        [
            "as published (bins of 100, last bin never summed)".to_owned(),
            hundred(Some(calibration.published)),
            count(calibration.used - calibration.published_left_out),
        ],
    );
    table.row(
        false,
        [
            format!("corrected ({}, all summed)", plural(calibration.bins.len() as u64, "equal-count bin")),
            hundred(calibration.corrected),
            count(calibration.used),
        ],
    );
    let mut note = format!(
        "{} graded, {} with a confidence from 0 to 100; {} without any, {} out of range.",
        plural(calibration.answers, "answer"),
        count(calibration.used),
        count(calibration.missing),
        count(calibration.out_of_range),
    );
    if let Some(over) = calibration.overconfidence {
        note.push_str(&format!(" Confidence minus accuracy: {:+.2} points.", over.get()));
    }
    if calibration.published_left_out == calibration.used && calibration.used > 0 {
        note.push_str(" The published figure is 0 for any run of fewer than 200 answers and says nothing here.");
    }
    let figures = if calibration.bins.is_empty() {
        Vec::new()
    } else {
        vec![Figure {
            caption: "Accuracy against stated confidence, equal-count bins with Wilson 95 % intervals".to_owned(),
            plot: Plot::Calibration(calibration.bins.clone()),
        }]
    };
    Section::new("Calibration", figures, vec![Block::Table(table), Block::Note(note)])
}

pub(super) fn latency(summary: &Summary) -> Section {
    let mut table = Table::new(["Served", "#Measured", "#p50", "#p90", "#p95", "#p99", "#Max"]);
    let cells = |name: &str, at: &Percentiles| {
        let mut cells = vec![name.to_owned(), count(at.count)];
        cells.extend([at.p50, at.p90, at.p95, at.p99, at.max].map(duration));
        cells
    };
    let rows = [("a turn", &summary.latency.turn), ("an episode", &summary.latency.episode)];
    for (name, percentiles) in rows {
        if let Some(percentiles) = percentiles {
            table.row(false, cells(name, percentiles));
        }
    }
    if table.rows.is_empty() {
        return Section::new("Latency", Vec::new(), vec![Block::Note("Nothing was measured.".to_owned())]);
    }
    let note = format!("Time being served, queueing left out. Percentiles by {}.", percentile::DEFINITION);
    Section::new("Latency", Vec::new(), vec![Block::Table(table), Block::Note(note)])
}
