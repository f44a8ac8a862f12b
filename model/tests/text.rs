//! The text side of a model against independent implementations: tokenizers, streams of text, templates and prompts. The
//! real files are looked for in `target/fixtures`, where `.ci/fixtures` puts them; without them a test says what it skips.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test; clippy knows tests only by their attribute")]

#[path = "text/fixtures.rs"]
mod fixtures;
#[path = "text/prompts.rs"]
mod prompts;
#[path = "text/streams.rs"]
mod streams;
#[path = "text/strings.rs"]
mod strings;
#[path = "text/templates.rs"]
mod templates;
#[path = "text/tokenizers.rs"]
mod tokenizers;
