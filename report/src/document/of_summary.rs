//! The report of one run: which tables and plots a summary becomes, and the sentences beside them.

mod gate;
mod measures;

use super::plot::{Plot, Stacked, WhiskerRow, Whiskers};
use super::{Block, Document, Fact, Figure, Section, Table, interval, of, plural, provenance_section};
use crate::number::{UNDEFINED, count, money, percent};
use crate::provenance::Provenance;
use crate::summary::outcomes::KINDS;
use crate::summary::{Summary, TierRow};
use gate::gate;
use measures::{calibration, latency, over_rounds, searching, spending};

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
