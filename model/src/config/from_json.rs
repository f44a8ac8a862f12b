//! A decoder's shape from Hugging Face's `config.json`, of `transformers` 4 and 5 (`rope_theta` and `rope_scaling`, or
//! `rope_parameters`). What would be computed otherwise than this house computes is refused by its name.

use super::rope::yarn_attention;
use super::{DecoderConfig, Family, Fields, Rope, RopeScaling, limits};
use crate::error::ModelError;
use legwork_kernels::Dtype;
use serde_json::{Map, Value};
use std::path::Path;

/// What to do about a model that is not computed here.
const ANOTHER: &str = "use a dense model of the families llama, mistral, qwen2 or qwen3";
/// `transformers` takes this base where none is given.
const THETA_DEFAULT: f64 = 10_000.0;
/// `transformers` takes this head dimension for Qwen3 where none is given.
const QWEN3_HEAD_DIM: usize = 128;
/// `transformers` takes this window for Mistral where the field is absent, and none where it is `null`.
const MISTRAL_WINDOW: usize = 4096;
/// Fields that only mixtures of experts have.
const EXPERTS: [&str; 4] = ["num_experts", "num_local_experts", "n_routed_experts", "moe_intermediate_size"];

impl DecoderConfig {
    /// Reads an object as `config.json` holds it; `path` is named in messages only.
    ///
    /// # Errors
    /// A field that is missing, wrong or out of its bounds; a model of another family, of experts, with packed weights, with
    /// a sliding window inside its context, or with a scaling of positions that is not known here.
    pub fn from_json(path: &Path, config: &Map<String, Value>) -> Result<Self, ModelError> {
        let fields = Fields::new(path, config);
        let family = family(&fields)?;
        refuse_what_is_not_computed(&fields)?;
        let hidden = fields.count("hidden_size", limits::HIDDEN_MAX)?;
        let layers = fields.count("num_hidden_layers", limits::LAYERS_MAX)?;
        let heads = fields.count("num_attention_heads", limits::HEADS_MAX)?;
        let kv_heads = fields.count_if("num_key_value_heads", limits::HEADS_MAX)?.unwrap_or(heads);
        let context = fields.count("max_position_embeddings", limits::CONTEXT_MAX)?;
        let attention_bias = fields.flag("attention_bias", false)?;
        let (rope, context) = rope(&fields, context)?;
        let config = Self {
            family,
            hidden,
            layers,
            heads,
            kv_heads,
            head_dim: head_dim(&fields, family, hidden, heads)?,
            ffn: fields.count("intermediate_size", limits::FFN_MAX)?,
            vocabulary: fields.count("vocab_size", limits::VOCABULARY_MAX)?,
            context,
            rms_eps: fields.number("rms_norm_eps")?,
            rope,
            tied: fields.flag("tie_word_embeddings", false)?,
            // Qwen2 has these three without saying so.
            qkv_bias: attention_bias || family == Family::Qwen2,
            output_bias: attention_bias && family != Family::Qwen2,
            mlp_bias: fields.flag("mlp_bias", false)?,
            qk_norm: family == Family::Qwen3,
            dtype: dtype(&fields)?,
        };
        refuse_a_sliding_window(&fields, &config)?;
        config.check(path)?;
        Ok(config)
    }
}

fn family(fields: &Fields<'_>) -> Result<Family, ModelError> {
    let expected = || "one of \"llama\", \"mistral\", \"qwen2\", \"qwen3\"";
    let Some(name) = fields.text("model_type")? else {
        return Err(fields.refused("model_type", expected(), "nothing", ANOTHER));
    };
    let Some(family) = Family::ALL.into_iter().find(|family| family.name() == name) else {
        return Err(fields.refused("model_type", expected(), format!("{name:?}"), ANOTHER));
    };
    let classes = [format!("{}ForCausalLM", family.class()), format!("{}Model", family.class())];
    for class in fields.texts("architectures")?.unwrap_or_default() {
        if !classes.iter().any(|known| known == class) {
            let expected = format!("{:?} or {:?}", classes[0], classes[1]);
            return Err(fields.refused("architectures", expected, format!("{class:?}"), ANOTHER));
        }
    }
    Ok(family)
}

fn refuse_what_is_not_computed(fields: &Fields<'_>) -> Result<(), ModelError> {
    if let Some((field, value)) = EXPERTS.iter().find_map(|field| fields.value(field).map(|value| (*field, value)))
        && value.as_u64() != Some(0)
    {
        return Err(fields.refused(field, "a dense model", format!("a mixture of experts, {value}"), ANOTHER));
    }
    if let Some(packed) = fields.inside("quantization_config.")? {
        let method = packed.text("quant_method")?.unwrap_or("of no name").to_owned();
        const CURE: &str = "use the model's unpacked weights, or a GGUF file of it";
        return Err(fields.refused("quantization_config", "weights that are not packed", method, CURE));
    }
    match fields.text("hidden_act")? {
        None | Some("silu" | "swish") => {}
        Some(other) => return Err(fields.refused("hidden_act", "\"silu\"", format!("{other:?}"), ANOTHER)),
    }
    match fields.number_if("partial_rotary_factor")? {
        None | Some(1.0) => {}
        Some(factor) => return Err(fields.refused("partial_rotary_factor", "1", factor.to_string(), ANOTHER)),
    }
    Ok(())
}

fn head_dim(fields: &Fields<'_>, family: Family, hidden: usize, heads: usize) -> Result<usize, ModelError> {
    if let Some(given) = fields.count_if("head_dim", limits::HEAD_DIM_MAX)? {
        return Ok(given);
    }
    if family == Family::Qwen3 {
        return Ok(QWEN3_HEAD_DIM);
    }
    if !hidden.is_multiple_of(heads) {
        let expected = format!("a number, as `hidden_size` {hidden} is no multiple of {heads} heads");
        return Err(fields.refused("head_dim", expected, "nothing", "mend the file, or fetch the model anew"));
    }
    Ok(hidden / heads)
}

fn dtype(fields: &Fields<'_>) -> Result<Option<Dtype>, ModelError> {
    let name = match fields.text("dtype")? {
        None => fields.text("torch_dtype")?,
        some => some,
    };
    Ok(match name {
        Some("float32") => Some(Dtype::F32),
        Some("float16") => Some(Dtype::F16),
        Some("bfloat16") => Some(Dtype::Bf16),
        _ => None,
    })
}

/// Qwen's files carry a window that `use_sliding_window` switches on, from layer `max_window_layers` on; newer ones name
/// each layer's kind; Mistral's first models had one in every layer.
fn refuse_a_sliding_window(fields: &Fields<'_>, config: &DecoderConfig) -> Result<(), ModelError> {
    let unsaid = config.family == Family::Mistral && !fields.has("sliding_window");
    let window = if unsaid { Some(MISTRAL_WINDOW) } else { fields.count_if("sliding_window", usize::MAX)? };
    let Some(window) = window.filter(|window| *window < config.context) else { return Ok(()) };
    let qwen = matches!(config.family, Family::Qwen2 | Family::Qwen3);
    let active = match fields.texts("layer_types")? {
        Some(kinds) => kinds.iter().any(|kind| *kind != "full_attention"),
        None if qwen => {
            let first = fields.value("max_window_layers").and_then(Value::as_u64).unwrap_or(0);
            fields.flag("use_sliding_window", false)? && first < config.layers as u64
        }
        None => config.family == Family::Mistral,
    };
    let expected = || format!("no window below the context of {} tokens", config.context);
    const CURE: &str = "use a model without a sliding window, or lower `max_position_embeddings` to the window";
    if active { Err(fields.refused("sliding_window", expected(), window.to_string(), CURE)) } else { Ok(()) }
}

/// Rotary positions, and the context with them.
fn rope(fields: &Fields<'_>, context: usize) -> Result<(Rope, usize), ModelError> {
    let newer = fields.inside("rope_parameters.")?;
    let scaling_fields = match newer {
        Some(parameters) => Some(parameters),
        None => fields.inside("rope_scaling.")?,
    };
    let theta = match newer.map(|parameters| parameters.number_if("rope_theta")).transpose()?.flatten() {
        Some(theta) => theta,
        None => fields.number_if("rope_theta")?.unwrap_or(THETA_DEFAULT),
    };
    let scaling = scaling_fields.map_or(Ok(RopeScaling::None), |inside| scaling(&inside, context))?;
    let context = match &scaling {
        // Model cards tell one to add the scaling and leave `max_position_embeddings` as it is.
        RopeScaling::Yarn { factor, original_context, .. } => {
            let stretched = *original_context as f64 * factor;
            if stretched > limits::CONTEXT_MAX as f64 {
                let expected = format!("a context of at most {} tokens", limits::CONTEXT_MAX);
                return Err(fields.refused("rope factor", expected, stretched.to_string(), "mend the file"));
            }
            context.max(stretched as usize)
        }
        _ => context,
    };
    Ok((Rope { theta, scaling, interleaved: false }, context))
}

fn scaling(inside: &Fields<'_>, context: usize) -> Result<RopeScaling, ModelError> {
    if let Some(layers) = inside.first_object() {
        const CURE: &str = "use a model with one kind of rotary positions";
        return Err(inside.refused(layers, "one setting for all layers", "an object of its own", CURE));
    }
    let kind = match inside.text("rope_type")? {
        None => inside.text("type")?,
        some => some,
    };
    if let Some(factor) = inside.number_if("partial_rotary_factor")?
        && factor != 1.0
    {
        return Err(inside.refused("partial_rotary_factor", "1", factor.to_string(), ANOTHER));
    }
    let original = || inside.count_if("original_max_position_embeddings", limits::CONTEXT_MAX);
    match kind {
        None | Some("default") => Ok(RopeScaling::None),
        Some("linear") => Ok(RopeScaling::Linear { factor: inside.number("factor")? }),
        Some("llama3") => Ok(RopeScaling::Llama3 {
            factor: inside.number("factor")?,
            low_freq_factor: inside.number("low_freq_factor")?,
            high_freq_factor: inside.number("high_freq_factor")?,
            original_context: original()?.unwrap_or(context),
        }),
        Some("yarn") => {
            let original_context = original()?.unwrap_or(context);
            let factor = inside.number_if("factor")?.unwrap_or(context as f64 / original_context as f64);
            let attention_factor = match inside.number_if("attention_factor")? {
                Some(given) => given,
                None => match (inside.number_if("mscale")?, inside.number_if("mscale_all_dim")?) {
                    (Some(mscale), Some(all)) if mscale != 0.0 && all != 0.0 => {
                        yarn_attention(factor, mscale) / yarn_attention(factor, all)
                    }
                    _ => yarn_attention(factor, 1.0),
                },
            };
            Ok(RopeScaling::Yarn {
                factor,
                original_context,
                beta_fast: inside.number_if("beta_fast")?.unwrap_or(32.0),
                beta_slow: inside.number_if("beta_slow")?.unwrap_or(1.0),
                attention_factor,
                truncate: inside.flag("truncate", true)?,
            })
        }
        Some(other) => {
            let expected = "one of \"default\", \"linear\", \"llama3\", \"yarn\"";
            const CURE: &str = "use a model whose positions are scaled in one of these ways";
            Err(inside.refused("rope_type", expected, format!("{other:?}"), CURE))
        }
    }
}
