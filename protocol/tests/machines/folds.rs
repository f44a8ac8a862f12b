//! The folding mind: what a branch may do, and what the main line sees of it.

use crate::{observed, said};
use legwork_protocol::coordinator::{AnswerEnd, Coordinator, CoordinatorEffect, CoordinatorEvent, Fold};
use legwork_protocol::profile::Profile;
use std::sync::Arc;

fn fold(change: impl FnOnce(&mut Profile)) -> Fold {
    let mut profile: Profile = toml::from_str(include_str!("../../../src/profiles/foldagent.toml")).unwrap();
    change(&mut profile);
    let mut fold = Fold::new(Arc::new(profile));
    fold.apply(&CoordinatorEvent::Asked { question: "Which town?".into(), prompt_tokens: 300 });
    fold
}

fn says(fold: &mut Fold, text: &str) -> Option<CoordinatorEffect> {
    fold.apply(&CoordinatorEvent::Generated { completion: said(text), tokens: 50 })
}

fn call(name: &str, key: &str, value: &str) -> String {
    format!("<function={name}>\n<parameter={key}>{value}</parameter>\n</function>")
}

fn last(fold: &Fold) -> String {
    fold.conversation().unwrap().messages().last().unwrap().content.clone()
}

fn held(fold: &Fold) -> usize {
    fold.conversation().unwrap().messages().len()
}

#[test]
fn the_main_line_sees_only_what_a_branch_returns() {
    let mut fold = fold(|_| {});
    says(&mut fold, &call("branch", "prompt", "find the founder"));
    assert!(last(&fold).contains("find the founder"));
    let lookups = says(&mut fold, &call("search", "query", "founder"));
    assert!(matches!(lookups, Some(CoordinatorEffect::Observe(_))));
    fold.apply(&CoordinatorEvent::Observed { observed: observed("SECRET DETAIL"), tokens: 20, served_ms: 1 });
    assert!(last(&fold).contains("SECRET DETAIL") && last(&fold).contains("branch mode"));
    says(&mut fold, &call("return", "message", "Ada founded it"));
    // System, question, the branch call, and what came back: none of the branch's own steps.
    assert_eq!(held(&fold), 4);
    assert!(last(&fold).contains("Branch has finished its task, the returned message is:\nAda founded it"));
    assert!(!fold.conversation().unwrap().messages().iter().any(|m| m.content.contains("SECRET DETAIL")));
}

#[test]
fn a_branch_can_neither_finish_nor_branch() {
    let mut fold = fold(|_| {});
    says(&mut fold, &call("branch", "prompt", "p"));
    for forbidden in [call("finish", "answer", "Ulm"), call("branch", "prompt", "q")] {
        assert!(matches!(says(&mut fold, &forbidden), Some(CoordinatorEffect::Generate(_))));
        assert!(last(&fold).contains("neither finish nor open another branch"));
    }
}

#[test]
fn branches_beyond_the_limit_are_refused() {
    let mut fold = fold(|p| p.coordinator.briefs_max = 1);
    says(&mut fold, &call("branch", "prompt", "p"));
    says(&mut fold, &call("return", "message", "m"));
    says(&mut fold, &call("branch", "prompt", "again"));
    assert!(last(&fold).contains("No further branch may be opened"));
}

#[test]
fn a_branch_without_room_is_asked_for_a_summary() {
    let mut fold = fold(|p| p.coordinator.budget_tokens = 2_000);
    says(&mut fold, &call("branch", "prompt", "p"));
    says(&mut fold, &call("search", "query", "x"));
    fold.apply(&CoordinatorEvent::Observed { observed: observed("long"), tokens: 1_300, served_ms: 1 });
    assert!(last(&fold).contains("budget of this branch is spent"), "{}", last(&fold));
    says(&mut fold, "<think>t</think>\nIt was Ada, see d1.");
    assert!(last(&fold).contains("It was Ada, see d1.") && !last(&fold).contains("<think>"));
    assert_eq!(held(&fold), 4, "back in the main line");
}

#[test]
fn finishing_without_a_search_blanks_the_answer() {
    let mut fold = fold(|_| {});
    match says(&mut fold, &call("finish", "answer", "Ulm")) {
        Some(CoordinatorEffect::Answer(answer)) => assert_eq!(answer.end, AnswerEnd::NoAnswer),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_branch_of_a_history_too_long_to_count_has_no_room_and_is_summed_up() {
    let profile: Profile = toml::from_str(include_str!("../../../src/profiles/foldagent.toml")).unwrap();
    let mut fold = Fold::new(Arc::new(profile));
    fold.apply(&CoordinatorEvent::Asked { question: "Which town?".into(), prompt_tokens: u64::MAX });
    says(&mut fold, &call("branch", "prompt", "find the founder"));
    assert!(last(&fold).contains("The budget of this branch is spent"), "{}", last(&fold));
}
