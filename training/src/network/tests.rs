use super::*;
use crate::shard::{Cut, Piece};
use crate::tensor::NamedTensor;
use legwork_model::{Family, Rope as Described, RopeScaling};
use std::collections::BTreeSet;

/// A shape with every flag on.
pub(crate) fn shape() -> DecoderConfig {
    DecoderConfig {
        family: Family::Qwen3,
        hidden: 24,
        layers: 2,
        heads: 8,
        kv_heads: 4,
        head_dim: 16,
        ffn: 40,
        vocabulary: 300,
        context: 512,
        rms_eps: 1e-6,
        rope: Described { theta: 1e4, scaling: RopeScaling::None, interleaved: false },
        tied: false,
        qkv_bias: true,
        output_bias: true,
        mlp_bias: true,
        qk_norm: true,
        dtype: None,
    }
}

/// A whole piece whose values are all different.
pub(crate) fn numbered(fused: &Fused, piece: &Piece) -> NamedTensor {
    let count = piece.shape[0] * piece.shape[1];
    NamedTensor {
        name: piece.name.clone(),
        shape: piece.shape,
        is_vector: fused.is_vector,
        values: (0..count).map(|value| 1.0 + value as f32).collect(),
    }
}

#[test]
fn tensors_are_gone_through_in_one_order_and_each_has_its_name_once() {
    let mut layout = Tensors::of(&shape(), 384);
    let names: Vec<String> = layout.each().map(|fused| fused.name.clone()).collect();
    assert_eq!(names.len(), 1 + 2 * 12 + 2);
    assert_eq!(names.iter().collect::<BTreeSet<_>>().len(), names.len());
    assert_eq!(layout.each_mut().map(|fused| fused.name.clone()).collect::<Vec<_>>(), names);
    let again = layout.map(|fused| Ok::<_, ()>(fused.name.clone())).unwrap();
    assert_eq!(again.each().cloned().collect::<Vec<_>>(), names);
    let pieces: Vec<&Piece> = layout.each().flat_map(|fused| &fused.pieces).collect();
    assert_eq!(pieces.len(), names.len() + 2 * (2 * 2 + 2));
    assert_eq!(layout.each().filter(|fused| fused.cut == Cut::Summed).count(), 4);
}

#[test]
fn what_a_model_lacks_is_not_in_its_tensors() {
    let plain =
        DecoderConfig { tied: true, qkv_bias: false, output_bias: false, mlp_bias: false, qk_norm: false, ..shape() };
    assert_eq!(Tensors::of(&plain, 384).each().count(), 1 + 2 * 6 + 1);
}
