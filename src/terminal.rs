//! What a person at the terminal sees of a run, and how they end it: a live view, plain lines, or nothing at all.
//!
//! It asks the board and tells the run to drain or to stop; it refuses to know the ledger, the profile and what an
//! episode does. Everything goes to standard error, so that standard output holds results and nothing else.

mod fields;
mod logs;
mod mode;
mod plain;
pub mod progress;
mod rates;
mod screen;
mod stopping;
mod training;
mod view;
mod watching;

pub use logs::{LogWriter, log_writer};
pub use mode::{Flags, Situation, WatchMode, choose, here};
pub(crate) use stopping::{Request, signals};
pub(crate) use training::{Said, TrainingView};

use legwork_actors::address::Address;
use legwork_actors::board::BoardMsg;
use legwork_actors::run::{RunEnd, RunMsg};
use ractor::ActorRef;
use std::time::Duration;
use tokio::sync::oneshot;

/// Between two looks at the board by the live view.
pub const LIVE_EVERY: Duration = Duration::from_millis(150);
/// Between two looks at the board for plain lines.
pub const PLAIN_EVERY: Duration = Duration::from_secs(2);
/// A look that takes longer is given up and asked again.
pub const LOOK_LOST_AFTER: Duration = Duration::from_secs(5);

/// How a run is watched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WatchOptions {
    /// Live, plain or silent; live becomes plain where the terminal refuses.
    pub mode: WatchMode,
    /// What is under way, such as the run's name.
    pub title: String,
    /// The profile's name.
    pub profile: String,
    /// Whether models are mocked, so that no figure is a result.
    pub mock: bool,
    /// Episodes that may run at once.
    pub concurrency: usize,
}

/// Watches a run until it is over. Ctrl-C, `q` or SIGTERM drains it, a second one stops it, a third one gives up
/// waiting for it; SIGTERM alone stops it as well, a little later. The terminal is as it was when this returns, is
/// dropped or panics.
pub async fn watch(
    board: Address<BoardMsg>,
    run: ActorRef<RunMsg>,
    over: oneshot::Receiver<RunEnd>,
    options: WatchOptions,
) -> RunEnd {
    let signals = stopping::signals();
    let screen = screen::open(options.mode);
    Box::pin(watching::attend(watching::Watching { board, run, over, options, signals, screen })).await
}
