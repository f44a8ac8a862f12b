//! An errand: what an actor has sent out for and waits for. The work runs beside the actor so that its mailbox
//! stays open; dropping the errand cancels the work; a panic in it comes back as a message.

use futures::FutureExt;
use ractor::{ActorRef, Message};
use std::future::Future;
use std::panic::AssertUnwindSafe;
use tokio::task::JoinHandle;

/// Work under way for an actor.
#[derive(Debug)]
pub struct Errand(JoinHandle<()>);

impl Errand {
    /// Runs `work` beside `actor` and sends it the message that comes of it; a panic is sent as
    /// `panicked(text)`. None from `work` sends nothing.
    pub fn run<M: Message>(
        actor: ActorRef<M>,
        work: impl Future<Output = Option<M>> + Send + 'static,
        panicked: impl FnOnce(String) -> M + Send + 'static,
    ) -> Self {
        Self(tokio::spawn(async move {
            let message = match AssertUnwindSafe(work).catch_unwind().await {
                Ok(message) => message,
                Err(panic) => Some(panicked(panic_text(panic.as_ref()))),
            };
            if let Some(message) = message {
                let _actor_has_gone = actor.cast(message);
            }
        }))
    }
}

impl Drop for Errand {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// What a panic said.
pub fn panic_text(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "a panic without text".to_owned())
}
