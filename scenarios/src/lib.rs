//! Faults, mocks and universes: whole runs under a paused clock, in which what goes wrong is planned, drawn from a seed
//! and proven to have happened, and after which checkers say whether the run kept its promises.
//!
//! A mock takes the real actor's messages (or, behind inference and retriever, the real trait), so nothing else can
//! tell. It says of itself that it is a mock, and runs over it say so too.

pub mod catalogue;
pub mod checkers;
pub mod desk;
pub mod draw;
pub mod fault;
pub mod hostile;
pub mod links;
pub mod misbehaving;
pub mod mocks;
pub mod probe;
pub mod scenario;
pub mod shrink;
pub mod soak;
pub mod trace;
pub mod troubled;
pub mod universe;
pub mod world;

pub use fault::{DiskTrouble, Fault, Harm, LibraryTrouble, Link, ModelTrouble, Player};
pub use scenario::{Expect, Scenario, ScenarioError};
pub use universe::{Played, Recast, play, play_with};

use std::sync::Once;

/// Keeps planned panics out of standard error; all others are told as before.
pub(crate) fn quiet_planned_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let told = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            let text = panic.payload_as_str().unwrap_or_default();
            if !text.contains("a planned panic") {
                told(panic);
            }
        }));
    });
}
