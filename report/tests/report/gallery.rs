//! A run that looks like a real one, for the other tests and for people: its pages are written to the
//! target folder's `tmp/report-gallery`, to be opened in a browser after a change of style.

use crate::support::{card, key, plan_of, provenance, rounds, verdict};
use legwork_protocol::budget::Amount;
use legwork_protocol::failure::{Failure, FailureKind};
use legwork_protocol::gate::{GateTally, GateWorth};
use legwork_protocol::id::DocId;
use legwork_protocol::outcome::Outcome;
use legwork_protocol::record::EpisodeRecord;
use legwork_report::agreement::NoiseSamples;
use legwork_report::{
    Charset, CompareOptions, Format, Grading, Plan, Provenance, Run, Summary, SummaryOptions, agreement, compare,
    render, summarise,
};
use std::path::Path;

/// A number between 0 and `below` that looks random and is not.
fn noise(seed: u64, below: u64) -> u64 {
    let mixed = (seed + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed ^ (mixed >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9) % below
}

fn lived(mut record: EpisodeRecord, seed: u64) -> EpisodeRecord {
    record.outcome = match (record.outcome, seed % 10) {
        (Outcome::Wrong, 3) => Outcome::Failed(FailureKind::TimedOut),
        (Outcome::Wrong, 7) => Outcome::Failed(FailureKind::RateLimited),
        (Outcome::Wrong, 1) => Outcome::NoAnswer,
        (Outcome::Wrong, 2) => Outcome::Malformed,
        (Outcome::Wrong, 5) => Outcome::Ungraded,
        (outcome, _) => outcome,
    };
    let right = record.outcome.is_correct();
    if let Outcome::Failed(kind) = record.outcome {
        let detail = "expected a completion within 120 s, got none from endpoint coordinator: raise timeout_ms or lower concurrency";
        record.failure = Some(Failure::new(kind, detail));
    }
    if record.outcome.is_graded() {
        let confidence =
            (!seed.is_multiple_of(13)).then(|| (55 + noise(seed, 46)) as f64 - if right { 0.0 } else { 12.0 });
        record.verdict = Some(verdict(right, confidence));
    }
    let exhausted = matches!(record.outcome, Outcome::Exhausted);
    record.workers = 1 + (seed % 3) as u32;
    let each = if exhausted { 24_576 } else { 4_000 + noise(seed * 3, 19_000) };
    record.workers_exhausted = u32::from(exhausted);
    let turns = 3 + (noise(seed * 5, 30) as u32);
    record.workers_spent =
        Amount { tokens: each * u64::from(record.workers), turns, served_ms: 900 * u64::from(turns), micros: 0 };
    record.coordinator_spent = Amount {
        tokens: 3_000 + noise(seed * 7, 9_000),
        turns: 2 + record.workers,
        served_ms: 21_000,
        micros: 8_000 + noise(seed, 9_000),
    };
    record.searches = turns / 2 + 1;
    record.opens = turns / 4;
    record.malformed_turns = u32::from(seed.is_multiple_of(9));
    record.repeated_calls = u32::from(seed.is_multiple_of(6));
    record.degraded_searches = u32::from(seed == 40);
    let docs = |from: u64, count: u64| (from..from + count).map(|id| DocId::new(id.to_string())).collect::<Vec<_>>();
    record.evidence = docs(seed * 10, 5);
    record.gold = docs(seed * 10, 2);
    record.retrieved = docs(seed * 10 + noise(seed * 11, 4), 12);
    record.opened = docs(seed * 10 + noise(seed * 11, 4), 2);
    record.answer = Some(format!("The answer is so [{}] and so [1987].", seed * 10 + 1));
    let (stopped, right_stops) = (u32::from(!exhausted), u32::from(right));
    record.gate = GateTally {
        asked: turns,
        stops: stopped,
        right_stops,
        tokens_after_stop: 500,
        worth: GateWorth {
            unreadable: u32::from(seed.is_multiple_of(11)),
            tokens: u64::from(turns) * 90,
            judged_stops: stopped,
            premature_stops: stopped - right_stops,
            due_workers: right_stops,
            stopped_when_due: right_stops * u32::from(!seed.is_multiple_of(5)),
            tokens_after_due: u64::from(right_stops) * 700,
            unspent_tokens: 0,
        },
    };
    record.turn_served_ms = (0..u64::from(turns)).map(|turn| 250 + noise(seed * 31 + turn, 2_400)).collect();
    record
}

fn options() -> SummaryOptions {
    let limit = Amount { tokens: 24_576, turns: 40, ..Amount::UNLIMITED };
    SummaryOptions { worker_budget: Some(limit), resamples: 500, ..SummaryOptions::default() }
}

fn runs() -> (Plan, Vec<EpisodeRecord>, Vec<EpisodeRecord>) {
    let (before, after) = card();
    let plan = plan_of(&before);
    let lived = |records: Vec<EpisodeRecord>| {
        records.into_iter().zip(0..).map(|(record, seed)| self::lived(record, seed)).collect::<Vec<_>>()
    };
    (plan, lived(before), lived(after))
}

pub(crate) fn summary() -> Summary {
    let (plan, _, mut after) = runs();
    after.truncate(148);
    summarise(&plan, &after, &options()).unwrap()
}

fn origin(title: &str) -> Provenance {
    let mut origin = provenance(title);
    for digest in &mut origin.digests {
        digest.digest = format!("blake3:{}", "4f9a0c77d1e2b35688".repeat(3));
    }
    origin.digests[2].digest.push_str(title);
    origin
}

pub(crate) fn page(mock: bool) -> String {
    let origin = Provenance { mock, ..origin("Qwen3-4B worker SFT, iteration 1366") };
    render(&summary(), &[origin], Format::Html).unwrap()
}

pub(crate) fn text(charset: Charset) -> String {
    render(&summary(), &[origin("Qwen3-4B worker SFT")], Format::Text(charset)).unwrap()
}

fn comparison(format: Format) -> String {
    let (plan, before, after) = runs();
    let (a, b) = (origin("Original Qwen3-4B"), origin("SFT model"));
    let one = Run { plan: &plan, records: &before, provenance: &a };
    let other = Run { plan: &plan, records: &after, provenance: &b };
    let options = CompareOptions { resamples: 500, ..CompareOptions::default() };
    render(&compare(&one, &other, &options).unwrap(), &[a.clone(), b.clone()], format).unwrap()
}

fn several_rounds() -> String {
    let ids: Vec<String> = (0..40).map(|at| format!("q{at}")).collect();
    let plan = rounds(
        ids.iter().map(|id| (id.as_str(), if id.len() < 3 { "a tier with quite a long name" } else { "日本語" })),
        3,
    );
    let records: Vec<EpisodeRecord> = plan
        .episodes()
        .iter()
        .zip(0..)
        .map(|(episode, seed)| {
            let right = noise(seed, 10) < 4 + seed % 5;
            let mut record =
                crate::support::record("", &episode.tier, if right { Outcome::Correct } else { Outcome::Wrong });
            record.key = episode.key.clone();
            lived(record, seed)
        })
        .collect();
    let summary = summarise(&plan, &records, &options()).unwrap();
    render(&summary, &[Provenance { mock: true, ..origin("Three rounds of a mock") }], Format::Html).unwrap()
}

fn two_judges() -> String {
    let judge = |grader: &str, lenient: u64| Grading {
        grader: grader.to_owned(),
        verdicts: (0..150)
            .map(|at| {
                (key(&format!("q{at}"), 0), (noise(at, 40) > 0).then(|| noise(at * 3, 100) < 60 + lenient * (at % 3)))
            })
            .collect(),
    };
    let samples = NoiseSamples {
        regrades: (0..60)
            .map(|at| {
                (
                    key(&format!("q{at}"), 0),
                    (0..3).map(|k| Some(noise(at, 10) < 6 || (k == 1 && at % 11 == 0))).collect(),
                )
            })
            .collect(),
        rounds: (0..120).map(|at| (key(&format!("q{}", at / 2), at as u32 % 2), Some(noise(at, 10) < 6))).collect(),
    };
    let agreement = agreement(&judge("Qwen3-32B", 0), &judge("Gemini 3.6 Flash", 9), &samples).unwrap();
    render(&agreement, &[origin("Saved run")], Format::Html).unwrap()
}

#[test]
fn the_gallery_shows_every_kind_of_report() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("report-gallery");
    std::fs::create_dir_all(&folder).unwrap();
    let markdown = render(&summary(), &[origin("Qwen3-4B worker SFT")], Format::Markdown).unwrap();
    let pages = [
        ("summary.html", page(false)),
        ("compare.html", comparison(Format::Html)),
        ("rounds-mock.html", several_rounds()),
        ("judges.html", two_judges()),
        ("summary.txt", text(Charset::Unicode)),
        ("compare.txt", comparison(Format::Text(Charset::Unicode))),
        ("summary.md", markdown),
    ];
    for (name, page) in pages {
        assert!(page.len() > 1_000, "{name} is empty");
        std::fs::write(folder.join(name), page).unwrap();
    }
}
