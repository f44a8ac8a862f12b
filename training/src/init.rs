//! A new model to train: a small decoder of Qwen3's shape with drawn weights, as a Hugging Face folder with a tokenizer beside it.
//! Weights are drawn tensor by tensor from the seed and the tensor's name, so that the same seed gives the same model whatever
//! else changes.
//! It refuses to know where the tokenizer's texts came from.

mod texts;

pub use texts::{chat_texts, holds_chat_rows};

use crate::error::TrainingError;
use crate::export::{FolderMaking, NumberKind, SHARD_BYTES_MAX, Wanted, WeightsMaking, wanted};
use crate::tensor::NamedTensor;
use legwork_model::{DecoderConfig, ModelError, TrainedTokenizer};
use serde_json::{Map, Value, json};
use std::path::{Path, PathBuf};

/// Where the model came from, beside it.
pub const INIT_MANIFEST: &str = "legwork.init.json";
/// Standard deviation of weights, as GPT-2, Megatron and Qwen3's `initializer_range` have it.
const DEVIATION: f64 = 0.02;
/// Begins the key of a tensor's numbers, so that they are those of nothing else.
const DOMAIN: &str = "legwork initial weights, version 1";
/// The base of rotary angles, as Qwen3 has it.
const ROPE_THETA: f64 = 1e6;
/// The epsilon of norms, as Qwen3 has it.
const RMS_EPS: f64 = 1e-6;
/// Numbers of a head where the width of the residual stream has no say.
const HEAD_DIM_LEAST: usize = 2;
/// Weights at most: a model that is larger is fetched and not begun from nothing here.
pub const WEIGHTS_MAX: u64 = 2_000_000_000;
/// What messages call the model.
const NAME: &str = "the new model";

/// A new model's shape.
#[derive(Clone, Debug, PartialEq)]
pub struct Initial {
    /// Width of the residual stream.
    pub hidden: usize,
    /// Layers.
    pub layers: usize,
    /// Heads of queries.
    pub heads: usize,
    /// Heads of keys and values; divides `heads`.
    pub kv_heads: usize,
    /// Numbers of one head; `hidden / heads` if none are given.
    pub head_dim: Option<usize>,
    /// Width inside the feed-forward part.
    pub ffn: usize,
    /// Tokens of a sequence at most.
    pub context: usize,
    /// Whether the head is the embedding.
    pub tied: bool,
    /// What the weights are drawn from.
    pub seed: u64,
    /// The kind of number that they are written in.
    pub kind: NumberKind,
}

/// A new model.
#[derive(Clone, Debug, PartialEq)]
pub struct Initialised {
    /// Its folder.
    pub folder: PathBuf,
    /// Weights in all.
    pub weights: u64,
    /// Bytes of their files.
    pub bytes: u64,
}

impl Initial {
    /// The size that tests train: quick on a CPU, with everything that a large one has.
    pub fn tiny() -> Self {
        Self {
            hidden: 64,
            layers: 2,
            heads: 4,
            kv_heads: 2,
            head_dim: None,
            ffn: 192,
            context: 2048,
            tied: true,
            seed: 1,
            kind: NumberKind::F32,
        }
    }

    /// The description with a vocabulary and the ids that end a text and fill up a batch, in the form that Qwen3's
    /// publishers give it and every version of `transformers` reads.
    pub fn description(&self, vocabulary: usize, eos: u32, pad: u32) -> Map<String, Value> {
        let head_dim = self.head_dim.unwrap_or_else(|| match self.heads {
            0 => HEAD_DIM_LEAST,
            heads => (self.hidden / heads).max(HEAD_DIM_LEAST),
        });
        let fields = json!({
            "architectures": ["Qwen3ForCausalLM"],
            "attention_bias": false,
            "attention_dropout": 0.0,
            "bos_token_id": null,
            "eos_token_id": eos,
            "head_dim": head_dim,
            "hidden_act": "silu",
            "hidden_size": self.hidden,
            "initializer_range": DEVIATION,
            "intermediate_size": self.ffn,
            "max_position_embeddings": self.context,
            "max_window_layers": self.layers,
            "model_type": "qwen3",
            "num_attention_heads": self.heads,
            "num_hidden_layers": self.layers,
            "num_key_value_heads": self.kv_heads,
            "pad_token_id": pad,
            "rms_norm_eps": RMS_EPS,
            "rope_scaling": null,
            "rope_theta": ROPE_THETA,
            "sliding_window": null,
            "tie_word_embeddings": self.tied,
            "torch_dtype": self.kind.name(),
            "use_cache": true,
            "use_sliding_window": false,
            "vocab_size": vocabulary,
        });
        match fields {
            Value::Object(fields) => fields,
            _ => Map::new(),
        }
    }

    /// Draws the weights and writes the folder.
    ///
    /// # Errors
    /// A shape that cannot be, a tokenizer without the ends of Qwen3's turns, a place that has something already or cannot
    /// be written. Nothing is left under the folder's name then.
    pub fn write(&self, tokenizer: &TrainedTokenizer, out: &Path) -> Result<Initialised, TrainingError> {
        let id = |token: &str| {
            let id = tokenizer.tokenizer.id_of(token);
            id.ok_or_else(|| ModelError::NoToken { token: token.to_owned() })
        };
        let (eos, pad) = (id("<|im_end|>")?, id("<|endoftext|>")?);
        let description = self.description(tokenizer.tokenizer.vocabulary(), eos, pad);
        let config = DecoderConfig::from_json(Path::new(NAME), &description)?;
        if self.head_dim.is_none() && !self.hidden.is_multiple_of(self.heads) {
            return Err(TrainingError::Setting {
                setting: "hidden",
                expected: format!("a multiple of {} heads, or the numbers of one head", self.heads),
                got: self.hidden.to_string(),
            });
        }
        let tensors = wanted(&config);
        let weights = tensors.iter().map(|tensor| tensor.shape[0] as u64 * tensor.shape[1] as u64).sum();
        if weights > WEIGHTS_MAX {
            let expected = format!("sizes that make at most {WEIGHTS_MAX} weights");
            return Err(TrainingError::Setting {
                setting: "the model's sizes",
                expected,
                got: format!("{weights} of them"),
            });
        }
        let making = FolderMaking::begin(out)?;
        let made = WeightsMaking::begin(&making, NAME, tensors.clone(), self.kind, SHARD_BYTES_MAX)?
            .fill(tensors.into_iter().map(|tensor| Ok(self.draw(tensor))))?;
        let generation = json!({
            "do_sample": true, "eos_token_id": [eos, pad], "pad_token_id": pad, "temperature": 0.6, "top_k": 20, "top_p": 0.95,
        });
        let origin = json!({
            "format": "legwork init", "version": 1, "seed": self.seed, "deviation": DEVIATION, "weights": weights,
            "tokenizer": {"texts": tokenizer.texts, "text_bytes": tokenizer.text_bytes},
            "files": made.sums,
        });
        let description = Value::Object(description);
        for (name, value) in
            [("config.json", &description), ("generation_config.json", &generation), (INIT_MANIFEST, &origin)]
        {
            making.write(name, format!("{value:#}\n").as_bytes())?;
        }
        for (name, text) in tokenizer.files() {
            making.write(name, text.as_bytes())?;
        }
        Ok(Initialised { folder: making.finish()?, weights, bytes: made.bytes })
    }

    /// A tensor's first values: norms are 1; matrices are normal around 0, those that add to the residual stream narrower,
    /// so that the stream's width does not grow with the layers (GPT-2, section 2.3).
    fn draw(&self, wanted: Wanted) -> NamedTensor {
        let Wanted { name, shape, is_vector, .. } = wanted;
        let count = shape[0] * shape[1];
        let values = if is_vector {
            vec![if name.ends_with(".bias") { 0.0 } else { 1.0 }; count]
        } else {
            let into_stream = name.ends_with("o_proj.weight") || name.ends_with("down_proj.weight");
            let narrower = if into_stream { (2.0 * self.layers as f64).sqrt() } else { 1.0 };
            normal(self.seed, &name, count, DEVIATION / narrower)
        };
        NamedTensor { name, shape, is_vector, values }
    }
}

/// Normal numbers around 0, two from each two uniform ones (Box and Muller). They are the same on every machine but for the last
/// bit of a few, where a platform's logarithm or cosine rounds otherwise.
fn normal(seed: u64, name: &str, count: usize, deviation: f64) -> Vec<f32> {
    let mut hasher = blake3::Hasher::new_derive_key(DOMAIN);
    hasher.update(&seed.to_le_bytes());
    hasher.update(name.as_bytes());
    let mut bytes = hasher.finalize_xof();
    // From 2⁻⁵³ to 1, so that the logarithm is a number.
    let mut uniform = || {
        let mut eight = [0; 8];
        bytes.fill(&mut eight);
        ((u64::from_le_bytes(eight) >> 11) + 1) as f64 / (1_u64 << 53) as f64
    };
    let mut values = Vec::with_capacity(count + 1);
    while values.len() < count {
        let (radius, angle) = ((-2.0 * uniform().ln()).sqrt() * deviation, std::f64::consts::TAU * uniform());
        values.extend([(radius * angle.cos()) as f32, (radius * angle.sin()) as f32]);
    }
    values.truncate(count);
    values
}

#[cfg(test)]
mod tests;
