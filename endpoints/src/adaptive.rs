//! A limit of concurrency that finds itself: additive increase on success, multiplicative decrease when
//! the server says that it is overloaded (Chiu and Jain, 1989). Pure; the line of waiters is elsewhere.

/// The decrease happens once in this time: the answers that were under way when the limit was cut still
/// tell of the old one.
pub const CUT_PAUSE_MS: u64 = 1_000;

/// The state of one limit.
#[derive(Clone, Debug, PartialEq)]
pub struct Aimd {
    most: f64,
    limit: f64,
    cut_at_ms: Option<u64>,
}

impl Aimd {
    /// Starts at `most`, the configured concurrency, and stays within 1 and it.
    pub fn new(most: usize) -> Self {
        Self { most: (most.max(1)) as f64, limit: (most.max(1)) as f64, cut_at_ms: None }
    }

    /// The limit now.
    pub fn limit(&self) -> usize {
        self.limit as usize
    }

    /// A call succeeded: one more after about as many successes as the limit is high.
    pub fn succeeded(&mut self) {
        self.limit = (self.limit + 1.0 / self.limit).min(self.most);
    }

    /// The server said 429, 503 or 529: half, at most once in [`CUT_PAUSE_MS`].
    pub fn overloaded(&mut self, now_ms: u64) {
        if self.cut_at_ms.is_some_and(|at| now_ms.saturating_sub(at) < CUT_PAUSE_MS) {
            return;
        }
        self.cut_at_ms = Some(now_ms);
        self.limit = (self.limit / 2.0).max(1.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overload_halves_the_limit_once_a_pause_and_never_below_one() {
        let mut aimd = Aimd::new(8);
        aimd.overloaded(0);
        aimd.overloaded(CUT_PAUSE_MS - 1);
        assert_eq!(aimd.limit(), 4);
        for round in 1..9 {
            aimd.overloaded(round * CUT_PAUSE_MS);
        }
        assert_eq!(aimd.limit(), 1);
    }

    #[test]
    fn successes_bring_it_back_by_about_one_a_round_and_never_above_the_configured() {
        let mut aimd = Aimd::new(8);
        aimd.overloaded(0);
        for _ in 0..5 {
            aimd.succeeded();
        }
        assert_eq!(aimd.limit(), 5);
        for _ in 0..1000 {
            aimd.succeeded();
        }
        assert_eq!(aimd.limit(), 8);
    }
}
