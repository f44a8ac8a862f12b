//! A table of all planned episodes as CSV (RFC 4180, UTF-8): one line each, for spreadsheets and data frames. Questions
//! are not in it. Text of models is kept from being taken for a formula by a leading apostrophe.

use super::file::WholeFile;
use super::walk::{EpisodeView, Walk};
use super::{ExportError, Summary};
use legwork_protocol::budget::Amount;
use legwork_protocol::id::DocId;
use legwork_protocol::outcome::GradedBy;
use legwork_protocol::record::EpisodeRecord;
use std::collections::HashSet;
use std::path::Path;

const COLUMNS: [&str; 43] = [
    "question",
    "round",
    "tier",
    "outcome",
    "failure",
    "correct",
    "answer",
    "graded_by",
    "confidence",
    "judge_calls",
    "coordinator_tokens",
    "coordinator_turns",
    "coordinator_served_ms",
    "coordinator_micros",
    "workers_tokens",
    "workers_turns",
    "workers_served_ms",
    "workers_micros",
    "workers",
    "workers_exhausted",
    "searches",
    "opens",
    "malformed_turns",
    "repeated_calls",
    "degraded_searches",
    "retrieved",
    "opened",
    "gold",
    "gold_retrieved",
    "evidence",
    "evidence_retrieved",
    "gate_asked",
    "gate_stops",
    "gate_right_stops",
    "gate_tokens_after_stop",
    "gate_unreadable",
    "gate_tokens",
    "gate_judged_stops",
    "gate_premature_stops",
    "gate_due_workers",
    "gate_stopped_when_due",
    "gate_unspent_tokens",
    "wall_ms",
];

pub(super) fn write(walk: &Walk<'_>, out: &Path, summary: &mut Summary) -> Result<(), ExportError> {
    let mut file = WholeFile::create(out)?;
    file.put_text(&(COLUMNS.join(",") + "\r\n"))?;
    walk.each(summary, |episode, summary| {
        summary.written += 1;
        file.put_text(&(line(episode) + "\r\n"))
    })?;
    file.finish()
}

fn line(episode: &EpisodeView) -> String {
    let mut cells = vec![text(episode.key.question.as_str()), episode.key.round.to_string()];
    cells.push(text(&episode.question.tier));
    cells.push(episode.outcome().to_owned());
    if let Some(record) = &episode.record {
        cells.extend(verdict(record));
        cells.extend(amounts(&record.coordinator_spent));
        cells.extend(amounts(&record.workers_spent));
        cells.extend(counts(record));
        cells.push(episode.times_ms.map(|(began, ended)| ended.saturating_sub(began).to_string()).unwrap_or_default());
    }
    cells.resize(COLUMNS.len(), String::new());
    cells.join(",")
}

fn verdict(record: &EpisodeRecord) -> [String; 6] {
    let verdict = record.verdict.as_ref();
    let how = verdict.map(|verdict| match verdict.how {
        GradedBy::ExactMatch => "exact_match",
        GradedBy::Judge => "judge",
        GradedBy::Blank => "blank",
        GradedBy::Nobody => "nobody",
    });
    [
        record.failure.as_ref().map(|failure| failure.kind.name().to_owned()).unwrap_or_default(),
        u8::from(record.outcome.is_correct()).to_string(),
        record.answer.as_deref().map(text).unwrap_or_default(),
        how.unwrap_or_default().to_owned(),
        verdict.and_then(|verdict| verdict.confidence).map(|confidence| confidence.to_string()).unwrap_or_default(),
        verdict.map(|verdict| verdict.attempts.to_string()).unwrap_or_default(),
    ]
}

fn amounts(spent: &Amount) -> [String; 4] {
    [spent.tokens.to_string(), spent.turns.to_string(), spent.served_ms.to_string(), spent.micros.to_string()]
}

fn counts(record: &EpisodeRecord) -> Vec<String> {
    let retrieved: HashSet<&DocId> = record.retrieved.iter().collect();
    let among = |docids: &[DocId]| docids.iter().filter(|docid| retrieved.contains(docid)).count().to_string();
    let gate = &record.gate;
    let mut cells: Vec<String> = [
        record.workers,
        record.workers_exhausted,
        record.searches,
        record.opens,
        record.malformed_turns,
        record.repeated_calls,
        record.degraded_searches,
    ]
    .iter()
    .map(u32::to_string)
    .collect();
    cells.extend([record.retrieved.len().to_string(), record.opened.len().to_string()]);
    cells.extend([record.gold.len().to_string(), among(&record.gold)]);
    cells.extend([record.evidence.len().to_string(), among(&record.evidence)]);
    cells.extend([gate.asked, gate.stops, gate.right_stops].iter().map(u32::to_string));
    let worth = &gate.worth;
    cells.extend([gate.tokens_after_stop, u64::from(worth.unreadable), worth.tokens].iter().map(u64::to_string));
    let stops = [worth.judged_stops, worth.premature_stops, worth.due_workers, worth.stopped_when_due];
    cells.extend(stops.iter().map(u32::to_string));
    cells.push(worth.unspent_tokens.to_string());
    cells
}

/// A cell of somebody else's text: quoted where it must be, and never a formula.
fn text(text: &str) -> String {
    let is_formula = text.starts_with(['=', '+', '-', '@', '\t', '\r']) && text.trim().parse::<f64>().is_err();
    let text = if is_formula { format!("'{text}") } else { text.to_owned() };
    if text.contains([',', '"', '\n', '\r']) { format!("\"{}\"", text.replace('"', "\"\"")) } else { text }
}
