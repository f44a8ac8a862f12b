//! What is known of a model's own files: its tokenizer, its chat template, and how a conversation becomes token ids. It
//! refuses to know where a conversation comes from and who serves it.

mod chat;
mod conversation;
mod error;
mod forward;
mod prompt;
mod special;
mod template;
mod tokenizer;

pub use chat::{ChatMl, Turn};
pub use conversation::{Conversation, Message};
pub use error::ModelError;
pub use forward::{Forward, ModelLimits};
pub use prompt::PromptTemplate;
pub use special::SpecialTokens;
pub use template::{House, RenderOptions, Template, Templates};
pub use tokenizer::{AddedToken, BpeParts, Piece, PreTokenizer, StreamDecoder, Tokenizer};
