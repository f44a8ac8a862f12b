//! Readers of what judges and gates say, and the comparison of answers: a confidence is within its scale, an answer
//! equals itself, and a response can neither speak as somebody else nor stop a worker by accident.

use super::{first_line, text};
use legwork_protocol::gate::{GateDecision, GateSaid};
use legwork_protocol::grading::{
    Judgement, exact_match, foldagent_mended, judge_prompt, read_confidence, read_published, read_robust, relaxed_match,
};
use legwork_protocol::profile::{ExactRule, JudgeKind};
use legwork_protocol::untrusted::ControlTokens;

pub fn judgement(bytes: &[u8]) {
    let text = text(bytes);
    for judgement in [read_published(&text), read_robust(&text)] {
        let Judgement { confidence, .. } = &judgement;
        assert!(confidence.is_none_or(|confidence| (0.0..=100.0).contains(&confidence)), "{judgement:?}");
    }
    let robust = read_robust(&text);
    assert!(robust.extracted.is_none_or(|extracted| !extracted.trim().is_empty()));
    if robust.correct.is_some() {
        assert!(text.chars().any(char::is_alphabetic), "a verdict out of nothing");
    }
    let confidence = read_confidence(&text);
    assert!(confidence.is_none_or(|confidence| (0.0..=100.0).contains(&confidence)), "{confidence:?}");
}

pub fn gate(bytes: &[u8]) {
    let text = text(bytes);
    let said = GateSaid::read(&text, 7);
    assert_eq!(said.tokens, 7);
    match said.decision {
        GateDecision::Stop => assert!(text.to_ascii_uppercase().contains("STOP") || text.contains('\\')),
        GateDecision::Continue => assert!(text.to_ascii_uppercase().contains("CONTINUE") || text.contains('\\')),
        GateDecision::Unreadable => {}
    }
    for part in [said.answer, said.evidence, said.next].into_iter().flatten() {
        assert!(!part.is_empty() && part.trim() == part, "{part:?}");
    }
}

/// The first line is the gold answer, the rest the response.
pub fn exact(bytes: &[u8]) {
    let text = text(bytes);
    let (gold, response) = first_line(&text);
    let answers = [gold.to_owned()];
    for rule in [ExactRule::None, ExactRule::Foldagent, ExactRule::Strict] {
        exact_match(rule, response, &answers);
        assert!(!exact_match(rule, " ", &answers), "a blank answer is none");
    }
    if gold.chars().any(|c| c.is_ascii_alphanumeric()) {
        assert!(exact_match(ExactRule::Strict, gold, &answers), "an answer equals itself");
    }
    relaxed_match(response, gold);
    foldagent_mended(gold, response);
    let gold = ["the answer".to_owned()];
    for kind in [JudgeKind::Foldagent, JudgeKind::Browsecomp] {
        let prompt = judge_prompt(kind, "a question", &gold, response).expect("these judges are asked");
        assert!(!ControlTokens::default().is_in(&prompt), "{prompt}");
    }
}
