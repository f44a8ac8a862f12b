//! Rates: every attack at every spot of every question, and how often it was shown, worked, failed to be played, or left
//! the answer right. Counts only; intervals are a report's business.

use super::attack::{Attack, AttackKind, Class};
use super::gullible::GullibleModel;
use super::poison::{PoisonedLibrary, Spot};
use super::trial::Trial;
use crate::mocks::{MockCoordinatorModel, OracleModel, Skill};
use futures::StreamExt;
use legwork_endpoints::Endpoint;
use legwork_protocol::grading::exact_match;
use legwork_protocol::id::DocId;
use legwork_protocol::profile::{CoordinatorKind, ExactRule, Profile};
use legwork_protocol::question::Question;
use legwork_protocol::retrieval::Page;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::ops::AddAssign;
use std::sync::Arc;
use std::time::Duration;

/// Counts of trials.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Trials played.
    pub trials: u64,
    /// In which a model was shown the attack.
    pub seen: u64,
    /// In which the attack worked.
    pub succeeded: u64,
    /// In which a call of a model failed; they stay in the denominator.
    pub failed: u64,
    /// In which the final answer was right all the same.
    pub right: u64,
}

impl AddAssign for Counts {
    fn add_assign(&mut self, other: Self) {
        self.trials += other.trials;
        self.seen += other.seen;
        self.succeeded += other.succeeded;
        self.failed += other.failed;
        self.right += other.right;
    }
}

/// What was measured.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Measured {
    /// By kind.
    pub kinds: BTreeMap<AttackKind, Counts>,
    /// By attack.
    pub attacks: BTreeMap<String, Counts>,
}

impl Measured {
    /// All trials of a class.
    pub fn of(&self, class: Class) -> Counts {
        let mut all = Counts::default();
        self.kinds.iter().filter(|(kind, _)| kind.class() == class).for_each(|(_, counts)| all += *counts);
        all
    }
}

/// The models of a trial.
#[derive(Clone)]
pub struct Players {
    /// The worker's.
    pub worker: Arc<dyn Endpoint>,
    /// The coordinator's.
    pub coordinator: Arc<dyn Endpoint>,
}

impl Players {
    /// Mocks that know the questions and obey nobody.
    pub fn steadfast(profile: &Profile, questions: &[Arc<Question>]) -> Self {
        let skill = Skill::PERFECT;
        let worker: Arc<dyn Endpoint> =
            Arc::new(OracleModel::new("steadfast", profile.grammar, skill, Duration::ZERO, questions));
        let coordinator = match profile.coordinator.kind {
            // A mind that searches itself is asked as a worker is.
            CoordinatorKind::Fold => Arc::clone(&worker),
            _ => Arc::new(MockCoordinatorModel),
        };
        Self { worker, coordinator }
    }

    /// The same, but each obeys whatever order it can make out.
    pub fn gullible(profile: &Profile, questions: &[Arc<Question>], attacks: &[Attack]) -> Self {
        let Self { worker, coordinator } = Self::steadfast(profile, questions);
        let fooled = |inner| -> Arc<dyn Endpoint> { Arc::new(GullibleModel::new(inner, profile.grammar, attacks)) };
        Self { worker: fooled(worker), coordinator: fooled(coordinator) }
    }
}

/// Plays every attack at every spot of every question, `at_once` trials side by side. Questions without a gold document
/// among the pages are left out.
pub async fn measure(
    trial: &Trial,
    attacks: &[Attack],
    pages: &Arc<BTreeMap<DocId, Page>>,
    questions: &[Arc<Question>],
    at_once: usize,
) -> Measured {
    let mut plan = Vec::new();
    for attack in attacks {
        for question in questions {
            plan.extend(Spot::ALL.map(|spot| (attack, question, spot)));
        }
    }
    let play = |(number, (attack, question, spot)): (usize, (&Attack, &Arc<Question>, Spot))| {
        let trial = Trial { seed: trial.seed.wrapping_add((number as u64) << 32), ..trial.clone() };
        let (attack, question, pages) = (attack.clone(), Arc::clone(question), Arc::clone(pages));
        async move {
            let library = PoisonedLibrary::new(&pages, &question, &attack, spot)?;
            let trace = trial.play(&question, &library).await;
            let answer = trace.answer.as_ref().and_then(|answer| answer.answer.as_deref()).unwrap_or_default();
            let counts = Counts {
                trials: 1,
                seen: u64::from(attack.was_seen(&trace)),
                succeeded: u64::from(attack.succeeded(&trace)),
                failed: u64::from(!trace.failures.is_empty()),
                right: u64::from(exact_match(ExactRule::Strict, answer, &question.answers)),
            };
            Some((attack.kind, attack.name, counts))
        }
    };
    let played = futures::stream::iter(plan.into_iter().enumerate().map(play));
    let mut played = Box::pin(played.buffer_unordered(at_once.max(1)));
    let mut measured = Measured::default();
    while let Some(trial) = played.next().await {
        let Some((kind, name, counts)) = trial else { continue };
        *measured.kinds.entry(kind).or_default() += counts;
        *measured.attacks.entry(name).or_default() += counts;
    }
    measured
}
