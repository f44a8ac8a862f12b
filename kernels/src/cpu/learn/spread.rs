//! Gradients that all rows share, computed on several threads: rows go in blocks of a fixed size, each block sums for itself,
//! and the blocks' sums are added up in order.
//!
//! It refuses to know what is summed.

use crate::cpu::panel::Level;
use crate::cpu::rowwise::add;
use crate::cpu::scratch::singles;
use crate::cpu::team::{Parts, together};

/// Rows of a block.
const BLOCK: usize = 64;
/// Columns of a task that sums columns.
const COLUMNS: usize = 128;

/// Runs over rows of `width` values with a sum, as long as `sums`, that begins with 0 in each block; adds these to `sums`.
pub(super) fn by_blocks(
    level: Level,
    values: &mut [f32],
    width: usize,
    sums: &mut [f32],
    run: impl Fn(usize, &mut [f32], &mut [f32]) + Sync,
) {
    let (rows, len) = (values.len() / width.max(1), sums.len());
    let blocks = rows.div_ceil(BLOCK);
    let values = Parts::new(values);
    singles(blocks * len, |scratch| {
        let of_blocks = Parts::new(scratch);
        together(blocks, &|block| {
            // SAFETY: each block is one task's.
            #[allow(unsafe_code)]
            let sums = unsafe { of_blocks.part(block * len, len) };
            sums.fill(0.0);
            for row in block * BLOCK..rows.min((block + 1) * BLOCK) {
                // SAFETY: each row is in one block, and is taken once.
                #[allow(unsafe_code)]
                run(row, unsafe { values.part(row * width, width) }, sums);
            }
        });
        scratch.chunks_exact(len.max(1)).for_each(|of_block| add(level, sums, of_block));
    });
}

/// Adds all rows, in order, to `sums`.
pub(super) fn add_columns(level: Level, values: &[f32], sums: &mut [f32]) {
    let width = sums.len();
    let parts = Parts::new(sums);
    together(width.div_ceil(COLUMNS), &|task| {
        let (first, count) = (task * COLUMNS, COLUMNS.min(width - task * COLUMNS));
        // SAFETY: each task has columns of its own.
        #[allow(unsafe_code)]
        let sums = unsafe { parts.part(first, count) };
        for row in values.chunks_exact(width) {
            add(level, sums, &row[first..first + count]);
        }
    });
}
