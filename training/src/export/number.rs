//! How the numbers of an exported folder are written: `f32` values rounded to the nearest number of the kind, ties to the even
//! one, as PyTorch rounds. A value that is no number, or has none near it, is refused.
//! It refuses to know whose values they are.

use half::{bf16, f16};
use legwork_kernels::Dtype;
use serde::{Deserialize, Serialize};

/// A kind of number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum NumberKind {
    /// The upper half of a 32-bit float, rounded.
    #[default]
    #[serde(rename = "bfloat16")]
    Bf16,
    /// 16-bit IEEE 754: more digits, and nothing above 65,504.
    #[serde(rename = "float16")]
    F16,
    /// As it is trained.
    #[serde(rename = "float32")]
    F32,
}

/// A value that cannot be written.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Unwritable {
    /// Its place among the values given.
    pub(crate) at: usize,
    /// The value.
    pub(crate) value: f32,
}

impl NumberKind {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Bf16, Self::F16, Self::F32];

    /// As `config.json` calls it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Bf16 => "bfloat16",
            Self::F16 => "float16",
            Self::F32 => "float32",
        }
    }

    /// As a header of safetensors calls it.
    pub fn tag(self) -> &'static str {
        match self {
            Self::Bf16 => "BF16",
            Self::F16 => "F16",
            Self::F32 => "F32",
        }
    }

    /// The one of a name: `bfloat16` or `bf16`, `float16` or `f16`, `float32` or `f32`.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name || kind.tag().eq_ignore_ascii_case(name))
    }

    /// The one of a stored matrix; none for packed kinds.
    pub fn of(dtype: Dtype) -> Option<Self> {
        match dtype {
            Dtype::F32 => Some(Self::F32),
            Dtype::F16 => Some(Self::F16),
            Dtype::Bf16 => Some(Self::Bf16),
            Dtype::Q4_0 | Dtype::Q4_1 | Dtype::Q8_0 => None,
        }
    }

    /// Bytes of a number.
    pub fn bytes(self) -> u64 {
        match self {
            Self::Bf16 | Self::F16 => 2,
            Self::F32 => 4,
        }
    }

    /// The largest number.
    pub fn max(self) -> f32 {
        match self {
            Self::Bf16 => bf16::MAX.to_f32(),
            Self::F16 => f16::MAX.to_f32(),
            Self::F32 => f32::MAX,
        }
    }

    /// Writes values behind `out`, little-endian.
    pub(crate) fn write(self, values: &[f32], out: &mut Vec<u8>) -> Result<(), Unwritable> {
        out.reserve(values.len() * self.bytes() as usize);
        match self {
            Self::F32 => each(values, out, |value| value.is_finite().then(|| value.to_le_bytes())),
            Self::Bf16 => each(values, out, |value| {
                let rounded = bf16::from_f32(value);
                rounded.is_finite().then(|| rounded.to_le_bytes())
            }),
            Self::F16 => each(values, out, |value| {
                let rounded = f16::from_f32(value);
                rounded.is_finite().then(|| rounded.to_le_bytes())
            }),
        }
    }
}

fn each<const N: usize>(
    values: &[f32],
    out: &mut Vec<u8>,
    write: impl Fn(f32) -> Option<[u8; N]>,
) -> Result<(), Unwritable> {
    for (at, value) in values.iter().copied().enumerate() {
        out.extend_from_slice(&write(value).ok_or(Unwritable { at, value })?);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn written(kind: NumberKind, values: &[f32]) -> Result<Vec<u8>, Unwritable> {
        let mut out = Vec::new();
        kind.write(values, &mut out).map(|()| out)
    }

    #[test]
    fn a_value_halfway_between_two_goes_to_the_even_one() {
        let halfway = |bits: u32| f32::from_bits(bits | 0x8000);
        let bf16 = |value: f32| u16::from_le_bytes(written(NumberKind::Bf16, &[value]).unwrap().try_into().unwrap());
        assert_eq!(bf16(halfway(0x3f80_0000)), 0x3f80);
        assert_eq!(bf16(halfway(0x3f81_0000)), 0x3f82);
        assert_eq!(bf16(f32::from_bits(0x3f80_8001)), 0x3f81, "above halfway goes up");
        assert_eq!(bf16(-0.0), 0x8000);
    }

    #[test]
    fn what_is_no_number_or_has_none_near_it_is_refused_with_its_place() {
        for kind in NumberKind::ALL {
            for value in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
                assert_eq!(written(kind, &[0.0, 1.0, value]).unwrap_err().at, 2, "{kind:?}");
            }
            assert!(written(kind, &[kind.max(), -kind.max()]).is_ok());
        }
        assert_eq!(written(NumberKind::F16, &[70_000.0]), Err(Unwritable { at: 0, value: 70_000.0 }));
        assert!(written(NumberKind::Bf16, &[f32::MAX]).is_err(), "it would round to infinity");
    }

    #[test]
    fn names_of_both_spellings_are_known() {
        for kind in NumberKind::ALL {
            assert_eq!(NumberKind::named(kind.name()), Some(kind));
            assert_eq!(NumberKind::named(&kind.tag().to_lowercase()), Some(kind));
        }
        assert_eq!(NumberKind::named("int8"), None);
    }

    proptest! {
        #[test]
        fn bf16_is_the_nearest_of_its_two_neighbours(bits in any::<u32>()) {
            let value = f32::from_bits(bits);
            prop_assume!(value.is_finite() && value.abs() < NumberKind::Bf16.max());
            let bytes = written(NumberKind::Bf16, &[value]).unwrap();
            let got = f64::from(f32::from_bits(u32::from(u16::from_le_bytes([bytes[0], bytes[1]])) << 16));
            let neighbour = |bits: u32| (f64::from(f32::from_bits(bits)) - f64::from(value)).abs();
            let towards_zero = bits & 0xffff_0000;
            let nearest = neighbour(towards_zero).min(neighbour(towards_zero + 0x1_0000));
            let value = f64::from(value);
            prop_assert!((got - value).abs() <= nearest, "{value} became {got}");
        }
    }
}
