//! What is known of a model's own files: its tokenizer, its chat template, and how a conversation becomes token ids; and
//! what its weights compute: logits of a decoder, vectors of an embedder. It refuses to know where texts and conversations
//! come from and who serves them.

pub mod apart;
mod chat;
mod config;
mod conversation;
mod decoder;
mod embedder;
mod encoder;
mod error;
mod folder;
mod forward;
mod gguf;
mod prompt;
mod ranks;
mod special;
mod template;
mod tokenizer;
mod weights;

pub use chat::{ChatMl, Turn};
pub use config::{
    DecoderConfig, EncoderConfig, Family, Gelu, Pooling, Rope, RopeScaling, SentenceConfig, limits as config_limits,
};
pub use conversation::{Conversation, Message};
pub use decoder::{Decoder, DecoderSettings, Share};
pub use embedder::{EmbedKind, EmbedSettings, Embedded, SentenceEmbedder};
pub use encoder::Encoder;
pub use error::ModelError;
pub use folder::{
    ChatTemplateSource, FileDigest, GenerationDefaults, GgufTokenizer, ModelDigest, ModelFiles, ModelShape,
    TokenizerSource,
};
pub use forward::{Forward, ModelLimits, Next};
pub use gguf::{Gguf, GgufTensor, TensorKind, Value};
pub use prompt::PromptTemplate;
pub use ranks::{MakeRank, Ranks};
pub use special::SpecialTokens;
pub use template::{House, RenderOptions, Template, Templates};
pub use tokenizer::{
    AddedToken, BpeParts, Piece, PreTokenizer, StreamDecoder, TRAINED_ADDED, TRAINED_VOCABULARY_MAX,
    TRAINING_TEXT_BYTES_MAX, Tokenizer, TrainedTokenizer, train_tokenizer,
};
pub use weights::{Costs, Finite, SMALL_VALUES, Weights, names as tensor_names};
