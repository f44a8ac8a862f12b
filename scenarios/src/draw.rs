//! Scenarios drawn from a seed: small runs of every shape with up to three faults of any kind. The same seed draws the
//! same scenario everywhere.

use crate::fault::{DiskTrouble, Fault, Harm, LibraryTrouble, Link, ModelTrouble};
use crate::scenario::{Expect, Scenario};
use legwork_protocol::profile::{CoordinatorKind, GateMode};
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// Faults of a drawn scenario at most.
pub const FAULTS_MAX: usize = 3;

/// Times of a fault in milliseconds: from less than a turn to longer than any patience.
const TIMES_MS: [u64; 6] = [3, 40, 900, 5_000, 200_000, 8_000_000];
/// What takes no longer than this costs nobody his turn.
const HARMLESS_MS: u64 = 5_000;

/// The scenario of a seed.
pub fn scenario(seed: u64) -> Scenario {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let harms = Harm::all();
    let mut scenario = Scenario::new(format!("seed-{seed}"));
    scenario.seed = seed;
    scenario.questions = rng.random_range(1..=4);
    scenario.rounds = if rng.random_bool(0.1) { 2 } else { 1 };
    scenario.concurrency = rng.random_range(1..=4);
    scenario.coordinator =
        [CoordinatorKind::Scripted, CoordinatorKind::Direct, CoordinatorKind::Model][rng.random_range(0..3)];
    scenario.gate = [GateMode::Off, GateMode::Off, GateMode::Shadow, GateMode::On][rng.random_range(0..4)];
    scenario.judge = rng.random_bool(0.3);
    scenario.latency_ms = rng.random_range(0..40);
    scenario.worker_turns_max = rng.random_bool(0.25).then(|| rng.random_range(2..8));
    scenario.worker_budget_tokens = rng.random_bool(0.2).then(|| rng.random_range(300..2_000));
    let faults = rng.random_range(0..=FAULTS_MAX);
    scenario.faults = (0..faults).map(|_| fault(&mut rng, &harms)).collect();
    scenario.expect = Expect { all_correct: changes_no_verdict(&scenario), ..Expect::default() };
    scenario
}

fn fault(rng: &mut ChaCha8Rng, harms: &[Harm]) -> Fault {
    let harm = *harms.choose(rng).expect("there are harms");
    let last = match harm {
        Harm::ClockJump | Harm::PowerCut | Harm::Drain | Harm::Stop => 70,
        Harm::Model(_) | Harm::Library(_) | Harm::Disk(_) | Harm::Panic(_) => 16,
        Harm::Kill(_) | Harm::Hang(_) => 12,
        Harm::JudgeMute | Harm::Lose(Link::Grader) | Harm::Delay(Link::Grader) | Harm::Reorder(Link::Grader) => 3,
        _ => 10,
    };
    Fault {
        harm,
        nth: rng.random_range(0..last),
        times: if rng.random_bool(0.8) { 1 } else { rng.random_range(2..=4) },
        ms: *TIMES_MS.choose(rng).expect("there are times"),
    }
}

/// Whether every answer must be right all the same: nothing was taken from the workers' budgets, and what strikes is
/// healed by a retry, a restart or a resume.
pub fn changes_no_verdict(scenario: &Scenario) -> bool {
    let roomy = scenario.worker_turns_max.is_none() && scenario.worker_budget_tokens.is_none();
    let strikes: u32 = scenario.faults.iter().map(|fault| fault.times).sum();
    // A call that is given up after all its patience costs time of the budget; two such calls may be all of it.
    let given_up: u32 =
        scenario.faults.iter().filter(|fault| costs_patience(fault.harm)).map(|fault| fault.times).sum();
    roomy && strikes <= 2 && given_up <= 1 && scenario.faults.iter().all(is_healed_by_itself)
}

fn costs_patience(harm: Harm) -> bool {
    let model = [ModelTrouble::Hang, ModelTrouble::TimedOut].map(Harm::Model);
    model.contains(&harm) || harm == Harm::Lose(Link::Inference)
}

fn is_healed_by_itself(fault: &Fault) -> bool {
    let short = fault.ms <= HARMLESS_MS;
    match fault.harm {
        Harm::Duplicate(_) | Harm::Kill(_) | Harm::Panic(_) => true,
        // An answer of the retriever that does not come in time is what the worker reads.
        Harm::Lose(link) => link != Link::Retriever,
        Harm::Delay(_) | Harm::Reorder(_) | Harm::Hang(_) => short,
        Harm::Model(trouble) => match trouble {
            ModelTrouble::Malformed | ModelTrouble::HalfCall | ModelTrouble::Overrun => false,
            ModelTrouble::Slow => short,
            _ => true,
        },
        Harm::JudgeMute => true,
        Harm::Library(trouble) => match trouble {
            LibraryTrouble::Slow => short,
            LibraryTrouble::Degraded => true,
            _ => false,
        },
        Harm::Disk(DiskTrouble::Slow) => short,
        Harm::Disk(_) | Harm::PowerCut | Harm::Drain | Harm::Stop => true,
        // Every patience may have run out at once.
        Harm::ClockJump => short,
        Harm::Cancel => false,
    }
}
