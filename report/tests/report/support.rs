//! Records and plans for tests: what is not said is empty.

use legwork_protocol::budget::Amount;
use legwork_protocol::failure::{Failure, FailureKind};
use legwork_protocol::gate::GateTally;
use legwork_protocol::id::EpisodeKey;
use legwork_protocol::outcome::{GradedBy, Outcome, Verdict};
use legwork_protocol::record::EpisodeRecord;
use legwork_report::{Digest, Plan, Provenance};

/// Every way for an episode to end.
pub(crate) fn every_outcome() -> Vec<Outcome> {
    let mut outcomes = vec![
        Outcome::Correct,
        Outcome::Wrong,
        Outcome::NoAnswer,
        Outcome::Exhausted,
        Outcome::Malformed,
        Outcome::Cancelled,
        Outcome::Ungraded,
    ];
    outcomes.extend(FailureKind::ALL.map(Outcome::Failed));
    outcomes
}

pub(crate) fn key(question: &str, round: u32) -> EpisodeKey {
    EpisodeKey { round, question: question.into() }
}

pub(crate) fn record(question: &str, tier: &str, outcome: Outcome) -> EpisodeRecord {
    EpisodeRecord {
        key: key(question, 0),
        tier: tier.to_owned(),
        outcome,
        answer: None,
        verdict: outcome.is_graded().then(|| verdict(outcome.is_correct(), None)),
        failure: match outcome {
            Outcome::Failed(kind) => Some(Failure::new(kind, "expected an answer, got none: look at the endpoint")),
            _ => None,
        },
        coordinator_spent: Amount::default(),
        workers_spent: Amount::default(),
        workers: 0,
        workers_exhausted: 0,
        searches: 0,
        opens: 0,
        malformed_turns: 0,
        repeated_calls: 0,
        degraded_searches: 0,
        retrieved: Vec::new(),
        opened: Vec::new(),
        gold: Vec::new(),
        evidence: Vec::new(),
        gate: GateTally::default(),
        turn_served_ms: Vec::new(),
    }
}

pub(crate) fn verdict(correct: bool, confidence: Option<f64>) -> Verdict {
    Verdict { correct: Some(correct), extracted: None, confidence, how: GradedBy::Judge, judge_text: None, attempts: 1 }
}

/// One round over these questions and tiers.
pub(crate) fn plan<'a>(questions: impl IntoIterator<Item = (&'a str, &'a str)>) -> Plan {
    rounds(questions, 1)
}

pub(crate) fn rounds<'a>(questions: impl IntoIterator<Item = (&'a str, &'a str)>, rounds: u32) -> Plan {
    Plan::of_questions(questions.into_iter().map(|(id, tier)| (id.into(), tier.to_owned())), rounds).unwrap()
}

/// The plan that these records fulfil.
pub(crate) fn plan_of(records: &[EpisodeRecord]) -> Plan {
    plan(records.iter().map(|record| (record.key.question.as_str(), record.tier.as_str())))
}

pub(crate) fn provenance(title: &str) -> Provenance {
    Provenance {
        title: title.to_owned(),
        run_id: format!("{}-1", title.to_lowercase().replace(' ', "-")),
        profile: "card".to_owned(),
        digests: vec![
            Digest::new("question_set", "b3:9f1c"),
            Digest::new("corpus", "b3:77aa"),
            Digest::new("weights", format!("b3:{title}")),
        ],
        mock: false,
    }
}

/// The card's two runs: 83 and 108 of 150, 31 improved and 6 regressed.
pub(crate) fn card() -> (Vec<EpisodeRecord>, Vec<EpisodeRecord>) {
    // For each tier: right in both, regressed, improved, right in neither.
    let tiers = [("easy", [42, 1, 7, 0]), ("medium", [26, 3, 15, 6]), ("hard", [9, 2, 9, 30])];
    let (mut before, mut after) = (Vec::new(), Vec::new());
    for (tier, counts) in tiers {
        let mut number = 0;
        for (count, (a, b)) in counts.into_iter().zip([(true, true), (true, false), (false, true), (false, false)]) {
            for _ in 0..count {
                number += 1;
                let id = format!("{tier}-{number:02}");
                let outcome = |right: bool| match (right, number % 3) {
                    (true, _) => Outcome::Correct,
                    (false, 0) => Outcome::Exhausted,
                    (false, _) => Outcome::Wrong,
                };
                before.push(record(&id, tier, outcome(a)));
                after.push(record(&id, tier, outcome(b)));
            }
        }
    }
    (before, after)
}
