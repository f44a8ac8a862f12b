//! Shrinking: from a scenario that fails, the smallest that still fails in the same way. Greedy: whatever can be left
//! out or made smaller is, until nothing can.

use crate::fault::Fault;
use crate::scenario::Scenario;
use legwork_protocol::profile::{CoordinatorKind, GateMode};

/// Scenarios tried at most.
pub const TRIES_MAX: u32 = 400;

/// The smallest scenario found for which `fails` still holds, and how many were tried. `fails` must hold of `scenario`.
pub fn shrink(scenario: &Scenario, mut fails: impl FnMut(&Scenario) -> bool) -> (Scenario, u32) {
    let mut smallest = scenario.clone();
    let mut tries = 0;
    loop {
        let mut shrunk = false;
        for smaller in smaller(&smallest) {
            if tries >= TRIES_MAX {
                return (smallest, tries);
            }
            tries += 1;
            if fails(&smaller) {
                smallest = smaller;
                shrunk = true;
                break;
            }
        }
        if !shrunk {
            return (smallest, tries);
        }
    }
}

/// Scenarios that are one step smaller, the boldest first.
fn smaller(of: &Scenario) -> Vec<Scenario> {
    let mut all = Vec::new();
    for place in 0..of.faults.len() {
        let mut faults = of.faults.clone();
        faults.remove(place);
        all.push(Scenario { faults, ..of.clone() });
    }
    let mut with = |change: &dyn Fn(&mut Scenario)| {
        let mut changed = of.clone();
        change(&mut changed);
        if changed != *of {
            all.push(changed);
        }
    };
    with(&|s| s.questions = 1);
    with(&|s| s.questions = s.questions.div_ceil(2));
    with(&|s| s.rounds = 1);
    with(&|s| s.concurrency = 1);
    with(&|s| s.judge = false);
    with(&|s| s.gate = GateMode::Off);
    with(&|s| s.coordinator = CoordinatorKind::Direct);
    with(&|s| s.worker_turns_max = None);
    with(&|s| s.worker_budget_tokens = None);
    with(&|s| s.latency_ms = 0);
    for place in 0..of.faults.len() {
        let mut change = |change: &dyn Fn(&mut Fault)| with(&|s| change(&mut s.faults[place]));
        change(&|fault| fault.times = 1);
        change(&|fault| fault.times = fault.times.div_ceil(2));
        change(&|fault| fault.nth = 0);
        change(&|fault| fault.nth /= 2);
        change(&|fault| fault.nth = fault.nth.saturating_sub(1));
        change(&|fault| fault.ms /= 10);
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fault::{Harm, Link, Player};

    #[test]
    fn what_does_not_matter_is_left_out() {
        let guilty = Fault::new(Harm::Lose(Link::Report)).nth(3).times(4);
        let scenario = Scenario::new("big")
            .questions(9)
            .concurrency(5)
            .fault(Fault::new(Harm::Kill(Player::Worker)))
            .fault(guilty)
            .fault(Fault::new(Harm::PowerCut).nth(8));
        let fails = |s: &Scenario| {
            s.questions >= 2 && s.faults.iter().any(|fault| fault.harm == Harm::Lose(Link::Report) && fault.nth >= 2)
        };
        let (smallest, tries) = shrink(&scenario, fails);
        assert_eq!(smallest.faults, [Fault::new(Harm::Lose(Link::Report)).nth(2)]);
        assert_eq!((smallest.questions, smallest.concurrency), (2, 1));
        assert!(tries < TRIES_MAX);
    }
}
