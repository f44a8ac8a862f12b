//! The single steps of questions as questions of their own: what a worker looks up before it can follow a trail, and pairs of a
//! query with the document that answers it. A step is asked once, whatever questions have it.
//! It refuses to know who asks.

use legwork_protocol::id::QuestionId;
use legwork_protocol::question::{Question, Step};
use std::collections::BTreeSet;

/// Every step that names the document which answers it, with the answers of the steps before put in.
pub(super) fn of(questions: &[Question]) -> Vec<Question> {
    let mut asked = BTreeSet::new();
    let steps = questions.iter().flat_map(|question| (0..question.decomposition.len()).map(move |at| (question, at)));
    steps.filter_map(|(question, at)| lookup(question, at)).filter(|lookup| asked.insert(lookup.text.clone())).collect()
}

fn lookup(question: &Question, at: usize) -> Option<Question> {
    let step = question.decomposition.get(at)?;
    let gold = vec![step.gold.clone()?];
    let text = question.step_alone(at)?;
    Some(Question {
        id: QuestionId::new(format!("{}-step-{}", question.id, at + 1)),
        answers: vec![step.answer.clone()],
        tier: question.tier.clone(),
        evidence: gold.clone(),
        gold,
        decomposition: vec![Step { question: text.clone(), ..step.clone() }],
        text,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use legwork_worlds::archive;

    #[test]
    fn every_step_is_asked_once_in_words_that_need_no_other_step() {
        let world = archive::generate(archive::DEFAULT_SEED).unwrap().world;
        let lookups = of(&world.train);
        let steps: usize = world.train.iter().map(|question| question.decomposition.len()).sum();
        assert!(lookups.len() > steps / 2 && lookups.len() <= steps, "{} of {steps}", lookups.len());
        assert!(lookups.iter().all(|lookup| !lookup.text.contains('#') && lookup.gold.len() == 1));
        let texts: BTreeSet<&str> = lookups.iter().map(|lookup| lookup.text.as_str()).collect();
        assert_eq!(texts.len(), lookups.len());
    }
}
