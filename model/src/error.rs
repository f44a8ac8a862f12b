//! What can be wrong with a model's files.

use std::path::PathBuf;

/// What can be wrong with a model's files.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ModelError {
    /// A file of a model cannot be read, or is damaged.
    #[error("cannot read {}: {detail}", path.display())]
    File {
        /// The file or folder.
        path: PathBuf,
        /// What was wrong, and what to do.
        detail: String,
    },
    /// A model describes itself with something that it must not, or that this house does not compute.
    #[error("{}: expected {expected} for `{field}`, got {got}; {cure}", path.display())]
    Field {
        /// The file.
        path: PathBuf,
        /// The field as the file calls it.
        field: String,
        /// What it must be.
        expected: String,
        /// What it is.
        got: String,
        /// What to do.
        cure: &'static str,
    },
    /// A tensor is missing.
    #[error("{}: expected a tensor `{name}` of shape {expected:?}, got none of that name; fetch the model anew, or give the config.json that belongs to these weights", path.display())]
    NoTensor {
        /// The weights.
        path: PathBuf,
        /// The tensor.
        name: String,
        /// Its rows and columns.
        expected: [usize; 2],
    },
    /// A tensor has another shape than the model's description says.
    #[error("{}: expected the shape {expected:?} for the tensor `{name}`, got {got:?}; give the config.json that belongs to these weights", path.display())]
    TensorShape {
        /// The weights.
        path: PathBuf,
        /// The tensor.
        name: String,
        /// Its rows and columns.
        expected: [usize; 2],
        /// As the file says.
        got: Vec<usize>,
    },
    /// A tensor of numbers that this house does not compute on.
    #[error("{}: expected {expected} for the tensor `{name}`, got {got}; convert the model", path.display())]
    TensorKind {
        /// The weights.
        path: PathBuf,
        /// The tensor.
        name: String,
        /// The kinds that are read.
        expected: &'static str,
        /// The kind that it is.
        got: String,
    },
    /// A weight that is no number.
    #[error("{}: expected finite weights in the tensor `{name}`, got {got} at value {at}; fetch the model anew", path.display())]
    NotFinite {
        /// The weights.
        path: PathBuf,
        /// The tensor.
        name: String,
        /// The value, in words.
        got: String,
        /// Where it stands, row by row; for blocks, the block's first value.
        at: usize,
    },
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
    /// A text became a vector with what is no number.
    #[error(
        "expected finite numbers in the vector of text {text}, got {got} at value {at}; the model's weights are damaged or overflow, so fetch it anew"
    )]
    Vector {
        /// Which text, from 0.
        text: usize,
        /// The value, in words.
        got: String,
        /// Where it stands.
        at: usize,
    },
    /// A model's own process that does not start.
    #[error("the model's own process did not start: {detail}")]
    Process {
        /// Why.
        detail: String,
    },
    /// A step could not be computed.
    #[error(transparent)]
    Ops(#[from] legwork_kernels::OpsError),
    /// A batch that breaks a limit.
    #[error(transparent)]
    Batch(#[from] legwork_kernels::BatchError),
}

impl ModelError {
    /// Whether it was the device that failed, so that whatever it holds may be lost.
    pub fn is_of_device(&self) -> bool {
        matches!(self, Self::Ops(legwork_kernels::OpsError::Device(_)))
    }
}
