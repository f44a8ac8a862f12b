//! The report of two runs: what a comparison becomes, and the sentences beside it.

use super::plot::{DivergingRow, Plot, WhiskerRow, Whiskers};
use super::{Block, Document, Fact, Figure, Section, Table, interval, of, plural, provenance_section};
use crate::compare::{Comparison, Difference, Flip, PairRow};
use crate::number::{Finite, UNDEFINED, count, p_value, percent, points};
use crate::provenance::Provenance;
use legwork_protocol::outcome::Outcome;

/// Lays out a comparison.
pub fn document(comparison: &Comparison, provenance: &[Provenance]) -> Document {
    let mut sections = vec![accuracy(comparison), pairs(comparison)];
    sections.push(flips(comparison, true));
    sections.push(flips(comparison, false));
    sections.push(differences(comparison));
    sections.push(provenance_section(provenance));
    Document {
        title: format!("{} against {}", comparison.b, comparison.a),
        subtitle: format!(
            "{} in {}, {}",
            plural(comparison.questions, "question"),
            plural(comparison.rounds, "round"),
            plural(comparison.total.a.of, "pair")
        ),
        provenance: provenance.to_vec(),
        facts: facts(comparison),
        sections,
    }
}

fn rows(comparison: &Comparison) -> impl Iterator<Item = (&PairRow, bool)> {
    comparison.tiers.iter().map(|row| (row, false)).chain([(&comparison.total, true)])
}

fn difference(row: &PairRow) -> String {
    row.difference.map_or_else(|| UNDEFINED.to_owned(), points)
}

fn bootstrap(row: &PairRow) -> String {
    let range = |low: Finite, high: Finite| format!("{} to {}", points(low), points(high));
    row.bootstrap.map_or_else(|| UNDEFINED.to_owned(), |drawn| range(drawn.interval.low, drawn.interval.high))
}

fn facts(comparison: &Comparison) -> Vec<Fact> {
    let total = &comparison.total;
    let test = &total.mcnemar;
    vec![
        Fact::new(
            "Difference",
            format!("{} points", difference(total)),
            format!("paired bootstrap 95 % {}", bootstrap(total)),
        ),
        Fact::new(
            "Improved, regressed",
            format!("{} improved, {} regressed", count(total.improved), count(total.regressed)),
            format!("{} right in both, {} in neither", count(total.both), count(total.neither)),
        ),
        Fact::new(
            "McNemar, exact",
            format!("p = {}", p_value(test.p, test.log10_p)),
            "two-sided, over the pairs that differ",
        ),
        Fact::new(
            "Readable calls",
            format!("{} against {} of turns", percent(comparison.readable_b.rate), percent(comparison.readable_a.rate)),
            format!("{} and {} turns", of(&comparison.readable_b), of(&comparison.readable_a)),
        ),
    ]
}

fn accuracy(comparison: &Comparison) -> Section {
    let (a, b) = (comparison.a.as_str(), comparison.b.as_str());
    let mut table = Table::new(["Tier"]);
    table = table.numbers(a).numbers("accuracy, Wilson 95 %").numbers(b).numbers("accuracy, Wilson 95 %");
    for (row, total) in rows(comparison) {
        let cells = [
            row.tier.clone(),
            of(&row.a),
            format!("{}, {}", percent(row.a.rate), interval(&row.a)),
            of(&row.b),
            format!("{}, {}", percent(row.b.rate), interval(&row.b)),
        ];
        table.row(total, cells);
    }
    let figure = Figure {
        caption: "Accuracy over all pairs, with Wilson 95 % intervals".to_owned(),
        plot: Plot::Whiskers(Whiskers {
            series: vec![a.to_owned(), b.to_owned()],
            rows: rows(comparison)
                .map(|(row, total)| WhiskerRow { label: row.tier.clone(), total, rates: vec![row.a, row.b] })
                .collect(),
        }),
    };
    let note = "What is exhausted, failed, ungraded or not run counts as not correct in either run. Whether two \
                intervals overlap does not decide whether paired runs differ: the tests below do.";
    Section::new("Accuracy", vec![figure], vec![Block::Table(table), Block::Note(note.to_owned())])
}

fn pairs(comparison: &Comparison) -> Section {
    let mut table = Table::new([
        "Tier",
        "#Improved",
        "#Regressed",
        "#Both",
        "#Neither",
        "#Points",
        "#Bootstrap 95 %",
        "#McNemar p",
    ]);
    for (row, total) in rows(comparison) {
        let cells = [
            row.tier.clone(),
            count(row.improved),
            count(row.regressed),
            count(row.both),
            count(row.neither),
            difference(row),
            bootstrap(row),
            p_value(row.mcnemar.p, row.mcnemar.log10_p),
        ];
        table.row(total, cells);
    }
    let figure = Figure {
        caption: "Pairs that changed: regressed to the left, improved to the right".to_owned(),
        plot: Plot::Diverging(
            rows(comparison)
                .map(|(row, total)| DivergingRow {
                    label: row.tier.clone(),
                    total,
                    regressed: row.regressed,
                    improved: row.improved,
                })
                .collect(),
        ),
    };
    let mut blocks = vec![Block::Table(table)];
    if let Some(drawn) = &comparison.total.bootstrap {
        blocks.push(Block::Note(format!(
            "Bootstrap: {} resamples of {} with all their rounds, percentile interval, seed {}.",
            count(u64::from(drawn.resamples)),
            plural(drawn.clusters, "question"),
            drawn.seed,
        )));
    }
    if let Some(effect) = &comparison.total.detectable {
        blocks.push(Block::Note(format!(
            "With {} of which {} differ, a true difference of {} points would be found four times in five \
             (two-sided, 5 %).",
            plural(effect.pairs, "pair"),
            percent(Some(effect.discordance)),
            points(effect.difference).trim_start_matches('+'),
        )));
    }
    if comparison.rounds > 1 {
        blocks.push(Block::Note(
            "McNemar takes the rounds of one question for independent, which they are not; read the bootstrap."
                .to_owned(),
        ));
    }
    if comparison.flips_from_outside > 0 {
        blocks.push(Block::Note(format!(
            "{} of {} have a side that was not run, failed, was cancelled or got no verdict: there the run may have \
             changed rather than the worker.",
            count(comparison.flips_from_outside),
            plural(comparison.flips.len() as u64, "flip"),
        )));
    }
    Section::new("Pairs", vec![figure], blocks)
}

fn flips(comparison: &Comparison, improved: bool) -> Section {
    let flips: Vec<&Flip> = comparison.flips.iter().filter(|flip| flip.improved == improved).collect();
    let mut table = Table::new(["Question", "#Round", "Tier"]);
    for label in [&comparison.a, &comparison.b] {
        table.columns.push(super::text_column(label));
    }
    for flip in &flips {
        let key = &flip.key;
        let cells = [key.question.to_string(), key.round.to_string(), flip.tier.clone(), ended(flip.a), ended(flip.b)];
        table.row(false, cells);
    }
    let name = if improved { "Improved" } else { "Regressed" };
    Section::folded(&format!("{name}: {}", plural(flips.len() as u64, "episode")), vec![Block::Table(table)])
}

fn ended(outcome: Option<Outcome>) -> String {
    match outcome {
        None => "not run".to_owned(),
        Some(Outcome::Failed(cause)) => format!("failed ({})", cause.name()),
        Some(outcome) => outcome.name().to_owned(),
    }
}

fn differences(comparison: &Comparison) -> Section {
    let mut blocks = Vec::new();
    let mut table = Table::new(["What differs", "accepted", "how"]);
    let listed =
        comparison.accepted.iter().map(|one| (one, "yes")).chain(comparison.changed.iter().map(|one| (one, "–")));
    for (difference, accepted) in listed {
        table.row(false, [difference.name().to_owned(), accepted.to_owned(), how(difference)]);
    }
    if table.rows.is_empty() {
        blocks.push(Block::Note("The two runs state no difference at all.".to_owned()));
    } else {
        blocks.push(Block::Table(table));
    }
    if comparison.left_out_a + comparison.left_out_b > 0 {
        blocks.push(Block::Note(format!(
            "Left out, having no partner: {} of the first run, {} of the second.",
            plural(comparison.left_out_a, "episode"),
            plural(comparison.left_out_b, "episode"),
        )));
    }
    Section::new("What differs between the runs", Vec::new(), blocks)
}

fn how(difference: &Difference) -> String {
    let text = difference.to_string();
    text.strip_prefix(difference.name()).map_or(text.as_str(), |rest| rest.trim_start_matches([':', ' '])).to_owned()
}
