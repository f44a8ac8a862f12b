//! Endpoints against a server of this test's own that misbehaves byte by byte over real sockets.
//! Each module is one subject; `support` is the server.

// The helpers of a test are tests too; a live check prints what it saw.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod embed;
mod gemini;
mod live;
mod openai;
mod policy;
mod secrets;
mod sglang;
mod stream;
mod support;
