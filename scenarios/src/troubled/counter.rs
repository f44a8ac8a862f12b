//! A token counter that panics when the desk says so: it is called within the handlers of workers and coordinators, so
//! that is where the panic is.

use crate::desk::{Desk, Occasion};
use crate::fault::Player;
use legwork_protocol::tokens::TokenCounter;
use std::sync::Arc;

/// A counter under the desk's eyes.
pub struct TroubledCounter {
    inner: Arc<dyn TokenCounter>,
    player: Player,
    desk: Arc<Desk>,
}

impl TroubledCounter {
    /// The counter of this player.
    pub fn new(inner: Arc<dyn TokenCounter>, player: Player, desk: Arc<Desk>) -> Self {
        Self { inner, player, desk }
    }
}

impl TokenCounter for TroubledCounter {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn count(&self, text: &str) -> u64 {
        assert!(self.desk.strike(Occasion::Count(self.player)).is_empty(), "a planned panic");
        self.inner.count(text)
    }
}
