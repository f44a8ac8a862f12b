//! Two runs pair by pair: the card's figures, and what cannot be compared.

use crate::support::{card, key, plan, plan_of, provenance, record, rounds};
use legwork_protocol::failure::FailureKind;
use legwork_protocol::outcome::Outcome;
use legwork_protocol::record::EpisodeRecord;
use legwork_report::compare::Difference;
use legwork_report::{
    Charset, CompareOptions, Comparison, Digest, Format, Plan, Provenance, ReportError, Run, compare, render,
};

fn run<'a>(plan: &'a Plan, records: &'a [EpisodeRecord], provenance: &'a Provenance) -> Run<'a> {
    Run { plan, records, provenance }
}

fn accepting(names: &[&str]) -> CompareOptions {
    CompareOptions { accept: names.iter().map(|name| (*name).to_owned()).collect(), ..CompareOptions::default() }
}

fn compared(plan: &Plan, a: &[EpisodeRecord], b: &[EpisodeRecord]) -> Comparison {
    let (before, after) = (provenance("before"), provenance("after"));
    compare(&run(plan, a, &before), &run(plan, b, &after), &CompareOptions::default()).unwrap()
}

#[test]
fn the_cards_comparison_comes_out() {
    let (before, after) = card();
    let comparison = compared(&plan_of(&before), &before, &after);
    let origins = [provenance("before"), provenance("after")];
    let text = render(&comparison, &origins, Format::Text(Charset::Unicode)).unwrap();
    let table = [
        "43/50",
        "29/50",
        "11/50",
        "83/150",
        "55.33 %",
        "49/50",
        "41/50",
        "18/50",
        "108/150",
        "72.00 %",
        "64.33–78.57 %",
        "31 improved, 6 regressed",
        "+16.67 points",
        "p = 4.1e-5",
    ];
    for figure in table {
        assert!(text.contains(figure), "{figure} is missing from\n{text}");
    }
    let total = &comparison.total;
    assert_eq!((total.improved, total.regressed, total.both, total.neither), (31, 6, 77, 36));
    let drawn = total.bootstrap.unwrap();
    assert!(drawn.interval.low.get() > 0.0 && drawn.interval.high.get() < 0.3, "{drawn:?}");
    assert_eq!(comparison.flips.len(), 37);
}

#[test]
fn exchanging_the_runs_exchanges_improved_and_regressed() {
    let (before, after) = card();
    let plan = plan_of(&before);
    let (forth, back) = (compared(&plan, &before, &after).total, compared(&plan, &after, &before).total);
    assert_eq!((forth.improved, forth.regressed), (back.regressed, back.improved));
    assert_eq!(forth.mcnemar.p, back.mcnemar.p);
    assert_eq!(forth.difference.unwrap().get(), -back.difference.unwrap().get());
}

#[test]
fn a_failure_that_looks_like_a_regression_is_told_apart() {
    let questions = [("1", "all"), ("2", "all"), ("3", "all")];
    let a: Vec<_> = questions.iter().map(|(id, tier)| record(id, tier, Outcome::Correct)).collect();
    let b = [record("1", "all", Outcome::Failed(FailureKind::TimedOut)), record("2", "all", Outcome::Wrong)];
    let comparison = compared(&plan(questions), &a, &b);
    assert_eq!((comparison.total.regressed, comparison.flips_from_outside), (3, 2));
    assert_eq!(comparison.flips[2].b, None);
    let text = render(&comparison, &[], Format::Text(Charset::Ascii)).unwrap();
    assert!(text.contains("failed (timed out)") && text.contains("not run"), "{text}");
}

#[test]
fn readable_calls_are_counted_over_the_pairs_alone() {
    let with = |id: &str, turns: u32, malformed: u32| {
        let mut record = record(id, "all", Outcome::Wrong);
        (record.coordinator_spent.turns, record.workers_spent.turns, record.malformed_turns) =
            (1, turns - 1, malformed);
        record
    };
    let a = [with("1", 10, 9), with("2", 6, 6), with("3", 99, 0)];
    let b = [with("1", 8, 1), with("2", 4, 2)];
    let (before, after) = (provenance("before"), provenance("after"));
    let (wide, narrow) = (plan([("1", "all"), ("2", "all"), ("3", "all")]), plan([("1", "all"), ("2", "all")]));
    let accept = accepting(&["question_ids"]);
    let comparison = compare(&run(&wide, &a, &before), &run(&narrow, &b, &after), &accept).unwrap();
    let counts = [comparison.readable_a, comparison.readable_b].map(|rate| (rate.correct, rate.of));
    assert_eq!(counts, [(1, 16), (9, 12)]);
    let text = render(&comparison, &[], Format::Text(Charset::Ascii)).unwrap();
    assert!(text.contains("75.00 % against 6.25 % of turns"), "{text}");
}

#[test]
fn another_corpus_is_refused_unless_accepted_by_name() {
    let records = [record("1", "all", Outcome::Correct)];
    let plan = plan_of(&records);
    let (a, mut b) = (provenance("a"), provenance("b"));
    b.digests[1] = Digest::new("corpus", "b3:other");
    let (one, other) = (run(&plan, &records, &a), run(&plan, &records, &b));
    let corpus = Difference::Digest { name: "corpus".into(), a: Some("b3:77aa".into()), b: Some("b3:other".into()) };
    let refused = compare(&one, &other, &CompareOptions::default()).unwrap_err();
    assert_eq!(refused, ReportError::NotComparable(vec![corpus.clone()]));
    assert!(refused.to_string().contains("corpus: b3:77aa against b3:other"), "{refused}");
    let comparison = compare(&one, &other, &accepting(&["corpus"])).unwrap();
    assert_eq!(comparison.accepted, [corpus]);
    // Weights are meant to differ between checkpoints: shown, never refused.
    assert_eq!(comparison.changed.iter().map(Difference::name).collect::<Vec<_>>(), ["weights"]);
}

#[test]
fn runs_that_do_not_state_their_data_are_refused() {
    let records = [record("1", "all", Outcome::Correct)];
    let plan = plan_of(&records);
    let silent = Provenance::default();
    let one = run(&plan, &records, &silent);
    let Err(ReportError::NotComparable(differences)) = compare(&one, &one, &CompareOptions::default()) else {
        panic!("refused")
    };
    assert_eq!(differences.iter().map(Difference::name).collect::<Vec<_>>(), ["question_set", "corpus"]);
    assert!(compare(&one, &one, &accepting(&["question_set", "corpus"])).is_ok());
}

#[test]
fn all_differences_are_listed_at_once_and_only_partners_are_paired() {
    let (a, b) = (plan([("1", "easy"), ("2", "easy")]), rounds([("1", "hard"), ("01", "easy")], 2));
    let origin = provenance("same");
    let (one, other) = (run(&a, &[], &origin), run(&b, &[], &origin));
    let Err(ReportError::NotComparable(differences)) = compare(&one, &other, &CompareOptions::default()) else {
        panic!("refused")
    };
    assert_eq!(differences.iter().map(Difference::name).collect::<Vec<_>>(), ["question_ids", "rounds", "tiers"]);
    let comparison = compare(&one, &other, &accepting(&["question_ids", "rounds", "tiers"])).unwrap();
    assert_eq!((comparison.total.a.of, comparison.left_out_a, comparison.left_out_b), (1, 1, 3));
    assert_eq!(comparison.tiers.len(), 1);
}

#[test]
fn accepting_what_cannot_differ_is_a_typing_error() {
    let plan = plan([]);
    let origin = provenance("same");
    let one = run(&plan, &[], &origin);
    let refused = compare(&one, &one, &accepting(&["corpse"])).unwrap_err();
    assert!(refused.to_string().contains("question_set, corpus, question_ids, rounds, tiers"), "{refused}");
    assert!(compare(&one, &one, &CompareOptions::default()).unwrap().total.difference.is_none());
}

#[test]
fn rounds_of_a_question_are_drawn_together() {
    let plan = rounds([("1", "all"), ("2", "all")], 3);
    let records = |right: &str| -> Vec<EpisodeRecord> {
        plan.episodes()
            .iter()
            .map(|episode| {
                let right = episode.key.question.as_str() == right;
                let mut record = record("", "all", if right { Outcome::Correct } else { Outcome::Wrong });
                record.key = episode.key.clone();
                record
            })
            .collect()
    };
    let comparison = compared(&plan, &records("1"), &records("2"));
    assert_eq!((comparison.questions, comparison.rounds), (2, 3));
    let drawn = comparison.total.bootstrap.unwrap();
    assert_eq!(drawn.clusters, 2);
    // Two questions that turn over entirely: drawing one of them twice gives the whole range.
    assert_eq!((drawn.interval.low.get(), drawn.interval.high.get()), (-1.0, 1.0));
    assert_eq!(comparison.flips[0].key, key("1", 0));
}
