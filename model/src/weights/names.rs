//! Names of tensors: one spelling for what Hugging Face's classes, llama.cpp and older files call differently. A decoder's
//! tensors begin with `model.`, but for the head; an encoder's have no prefix.
//!
//! It refuses to know which tensors a model must have.

/// A decoder's embedding.
pub const EMBEDDING: &str = "model.embed_tokens.weight";
/// A decoder's head.
pub const HEAD: &str = "lm_head.weight";
/// The final norm.
pub const NORM: &str = "model.norm.weight";

/// Whole names: GGUF's and Hugging Face's.
const WHOLE: &[(&str, &str)] =
    &[("token_embd.weight", EMBEDDING), ("output_norm.weight", "model.norm.weight"), ("output.weight", HEAD)];

/// Parts of a layer: GGUF's and Hugging Face's.
const PARTS: &[(&str, &str)] = &[
    ("attn_norm", "input_layernorm"),
    ("attn_q", "self_attn.q_proj"),
    ("attn_k", "self_attn.k_proj"),
    ("attn_v", "self_attn.v_proj"),
    ("attn_output", "self_attn.o_proj"),
    ("attn_q_norm", "self_attn.q_norm"),
    ("attn_k_norm", "self_attn.k_norm"),
    ("ffn_norm", "post_attention_layernorm"),
    ("ffn_gate", "mlp.gate_proj"),
    ("ffn_up", "mlp.up_proj"),
    ("ffn_down", "mlp.down_proj"),
];

/// Endings of buffers that some files carry: computed from the shape, and not always of a kind that is read.
const BUFFERS: &[&str] = &["rotary_emb.inv_freq", "embeddings.position_ids", "embeddings.token_type_ids"];

/// Whether a tensor is a buffer that is ignored.
pub fn is_buffer(name: &str) -> bool {
    BUFFERS.iter().any(|ending| name.ends_with(ending))
}

/// Hugging Face's name of a GGUF tensor of a decoder.
pub fn to_hugging_face(name: &str) -> Option<String> {
    if let Some((_, whole)) = WHOLE.iter().find(|(gguf, _)| *gguf == name) {
        return Some((*whole).to_owned());
    }
    let (layer, rest) = name.strip_prefix("blk.")?.split_once('.')?;
    let (part, ending) = rest.rsplit_once('.')?;
    let (_, part) = PARTS.iter().find(|(gguf, _)| *gguf == part)?;
    (is_number(layer) && is_ending(ending)).then(|| format!("model.layers.{layer}.{part}.{ending}"))
}

/// GGUF's name of a decoder's tensor.
pub fn to_gguf(name: &str) -> Option<String> {
    if let Some((whole, _)) = WHOLE.iter().find(|(_, other)| *other == name) {
        return Some((*whole).to_owned());
    }
    let (layer, rest) = name.strip_prefix("model.layers.")?.split_once('.')?;
    let (part, ending) = rest.rsplit_once('.')?;
    let (part, _) = PARTS.iter().find(|(_, other)| *other == part)?;
    (is_number(layer) && is_ending(ending)).then(|| format!("blk.{layer}.{part}.{ending}"))
}

fn is_number(layer: &str) -> bool {
    !layer.is_empty() && layer.bytes().all(|byte| byte.is_ascii_digit())
}

fn is_ending(ending: &str) -> bool {
    matches!(ending, "weight" | "bias")
}

/// The one spelling of each name, in their order. What the others are called decides on prefixes.
pub(super) fn canonical<'a>(names: impl Iterator<Item = &'a str> + Clone) -> Vec<String> {
    let bare = names.clone().any(|name| name == "embed_tokens.weight");
    let spell = |name: &str| {
        if let Some(name) = to_hugging_face(name) {
            return name;
        }
        // `AutoModel` saves a decoder without its prefix.
        if bare && !name.starts_with("lm_head.") {
            return format!("model.{name}");
        }
        let name = name.strip_prefix("bert.").unwrap_or(name);
        // As files converted from TensorFlow have it.
        match name.rsplit_once('.') {
            Some((before, "gamma")) if before.ends_with("LayerNorm") => format!("{before}.weight"),
            Some((before, "beta")) if before.ends_with("LayerNorm") => format!("{before}.bias"),
            _ => name.to_owned(),
        }
    };
    names.map(spell).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(names: &[&str]) -> Vec<String> {
        canonical(names.iter().copied())
    }

    #[test]
    fn names_of_gguf_and_of_hugging_face_are_each_others_inverse() {
        for (gguf, other) in WHOLE {
            assert_eq!(to_hugging_face(gguf).as_deref(), Some(*other));
            assert_eq!(to_gguf(other).as_deref(), Some(*gguf));
        }
        for (part, other) in PARTS {
            for ending in ["weight", "bias"] {
                let (gguf, other) = (format!("blk.17.{part}.{ending}"), format!("model.layers.17.{other}.{ending}"));
                assert_eq!(to_hugging_face(&gguf).as_ref(), Some(&other));
                assert_eq!(to_gguf(&other), Some(gguf));
            }
        }
    }

    #[test]
    fn what_is_no_such_name_is_none() {
        for name in
            ["blk..attn_q.weight", "blk.x.attn_q.weight", "blk.1.attn_q", "blk.1.attn_q.scale", "rope_freqs.weight"]
        {
            assert_eq!(to_hugging_face(name), None, "{name}");
        }
        for name in ["model.layers.1.mlp.weight", "model.layers.-1.mlp.up_proj.weight", "layers.1.mlp.up_proj.weight"] {
            assert_eq!(to_gguf(name), None, "{name}");
        }
    }

    #[test]
    fn prefixes_of_classes_are_one_spelling() {
        assert_eq!(
            one(&["embed_tokens.weight", "layers.0.mlp.up_proj.weight", "norm.weight", "lm_head.weight"]),
            [EMBEDDING, "model.layers.0.mlp.up_proj.weight", "model.norm.weight", HEAD]
        );
        assert_eq!(
            one(&[
                "bert.embeddings.LayerNorm.gamma",
                "encoder.layer.0.output.LayerNorm.beta",
                "bert.pooler.dense.bias"
            ]),
            ["embeddings.LayerNorm.weight", "encoder.layer.0.output.LayerNorm.bias", "pooler.dense.bias"]
        );
        assert_eq!(one(&[EMBEDDING, "rope_freqs.weight"]), [EMBEDDING, "rope_freqs.weight"]);
    }
}
