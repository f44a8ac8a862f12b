//! One run summed up: denominators, placement, and what is left out of which average.

use crate::support::{every_outcome, key, plan, plan_of, record, rounds, verdict};
use legwork_protocol::budget::Amount;
use legwork_protocol::failure::FailureKind;
use legwork_protocol::gate::{GateTally, GateWorth};
use legwork_protocol::id::DocId;
use legwork_protocol::outcome::Outcome;
use legwork_protocol::profile::GateMode;
use legwork_protocol::record::EpisodeRecord;
use legwork_report::number::percent;
use legwork_report::{Charset, Format, ReportError, Summary, SummaryOptions, render, summarise};
use proptest::prelude::*;

fn summary(records: &[EpisodeRecord]) -> Summary {
    summarise(&plan_of(records), records, &SummaryOptions::default()).unwrap()
}

#[test]
fn two_right_of_eight_with_two_errors_has_both_rates() {
    let mut outcomes = vec![Outcome::Correct; 2];
    outcomes.extend([Outcome::Wrong; 4]);
    outcomes.extend([Outcome::Failed(FailureKind::TimedOut), Outcome::Failed(FailureKind::ServerError)]);
    let records: Vec<_> =
        outcomes.into_iter().enumerate().map(|(at, outcome)| record(&at.to_string(), "all", outcome)).collect();
    let summary = summary(&records);
    assert_eq!(percent(summary.total.over_planned.rate), "25.00 %");
    assert_eq!(percent(summary.total.over_graded.rate), "33.33 %");
    let text = render(&summary, &[], Format::Text(Charset::Unicode)).unwrap();
    for figure in ["2/8", "25.00 %", "2/6", "33.33 %", "timed out", "server error"] {
        assert!(text.contains(figure), "{figure} is missing from\n{text}");
    }
}

#[test]
fn what_was_planned_and_not_run_stays_in_the_denominator() {
    let plan = plan([("1", "easy"), ("2", "easy"), ("3", "hard")]);
    let summary = summarise(&plan, &[record("1", "easy", Outcome::Correct)], &SummaryOptions::default()).unwrap();
    assert_eq!(summary.total.outcomes.not_run, 2);
    assert_eq!((summary.total.over_planned.correct, summary.total.over_planned.of), (1, 3));
    assert_eq!((summary.total.over_graded.correct, summary.total.over_graded.of), (1, 1));
    let hard = &summary.tiers[1];
    assert_eq!((hard.tier.as_str(), hard.over_planned.of, hard.over_graded.rate), ("hard", 1, None));
}

#[test]
fn tiers_keep_the_plans_order() {
    let plan = plan([("1", "hard"), ("2", "easy"), ("3", "hard"), ("4", "medium")]);
    let summary = summarise(&plan, &[], &SummaryOptions::default()).unwrap();
    let tiers: Vec<_> = summary.tiers.iter().map(|row| row.tier.as_str()).collect();
    assert_eq!(tiers, ["hard", "easy", "medium"]);
}

#[test]
fn a_run_of_nothing_is_a_report_without_rates() {
    let summary = summary(&[]);
    assert_eq!(summary.total.over_planned.rate, None);
    for format in [Format::Text(Charset::Ascii), Format::Markdown, Format::Json, Format::Html] {
        let text = render(&summary, &[], format).unwrap();
        assert!(!text.contains("NaN") && !text.contains("inf "), "{text}");
    }
}

#[test]
fn records_outside_the_plan_are_refused() {
    let one = || record("1", "easy", Outcome::Correct);
    let refused =
        |records: &[EpisodeRecord]| summarise(&plan([("1", "easy")]), records, &SummaryOptions::default()).unwrap_err();
    assert_eq!(refused(&[one(), one()]), ReportError::RecordedTwice(key("1", 0)));
    assert_eq!(
        refused(&[record(" 1", "easy", Outcome::Correct)]),
        ReportError::Unplanned { count: 1, first: key(" 1", 0) }
    );
    assert!(matches!(refused(&[record("1", "hard", Outcome::Correct)]), ReportError::OtherTier { .. }));
    let mut gated = one();
    gated.gate = GateTally { asked: 1, stops: 2, ..GateTally::default() };
    assert!(matches!(refused(&[gated.clone()]), ReportError::GateTally { .. }));
    let worth = GateWorth { judged_stops: 1, premature_stops: 2, ..GateWorth::default() };
    gated.gate = GateTally { asked: 2, stops: 2, worth, ..GateTally::default() };
    assert!(matches!(refused(&[gated]), ReportError::GateWorth { part: 2, whole: 1, .. }));
}

#[test]
fn a_plan_that_names_an_episode_twice_is_refused() {
    let twice = [("1", "easy"), ("1", "hard")].map(|(id, tier)| (id.into(), tier.to_owned()));
    assert_eq!(legwork_report::Plan::of_questions(twice.clone(), 1), Err(ReportError::PlannedTwice(key("1", 0))));
    assert_eq!(legwork_report::Plan::of_questions(twice, 0), Err(ReportError::NoRounds));
}

#[test]
fn confidences_of_graded_answers_only_enter_the_calibration() {
    let mut records = Vec::new();
    for (at, (outcome, confidence)) in [
        (Outcome::Correct, Some(f64::NAN)),
        (Outcome::Correct, Some(90.0)),
        (Outcome::Wrong, Some(101.0)),
        (Outcome::Wrong, None),
        (Outcome::Exhausted, Some(50.0)),
    ]
    .into_iter()
    .enumerate()
    {
        let mut record = record(&at.to_string(), "all", outcome);
        record.verdict = Some(verdict(outcome.is_correct(), confidence));
        records.push(record);
    }
    let calibration = summary(&records).calibration;
    assert_eq!((calibration.answers, calibration.used), (4, 1));
    assert_eq!((calibration.missing, calibration.out_of_range), (1, 2));
}

#[test]
fn budget_use_is_a_share_of_what_each_worker_was_lent() {
    let spent = |id: &str, tokens, workers| {
        let mut record = record(id, "all", Outcome::Wrong);
        record.workers_spent.tokens = tokens;
        record.workers = workers;
        record
    };
    let records = [
        spent("none", 0, 0),
        spent("half", 1_000, 2),
        spent("all", 1_000, 1),
        spent("over", 1_001, 1),
        spent("idle", 0, 1),
    ];
    let limit = Amount { tokens: 1_000, ..Amount::UNLIMITED };
    let options = SummaryOptions { worker_budget: Some(limit), ..SummaryOptions::default() };
    let spending = summarise(&plan_of(&records), &records, &options).unwrap().spending;
    // Turns are unlimited, so that only tokens have a share.
    let [tokens] = spending.budgets.as_slice() else { panic!("one budget: {:?}", spending.budgets) };
    assert_eq!(tokens.episodes, 4);
    assert_eq!(tokens.histogram, [1, 0, 0, 0, 1, 0, 0, 0, 0, 1, 1]);
}

#[test]
fn recall_is_averaged_over_questions_that_have_evidence() {
    let docs = |ids: &[&str]| ids.iter().map(DocId::new).collect::<Vec<_>>();
    let mut first = record("1", "all", Outcome::Correct);
    (first.retrieved, first.opened) = (docs(&["a", "b"]), docs(&["a"]));
    (first.evidence, first.gold) = (docs(&["a", "b", "c", "d"]), docs(&["a"]));
    let second = record("2", "all", Outcome::Wrong);
    let retrieval = summary(&[first, second]).retrieval;
    assert_eq!(percent(retrieval.evidence_shown.mean), "50.00 %");
    assert_eq!(percent(retrieval.evidence_opened.mean), "25.00 %");
    assert_eq!(percent(retrieval.gold_opened.mean), "100.00 %");
    assert_eq!((retrieval.evidence_shown.questions, retrieval.evidence_shown.without), (1, 1));
}

#[test]
fn a_gate_that_was_never_asked_is_not_reported() {
    assert_eq!(summary(&[record("1", "all", Outcome::Correct)]).gate, None);
    let gated = |id: &str, outcome, asked, stops, right_stops| {
        let mut record = record(id, "all", outcome);
        record.gate = GateTally { asked, stops, right_stops, tokens_after_stop: 100, ..GateTally::default() };
        record.workers_spent.tokens = 1_000;
        record
    };
    let records = [
        gated("1", Outcome::Correct, 5, 2, 1),
        gated("2", Outcome::Correct, 5, 0, 0),
        gated("3", Outcome::Wrong, 5, 2, 0),
    ];
    let gate = summary(&records).gate.unwrap();
    assert_eq!(percent(gate.precision), "25.00 %");
    assert_eq!((gate.found, gate.findable), (1, 2));
    assert_eq!((gate.tokens_after_stop, percent(gate.saved_share)), (300, "10.00 %".to_owned()));
    assert_eq!((gate.recall, gate.premature_rate), (None, None), "a record without moments does not say");
}

#[test]
fn a_gates_worth_adds_up_and_is_shown_in_every_format() {
    let gated = |id: &str, worth| {
        let mut record = record(id, "all", Outcome::Correct);
        record.gate = GateTally { asked: 5, stops: 4, right_stops: 3, tokens_after_stop: 150, worth };
        record.workers_spent.tokens = 1_000;
        record
    };
    let first = GateWorth {
        unreadable: 1,
        tokens: 240,
        judged_stops: 4,
        premature_stops: 1,
        due_workers: 2,
        stopped_when_due: 2,
        tokens_after_due: 333,
        unspent_tokens: 5_000,
    };
    let second = GateWorth { premature_stops: 2, stopped_when_due: 1, ..first };
    let records = [gated("1", first), gated("2", second), record("3", "all", Outcome::Wrong)];
    for (mode, said) in [
        (GateMode::Shadow, ["Shadow: asked, never obeyed", "tokens after the first STOP"]),
        (GateMode::On, ["left 10,000 tokens of their leases unspent", "tokens of the wrap-ups after STOP"]),
    ] {
        let options = SummaryOptions { gate: Some(mode), ..SummaryOptions::default() };
        let summary = summarise(&plan_of(&records), &records, &options).unwrap();
        let gate = summary.gate.unwrap();
        assert_eq!((gate.episodes, gate.asked, gate.unreadable, gate.mode), (2, 10, 2, Some(mode)));
        let figures =
            [gate.precision, gate.premature_rate, gate.recall, gate.saved_share, gate.due_share, gate.cost_share];
        // 6/8, 3/8, 3/4, 300/2000, 666/2000, 480/2000.
        let expected = ["75.00 %", "37.50 %", "75.00 %", "15.00 %", "33.30 %", "24.00 %"];
        assert_eq!(figures.map(percent), expected.map(str::to_owned));
        for format in [Format::Text(Charset::Unicode), Format::Markdown, Format::Html] {
            let shown = render(&summary, &[], format).unwrap();
            let flat = shown.split_whitespace().collect::<Vec<_>>().join(" ");
            for figure in expected.iter().chain(&said).chain(&["3/8", "6/8", "2 of the answers could not be read"]) {
                assert!(flat.contains(figure), "{figure} is missing from\n{shown}");
            }
        }
        let json: serde_json::Value = serde_json::from_str(&render(&summary, &[], Format::Json).unwrap()).unwrap();
        assert_eq!(
            (&json["report"]["gate"]["stopped_when_due"], &json["report"]["gate"]["tokens"]),
            (&3.into(), &480.into())
        );
        assert_eq!(json["report"]["gate"]["mode"], serde_json::to_value(mode).unwrap());
    }
}

#[test]
fn a_gate_that_was_to_be_asked_is_reported_even_if_it_never_was_and_one_that_is_off_is_not() {
    let records = [record("1", "all", Outcome::Correct)];
    let gate = |mode| {
        let options = SummaryOptions { gate: Some(mode), ..SummaryOptions::default() };
        summarise(&plan_of(&records), &records, &options).unwrap().gate
    };
    assert_eq!(gate(GateMode::Off), None);
    let asked = gate(GateMode::Shadow).unwrap();
    assert_eq!((asked.asked, asked.precision, asked.cost_share), (0, None, None));
}

#[test]
fn rounds_have_a_mean_a_spread_and_pass_at_k() {
    let plan = rounds([("1", "all"), ("2", "all")], 2);
    let at = |question: &str, round, outcome| {
        let mut record = record(question, "all", outcome);
        record.key.round = round;
        record
    };
    // The second question's second round is missing: it counts, as not correct.
    let records = [at("1", 0, Outcome::Correct), at("1", 1, Outcome::Wrong), at("2", 0, Outcome::Correct)];
    let over = summarise(&plan, &records, &SummaryOptions::default()).unwrap().over_rounds.unwrap();
    let rates: Vec<_> = over.rounds.iter().map(|round| percent(round.rate.rate)).collect();
    assert_eq!(rates, ["100.00 %", "0.00 %"]);
    assert_eq!(percent(over.spread.map(|spread| spread.mean)), "50.00 %");
    let passes: Vec<_> = over.pass_at.iter().map(|pass| percent(pass.value)).collect();
    assert_eq!(passes, ["50.00 %", "100.00 %"]);
    assert_eq!(percent(over.repeats.disagreement), "100.00 %");
}

#[test]
fn spending_beyond_any_counter_saturates() {
    let mut records = [record("1", "all", Outcome::Wrong), record("2", "all", Outcome::Wrong)];
    for record in &mut records {
        record.workers_spent = Amount::UNLIMITED;
        record.workers = u32::MAX;
        record.turn_served_ms = vec![u64::MAX; 2];
    }
    let summary = summary(&records);
    assert_eq!(summary.spending.workers.total, Amount::UNLIMITED);
    assert!(render(&summary, &[], Format::Html).is_ok());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn every_planned_episode_is_placed_exactly_once(
        ended in proptest::collection::vec((0usize..3, proptest::option::of(0usize..21)), 0..60)
    ) {
        let outcomes = every_outcome();
        let tiers = ["easy", "medium", "hard"];
        let ids: Vec<String> = (0..ended.len()).map(|at| at.to_string()).collect();
        let plan = plan(ids.iter().zip(&ended).map(|(id, (tier, _))| (id.as_str(), tiers[*tier])));
        let records: Vec<_> = ids
            .iter()
            .zip(&ended)
            .filter_map(|(id, (tier, outcome))| Some(record(id, tiers[*tier], outcomes[(*outcome)?])))
            .collect();
        let options = SummaryOptions { resamples: 10, ..SummaryOptions::default() };
        let summary = summarise(&plan, &records, &options).unwrap();
        let total = &summary.total.outcomes;
        prop_assert_eq!(total.by_kind().iter().sum::<u64>(), ended.len() as u64);
        prop_assert_eq!(total.not_run, (ended.len() - records.len()) as u64);
        for kind in 0..9 {
            let of_tiers: u64 = summary.tiers.iter().map(|row| row.outcomes.by_kind()[kind]).sum();
            prop_assert_eq!(of_tiers, total.by_kind()[kind]);
        }
    }
}
