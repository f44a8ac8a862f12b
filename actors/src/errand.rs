//! An errand: what an actor has sent out for and waits for. The work runs beside the actor so that its mailbox
//! stays open; dropping the errand cancels the work; a panic in it comes back as a message.

use futures::FutureExt;
use futures::future::{AbortHandle, abortable};
use ractor::{ActorRef, Message};
use std::future::Future;
use std::panic::AssertUnwindSafe;

/// Work under way for an actor. What it keeps of work that is done is a few bytes, not the room of its task.
#[derive(Debug)]
pub struct Errand(AbortHandle);

impl Errand {
    /// Runs `work` beside `actor` and sends it the message that comes of it; a panic is sent as
    /// `panicked(text)`. None from `work` sends nothing.
    pub fn run<M: Message>(
        actor: ActorRef<M>,
        work: impl Future<Output = Option<M>> + Send + 'static,
        panicked: impl FnOnce(String) -> M + Send + 'static,
    ) -> Self {
        // Combinators, not an async block: a block would hold the room of the work twice.
        let work = AssertUnwindSafe(work).catch_unwind().map(move |ended| {
            let message = ended.unwrap_or_else(|panic| Some(panicked(panic_text(panic.as_ref()))));
            if let Some(message) = message {
                let _actor_has_gone = actor.cast(message);
            }
        });
        let (work, handle) = abortable(work);
        tokio::spawn(work);
        Self(handle)
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
