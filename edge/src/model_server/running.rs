//! Answers under way by their request ids, so that they can be aborted: as SGLang does it, an id aborts every request
//! whose id begins with it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::oneshot;

/// Bytes of a request id at most.
pub(super) const RID_MAX_BYTES: usize = 256;

/// All that is under way.
#[derive(Default)]
pub(super) struct Running {
    all: Mutex<All>,
}

#[derive(Default)]
struct All {
    serial: u64,
    waiting: BTreeMap<(String, u64), oneshot::Sender<()>>,
}

/// One answer's entry; it goes when this is dropped.
pub(super) struct Ticket {
    running: Arc<Running>,
    key: (String, u64),
}

impl Running {
    /// Enters an answer. The receiver hears of its abort.
    pub(super) fn enter(self: &Arc<Self>, rid: &str) -> (Ticket, oneshot::Receiver<()>) {
        let (abort, aborted) = oneshot::channel();
        let mut all = self.lock();
        all.serial += 1;
        let key = (rid.to_owned(), all.serial);
        all.waiting.insert(key.clone(), abort);
        (Ticket { running: Arc::clone(self), key }, aborted)
    }

    /// Aborts every answer whose id begins with `rid`; how many those were.
    pub(super) fn abort(&self, rid: &str) -> usize {
        let mut all = self.lock();
        let from = (rid.to_owned(), 0);
        let keys: Vec<_> =
            all.waiting.range(from..).map(|(key, _)| key).take_while(|key| key.0.starts_with(rid)).cloned().collect();
        let aborts = keys.iter().filter_map(|key| all.waiting.remove(key));
        // A receiver that is gone has ended by itself.
        aborts.filter_map(|abort| abort.send(()).ok()).count()
    }

    fn lock(&self) -> MutexGuard<'_, All> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Ticket {
    /// Whether this answer was aborted.
    pub(super) fn is_aborted(&self) -> bool {
        !self.running.lock().waiting.contains_key(&self.key)
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.running.lock().waiting.remove(&self.key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_aborts_all_that_begin_with_it_and_no_others() {
        let running = Arc::new(Running::default());
        let [(a, mut heard), (b, _other), (c, mut unheard)] = ["r1", "r12", "r2"].map(|rid| running.enter(rid));
        assert_eq!(running.abort("r1"), 2);
        assert!(heard.try_recv().is_ok() && unheard.try_recv().is_err());
        assert_eq!((a.is_aborted(), b.is_aborted(), c.is_aborted()), (true, true, false));
        assert_eq!(running.abort("r1"), 0, "once");
        drop(c);
        assert_eq!(running.abort(""), 0, "whatever ended is forgotten");
    }
}
