//! What is known of a model's own files: its tokenizer, and how a conversation becomes token ids. It refuses to know
//! where a conversation comes from and who serves it.

mod chat;
mod config;
mod error;
mod folder;
mod forward;
mod gguf;
mod tokenizer;
mod weights;

pub use chat::{ChatMl, Turn};
pub use config::{
    DecoderConfig, EncoderConfig, Family, Gelu, Pooling, Rope, RopeScaling, SentenceConfig, limits as config_limits,
};
pub use error::ModelError;
pub use folder::{
    ChatTemplateSource, FileDigest, GenerationDefaults, GgufTokenizer, ModelDigest, ModelFiles, ModelShape,
    TokenizerSource,
};
pub use forward::{Forward, ModelLimits};
pub use gguf::{Gguf, GgufTensor, TensorKind, Value};
pub use tokenizer::Tokenizer;
pub use weights::{Costs, Finite, SMALL_VALUES, Weights, names as tensor_names};
