//! Telling the server that nobody waits any more. A server without the route is tolerated and counted:
//! its orphaned work runs on, and whoever reads the tally knows it.

use crate::call::Caller;
use crate::fault::Fault;
use crate::http::{Ask, Stopped};
use crate::shared::count;
use reqwest::Url;
use serde_json::json;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::sync::Semaphore;

/// The most aborts under way at once; more are counted as failed.
pub(crate) const ABORTS_MAX: usize = 256;
/// How long an abort may take, in milliseconds.
pub(crate) const ABORT_TIMEOUT_MS: u64 = 5_000;

pub(crate) struct Aborter {
    caller: Arc<Caller>,
    url: Url,
    unsupported: AtomicBool,
    slots: Arc<Semaphore>,
}

impl Aborter {
    pub(crate) fn new(caller: Arc<Caller>, url: Url) -> Arc<Self> {
        Arc::new(Self { caller, url, unsupported: AtomicBool::new(false), slots: Arc::new(Semaphore::new(ABORTS_MAX)) })
    }

    fn abort(self: Arc<Self>, rid: String) {
        let counters = self.caller.counters.clone();
        if self.unsupported.load(Ordering::Relaxed) {
            return count(&counters.aborts_unsupported);
        }
        // Without a runtime the process is on its way out and its connections close.
        let slot = self.slots.clone().try_acquire_owned();
        let (Ok(slot), Ok(runtime)) = (slot, tokio::runtime::Handle::try_current()) else {
            return count(&counters.aborts_failed);
        };
        runtime.spawn(async move {
            let _slot = slot;
            let ask = Ask { url: self.url.clone(), body: json!({"rid": rid}).to_string().into_bytes() };
            let sent = tokio::time::timeout(Duration::from_millis(ABORT_TIMEOUT_MS), self.caller.http.send(ask)).await;
            match sent {
                Ok(Ok(_)) => count(&counters.aborts_sent),
                Ok(Err(Stopped { fault, .. })) if lacks_route(&fault) => {
                    self.unsupported.store(true, Ordering::Relaxed);
                    count(&counters.aborts_unsupported);
                    let name = self.caller.name();
                    tracing::warn!(
                        endpoint = name,
                        "the server has no /abort_request: cancelled calls may run on there"
                    );
                }
                Ok(Err(_)) | Err(_) => count(&counters.aborts_failed),
            }
        });
    }
}

fn lacks_route(fault: &Fault) -> bool {
    fault.detail.starts_with("status 404") || fault.detail.starts_with("status 405")
}

/// Aborts its one try when it is dropped, unless it is disarmed.
pub(crate) struct Watch {
    aborter: Arc<Aborter>,
    rid: Option<String>,
}

impl Watch {
    pub(crate) fn new(aborter: Arc<Aborter>, rid: String) -> Self {
        Self { aborter, rid: Some(rid) }
    }

    pub(crate) fn disarm(&mut self) {
        self.rid = None;
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        if let Some(rid) = self.rid.take() {
            self.aborter.clone().abort(rid);
        }
    }
}
