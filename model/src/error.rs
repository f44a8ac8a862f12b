//! What can be wrong with a model's files.

use std::path::PathBuf;

/// What can be wrong with a model's files.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ModelError {
    /// A tokenizer cannot be read.
    #[error("cannot read the tokenizer {}: {detail}; give the model's tokenizer.json", path.display())]
    Tokenizer {
        /// The file.
        path: PathBuf,
        /// What was wrong.
        detail: String,
    },
    /// A text cannot be encoded.
    #[error("the tokenizer cannot encode a text of {bytes} bytes: {detail}")]
    Encode {
        /// The text's length.
        bytes: usize,
        /// Why not.
        detail: String,
    },
    /// Ids cannot be decoded.
    #[error("the tokenizer cannot decode {count} ids: {detail}")]
    Decode {
        /// How many.
        count: usize,
        /// Why not.
        detail: String,
    },
    /// The vocabulary lacks a token that the template needs.
    #[error("the tokenizer has no token `{token}`, which the ChatML template needs; use another template or tokenizer")]
    NoToken {
        /// The token.
        token: String,
    },
    /// Text of a message became a control token.
    #[error(
        "a {role} message holds the control token `{token}` as text; neutralise untrusted text before it is put into a prompt"
    )]
    ControlToken {
        /// Who speaks.
        role: String,
        /// The token.
        token: String,
    },
    /// A vocabulary with merges makes no tokenizer.
    #[error("{name} carries no usable vocabulary: {detail}")]
    Vocabulary {
        /// Where it came from.
        name: String,
        /// What was expected and what came.
        detail: String,
    },
    /// A file of facts beside the weights cannot be read.
    #[error("cannot read {name}: {detail}; give the file as the model's makers published it")]
    Facts {
        /// The file.
        name: String,
        /// What was expected and what came.
        detail: String,
    },
    /// A chat template is wrong, or refuses the conversation.
    #[error("the chat template {name}, line {line}: {detail}")]
    Template {
        /// The template.
        name: String,
        /// Where in it; 0 if it is not known.
        line: usize,
        /// What it says.
        detail: String,
    },
    /// A message is no message.
    #[error("message {index} of the conversation: {detail}")]
    Message {
        /// Which one, from 0.
        index: usize,
        /// What was expected and what came.
        detail: String,
    },
}
