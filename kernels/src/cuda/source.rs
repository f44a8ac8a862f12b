//! The kernels' sources, and what is compiled together: one file with the definitions that make it fit a shape of heads.
//!
//! It refuses to know compilers and cards.

use super::linear::Form;
use super::plan::TILE_PACKED;

/// What only a card has; an emulator puts its own in this place.
pub const DEVICE: &str = include_str!("device.cu");
/// What several kernels share.
pub const PRELUDE: &str = include_str!("prelude.cu");

/// The instructions that only Hopper has; an emulator puts its own in this place.
pub const HOPPER: &str = include_str!("hopper.cu");
/// What ends the name of a file of kernels with such instructions.
const FOR_HOPPER: &str = "_hopper.cu";

/// One file of kernels with its definitions.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Unit {
    /// Its name, for messages.
    pub file: &'static str,
    /// Its text.
    pub text: &'static str,
    /// What is defined before it.
    pub defines: Vec<(&'static str, u32)>,
    /// Its kernels.
    pub kernels: &'static [&'static str],
}

impl Unit {
    /// What is done to single rows.
    pub fn rows() -> Self {
        let kernels = &["gather", "rms_norm", "add_rms_norm", "swiglu", "normalize"];
        Self { file: "rows.cu", text: include_str!("rows.cu"), defines: Vec::new(), kernels }
    }

    /// Rotation and the write to the cache.
    pub fn rotate() -> Self {
        let kernels = &["angles", "rotate_and_keep_wide", "rotate_and_keep"];
        Self { file: "rotate.cu", text: include_str!("rotate.cu"), defines: Vec::new(), kernels }
    }

    /// Attention for any heads.
    pub fn plain() -> Self {
        Self { file: "plain.cu", text: include_str!("plain.cu"), defines: Vec::new(), kernels: &["attend_plain"] }
    }

    /// Attention of single new tokens, `heads` query heads of one key head at a time.
    pub fn decode(dim: usize, heads: usize) -> Self {
        let defines = vec![("DIM", dim as u32), ("HEADS", heads as u32)];
        let text = concat!(include_str!("tile.cu"), include_str!("decode.cu"), include_str!("decode_many.cu"));
        Self { file: "decode.cu", text, defines, kernels: &["decode", "combine", "decode_many"] }
    }

    /// Attention of many new tokens, for `group` query heads of each key head.
    pub fn prefill(dim: usize, group: usize) -> Self {
        let defines = vec![("DIM", dim as u32), ("GROUP", group as u32), ("WARPS", TILE_PACKED as u32 / 32)];
        Self { file: "prefill.cu", text: include_str!("prefill.cu"), defines, kernels: &["prefill"] }
    }

    /// The same with the instructions that only Hopper has, for `sm_90a` alone.
    pub fn prefill_hopper(dim: usize, group: usize) -> Self {
        let text = concat!(
            include_str!("hopper.cu"),
            include_str!("panels.cu"),
            include_str!("attend_hopper.cu"),
            include_str!("prefill_hopper.cu")
        );
        let defines = vec![("DIM", dim as u32), ("GROUP", group as u32)];
        Self { file: "prefill_hopper.cu", text, defines, kernels: &["prefill"] }
    }

    /// Whether it is for Hopper alone.
    pub fn is_for_hopper(&self) -> bool {
        self.file.ends_with(FOR_HOPPER)
    }

    /// Products of few rows.
    pub fn linear(form: Form) -> Self {
        let defined = |names: &[&'static str], values: &[usize]| {
            names.iter().copied().zip(values.iter().map(|value| *value as u32)).collect()
        };
        match form {
            Form::Vector { rows, chunks, parts } => {
                let defines = defined(&["ROWS", "CHUNKS", "PARTS"], &[rows, chunks, parts]);
                Self { file: "vector.cu", text: include_str!("vector.cu"), defines, kernels: &["vector"] }
            }
            Form::Tiles { row_tiles, output_tiles, stages, splits } => {
                let names = ["ROW_TILES", "OUTPUT_TILES", "STAGES", "SPLITS"];
                let defines = defined(&names, &[row_tiles, output_tiles, stages, splits]);
                let text = concat!(include_str!("sums.cu"), "\n", include_str!("linear.cu"));
                Self { file: "linear.cu", text, defines, kernels: &["linear"] }
            }
        }
    }

    /// A kernel that fails.
    pub fn fault() -> Self {
        Self { file: "fault.cu", text: include_str!("fault.cu"), defines: Vec::new(), kernels: &["fault"] }
    }

    /// The sampler, which counts first.
    pub fn sample() -> Self {
        let text = concat!(include_str!("count.cu"), "\n", include_str!("sample.cu"));
        Self { file: "sample.cu", text, defines: Vec::new(), kernels: &["count_logits", "sample"] }
    }

    /// The whole source for a card, without the definitions.
    pub fn source(&self) -> String {
        [DEVICE, PRELUDE, self.text].join("\n")
    }

    /// The definitions as options of a compiler: `-DDIM=128`.
    pub fn options(&self) -> Vec<String> {
        self.defines.iter().map(|(name, value)| format!("-D{name}={value}")).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_unit_names_exactly_its_kernels() {
        let few = Unit::linear(Form::Tiles { row_tiles: 1, output_tiles: 1, stages: 4, splits: 8 });
        let vector = Unit::linear(Form::Vector { rows: 1, chunks: 10, parts: 1 });
        let (decode, prefill, hopper) = (Unit::decode(64, 2), Unit::prefill(64, 2), Unit::prefill_hopper(64, 2));
        let units = [Unit::rows(), Unit::rotate(), Unit::plain(), decode, prefill, hopper, Unit::sample(), few, vector];
        for unit in units {
            let found: Vec<&str> = unit
                .text
                .split("KERNEL(")
                .skip(1)
                .filter_map(|rest| rest.split_once(") ")?.1.split('(').next())
                .collect();
            assert_eq!(found, unit.kernels, "{}", unit.file);
            assert!(unit.source().contains("mma.sync") && unit.text.starts_with("//! "), "{}", unit.file);
        }
        assert_eq!(Unit::decode(128, 4).options(), ["-DDIM=128", "-DHEADS=4"]);
    }
}
