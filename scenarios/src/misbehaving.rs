//! A real HTTP server on loopback that speaks OpenAI's chat completions well, through any endpoint behind it, and
//! misbehaves by a plan: for tests of whatever asks a model over HTTP. Bytes go out over plain sockets, so that it can
//! do what no HTTP library would; a mark counts each misbehaviour that was really done.
//!
//! It refuses to know who asks, and how a client ought to take what it does.

mod behaviour;
mod marks;
mod plan;
mod play;
mod reply;
mod request;
mod server;

pub use behaviour::{Misbehaviour, RetryAfter};
pub use marks::Marks;
pub use plan::{Mix, PAUSE_MAX_MS, PlanError, STEPS_MAX, ServerPlan};
pub use play::{ENDLESS_MAX_BYTES, HANG_MAX_MS, HUGE_MAX_BYTES};
pub use request::{BODY_MAX_BYTES, HEAD_MAX_BYTES};
pub use server::{CONNECTIONS_MAX, MisbehavingServer, SEEN_MAX, Seen, ServerError};
