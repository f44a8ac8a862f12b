//! The report of one run: which tables and plots a summary becomes, and the sentences beside them.

use super::plot::{Histogram, Plot, Stacked, WhiskerRow, Whiskers};
use super::{Block, Document, Fact, Figure, Section, Table, interval, of, plural, provenance_section};
use crate::number::{Finite, UNDEFINED, count, decimal, duration, money, percent, percent_range};
use crate::provenance::Provenance;
use crate::statistics::percentile;
use crate::statistics::recall::MeanRecall;
use crate::summary::behaviour::{GateSummary, Percentiles};
use crate::summary::outcomes::KINDS;
use crate::summary::over_rounds::OverRounds;
use crate::summary::spending::RoleSpending;
use crate::summary::{Summary, TierRow};

/// Characters of a failure's own words that a table shows; JSON holds them all.
const EXAMPLE_MAX: usize = 240;

/// Lays out a summary.
pub fn document(summary: &Summary, provenance: &[Provenance]) -> Document {
    let mut sections = vec![accuracy(summary), outcomes(summary)];
    sections.extend(summary.over_rounds.as_ref().map(over_rounds));
    sections.push(spending(summary));
    sections.push(searching(summary));
    sections.push(calibration(summary));
    sections.extend(summary.gate.as_ref().map(gate));
    sections.push(latency(summary));
    sections.push(definitions(summary));
    sections.push(provenance_section(provenance));
    let run = provenance.first();
    Document {
        title: run.map_or_else(|| "Run".to_owned(), |run| run.title.clone()),
        subtitle: format!(
            "{} in {}, {} planned",
            plural(summary.questions, "question"),
            plural(summary.rounds, "round"),
            plural(summary.total.over_planned.of, "episode"),
        ),
        provenance: provenance.to_vec(),
        facts: facts(summary),
        sections,
    }
}

fn rows(summary: &Summary) -> impl Iterator<Item = (&TierRow, bool)> {
    summary.tiers.iter().map(|row| (row, false)).chain([(&summary.total, true)])
}

fn facts(summary: &Summary) -> Vec<Fact> {
    let total = &summary.total;
    let mut facts = vec![
        Fact::new(
            "Accuracy, all planned",
            percent(total.over_planned.rate),
            format!("{} · Wilson 95 % {}", of(&total.over_planned), interval(&total.over_planned)),
        ),
        Fact::new(
            "Accuracy, graded only",
            percent(total.over_graded.rate),
            format!("{} · Wilson 95 % {}", of(&total.over_graded), interval(&total.over_graded)),
        ),
    ];
    let spent = &summary.spending;
    facts.push(Fact::new(
        "Budget exhausted",
        count(spent.episodes_exhausted),
        format!("episodes; {} of {}", count(spent.workers_exhausted), plural(spent.workers_asked, "worker")),
    ));
    let failed = total.outcomes.failed.values().sum();
    facts.push(Fact::new(
        "Failed or not run",
        count(failed + total.outcomes.not_run),
        format!("{} failed · {} not run", count(failed), count(total.outcomes.not_run)),
    ));
    if let Some(cost) = &spent.cost {
        facts.push(Fact::new(
            "Cost",
            money(cost.micros as f64),
            format!(
                "{} for a correct answer",
                cost.micros_per_correct.map_or_else(|| UNDEFINED.to_owned(), |micros| money(micros.get()))
            ),
        ));
    }
    facts
}

fn accuracy(summary: &Summary) -> Section {
    let mut table = Table::new(["Tier", "#Correct", "#All planned", "#Wilson 95 %", "#Graded", "#Graded only"]);
    for (row, total) in rows(summary) {
        let (planned, graded) = (&row.over_planned, &row.over_graded);
        let cells =
            [row.tier.clone(), of(planned), percent(planned.rate), interval(planned), of(graded), percent(graded.rate)];
        table.row(total, cells);
    }
    let rows = rows(summary)
        .map(|(row, total)| WhiskerRow { label: row.tier.clone(), total, rates: vec![row.over_planned] })
        .collect();
    let figure = Figure {
        caption: "Accuracy over all planned episodes, with Wilson 95 % intervals".to_owned(),
        plot: Plot::Whiskers(Whiskers { series: vec!["accuracy".to_owned()], rows }),
    };
    let mut note = "Everything planned stays in the first denominator: exhausted, failed, ungraded and not run count \
                    as not correct. The second holds only what a grader judged."
        .to_owned();
    if summary.rounds == 1 {
        note.push_str(" This is a single round: how far another would differ is not known from it.");
    } else {
        note.push_str(" The intervals take the rounds of a question for independent; see below for one that does not.");
    }
    Section::new("Accuracy", vec![figure], vec![Block::Table(table), Block::Note(note)])
}

fn outcomes(summary: &Summary) -> Section {
    let mut table = Table::new(["Outcome"]);
    for (row, _) in rows(summary) {
        table = table.numbers(row.tier.clone());
    }
    for (index, kind) in KINDS.into_iter().enumerate() {
        let counts = rows(summary).map(|(row, _)| count(row.outcomes.by_kind()[index]));
        table.row(false, [kind.to_owned()].into_iter().chain(counts).collect::<Vec<_>>());
    }
    let planned = rows(summary).map(|(row, _)| count(row.outcomes.planned()));
    table.row(true, ["planned".to_owned()].into_iter().chain(planned).collect::<Vec<_>>());
    let stacked = Stacked {
        kinds: KINDS.map(str::to_owned).to_vec(),
        rows: rows(summary).map(|(row, _)| (row.tier.clone(), row.outcomes.by_kind().to_vec())).collect(),
    };
    let figure = Figure { caption: "How the planned episodes ended".to_owned(), plot: Plot::Stacked(stacked) };
    let mut blocks = vec![Block::Table(table)];
    if !summary.failures.is_empty() {
        let mut causes = Table::new(["Failure", "#Episodes", "First such episode says"]);
        for failure in &summary.failures {
            let example = failure.example.as_deref().map_or_else(|| UNDEFINED.to_owned(), clipped);
            causes.row(false, [failure.cause.name().to_owned(), count(failure.episodes), example]);
        }
        blocks.push(Block::Table(causes));
    }
    Section::new("Outcomes", vec![figure], blocks)
}

fn clipped(example: &str) -> String {
    match example.char_indices().nth(EXAMPLE_MAX) {
        Some((end, _)) => format!("{}…", &example[..end]),
        None => example.to_owned(),
    }
}

fn over_rounds(over: &OverRounds) -> Section {
    let mut table = Table::new(["Round", "#Correct", "#Accuracy", "#Wilson 95 %"]);
    for round in &over.rounds {
        table.row(false, [round.round.to_string(), of(&round.rate), percent(round.rate.rate), interval(&round.rate)]);
    }
    let mut passes = Table::new(["pass@k", "#Value", "#Questions"]);
    for pass in &over.pass_at {
        passes.row(false, [format!("pass@{}", pass.k), percent(pass.value), count(pass.questions)]);
    }
    let mut blocks = vec![Block::Table(table)];
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
    blocks.push(Block::Table(passes));
    Section::new("Rounds", Vec::new(), blocks)
}

fn spending(summary: &Summary) -> Section {
    let spent = &summary.spending;
    let mut table = Table::new(["Role", "#Tokens", "#a mean episode", "#median", "#Turns", "#mean", "#median"]);
    let row = |role: &RoleSpending| {
        [
            count(role.total.tokens),
            decimal(role.tokens_mean, 0),
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

fn searching(summary: &Summary) -> Section {
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

fn calibration(summary: &Summary) -> Section {
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

fn gate(gate: &GateSummary) -> Section {
    let mut table = Table::new(["Gate", "#Value", "#Counted"]);
    let rows = [
        ("precision: right among STOPs", gate.precision, gate.right_stops, gate.stops),
        ("recall: correct episodes with a right STOP", gate.recall, gate.found, gate.findable),
    ];
    for (name, share, part, whole) in rows {
        table.row(false, [name.to_owned(), percent(share), format!("{}/{}", count(part), count(whole))]);
    }
    let saved = count(gate.tokens_after_stop);
    table.row(false, ["tokens after the first STOP".to_owned(), percent(gate.saved_share), saved]);
    let note = format!("Asked {} in {}.", plural(gate.asked, "time"), plural(gate.episodes, "episode"));
    Section::new("Gate", Vec::new(), vec![Block::Table(table), Block::Note(note)])
}

fn latency(summary: &Summary) -> Section {
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

fn definitions(summary: &Summary) -> Section {
    let notes = [
        "All planned: every episode of the plan fixed before the run. What left no record is `not run`.".to_owned(),
        "Graded: a grader's verdict was read. `ungraded` was answered, but no verdict could be read; it counts \
         against the worker and is shown apart."
            .to_owned(),
        "Wilson 95 %: score interval without continuity correction.".to_owned(),
        "Recall: the share of a question's evidence or gold documents among those shown or opened, averaged over \
         questions that have any."
            .to_owned(),
        "Budget use: of several workers in an episode, their mean.".to_owned(),
        format!(
            "Scores are of the whole system of coordinator, workers and retrieval over {}.",
            plural(summary.questions, "question")
        ),
    ];
    Section::folded("How to read this", notes.into_iter().map(Block::Note).collect())
}
