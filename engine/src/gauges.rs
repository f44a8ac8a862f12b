//! What an engine tells about itself: where things stand now, how often what happened, and what one step did.

/// Where things stand, and what has been counted since the beginning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Gauges {
    /// Requests that wait.
    pub waiting: usize,
    /// Requests that run.
    pub running: usize,
    /// Pages in all; the next four add up to it.
    pub pages: usize,
    /// Pages that hold nothing.
    pub pages_free: usize,
    /// Pages that requests hold.
    pub pages_held: usize,
    /// Pages kept for paused sessions and held by no request.
    pub pages_pinned: usize,
    /// Pages kept for whoever comes with the same prefix, and given up first.
    pub pages_cached: usize,
    /// Sessions that keep pages.
    pub sessions: usize,
    /// Bytes of host memory that hold pages.
    pub host_bytes: usize,
    /// Requests taken in.
    pub accepted: u64,
    /// Requests not taken in.
    pub refused: u64,
    /// Requests that ended by a stop or by length.
    pub finished: u64,
    /// Requests cancelled.
    pub cancelled: u64,
    /// Requests whose deadline passed.
    pub expired: u64,
    /// Requests that could not be computed.
    pub failed: u64,
    /// Steps of the model.
    pub steps: u64,
    /// Steps of the model that failed.
    pub failed_steps: u64,
    /// Rows computed, successfully or not.
    pub rows: u64,
    /// Tokens of the prompts of requests that began.
    pub prompt_tokens: u64,
    /// Of these, found in pages of the cache.
    pub prefix_hit_tokens: u64,
    /// Of these, brought back from host memory.
    pub restored_tokens: u64,
    /// Tokens drawn.
    pub generated_tokens: u64,
    /// Requests set back to the head of the queue: for want of pages, or because pages that they held became unusable.
    pub preemptions: u64,
    /// Cached pages given up for others.
    pub evictions: u64,
    /// Pages copied to host memory.
    pub offloaded_pages: u64,
    /// Pages that host memory gave up.
    pub host_evictions: u64,
    /// Copies to or from host memory that failed; the pages were computed anew.
    pub failed_copies: u64,
}

/// What one step did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StepReport {
    /// Rows of one token each, of requests that generate.
    pub decode_rows: usize,
    /// Rows of prompts.
    pub prefill_rows: usize,
    /// Tokens drawn.
    pub drawn: usize,
    /// Requests that began, or began again.
    pub admitted: usize,
    /// Requests that were set back for want of pages.
    pub preempted: usize,
    /// Requests that ended, for whatever reason.
    pub ended: usize,
    /// Requests that wait after it.
    pub waiting: usize,
    /// Requests that run after it.
    pub running: usize,
    /// What became of the model's step, when it failed. Requests of its batch ended as failed; others go on.
    pub failure: Option<String>,
    /// Whether it was the device that failed: then all that the model holds may be lost, and it is to be made anew.
    pub device_failed: bool,
}

impl StepReport {
    /// Whether there is nothing left to do until something is submitted.
    pub fn is_idle(&self) -> bool {
        self.waiting == 0 && self.running == 0
    }
}
