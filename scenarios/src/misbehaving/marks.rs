//! Marks: how often each misbehaviour was really done. A test that never saw its fault fire has shown nothing.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

/// Counters by name; cloning shares them.
#[derive(Clone, Debug, Default)]
pub struct Marks(Arc<Mutex<BTreeMap<&'static str, u64>>>);

impl Marks {
    /// How often the mark was made.
    pub fn count(&self, name: &str) -> u64 {
        self.all().get(name).copied().unwrap_or(0)
    }

    /// All marks made so far.
    pub fn all(&self) -> BTreeMap<&'static str, u64> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Of these names, those whose mark was never made.
    pub fn missing<'a>(&self, names: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
        let all = self.all();
        names.into_iter().filter(|name| !all.contains_key(name)).collect()
    }

    pub(super) fn make(&self, name: &'static str) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner).entry(name).or_default() += 1;
    }
}
