//! The pure part of an episode: names, grammar, observations, budgets, prompts, verdicts and the state
//! machines of worker, coordinator, gate and episode. Event in, effects out.
//!
//! It refuses to know time, randomness, files, sockets and actors: its manifest has none of them, so
//! the compiler keeps the promise. The same events give the same effects, always.

pub mod budget;
pub mod call;
pub mod conversation;
pub mod coordinator;
pub mod environment;
pub mod episode;
pub mod event;
pub mod failure;
pub mod gate;
pub mod generation;
pub mod grading;
pub mod id;
pub mod machine;
pub mod message;
pub mod outcome;
pub mod profile;
pub mod prompt;
pub mod question;
pub mod record;
pub mod retrieval;
pub mod tokens;
pub mod untrusted;
pub mod worker;
