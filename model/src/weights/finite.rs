//! The first value of a tensor that is no number. Of packed kinds the scales are read, for their other parts are whole
//! numbers. It refuses to know names.

use crate::gguf::TensorKind;
use half::{bf16, f16};

/// Where it stands, and as what.
pub(super) fn first_wrong(kind: TensorKind, bytes: &[u8]) -> Option<(usize, f32)> {
    let half = |bytes: [u8; 2]| f16::from_le_bytes(bytes).to_f32();
    match kind {
        TensorKind::F32 => wrong(bytes, f32::from_le_bytes),
        TensorKind::F16 => wrong(bytes, half),
        TensorKind::Bf16 => wrong(bytes, |bytes| bf16::from_le_bytes(bytes).to_f32()),
        // Block of values, of bytes, and where its scales stand.
        TensorKind::Q4_0 => scales::<18>(bytes, 32, &[0]),
        TensorKind::Q4_1 => scales::<20>(bytes, 32, &[0, 2]),
        TensorKind::Q5_0 => scales::<22>(bytes, 32, &[0]),
        TensorKind::Q5_1 => scales::<24>(bytes, 32, &[0, 2]),
        TensorKind::Q8_0 => scales::<34>(bytes, 32, &[0]),
        TensorKind::Q2K => scales::<84>(bytes, 256, &[80, 82]),
        TensorKind::Q3K => scales::<110>(bytes, 256, &[108]),
        TensorKind::Q4K => scales::<144>(bytes, 256, &[0, 2]),
        TensorKind::Q5K => scales::<176>(bytes, 256, &[0, 2]),
        TensorKind::Q6K => scales::<210>(bytes, 256, &[208]),
    }
}

fn wrong<const N: usize>(bytes: &[u8], value: impl Fn([u8; N]) -> f32) -> Option<(usize, f32)> {
    let (values, _) = bytes.as_chunks::<N>();
    let found = values.iter().map(|bytes| value(*bytes)).enumerate();
    found.into_iter().find(|(_, value)| !value.is_finite())
}

fn scales<const N: usize>(bytes: &[u8], values: usize, places: &[usize]) -> Option<(usize, f32)> {
    let (blocks, _) = bytes.as_chunks::<N>();
    blocks.iter().enumerate().find_map(|(index, block)| {
        let scale = |place: &usize| f16::from_le_bytes([block[*place], block[*place + 1]]).to_f32();
        let wrong = places.iter().map(scale).find(|scale| !scale.is_finite())?;
        Some((index * values, wrong))
    })
}
