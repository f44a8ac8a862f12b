//! The engine: many requests share one model by continuous batching over a paged key-value cache.
//!
//! It is a state machine that its owner steps: it refuses to know threads, clocks, sockets and actors. Time and seeds come
//! in as arguments.
//!
//! ## How a step is filled
//! A step has at most [`EngineLimits::step_rows`] rows. Requests that generate come first, one row each; what is left goes
//! to prompts, oldest first. More than one row is always left, because [`EngineLimits::running_max`] is below the rows of
//! a step: so a running request that generates gets a token in **every** step, and the oldest unread prompt of `n` tokens
//! is read within `n / (step_rows - running_max)` steps, rounded up.
//!
//! ## Who may begin
//! First come, first served, and nobody overtakes: a large request at the head waits until it fits, and whoever stands
//! behind it waits too. It fits at the latest when those that run have ended, each of which ends within the steps of its
//! prompt and its `max_new`. Whoever begins has the pages of its prompt and of [`EngineLimits::reserve_tokens`] tokens to
//! come reserved (by number: until they are needed they may hold cached prefixes). The default reserves all of `max_new`,
//! so that nothing that runs is ever set back. With a smaller reserve the youngest is set back to the head of the queue
//! when pages run out, and later computes its tokens anew, the same ones; the oldest always has its pages.
//!
//! ## Which work is shared
//! Full pages are shared, read-only, as soon as they are computed, those of generated tokens too. At least one token is
//! always computed, and the page that it lies in is never a shared one: a prompt known to its end computes its last page
//! again. When two requests with one prefix run at once, the second waits while the first computes the page that it needs
//! next, and then takes it over; pages that were computed twice all the same are made one.

mod chain;
mod engine;
mod error;
mod gauges;
mod host;
mod limits;
mod memory;
mod pages;
mod request;
mod sampler;
mod sampling;
mod sequence;
mod sessions;
mod speech;
mod stop;

pub use engine::Engine;
pub use error::{EngineError, Refusal};
pub use gauges::{Gauges, StepReport};
pub use limits::{EngineLimits, VOCABULARY_MAX};
pub use request::{Drawn, Output, Reason, Request, RequestId, SessionId, Usage};
pub use sampler::{NotFinite, Scratch, Seen, philox, sample};
pub use sampling::{
    LOGIT_BIAS_MAX, LOGPROBS_MAX, STOP_BYTES_MAX, STOP_IDS_MAX, STOP_STRINGS_MAX, Sampling, SamplingError,
};
pub use speech::{Decode, Speech};
pub use stop::{Heard, StopText};
