//! Rows encoded on all processors, some at a time, in their order.
//! It refuses to know what becomes of a bad one.

use super::Encoder;
use crate::rows::{RawRow, RowError, Rows};
use crate::sample::Sample;
use std::num::NonZero;

/// Rows that are read before they are encoded.
const ROWS_AT_ONCE: usize = 8_192;

impl Encoder {
    /// The next rows with their samples, in their order and as many as are encoded at once; none when all are read.
    pub fn encode_some(&self, rows: &mut Rows) -> Vec<Result<(RawRow, Sample), RowError>> {
        let threads = std::thread::available_parallelism().map_or(1, NonZero::get);
        self.encode_all(rows.by_ref().take(ROWS_AT_ONCE).collect(), threads)
    }

    fn encode_all(
        &self,
        mut rows: Vec<Result<RawRow, RowError>>,
        threads: usize,
    ) -> Vec<Result<(RawRow, Sample), RowError>> {
        let share = rows.len().div_ceil(threads.max(1)).max(1);
        std::thread::scope(|scope| {
            let mut working = Vec::new();
            while !rows.is_empty() {
                let part: Vec<_> = rows.drain(..share.min(rows.len())).collect();
                working.push(scope.spawn(move || {
                    let encode = |row: RawRow| self.encode(&row.row, &row.place).map(|sample| (row, sample));
                    part.into_iter().map(|row| row.and_then(encode)).collect::<Vec<_>>()
                }));
            }
            let ended = working.into_iter().map(|thread| thread.join());
            ended.flat_map(|encoded| encoded.unwrap_or_else(|panic| std::panic::resume_unwind(panic))).collect()
        })
    }
}
