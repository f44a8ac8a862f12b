//! Answers to queries asked before, bounded: the oldest half goes when it is full. Equal queries get equal
//! answers, so a cache changes how fast a run is and nothing else.

use dashmap::DashMap;
use legwork_protocol::retrieval::SearchAnswer;
use std::sync::atomic::{AtomicU64, Ordering};

/// Answers by query and depth.
#[derive(Debug)]
pub struct AnswerCache {
    answers: DashMap<(String, u32), (u64, SearchAnswer)>,
    answers_max: usize,
    turn: AtomicU64,
}

impl AnswerCache {
    /// A cache of at most `answers_max` answers.
    pub fn new(answers_max: usize) -> Self {
        Self { answers: DashMap::new(), answers_max, turn: AtomicU64::new(0) }
    }

    /// The answer, if it was given before. It took no time to be served.
    pub fn get(&self, query: &str, k: u32) -> Option<SearchAnswer> {
        let kept = self.answers.get(&(query.to_owned(), k))?;
        Some(SearchAnswer { served_ms: 0, ..kept.1.clone() })
    }

    /// Keeps an answer.
    pub fn put(&self, query: String, k: u32, answer: SearchAnswer) {
        let turn = self.turn.fetch_add(1, Ordering::Relaxed);
        if self.answers.len() >= self.answers_max {
            let oldest_kept = turn.saturating_sub(self.answers_max as u64 / 2);
            self.answers.retain(|_, (kept_at, _)| *kept_at >= oldest_kept);
        }
        self.answers.insert((query, k), (turn, answer));
    }

    /// Answers kept.
    pub fn len(&self) -> usize {
        self.answers.len()
    }

    /// Whether nothing is kept.
    pub fn is_empty(&self) -> bool {
        self.answers.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_cache_drops_the_oldest_and_stays_bounded() {
        let cache = AnswerCache::new(10);
        (0..100).for_each(|i| cache.put(format!("q{i}"), 5, SearchAnswer::default()));
        assert!(cache.len() <= 10);
        assert!(cache.get("q99", 5).is_some() && cache.get("q0", 5).is_none());
        assert!(cache.get("q99", 6).is_none(), "another depth is another answer");
    }
}
