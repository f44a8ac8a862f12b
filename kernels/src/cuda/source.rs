//! The kernels' sources, and what is compiled together: one file with the definitions that make it fit a shape of heads.
//!
//! It refuses to know compilers and cards.

use super::linear::Form;
use super::plan::{SPLIT_TOKENS, TILE_WARPS};

/// What only a card has; an emulator puts its own in this place.
pub const DEVICE: &str = include_str!("device.cu");
/// What several kernels share.
pub const PRELUDE: &str = include_str!("prelude.cu");

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
        let kernels = &["angles", "rotate_and_keep"];
        Self { file: "rotate.cu", text: include_str!("rotate.cu"), defines: Vec::new(), kernels }
    }

    /// Attention for any heads.
    pub fn plain() -> Self {
        Self { file: "plain.cu", text: include_str!("plain.cu"), defines: Vec::new(), kernels: &["attend_plain"] }
    }

    /// Attention of single new tokens, `heads` query heads of one key head at a time.
    pub fn decode(dim: usize, heads: usize) -> Self {
        let defines = vec![("DIM", dim as u32), ("HEADS", heads as u32), ("SPLIT", SPLIT_TOKENS as u32)];
        Self { file: "decode.cu", text: include_str!("decode.cu"), defines, kernels: &["decode", "combine"] }
    }

    /// Attention of many new tokens, for `group` query heads of each key head.
    pub fn prefill(dim: usize, group: usize) -> Self {
        let defines = vec![("DIM", dim as u32), ("GROUP", group as u32), ("WARPS", TILE_WARPS as u32)];
        Self { file: "prefill.cu", text: include_str!("prefill.cu"), defines, kernels: &["prefill"] }
    }

    /// Products of up to 64 rows.
    pub fn linear(form: Form) -> Self {
        match form {
            Form::Few { row_tiles, stages } => {
                let defines = vec![("ROW_TILES", row_tiles as u32), ("STAGES", stages as u32)];
                Self { file: "linear.cu", text: include_str!("linear.cu"), defines, kernels: &["linear"] }
            }
            Form::Wide { row_tiles, stages, splits } => {
                let values = [row_tiles, stages, splits].map(|value| value as u32);
                let defines = ["ROW_TILES", "STAGES", "SPLITS"].into_iter().zip(values).collect();
                let text = concat!(include_str!("sums.cu"), "\n", include_str!("linear_wide.cu"));
                Self { file: "linear_wide.cu", text, defines, kernels: &["linear_wide"] }
            }
        }
    }

    /// A kernel that fails.
    pub fn fault() -> Self {
        Self { file: "fault.cu", text: include_str!("fault.cu"), defines: Vec::new(), kernels: &["fault"] }
    }

    /// The sampler.
    pub fn sample() -> Self {
        Self { file: "sample.cu", text: include_str!("sample.cu"), defines: Vec::new(), kernels: &["sample"] }
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
        let few = Unit::linear(Form::Few { row_tiles: 1, stages: 6 });
        let wide = Unit::linear(Form::Wide { row_tiles: 8, stages: 4, splits: 1 });
        let (decode, prefill) = (Unit::decode(64, 2), Unit::prefill(64, 2));
        let units = [Unit::rows(), Unit::rotate(), Unit::plain(), decode, prefill, Unit::sample(), few, wide];
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
        assert_eq!(Unit::decode(128, 4).options(), ["-DDIM=128", "-DHEADS=4", "-DSPLIT=256"]);
    }
}
