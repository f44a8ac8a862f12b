//! What is known of a model's own files: its tokenizer, and how a conversation becomes token ids. It refuses to know
//! where a conversation comes from and who serves it.

mod chat;
mod error;
mod forward;
mod tokenizer;

pub use chat::{ChatMl, Turn};
pub use error::ModelError;
pub use forward::{Forward, ModelLimits};
pub use tokenizer::Tokenizer;
