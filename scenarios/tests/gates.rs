//! A gate beside whole runs of the real actors: in shadow and obeyed, right always, by chance and never. The report's
//! figures are compared with figures worked out by hand, and with sums over the ledger's events that share no code.
#![allow(clippy::unwrap_used, reason = "tests")]

use legwork_actors::ledger::LedgerReader;
use legwork_protocol::event::Event;
use legwork_protocol::gate::GateDecision;
use legwork_protocol::id::{DocId, Scope};
use legwork_protocol::profile::GateMode;
use legwork_protocol::record::EpisodeRecord;
use legwork_protocol::worker::WorkerEvent;
use legwork_report::number::{Finite, percent};
use legwork_report::summary::gate::GateSummary;
use legwork_report::{Charset, Format, Plan, Summary, SummaryOptions, render, summarise};
use legwork_scenarios::mocks::{ConstantGate, GATE_TOKENS, MockGate};
use legwork_scenarios::{Recast, Scenario, play_with, world};
use std::path::Path;

const QUESTIONS: u32 = 8;

/// A run with this gate: its records and what the report says.
fn run(folder: &Path, mode: GateMode, recast: &Recast) -> (Vec<EpisodeRecord>, Summary) {
    let mut scenario = Scenario::new("gated").questions(QUESTIONS);
    scenario.gate = mode;
    let played = play_with(&scenario, folder, recast).unwrap();
    assert!(played.is_sound(), "{:#?}", played.findings);
    let questions = world::questions(QUESTIONS).into_iter().map(|question| (question.id, question.tier));
    let plan = Plan::of_questions(questions, 1).unwrap();
    let options = SummaryOptions { gate: Some(mode), ..SummaryOptions::default() };
    let summary = summarise(&plan, &played.records, &options).unwrap();
    (played.records, summary)
}

fn always(decision: GateDecision) -> Recast {
    Recast::new(move |cast| cast.gate = ConstantGate(decision).role())
}

fn knowing(rate: f64) -> Recast {
    let gate = MockGate::knowing(&world::questions(QUESTIONS), rate, 7);
    Recast::new(move |cast| cast.gate = gate.clone().role())
}

/// What the worker's events say, counted in the plainest way: for each moment the decision, whether the document that
/// holds the answer (`t…`) had been opened, and the tokens spent.
fn moments(folder: &Path) -> Vec<Vec<(GateDecision, bool, u64)>> {
    let reader = LedgerReader::open(folder).unwrap();
    let mut workers = Vec::new();
    for key in reader.planned().unwrap() {
        for (scope, events) in reader.history(&key).unwrap() {
            if !matches!(scope, Scope::Worker(_)) {
                continue;
            }
            let gold = DocId::new(key.question.as_str().replace('s', "t"));
            let (mut opened, mut spent, mut said) = (false, 0, Vec::new());
            for recorded in events {
                match recorded.event {
                    Event::Worker(WorkerEvent::Generated { tokens, .. }) => spent += tokens,
                    Event::Worker(WorkerEvent::Observed { observed, tokens, .. }) => {
                        spent += tokens;
                        opened |= observed.opened.contains(&gold);
                    }
                    Event::Worker(WorkerEvent::GateSaid(answer)) => said.push((answer.decision, opened, spent)),
                    _ => {}
                }
            }
            workers.push(said);
        }
    }
    workers
}

fn counts(gate: &GateSummary) -> [u64; 8] {
    [
        gate.asked,
        gate.unreadable,
        gate.stops,
        gate.right_stops,
        gate.judged_stops,
        gate.premature_stops,
        gate.due_workers,
        gate.stopped_when_due,
    ]
}

#[test]
fn a_gate_that_is_off_is_never_asked() {
    let folder = tempfile::tempdir().unwrap();
    let gate = MockGate::new(|_, _| panic!("a gate that is off was asked"));
    let recast = Recast::new(move |cast| cast.gate = gate.clone().role());
    let (records, summary) = run(folder.path(), GateMode::Off, &recast);
    assert!(moments(folder.path()).iter().all(Vec::is_empty));
    assert!(records.iter().all(|record| record.outcome.is_correct() && record.gate.asked == 0));
    assert_eq!(summary.gate, None);
}

#[test]
fn a_gate_that_always_stops_in_shadow_harms_nobody_and_is_seen_to_be_premature() {
    let folder = tempfile::tempdir().unwrap();
    let (records, summary) = run(folder.path(), GateMode::Shadow, &always(GateDecision::Stop));
    let gate = summary.gate.unwrap();
    // Each of the 8 workers searches, opens the first page, opens the second, which holds the answer, and finishes: three
    // moments, of which the last is due. Its candidate is the worker's own answer, which was right.
    assert_eq!(counts(&gate), [24, 0, 24, 24, 24, 16, 8, 8]);
    assert_eq!([gate.precision, gate.premature_rate, gate.recall].map(percent), ["100.00 %", "66.67 %", "100.00 %"]);
    assert_eq!((gate.tokens, gate.unspent_tokens), (0, 0));
    assert!(records.iter().all(|record| record.outcome.is_correct()), "nobody obeyed");
    let by_hand: u64 =
        moments(folder.path()).iter().zip(&records).map(|(said, record)| record.workers_spent.tokens - said[0].2).sum();
    assert_eq!(gate.tokens_after_stop, by_hand);
}

#[test]
fn a_gate_that_always_stops_and_is_obeyed_costs_every_answer() {
    let folder = tempfile::tempdir().unwrap();
    let (records, summary) = run(folder.path(), GateMode::On, &always(GateDecision::Stop));
    let gate = summary.gate.unwrap();
    assert_eq!(counts(&gate), [8, 0, 8, 0, 8, 8, 0, 0], "stopped after the first search, with nothing read");
    assert_eq!([gate.precision, gate.premature_rate].map(percent), ["0.00 %", "100.00 %"]);
    assert_eq!(gate.recall, None, "STOP was never due");
    assert!(records.iter().all(|record| !record.outcome.is_correct() && record.workers_exhausted == 0));
    let lent = 8 * 12_288;
    let spent: u64 = records.iter().map(|record| record.workers_spent.tokens).sum();
    assert_eq!(gate.unspent_tokens, lent - spent);
}

#[test]
fn a_gate_that_knows_saves_what_comes_after_the_answer_was_read() {
    let folder = tempfile::tempdir().unwrap();
    for (mode, name) in [(GateMode::Shadow, "shadow"), (GateMode::On, "on")] {
        let place = folder.path().join(name);
        let (records, summary) = run(&place, mode, &knowing(1.0));
        let gate = summary.gate.unwrap();
        assert_eq!(counts(&gate), [24, 0, 8, 8, 8, 0, 8, 8], "{mode:?}");
        assert_eq!(gate.tokens, 24 * GATE_TOKENS);
        assert!(records.iter().all(|record| record.outcome.is_correct()), "{mode:?}: the last turn answers");
        assert_eq!(gate.tokens_after_stop, gate.tokens_after_due);
        assert_eq!(gate.unspent_tokens > 0, mode == GateMode::On);
        let text = render(&summary, &[], Format::Text(Charset::Ascii)).unwrap();
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        for figure in ["8/8", "0/8", "100.00 %", "Asked 24 times in 8 episodes"] {
            assert!(text.contains(figure), "{figure} is missing from\n{text}");
        }
    }
}

#[test]
fn a_gate_that_is_right_so_often_has_the_figures_that_its_moments_add_up_to() {
    let folder = tempfile::tempdir().unwrap();
    for rate in [0.0, 0.5, 0.8] {
        let place = folder.path().join(format!("{rate}"));
        let (records, summary) = run(&place, GateMode::Shadow, &knowing(rate));
        let gate = summary.gate.unwrap();
        let workers = moments(&place);
        let all = || workers.iter().flatten();
        let is_stop = |decision: GateDecision| decision == GateDecision::Stop;
        let stops = all().filter(|(decision, ..)| is_stop(*decision)).count() as u64;
        let early = all().filter(|(decision, due, _)| is_stop(*decision) && !due).count() as u64;
        let hit =
            |said: &&Vec<(GateDecision, bool, u64)>| said.iter().any(|(decision, due, _)| is_stop(*decision) && *due);
        let stopped = workers.iter().filter(hit).count() as u64;
        // Every worker was right in the end, and the gate names the right answer.
        assert_eq!(counts(&gate), [24, 0, stops, stops, stops, early, 8, stopped], "{rate}");
        assert_eq!((gate.premature_rate, gate.recall), (Finite::ratio(early, stops), Finite::ratio(stopped, 8)));
        let after = |first: fn(&(GateDecision, bool, u64)) -> bool| -> u64 {
            let spent = |(said, record): (&Vec<(GateDecision, bool, u64)>, &EpisodeRecord)| {
                said.iter().find(|moment| first(moment)).map_or(0, |moment| record.workers_spent.tokens - moment.2)
            };
            workers.iter().zip(&records).map(spent).sum()
        };
        assert_eq!(gate.tokens_after_stop, after(|(decision, ..)| *decision == GateDecision::Stop));
        assert_eq!(gate.tokens_after_due, after(|(_, due, _)| *due));
        match rate {
            0.0 => assert_eq!((stops, early, stopped), (16, 16, 0), "the opposite of what is due, always"),
            _ => assert!(stops > 0 && early > 0 && early < stops, "{stops} {early}"),
        }
    }
}
