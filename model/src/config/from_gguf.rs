//! A decoder's shape from the header of a GGUF file: its metadata, and which tensors there are, for GGUF says so whether a
//! model has biases, norms of heads, or a head of its own.

use super::rope::yarn_attention;
use super::{DecoderConfig, Family, Rope, RopeScaling, limits};
use crate::error::ModelError;
use crate::gguf::{Gguf, Value};

/// What to do about a model that is not computed here.
const ANOTHER: &str = "use a dense model of the architectures llama, qwen2 or qwen3";
/// llama.cpp takes this base where none is given.
const THETA_DEFAULT: f64 = 10_000.0;

/// Keys of one architecture.
struct Keys<'a> {
    gguf: &'a Gguf,
    architecture: &'a str,
}

impl Keys<'_> {
    fn key(&self, name: &str) -> String {
        format!("{}.{name}", self.architecture)
    }

    fn count(&self, name: &str, max: usize) -> Result<usize, ModelError> {
        let found = self.count_if(name, max)?;
        found.ok_or_else(|| self.wrong(name, format!("a number from 1 to {max}"), "nothing".to_owned()))
    }

    /// A number from 1 to `max`; a list of one number for each layer where all are the same counts as that number.
    fn count_if(&self, name: &str, max: usize) -> Result<Option<usize>, ModelError> {
        let key = self.key(name);
        let Some(value) = self.gguf.value(&key) else { return Ok(None) };
        let one = match value {
            Value::List(list) => {
                let first = list.first();
                first.filter(|first| list.iter().all(|other| other == *first))
            }
            value => Some(value),
        };
        let count = one.and_then(Value::as_u64).and_then(|count| usize::try_from(count).ok());
        let count = count.filter(|count| (1..=max).contains(count));
        let expected = || format!("a number from 1 to {max}, the same in every layer");
        count.map(Some).ok_or_else(|| self.wrong(name, expected(), value.shown()))
    }

    fn number_if(&self, name: &str) -> Result<Option<f64>, ModelError> {
        let key = self.key(name);
        let Some(value) = self.gguf.value(&key) else { return Ok(None) };
        let number = value.as_f64().filter(|number| number.is_finite());
        number.map(Some).ok_or_else(|| self.wrong(name, "a number".to_owned(), value.shown()))
    }

    fn wrong(&self, name: &str, expected: String, got: String) -> ModelError {
        self.gguf.wrong(&self.key(name), expected, got, ANOTHER)
    }
}

impl DecoderConfig {
    /// Reads a GGUF file's header.
    ///
    /// # Errors
    /// As [`DecoderConfig::from_json`].
    pub fn from_gguf(gguf: &Gguf) -> Result<Self, ModelError> {
        let architecture = gguf.text("general.architecture")?;
        let known = [Family::Llama, Family::Qwen2, Family::Qwen3];
        let Some(family) = known.into_iter().find(|family| Some(family.name()) == architecture) else {
            let got = architecture.map_or_else(|| "nothing".to_owned(), |name| format!("{name:?}"));
            let expected = "one of \"llama\", \"qwen2\", \"qwen3\"";
            return Err(gguf.wrong("general.architecture", expected.to_owned(), got, ANOTHER));
        };
        let keys = Keys { gguf, architecture: family.name() };
        if let Some(experts) = gguf.value(&keys.key("expert_count")).filter(|experts| experts.as_u64() != Some(0)) {
            let got = format!("a mixture of {} experts", experts.shown());
            return Err(keys.wrong("expert_count", "a dense model".to_owned(), got));
        }
        let hidden = keys.count("embedding_length", limits::HIDDEN_MAX)?;
        let heads = keys.count("attention.head_count", limits::HEADS_MAX)?;
        let head_dim = match keys.count_if("attention.key_length", limits::HEAD_DIM_MAX)? {
            Some(given) => given,
            None if hidden.is_multiple_of(heads) => hidden / heads,
            None => {
                let expected = format!("a number, as {hidden} is no multiple of {heads} heads");
                return Err(keys.wrong("attention.key_length", expected, "nothing".to_owned()));
            }
        };
        for name in ["attention.value_length", "rope.dimension_count"] {
            if let Some(other) = keys.count_if(name, limits::HEAD_DIM_MAX)?.filter(|other| *other != head_dim) {
                return Err(keys.wrong(name, format!("the head dimension {head_dim}"), other.to_string()));
            }
        }
        let context = keys.count("context_length", limits::CONTEXT_MAX)?;
        if let Some(window) = keys.count_if("attention.sliding_window", usize::MAX)?.filter(|window| *window < context)
        {
            let expected = format!("no window below the context of {context} tokens");
            return Err(keys.wrong("attention.sliding_window", expected, window.to_string()));
        }
        let Some(eps) = keys.number_if("attention.layer_norm_rms_epsilon")? else {
            return Err(keys.wrong("attention.layer_norm_rms_epsilon", "a number".to_owned(), "nothing".to_owned()));
        };
        let has = |name: &str| gguf.tensor(name).is_some();
        let config = Self {
            family,
            hidden,
            layers: keys.count("block_count", limits::LAYERS_MAX)?,
            heads,
            kv_heads: keys.count_if("attention.head_count_kv", limits::HEADS_MAX)?.unwrap_or(heads),
            head_dim,
            ffn: keys.count("feed_forward_length", limits::FFN_MAX)?,
            vocabulary: vocabulary(&keys)?,
            context,
            rms_eps: eps,
            rope: rope(&keys, context)?,
            tied: !has("output.weight"),
            qkv_bias: has("blk.0.attn_q.bias"),
            output_bias: has("blk.0.attn_output.bias"),
            mlp_bias: has("blk.0.ffn_gate.bias"),
            qk_norm: has("blk.0.attn_q_norm.weight"),
            dtype: None,
        };
        config.check(gguf.path())?;
        Ok(config)
    }
}

fn vocabulary(keys: &Keys<'_>) -> Result<usize, ModelError> {
    if let Some(given) = keys.count_if("vocab_size", limits::VOCABULARY_MAX)? {
        return Ok(given);
    }
    let rows = keys.gguf.tensor("token_embd.weight").and_then(|tensor| tensor.shape.first().copied());
    rows.ok_or_else(|| {
        keys.wrong("vocab_size", "a number, or a tensor `token_embd.weight`".to_owned(), "neither".into())
    })
}

fn rope(keys: &Keys<'_>, context: usize) -> Result<Rope, ModelError> {
    let theta = keys.number_if("rope.freq_base")?.unwrap_or(THETA_DEFAULT);
    let kind = keys.gguf.text(&keys.key("rope.scaling.type"))?;
    let factor = || match keys.number_if("rope.scaling.factor")? {
        // Files of before the year 2024 name it otherwise.
        None => keys.number_if("rope.scale_linear"),
        some => Ok(some),
    };
    let scaling = match (kind, factor()?) {
        (None | Some("none"), None) => RopeScaling::None,
        (None | Some("none" | "linear"), Some(1.0)) => RopeScaling::None,
        (None | Some("linear"), Some(factor)) => RopeScaling::Linear { factor },
        (Some("yarn"), Some(factor)) => {
            let original = keys.count_if("rope.scaling.original_context_length", limits::CONTEXT_MAX)?;
            let scale = keys.number_if("rope.scaling.attn_factor")?.unwrap_or(1.0);
            RopeScaling::Yarn {
                factor,
                original_context: original.unwrap_or(context),
                beta_fast: keys.number_if("rope.scaling.yarn_beta_fast")?.unwrap_or(32.0),
                beta_slow: keys.number_if("rope.scaling.yarn_beta_slow")?.unwrap_or(1.0),
                attention_factor: scale * yarn_attention(factor, 1.0),
                truncate: true,
            }
        }
        (Some(other), _) => {
            let expected = "one of none, linear, yarn, the last two with a factor".to_owned();
            return Err(keys.wrong("rope.scaling.type", expected, format!("{other:?}")));
        }
    };
    let scaling = match keys.gguf.floats("rope_freqs.weight")? {
        None => scaling,
        Some(divisors) if scaling == RopeScaling::None => RopeScaling::Divisors(divisors),
        Some(_) => {
            let expected = "one scaling of rotary positions".to_owned();
            return Err(keys.wrong("rope.scaling.type", expected, "another beside `rope_freqs.weight`".to_owned()));
        }
    };
    Ok(Rope { theta, scaling, interleaved: keys.architecture == Family::Llama.name() })
}
