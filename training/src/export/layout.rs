//! Which tensors a decoder's folder holds, and where in which file each of them stands: all of it follows from the model's
//! description, so that tensors can be written as they come, in any order and one at a time.
//! It refuses to know values.

use super::number::NumberKind;
use legwork_model::{DecoderConfig, tensor_names as names};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// The file of a model in one piece.
pub(super) const WHOLE: &str = "model.safetensors";
/// The list of shards.
pub(super) const INDEX: &str = "model.safetensors.index.json";
/// The values begin at a multiple of this, so that a mapped file can be read as numbers in place.
const ALIGNED_BYTES: usize = 8;

/// A tensor that a decoder needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// Its name.
    pub name: String,
    /// Rows and columns; a vector is one row.
    pub shape: [usize; 2],
    /// Whether it has one dimension.
    pub is_vector: bool,
    /// Whether its rows are those of the vocabulary, behind which a checkpoint has padding.
    pub of_vocabulary: bool,
}

impl Wanted {
    /// Its shape as a header has it.
    pub(super) fn dimensions(&self) -> Vec<usize> {
        if self.is_vector { vec![self.shape[1]] } else { self.shape.to_vec() }
    }

    /// Its bytes.
    pub(super) fn bytes(&self, kind: NumberKind) -> u64 {
        // Both are within the bounds of a checked description.
        self.shape[0] as u64 * self.shape[1] as u64 * kind.bytes()
    }
}

/// Every tensor of a decoder, in the order of its computation. A head that is the embedding is no tensor of its own.
pub fn wanted(config: &DecoderConfig) -> Vec<Wanted> {
    let (hidden, ffn, vocabulary) = (config.hidden, config.ffn, config.vocabulary);
    let (q, kv) = (config.q_width(), config.kv_width());
    let mut found = Vec::new();
    let mut add = |name: String, shape: [usize; 2], is_vector: bool, of_vocabulary: bool| {
        found.push(Wanted { name, shape, is_vector, of_vocabulary });
    };
    add(names::EMBEDDING.to_owned(), [vocabulary, hidden], false, true);
    for layer in 0..config.layers {
        let name = |part: &str| format!("model.layers.{layer}.{part}");
        add(name("input_layernorm.weight"), [1, hidden], true, false);
        for (part, outputs, inputs, has_bias) in [
            ("self_attn.q_proj", q, hidden, config.qkv_bias),
            ("self_attn.k_proj", kv, hidden, config.qkv_bias),
            ("self_attn.v_proj", kv, hidden, config.qkv_bias),
            ("self_attn.o_proj", hidden, q, config.output_bias),
            ("mlp.gate_proj", ffn, hidden, config.mlp_bias),
            ("mlp.up_proj", ffn, hidden, config.mlp_bias),
            ("mlp.down_proj", hidden, ffn, config.mlp_bias),
        ] {
            add(name(&format!("{part}.weight")), [outputs, inputs], false, false);
            if has_bias {
                add(name(&format!("{part}.bias")), [1, outputs], true, false);
            }
        }
        if config.qk_norm {
            add(name("self_attn.q_norm.weight"), [1, config.head_dim], true, false);
            add(name("self_attn.k_norm.weight"), [1, config.head_dim], true, false);
        }
        add(name("post_attention_layernorm.weight"), [1, hidden], true, false);
    }
    add(names::NORM.to_owned(), [1, hidden], true, false);
    if !config.tied {
        add(names::HEAD.to_owned(), [vocabulary, hidden], false, true);
    }
    found
}

/// Where a tensor stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Spot {
    /// Its shard.
    pub(super) shard: usize,
    /// Its first byte in the file, the header counted in.
    pub(super) at: u64,
}

/// One file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Shard {
    /// Its name.
    pub(super) file: String,
    /// All bytes before the values.
    pub(super) head: Vec<u8>,
    /// Bytes of the file.
    pub(super) bytes: u64,
}

/// Where all tensors stand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Layout {
    /// The files.
    pub(super) shards: Vec<Shard>,
    /// Where each tensor is, in the order given.
    pub(super) spots: Vec<Spot>,
    /// The list of shards; none where there is one.
    pub(super) index: Option<Value>,
}

/// Lays tensors out in files whose values have at most `shard_bytes_max` bytes, but for a tensor that alone has more.
pub(super) fn layout(tensors: &[Wanted], kind: NumberKind, shard_bytes_max: u64) -> Layout {
    let mut shard_of = Vec::with_capacity(tensors.len());
    let (mut shard, mut filled) = (0_usize, 0_u64);
    for tensor in tensors {
        let bytes = tensor.bytes(kind);
        if filled > 0 && filled.saturating_add(bytes) > shard_bytes_max {
            (shard, filled) = (shard + 1, 0);
        }
        filled += bytes;
        shard_of.push(shard);
    }
    let count = shard + 1;
    let file = |shard: usize| match count {
        1 => WHOLE.to_owned(),
        _ => format!("model-{:05}-of-{count:05}.safetensors", shard + 1),
    };
    let mut shards = Vec::with_capacity(count);
    let mut spots = vec![Spot { shard: 0, at: 0 }; tensors.len()];
    let mut left = 0..tensors.len();
    for shard in 0..count {
        // Members of a shard follow one another.
        let members: Vec<usize> = left.clone().take_while(|tensor| shard_of[*tensor] == shard).collect();
        left.start += members.len();
        let (head, values) = head(members.iter().map(|tensor| &tensors[*tensor]), kind);
        let mut at = head.len() as u64;
        for member in members {
            spots[member] = Spot { shard, at };
            at += tensors[member].bytes(kind);
        }
        shards.push(Shard { file: file(shard), bytes: head.len() as u64 + values, head });
    }
    let index = (count > 1).then(|| {
        let total: u64 = tensors.iter().map(|tensor| tensor.bytes(kind)).sum();
        let map: BTreeMap<&str, String> =
            tensors.iter().zip(&shard_of).map(|(tensor, shard)| (tensor.name.as_str(), file(*shard))).collect();
        json!({"metadata": {"total_size": total}, "weight_map": map})
    });
    Layout { shards, spots, index }
}

/// A header of safetensors with its length before it, and the bytes of its values.
fn head<'a>(tensors: impl Iterator<Item = &'a Wanted>, kind: NumberKind) -> (Vec<u8>, u64) {
    let mut header = Map::new();
    // transformers asks for the framework that the values are of.
    header.insert("__metadata__".to_owned(), json!({"format": "pt"}));
    let mut at = 0;
    for tensor in tensors {
        let end = at + tensor.bytes(kind);
        let entry = json!({"dtype": kind.tag(), "shape": tensor.dimensions(), "data_offsets": [at, end]});
        header.insert(tensor.name.clone(), entry);
        at = end;
    }
    let mut text = Value::Object(header).to_string().into_bytes();
    text.resize(text.len().next_multiple_of(ALIGNED_BYTES), b' ');
    let mut head = (text.len() as u64).to_le_bytes().to_vec();
    head.append(&mut text);
    (head, at)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn tensors(sizes: &[usize]) -> Vec<Wanted> {
        let one = |(number, cols): (usize, &usize)| Wanted {
            name: format!("t{number}"),
            shape: [1, *cols],
            is_vector: true,
            of_vocabulary: false,
        };
        sizes.iter().enumerate().map(one).collect()
    }

    #[test]
    fn a_tensor_that_is_larger_than_a_shard_has_one_of_its_own() {
        let found = layout(&tensors(&[2, 100, 3, 3, 3]), NumberKind::F32, 24);
        let of: Vec<usize> = found.spots.iter().map(|spot| spot.shard).collect();
        assert_eq!(of, [0, 1, 2, 2, 3]);
        assert_eq!(found.shards[0].file, "model-00001-of-00004.safetensors");
        assert_eq!(found.index.unwrap()["weight_map"]["t4"], "model-00004-of-00004.safetensors");
        let whole = layout(&tensors(&[2, 100]), NumberKind::F32, u64::MAX);
        assert_eq!((whole.shards.len(), whole.shards[0].file.as_str(), whole.index), (1, WHOLE, None));
    }

    proptest! {
        #[test]
        fn shards_are_within_their_limit_and_hold_each_tensor_once_without_gaps(
            sizes in prop::collection::vec(1_usize..50, 1..40), limit in 1_u64..400,
        ) {
            let tensors = tensors(&sizes);
            let found = layout(&tensors, NumberKind::Bf16, limit);
            for (number, shard) in found.shards.iter().enumerate() {
                let mut spans: Vec<(u64, u64)> = (0..tensors.len()).filter(|tensor| found.spots[*tensor].shard == number)
                    .map(|tensor| (found.spots[tensor].at, tensors[tensor].bytes(NumberKind::Bf16))).collect();
                spans.sort_unstable();
                let mut at = shard.head.len() as u64;
                prop_assert!(at.is_multiple_of(8) && !spans.is_empty());
                for (from, bytes) in &spans {
                    prop_assert_eq!(*from, at);
                    at += bytes;
                }
                prop_assert_eq!(at, shard.bytes);
                prop_assert!(spans.len() == 1 || at - shard.head.len() as u64 <= limit);
            }
        }
    }
}
