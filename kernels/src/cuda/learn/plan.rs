//! How packed rows are laid out for kernels: sequences as tiles of rows and of keys, and rows that are added to others,
//! grouped by where they go. Pure functions of starts and ids.
//!
//! It refuses to know cards; what it gives are the words that the kernels read.

/// Words for each tile of query rows: its first row, how many, and the first of its sequence. Those with most to see come
/// first, so that none of these is left to the end.
pub(super) fn tiles(starts: &[u32], tile_rows: usize) -> Vec<[u32; 3]> {
    let mut tiles = pieces(starts, tile_rows, |row, rows, begin, _| [row, rows, begin]);
    tiles.sort_by_key(|[row, rows, begin]| std::cmp::Reverse(row + rows - begin));
    tiles
}

/// Words for each tile of keys: its first row, how many, and the row behind its sequence. Those seen by most come first.
pub(super) fn key_tiles(starts: &[u32], tile_keys: usize) -> Vec<[u32; 3]> {
    let mut tiles = pieces(starts, tile_keys, |row, rows, _, end| [row, rows, end]);
    tiles.sort_by_key(|[row, _, end]| std::cmp::Reverse(end - row));
    tiles
}

/// Words for each row: the first of its sequence and the one behind its last.
pub(super) fn reaches(starts: &[u32]) -> Vec<[u32; 2]> {
    starts.windows(2).flat_map(|pair| (pair[0]..pair[1]).map(|_| [pair[0], pair[1]])).collect()
}

fn pieces(starts: &[u32], size: usize, of: impl Fn(u32, u32, u32, u32) -> [u32; 3]) -> Vec<[u32; 3]> {
    let size = size as u32;
    let of_sequence = |pair: &[u32]| {
        let (begin, end) = (pair[0], pair[1]);
        (begin..end).step_by(size as usize).map(move |row| (row, size.min(end - row), begin, end)).collect::<Vec<_>>()
    };
    starts.windows(2).flat_map(of_sequence).map(|(row, rows, begin, end)| of(row, rows, begin, end)).collect()
}

/// Rows that are added to others: for each row that something is added to, where it is and which part of `order` is added, in
/// ascending order.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Scatter {
    pub(super) segments: Vec<[u32; 3]>,
    pub(super) order: Vec<u32>,
}

impl Scatter {
    /// Of where each row goes; none for nowhere.
    pub(super) fn of(to: impl Iterator<Item = Option<u32>>) -> Self {
        let mut pairs: Vec<(u32, u32)> = to.zip(0..).filter_map(|(to, row)| to.map(|to| (to, row))).collect();
        pairs.sort_unstable();
        let mut segments: Vec<[u32; 3]> = Vec::new();
        for ((to, _), at) in pairs.iter().zip(0..) {
            match segments.last_mut() {
                Some([last, _, end]) if last == to => *end = at + 1,
                _ => segments.push([*to, at, at + 1]),
            }
        }
        Self { segments, order: pairs.into_iter().map(|(_, row)| row).collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn rows_are_grouped_by_where_they_go_in_their_order() {
        let scatter = Scatter::of([Some(9), None, Some(2), Some(9), Some(2), Some(7)].into_iter());
        let expected = Scatter { segments: vec![[2, 0, 2], [7, 2, 3], [9, 3, 5]], order: vec![2, 4, 5, 0, 3] };
        assert_eq!(scatter, expected);
        assert_eq!(Scatter::of([None].into_iter()), Scatter::default());
    }

    proptest! {
        #[test]
        fn every_row_is_in_one_tile_of_its_own_sequence(lengths in prop::collection::vec(0_u32..200, 1..6), size in 1_usize..130) {
            let mut starts = vec![0];
            lengths.iter().for_each(|length| starts.push(starts[starts.len() - 1] + length));
            let reaches = reaches(&starts);
            let mut seen = vec![[0; 2]; reaches.len()];
            for [row, rows, begin] in tiles(&starts, size) {
                prop_assert!(rows > 0 && rows as usize <= size);
                for at in row..row + rows {
                    seen[at as usize][0] += 1;
                    prop_assert_eq!(reaches[at as usize][0], begin);
                }
            }
            for [row, rows, end] in key_tiles(&starts, size) {
                prop_assert!(rows > 0 && rows as usize <= size);
                for at in row..row + rows {
                    seen[at as usize][1] += 1;
                    prop_assert_eq!(reaches[at as usize][1], end);
                }
            }
            prop_assert!(seen.iter().all(|seen| *seen == [1, 1]));
        }
    }
}
