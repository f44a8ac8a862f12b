//! The shape of a sentence encoder like BERT: learned positions, layer norms after each part, GELU. It refuses to know how its
//! rows become one vector.

use super::{Fields, limits};
use crate::error::ModelError;
use serde_json::{Map, Value};
use std::path::Path;

/// What to do about a model that is not computed here.
const ANOTHER: &str = "use an encoder of the family bert, or an embedder of the family qwen3";
/// Kinds of tokens at most.
const TOKEN_TYPES_MAX: usize = 1 << 10;

/// Which curve stands inside the feed-forward part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gelu {
    /// By the error function: `x Φ(x)`.
    Exact,
    /// Its approximation by a hyperbolic tangent.
    Tanh,
}

/// The shape of a BERT-like encoder.
#[derive(Clone, Debug, PartialEq)]
pub struct EncoderConfig {
    /// Width of the stream.
    pub hidden: usize,
    /// Layers.
    pub layers: usize,
    /// Heads; divides `hidden`.
    pub heads: usize,
    /// Width inside the feed-forward part.
    pub ffn: usize,
    /// Rows of the embedding.
    pub vocabulary: usize,
    /// Learned positions: tokens of a text at most.
    pub positions: usize,
    /// Kinds of tokens; a lone text is of kind 0.
    pub token_types: usize,
    /// The epsilon of every layer norm.
    pub layer_norm_eps: f64,
    /// The curve.
    pub gelu: Gelu,
}

impl EncoderConfig {
    /// Numbers of one head.
    pub fn head_dim(&self) -> usize {
        self.hidden / self.heads
    }

    /// Reads an object as `config.json` holds it; `path` is named in messages only.
    ///
    /// # Errors
    /// A field that is missing, wrong or out of its bounds; a model of another family, or with other positions.
    pub fn from_json(path: &Path, config: &Map<String, Value>) -> Result<Self, ModelError> {
        let fields = Fields::new(path, config);
        let refused = |field: &str, expected: &str, got: Option<&str>| {
            let got = got.map_or_else(|| "nothing".to_owned(), |got| format!("{got:?}"));
            fields.refused(field, expected, got, ANOTHER)
        };
        match fields.text("model_type")? {
            Some("bert") => {}
            other => return Err(refused("model_type", "\"bert\"", other)),
        }
        match fields.text("position_embedding_type")? {
            None | Some("absolute") => {}
            other => return Err(refused("position_embedding_type", "\"absolute\"", other)),
        }
        if fields.flag("is_decoder", false)? {
            return Err(fields.refused("is_decoder", "false", "true", ANOTHER));
        }
        let gelu = match fields.text("hidden_act")? {
            None | Some("gelu") => Gelu::Exact,
            Some("gelu_new" | "gelu_pytorch_tanh" | "gelu_fast") => Gelu::Tanh,
            other => return Err(refused("hidden_act", "\"gelu\" or an approximation of it", other)),
        };
        let hidden = fields.count("hidden_size", limits::HIDDEN_MAX)?;
        let heads = fields.count("num_attention_heads", limits::HEADS_MAX)?;
        if !hidden.is_multiple_of(heads) {
            let expected = format!("a divisor of `hidden_size` {hidden}");
            return Err(fields.wrong("num_attention_heads", expected, &Value::from(heads)));
        }
        let layer_norm_eps = fields.number_if("layer_norm_eps")?.unwrap_or(1e-12);
        if !(layer_norm_eps > 0.0 && layer_norm_eps <= limits::EPS_MAX) {
            let expected = format!("a number above 0 and up to {}", limits::EPS_MAX);
            return Err(fields.wrong("layer_norm_eps", expected, &Value::from(layer_norm_eps)));
        }
        Ok(Self {
            hidden,
            layers: fields.count("num_hidden_layers", limits::LAYERS_MAX)?,
            heads,
            ffn: fields.count("intermediate_size", limits::FFN_MAX)?,
            vocabulary: fields.count("vocab_size", limits::VOCABULARY_MAX)?,
            positions: fields.count("max_position_embeddings", limits::CONTEXT_MAX)?,
            token_types: fields.count_if("type_vocab_size", TOKEN_TYPES_MAX)?.unwrap_or(2),
            layer_norm_eps,
            gelu,
        })
    }
}
