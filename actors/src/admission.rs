//! Who may enter: a queue of planned episodes and a number of permits. Mailboxes have no bound, so this door is
//! the bound. Pure.

use legwork_protocol::id::EpisodeKey;
use std::collections::VecDeque;

/// The door of a run.
#[derive(Debug)]
pub struct Admission {
    waiting: VecDeque<EpisodeKey>,
    permits: usize,
    inside: usize,
    closed: bool,
}

impl Admission {
    /// A door for these episodes, `permits` of them at once (at least one).
    pub fn new(waiting: impl IntoIterator<Item = EpisodeKey>, permits: usize) -> Self {
        Self { waiting: waiting.into_iter().collect(), permits: permits.max(1), inside: 0, closed: false }
    }

    /// The next episode if there is a permit for it.
    pub fn admit(&mut self) -> Option<EpisodeKey> {
        if self.closed || self.inside >= self.permits {
            return None;
        }
        let next = self.waiting.pop_front()?;
        self.inside += 1;
        Some(next)
    }

    /// An episode has left; its permit is free.
    pub fn leave(&mut self) {
        debug_assert!(self.inside > 0, "nobody leaves who did not enter");
        self.inside = self.inside.saturating_sub(1);
    }

    /// Nobody enters any more.
    pub fn close(&mut self) {
        self.closed = true;
    }

    /// Episodes inside.
    pub fn inside(&self) -> usize {
        self.inside
    }

    /// Episodes that have not entered.
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Nobody is inside and nobody will enter.
    pub fn is_over(&self) -> bool {
        self.inside == 0 && (self.closed || self.waiting.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn never_more_inside_than_permits_and_all_enter_once() {
        let keys: Vec<EpisodeKey> = (0..5).map(|i| EpisodeKey { round: i, question: "q".into() }).collect();
        let mut door = Admission::new(keys.clone(), 2);
        let mut entered = vec![door.admit().unwrap(), door.admit().unwrap()];
        assert_eq!(door.admit(), None);
        while !door.is_over() {
            door.leave();
            entered.extend(door.admit());
            assert!(door.inside() <= 2);
        }
        assert_eq!(entered, keys);
    }

    #[test]
    fn a_closed_door_is_over_when_the_last_has_left() {
        let mut door = Admission::new(
            [EpisodeKey { round: 0, question: "a".into() }, EpisodeKey { round: 0, question: "b".into() }],
            1,
        );
        door.admit().unwrap();
        door.close();
        assert!(!door.is_over());
        door.leave();
        assert!(door.is_over() && door.waiting() == 1);
    }
}
