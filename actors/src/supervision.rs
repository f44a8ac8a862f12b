//! How often an actor may be restarted: so many times within such a window, then its death is final. Pure:
//! the time comes in.

use serde::{Deserialize, Serialize};
use std::collections::VecDeque;

/// A limit on restarts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RestartLimit {
    /// Restarts within the window.
    pub restarts_max: u32,
    /// The window, in milliseconds.
    pub window_ms: u64,
}

/// The restarts of one actor so far.
#[derive(Clone, Debug)]
pub struct RestartBudget {
    limit: RestartLimit,
    restarts_at_ms: VecDeque<u64>,
}

impl RestartBudget {
    /// An unused budget.
    pub fn new(limit: RestartLimit) -> Self {
        Self { limit, restarts_at_ms: VecDeque::new() }
    }

    /// Takes one restart at `now_ms`. False if the budget is used up: the death is final.
    pub fn take(&mut self, now_ms: u64) -> bool {
        while self.restarts_at_ms.front().is_some_and(|at| at + self.limit.window_ms <= now_ms) {
            self.restarts_at_ms.pop_front();
        }
        if self.restarts_at_ms.len() >= self.limit.restarts_max as usize {
            return false;
        }
        self.restarts_at_ms.push_back(now_ms);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_holds_so_many_restarts_and_no_more() {
        let mut budget = RestartBudget::new(RestartLimit { restarts_max: 2, window_ms: 100 });
        assert!(budget.take(0) && budget.take(50));
        assert!(!budget.take(99), "two within 100 ms are all");
        assert!(budget.take(100), "the first has left the window");
        assert!(!budget.take(149));
    }
}
