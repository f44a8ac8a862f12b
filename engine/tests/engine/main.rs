//! The engine over a model of paper: its pages store tokens, and its logits are a hash of all that is read back through the
//! pages, so that any wrong page, shared write, stale reuse or cross-talk changes what is drawn. What each request must give
//! is computed without an engine.

#![allow(clippy::unwrap_used, reason = "tests")]

mod complaints;
mod desk;
mod ends;
mod paper;
mod scheduling;
mod sessions;
mod sharing;
mod storms;
