//! Two gradings of one saved run: how far the graders agree, and how much of the spread between rounds
//! is the judge's own. Refuses to know who the graders are beyond their names.

use crate::error::ReportError;
use crate::number::Finite;
use crate::statistics::agreement::{Kappa, Repeats, kappa, repeats};
use crate::statistics::paired::{McNemar, mcnemar};
use crate::statistics::proportion::Rate;
use legwork_protocol::id::{EpisodeKey, QuestionId};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// One grader's verdicts over a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grading {
    /// The grader's name.
    pub grader: String,
    /// Its verdict on each episode; `None` where none could be read.
    pub verdicts: Vec<(EpisodeKey, Option<bool>)>,
}

/// Verdicts whose repetition tells noise apart.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NoiseSamples {
    /// The same saved answer graded several times by the same judge.
    pub regrades: Vec<(EpisodeKey, Vec<Option<bool>>)>,
    /// One verdict for each question and round, from one judge.
    pub rounds: Vec<(EpisodeKey, Option<bool>)>,
}

/// Two graders side by side.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Agreement {
    /// The first grader.
    pub a: String,
    /// The second grader.
    pub b: String,
    /// `confusion[a][b]` episodes, by [`VERDICTS`].
    pub confusion: [[u64; 3]; 3],
    /// Kappa over the episodes that both graded.
    pub kappa_graded: Kappa,
    /// Kappa with `ungraded` as a category of its own.
    pub kappa_all: Kappa,
    /// The first grader's accuracy over all episodes.
    pub rate_a: Rate,
    /// The second grader's accuracy over all episodes.
    pub rate_b: Rate,
    /// Second minus first: above 0, the second is the more lenient.
    pub difference: Option<Finite>,
    /// Whether the graders lean differently, over the episodes that both graded.
    pub mcnemar: McNemar,
    /// Every episode on which they differ.
    pub splits: Vec<Split>,
    /// The judge's noise apart from the agent's, if there were samples.
    pub noise: Option<Noise>,
}

/// The categories of [`Agreement::confusion`].
pub const VERDICTS: [&str; 3] = ["correct", "wrong", "ungraded"];

/// An episode on which two graders differ.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Split {
    /// Which.
    pub key: EpisodeKey,
    /// The first grader's verdict.
    pub a: Option<bool>,
    /// The second grader's verdict.
    pub b: Option<bool>,
}

/// Two sources of noise. Verdicts of different rounds differ by both; re-grades of one answer by the
/// judge's alone; variances add, so the agent's is the difference.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Noise {
    /// Re-grades of the same answer.
    pub judge: Repeats,
    /// Rounds of the same question.
    pub rounds: Repeats,
    /// Disagreement between rounds beyond the judge's own, never below 0; absent without both samples.
    pub agent_disagreement: Option<Finite>,
    /// Verdicts left out because they could not be read.
    pub unreadable: u64,
}

/// Compares two gradings of the same episodes.
pub fn agreement(a: &Grading, b: &Grading, samples: &NoiseSamples) -> Result<Agreement, ReportError> {
    let (left, right) = (by_key(&a.verdicts)?, by_key(&b.verdicts)?);
    same_episodes(&left, &right)?;
    let mut confusion = [[0u64; 3]; 3];
    let mut splits = Vec::new();
    for (key, a) in &left {
        let b = right[key];
        confusion[category(*a)][category(b)] += 1;
        if *a != b {
            splits.push(Split { key: (*key).clone(), a: *a, b });
        }
    }
    let graded = [[confusion[0][0], confusion[0][1]], [confusion[1][0], confusion[1][1]]];
    let items = left.len() as u64;
    let right_by_a: u64 = confusion[0].iter().sum();
    let right_by_b: u64 = confusion.iter().map(|row| row[0]).sum();
    Ok(Agreement {
        a: a.grader.clone(),
        b: b.grader.clone(),
        kappa_graded: kappa(&graded),
        kappa_all: kappa(&confusion),
        rate_a: Rate::new(right_by_a, items),
        rate_b: Rate::new(right_by_b, items),
        difference: Finite::new((right_by_b as f64 - right_by_a as f64) / items as f64),
        mcnemar: mcnemar(confusion[1][0], confusion[0][1]),
        confusion,
        splits,
        noise: noise(samples)?,
    })
}

fn category(verdict: Option<bool>) -> usize {
    match verdict {
        Some(true) => 0,
        Some(false) => 1,
        None => 2,
    }
}

type ByKey<'a> = BTreeMap<&'a EpisodeKey, Option<bool>>;

fn by_key(verdicts: &[(EpisodeKey, Option<bool>)]) -> Result<ByKey<'_>, ReportError> {
    let mut by_key = BTreeMap::new();
    for (key, verdict) in verdicts {
        if by_key.insert(key, *verdict).is_some() {
            return Err(ReportError::GradedTwice(key.clone()));
        }
    }
    Ok(by_key)
}

fn same_episodes(a: &ByKey<'_>, b: &ByKey<'_>) -> Result<(), ReportError> {
    let only = |these: &ByKey<'_>, those: &ByKey<'_>| {
        these.keys().filter(|key| !those.contains_key(*key)).map(|key| (*key).clone()).collect::<Vec<_>>()
    };
    let (only_a, only_b) = (only(a, b), only(b, a));
    match only_a.first().or(only_b.first()) {
        None => Ok(()),
        Some(first) => {
            Err(ReportError::OtherEpisodes { only_a: only_a.len(), only_b: only_b.len(), first: first.clone() })
        }
    }
}

fn noise(samples: &NoiseSamples) -> Result<Option<Noise>, ReportError> {
    if samples.regrades.is_empty() && samples.rounds.is_empty() {
        return Ok(None);
    }
    let mut regrades: BTreeMap<&EpisodeKey, Vec<bool>> = BTreeMap::new();
    let mut unreadable = 0;
    for (key, verdicts) in &samples.regrades {
        let readable: Vec<bool> = verdicts.iter().copied().flatten().collect();
        unreadable += (verdicts.len() - readable.len()) as u64;
        if regrades.insert(key, readable).is_some() {
            return Err(ReportError::GradedTwice(key.clone()));
        }
    }
    let mut rounds: BTreeMap<&QuestionId, Vec<bool>> = BTreeMap::new();
    for (key, verdict) in by_key(&samples.rounds)? {
        let question = rounds.entry(&key.question).or_default();
        match verdict {
            Some(correct) => question.push(correct),
            None => unreadable += 1,
        }
    }
    let judge = repeats(regrades.values().map(Vec::as_slice));
    let rounds = repeats(rounds.values().map(Vec::as_slice));
    let agent_disagreement = match (rounds.disagreement, judge.disagreement) {
        (Some(both), Some(judge)) => Finite::new((both.get() - judge.get()).max(0.0)),
        _ => None,
    };
    Ok(Some(Noise { judge, rounds, agent_disagreement, unreadable }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(question: &str, round: u32) -> EpisodeKey {
        EpisodeKey { round, question: question.into() }
    }

    fn grading(grader: &str, verdicts: &[(&str, Option<bool>)]) -> Grading {
        let verdicts = verdicts.iter().map(|(question, verdict)| (key(question, 0), *verdict)).collect();
        Grading { grader: grader.to_owned(), verdicts }
    }

    #[test]
    fn an_unreadable_verdict_is_a_category_of_its_own() {
        let a = grading("strict", &[("1", Some(true)), ("2", Some(false)), ("3", None), ("4", Some(false))]);
        let b = grading("lenient", &[("1", Some(true)), ("2", Some(true)), ("3", Some(true)), ("4", Some(false))]);
        let agreement = agreement(&a, &b, &NoiseSamples::default()).unwrap();
        assert_eq!(agreement.confusion, [[1, 0, 0], [1, 1, 0], [1, 0, 0]]);
        assert_eq!((agreement.rate_a.correct, agreement.rate_b.correct), (1, 3));
        assert_eq!(agreement.difference, Finite::new(0.5));
        assert_eq!((agreement.mcnemar.improved, agreement.mcnemar.regressed), (1, 0));
        assert_eq!(agreement.splits.len(), 2);
        assert!(matches!(agreement.kappa_graded, Kappa::Defined { items: 3, .. }));
        assert_eq!(agreement.noise, None);
    }

    #[test]
    fn gradings_of_other_episodes_are_refused() {
        let (a, b) = (grading("a", &[("1", None)]), grading("b", &[("01", None)]));
        let refused = agreement(&a, &b, &NoiseSamples::default()).unwrap_err();
        assert_eq!(refused, ReportError::OtherEpisodes { only_a: 1, only_b: 1, first: key("1", 0) });
        let twice = grading("a", &[("1", None), ("1", None)]);
        assert_eq!(agreement(&twice, &a, &NoiseSamples::default()), Err(ReportError::GradedTwice(key("1", 0))));
    }

    #[test]
    fn the_judges_noise_is_taken_off_the_rounds() {
        let samples = NoiseSamples {
            regrades: vec![
                (key("1", 0), vec![Some(true), Some(false), None]),
                (key("2", 0), vec![Some(true); 2]),
                (key("3", 0), vec![Some(true); 2]),
                (key("4", 0), vec![Some(false); 2]),
            ],
            rounds: vec![
                (key("1", 0), Some(true)),
                (key("1", 1), Some(false)),
                (key("2", 0), Some(true)),
                (key("2", 1), Some(true)),
            ],
        };
        let one = grading("a", &[]);
        let noise = agreement(&one, &one, &samples).unwrap().noise.unwrap();
        assert_eq!(noise.judge.disagreement, Finite::new(0.25));
        assert_eq!(noise.rounds.disagreement, Finite::new(0.5));
        assert_eq!(noise.agent_disagreement, Finite::new(0.25));
        assert_eq!(noise.unreadable, 1);
    }
}
