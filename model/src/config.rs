//! What a model says of its own shape, checked: a decoder's and a sentence encoder's. Every number is bounded here, so that
//! whoever allocates by them allocates what such a model needs.
//!
//! It refuses to know weights, and where a description was read from.

mod encoder;
mod fields;
mod from_gguf;
mod from_json;
mod rope;
mod sentence;

#[cfg(test)]
mod tests;

use crate::error::ModelError;
pub use encoder::{EncoderConfig, Gelu};
pub(crate) use fields::{Fields, shown};
use legwork_kernels::Dtype;
pub use rope::{Rope, RopeScaling};
pub use sentence::{Pooling, SentenceConfig};
use std::path::Path;

/// The largest shapes that are taken: several times those of the largest dense models published.
pub mod limits {
    /// Width of the residual stream.
    pub const HIDDEN_MAX: usize = 1 << 16;
    /// Layers.
    pub const LAYERS_MAX: usize = 1 << 10;
    /// Heads of queries.
    pub const HEADS_MAX: usize = 1 << 10;
    /// Numbers of one head.
    pub const HEAD_DIM_MAX: usize = 1 << 10;
    /// Numbers of all heads of a token.
    pub const ATTENTION_WIDTH_MAX: usize = 1 << 17;
    /// Width inside the feed-forward part.
    pub const FFN_MAX: usize = 1 << 19;
    /// Tokens of a vocabulary.
    pub const VOCABULARY_MAX: usize = 1 << 22;
    /// Tokens of a sequence.
    pub const CONTEXT_MAX: usize = 1 << 26;
    /// The epsilon of a norm.
    pub const EPS_MAX: f64 = 0.1;
    /// The base of rotary angles.
    pub const THETA_MAX: f64 = 1e12;
}

/// A family of dense decoders that is computed here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Family {
    /// Llama 2 and 3, SmolLM2 and whatever else says `llama`.
    Llama,
    /// Mistral without a sliding window: Llama's shape.
    Mistral,
    /// Qwen2 and Qwen2.5: queries, keys and values have biases.
    Qwen2,
    /// Qwen3: queries and keys are normed head by head.
    Qwen3,
}

impl Family {
    /// All of them.
    pub const ALL: [Family; 4] = [Family::Llama, Family::Mistral, Family::Qwen2, Family::Qwen3];

    /// As `model_type` says it, and `general.architecture` of GGUF.
    pub fn name(self) -> &'static str {
        match self {
            Family::Llama => "llama",
            Family::Mistral => "mistral",
            Family::Qwen2 => "qwen2",
            Family::Qwen3 => "qwen3",
        }
    }

    /// As classes of `transformers` begin with it.
    fn class(self) -> &'static str {
        match self {
            Family::Llama => "Llama",
            Family::Mistral => "Mistral",
            Family::Qwen2 => "Qwen2",
            Family::Qwen3 => "Qwen3",
        }
    }
}

/// The shape of a dense decoder: RMS norms before attention and feed-forward, rotary positions, SwiGLU.
#[derive(Clone, Debug, PartialEq)]
pub struct DecoderConfig {
    /// Its family.
    pub family: Family,
    /// Width of the residual stream.
    pub hidden: usize,
    /// Layers.
    pub layers: usize,
    /// Heads of queries.
    pub heads: usize,
    /// Heads of keys and values; divides `heads`.
    pub kv_heads: usize,
    /// Numbers of one head; even, and not always `hidden / heads`.
    pub head_dim: usize,
    /// Width inside the feed-forward part.
    pub ffn: usize,
    /// Rows of the embedding.
    pub vocabulary: usize,
    /// Tokens of a sequence at most, a scaling of YaRN counted in.
    pub context: usize,
    /// The epsilon of every RMS norm.
    pub rms_eps: f64,
    /// How positions turn queries and keys.
    pub rope: Rope,
    /// Whether the head is the embedding.
    pub tied: bool,
    /// Whether queries, keys and values have biases.
    pub qkv_bias: bool,
    /// Whether attention's output has a bias.
    pub output_bias: bool,
    /// Whether the feed-forward part has biases.
    pub mlp_bias: bool,
    /// Whether queries and keys are normed head by head.
    pub qk_norm: bool,
    /// What the description says its weights are of; the tensors themselves decide.
    pub dtype: Option<Dtype>,
}

impl DecoderConfig {
    /// Numbers of all query heads of a token.
    pub fn q_width(&self) -> usize {
        self.heads * self.head_dim
    }

    /// Numbers of all key heads of a token, and of all value heads.
    pub fn kv_width(&self) -> usize {
        self.kv_heads * self.head_dim
    }

    /// Checks that the numbers fit one another and stay below [`limits`]; readers have done so already.
    ///
    /// # Errors
    /// A number out of its range, or two that contradict each other; `path` is named in the message.
    pub fn check(&self, path: &Path) -> Result<(), ModelError> {
        let wrong = |field: &str, expected: String, got: String| ModelError::Field {
            path: path.to_path_buf(),
            field: field.to_owned(),
            expected,
            got,
            cure: "mend the description, or fetch the model anew",
        };
        for (field, value, max) in [
            ("hidden size", self.hidden, limits::HIDDEN_MAX),
            ("layers", self.layers, limits::LAYERS_MAX),
            ("heads", self.heads, limits::HEADS_MAX),
            ("key-value heads", self.kv_heads, limits::HEADS_MAX),
            ("head dimension", self.head_dim, limits::HEAD_DIM_MAX),
            ("feed-forward size", self.ffn, limits::FFN_MAX),
            ("vocabulary", self.vocabulary, limits::VOCABULARY_MAX),
            ("context", self.context, limits::CONTEXT_MAX),
        ] {
            if !(1..=max).contains(&value) {
                return Err(wrong(field, format!("a number from 1 to {max}"), value.to_string()));
            }
        }
        if !self.heads.is_multiple_of(self.kv_heads) {
            let expected = format!("a divisor of the {} heads", self.heads);
            return Err(wrong("key-value heads", expected, self.kv_heads.to_string()));
        }
        if !self.head_dim.is_multiple_of(2) {
            let expected = "an even number, as rotary positions turn pairs".to_owned();
            return Err(wrong("head dimension", expected, self.head_dim.to_string()));
        }
        if self.q_width() > limits::ATTENTION_WIDTH_MAX {
            let expected = format!("at most {} numbers", limits::ATTENTION_WIDTH_MAX);
            return Err(wrong("heads times head dimension", expected, self.q_width().to_string()));
        }
        if !(self.rms_eps > 0.0 && self.rms_eps <= limits::EPS_MAX) {
            let expected = format!("a number above 0 and up to {}", limits::EPS_MAX);
            return Err(wrong("epsilon of the norms", expected, self.rms_eps.to_string()));
        }
        self.rope.check(self.head_dim).map_err(|(field, expected, got)| wrong(field, expected, got))
    }
}
