//! The sources of what learning adds, as units to be compiled.
//!
//! It refuses to know what they are given.

use crate::cuda::plan::TILE_PACKED;
use crate::cuda::source::Unit;

/// Warps of a block of attention forward, each with 32 packed rows of a tile.
pub const ATTEND_WARPS: usize = TILE_PACKED / 32;
/// Warps of a block of the kernel for the gradient of queries, each with 16 packed rows of a tile.
pub const QUERY_WARPS: usize = TILE_PACKED / 16;
/// Warps of a block of the kernel that goes over keys, each with 16 of them: so that two blocks share a processor's memory.
pub const KEY_WARPS: usize = 4;
/// Keys of a block of this kernel.
pub const TILE_KEYS: usize = 16 * KEY_WARPS;
/// Keys of a block of Hopper's.
pub const HOPPER_TILE_KEYS: usize = 128;
/// Steps that Hopper's kernels of the way back have in shared memory at once.
pub const BACK_STAGES: usize = 4;

impl Unit {
    /// What learning does to rows.
    pub fn train_rows() -> Self {
        let kernels = &[
            "fill_zero",
            "copy_pieces",
            "add_rows",
            "sum_rows",
            "gather_some",
            "scatter_single",
            "scatter_rows",
            "norm_back",
            "sum_norm",
            "column_partials",
            "add_columns",
            "swiglu_back",
        ];
        Self { file: "train_rows.cu", text: include_str!("../train_rows.cu"), defines: Vec::new(), kernels }
    }

    /// Norms of heads and their rotation, and the way back.
    pub fn train_rotate() -> Self {
        let kernels = &["rotate_rows", "rotate_back", "rotate_rows_wide", "rotate_back_wide"];
        Self { file: "train_rotate.cu", text: include_str!("../train_rotate.cu"), defines: Vec::new(), kernels }
    }

    /// Attention within packed rows for any heads, and what all ways back need.
    pub fn train_plain() -> Self {
        let kernels = &["deltas", "attend_rows", "back_rows", "back_seen"];
        Self { file: "train_plain.cu", text: include_str!("../train_plain.cu"), defines: Vec::new(), kernels }
    }

    /// Attention within packed rows, for `group` query heads of each key head.
    pub fn train_attend(dim: usize, group: usize) -> Self {
        let defines = vec![("DIM", dim as u32), ("GROUP", group as u32), ("WARPS", ATTEND_WARPS as u32)];
        Self { file: "train_attend.cu", text: include_str!("../train_attend.cu"), defines, kernels: &["attend"] }
    }

    /// The gradient of queries.
    pub fn train_queries(dim: usize, group: usize) -> Self {
        let defines = vec![("DIM", dim as u32), ("GROUP", group as u32), ("WARPS", QUERY_WARPS as u32)];
        let kernels = &["back_queries"];
        Self { file: "train_queries.cu", text: include_str!("../train_queries.cu"), defines, kernels }
    }

    /// The gradients of keys and values.
    pub fn train_keys(dim: usize, group: usize) -> Self {
        let defines = vec![("DIM", dim as u32), ("GROUP", group as u32), ("WARPS", KEY_WARPS as u32)];
        Self { file: "train_keys.cu", text: include_str!("../train_keys.cu"), defines, kernels: &["back_keys"] }
    }

    /// What attention's way back on Hopper takes from scores and their gradients.
    pub fn train_bases(dim: usize) -> Self {
        let defines = vec![("DIM", dim as u32)];
        Self { file: "train_bases.cu", text: include_str!("../train_bases.cu"), defines, kernels: &["bases"] }
    }

    /// Attention within packed rows with the instructions that only Hopper has.
    pub fn train_attend_hopper(dim: usize, group: usize) -> Self {
        let text = concat!(
            include_str!("../hopper.cu"),
            include_str!("../panels.cu"),
            include_str!("../attend_hopper.cu"),
            include_str!("../train_attend_hopper.cu")
        );
        let defines = vec![("DIM", dim as u32), ("GROUP", group as u32)];
        Self { file: "train_attend_hopper.cu", text, defines, kernels: &["attend"] }
    }

    /// The gradient of queries with these.
    pub fn train_queries_hopper(dim: usize, group: usize) -> Self {
        let text = concat!(
            include_str!("../hopper.cu"),
            include_str!("../panels.cu"),
            include_str!("../train_queries_hopper.cu")
        );
        let defines = vec![("DIM", dim as u32), ("GROUP", group as u32), ("STAGES", BACK_STAGES as u32)];
        Self { file: "train_queries_hopper.cu", text, defines, kernels: &["back_queries"] }
    }

    /// The gradients of keys and values with these.
    pub fn train_keys_hopper(dim: usize, group: usize) -> Self {
        let text = concat!(
            include_str!("../hopper.cu"),
            include_str!("../panels.cu"),
            include_str!("../train_keys_hopper.cu")
        );
        let defines = vec![("DIM", dim as u32), ("GROUP", group as u32), ("STAGES", BACK_STAGES as u32)];
        Self { file: "train_keys_hopper.cu", text, defines, kernels: &["back_keys"] }
    }

    /// The loss.
    pub fn train_loss() -> Self {
        let kernels = &["loss_stats", "loss_rescale", "loss_gradient"];
        Self { file: "train_loss.cu", text: include_str!("../train_loss.cu"), defines: Vec::new(), kernels }
    }

    /// Updates.
    pub fn train_update() -> Self {
        let kernels = &["squares", "sum_partials", "adamw", "narrow_copy"];
        Self { file: "train_update.cu", text: include_str!("../train_update.cu"), defines: Vec::new(), kernels }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_unit_of_learning_names_exactly_its_kernels() {
        let units = [
            Unit::train_rows(),
            Unit::train_rotate(),
            Unit::train_plain(),
            Unit::train_attend(64, 2),
            Unit::train_queries(64, 2),
            Unit::train_keys(64, 2),
            Unit::train_bases(64),
            Unit::train_attend_hopper(64, 2),
            Unit::train_queries_hopper(64, 2),
            Unit::train_keys_hopper(64, 2),
            Unit::train_loss(),
            Unit::train_update(),
        ];
        for unit in units {
            let found: Vec<&str> = unit
                .text
                .split("KERNEL(")
                .skip(1)
                .filter_map(|rest| rest.split_once(") ")?.1.split('(').next())
                .collect();
            assert_eq!(found, unit.kernels, "{}", unit.file);
            assert!(unit.text.starts_with("//! ") && unit.text.matches("    begin();").count() == found.len());
        }
    }
}
