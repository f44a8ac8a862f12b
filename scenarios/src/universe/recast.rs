//! Who plays other roles than the real cast would: one line for each role.

use legwork_actors::cast::Cast;
use std::sync::Arc;

type Change = dyn Fn(&mut Cast) + Send + Sync;

/// Changes to the real cast, made anew in each life.
#[derive(Clone, Default)]
pub struct Recast {
    changes: Vec<Arc<Change>>,
}

impl Recast {
    /// The real cast with this change: `Recast::new(|cast| cast.coordinator = …)`.
    pub fn new(change: impl Fn(&mut Cast) + Send + Sync + 'static) -> Self {
        Self { changes: vec![Arc::new(change)] }
    }

    /// With this change as well.
    #[must_use]
    pub fn and(mut self, change: impl Fn(&mut Cast) + Send + Sync + 'static) -> Self {
        self.changes.push(Arc::new(change));
        self
    }

    pub(super) fn apply(&self, cast: &mut Cast) {
        self.changes.iter().for_each(|change| change(cast));
    }
}
