//! The model server as others meet it: raw HTTP, our own clients, and inputs that misbehave, all against a mock model.

// The helpers of a test are tests too.
#![allow(clippy::unwrap_used)]

#[path = "model_server/chat.rs"]
mod chat;
#[path = "model_server/clients.rs"]
mod clients;
#[path = "model_server/completions.rs"]
mod completions;
#[path = "model_server/endings.rs"]
mod endings;
#[path = "model_server/generate.rs"]
mod generate;
#[path = "model_server/hostile.rs"]
mod hostile;
#[path = "model_server/mock.rs"]
mod mock;
#[path = "model_server/others.rs"]
mod others;
#[path = "model_server/wire.rs"]
mod wire;
