use super::*;
use proptest::prelude::*;
use std::collections::BTreeMap;

/// Spans of so many new and past tokens, with pages of their own.
fn batch(spans: &[(usize, usize)]) -> Batch {
    let (mut batch, mut page) = (Batch::default(), 0);
    for (rows, past) in spans {
        let pages: Vec<u32> = (page..page + ((rows + past).div_ceil(PAGE_TOKENS)) as u32).collect();
        page += pages.len() as u32;
        batch.push(&vec![0; *rows], *past, &pages, false);
    }
    batch
}

/// What each row sees by the plain definition: its sequence's first page, and its position and all before.
fn expected(batch: &Batch) -> BTreeMap<u32, (u32, u32)> {
    let of = |span: &crate::Span| {
        let (first, past, page) = (span.first, span.past, span.first_page as u32);
        (0..span.rows).map(move |row| ((first + row) as u32, (page, (past + row + 1) as u32)))
    };
    batch.spans.iter().flat_map(of).collect()
}

/// What each row sees by the plan: its pieces must follow one another without gap or overlap.
fn planned(plan: &Plan, rows_with_reaches: &[u32]) -> BTreeMap<u32, (u32, u32)> {
    let mut pieces: BTreeMap<u32, Vec<(u32, u32, u32)>> = BTreeMap::new();
    for split in &plan.splits {
        assert!(split.end > split.begin && split.end - split.begin <= SPLIT_TOKENS as u32);
        pieces.entry(split.row).or_default().push((split.begin, split.end, split.first_page));
    }
    for tile in &plan.tiles {
        assert!(tile.begin < tile.end && tile.end as usize <= (tile.past + tile.rows).div_ceil(64) as usize);
        for row in 0..tile.rows {
            let (begin, seen) = (64 * tile.begin, tile.past + row + 1);
            // A row may see nothing of the last piece of its tile.
            let end = (64 * tile.end).min(seen).max(begin);
            pieces.entry(tile.row + row).or_default().push((begin, end, tile.first_page));
        }
    }
    for (row, reach) in rows_with_reaches.iter().zip(&plan.reaches) {
        pieces.entry(*row).or_default().push((0, reach.seen, reach.first_page));
    }
    let seen = pieces.into_iter().map(|(row, mut pieces)| {
        pieces.sort_unstable();
        let mut end = 0;
        for (from, to, page) in &pieces {
            assert!(*from == end || from == to && *from >= end, "row {row}: {pieces:?}");
            assert_eq!(*page, pieces[0].2, "one sequence");
            end = end.max(if from == to { end } else { *to });
        }
        (row, (pieces[0].2, end))
    });
    seen.collect()
}

fn spans() -> impl Strategy<Value = Vec<(usize, usize)>> {
    prop::collection::vec((prop_oneof![Just(1_usize), 2..200_usize], prop_oneof![Just(0_usize), 0..12_000_usize]), 1..6)
}

proptest! {
    #[test]
    fn every_row_sees_its_context_exactly_once(spans in spans(), group in 1..20_usize, fast in any::<bool>()) {
        let batch = batch(&spans);
        let heads = Heads { query: 2 * group, kv: 2, dim: if fast { 64 } else { 80 } };
        let fast = Fast::of(heads);
        let plan = Plan::of(&batch, fast);
        let rows: Vec<u32> = (0..batch.rows() as u32).collect();
        prop_assert_eq!(planned(&plan, if fast.is_some() { &[] } else { &rows }), expected(&batch));
        for tile in &plan.tiles {
            prop_assert!(tile.rows as usize * group <= TILE_PACKED);
        }
        prop_assert!(plan.tiles.is_sorted_by_key(|tile| std::cmp::Reverse(tile.end - tile.begin)));
    }

    #[test]
    fn slots_are_used_once_and_joined_by_row(spans in spans()) {
        let plan = Plan::of(&batch(&spans), Fast::of(Heads { query: 4, kv: 1, dim: 128 }));
        let mut slots = vec![None; plan.slots()];
        for split in plan.splits.iter().filter(|split| split.slot != ALONE) {
            prop_assert_eq!(slots[split.slot as usize].replace(split.row), None);
        }
        for tile in plan.tiles.iter().filter(|tile| tile.slot != ALONE) {
            for row in 0..tile.rows {
                prop_assert_eq!(slots[(tile.slot + row * tile.step) as usize].replace(tile.row + row), None);
            }
        }
        let mut end = 0;
        for joined in &plan.joined {
            prop_assert!(joined.count > 1 && joined.first == end, "in the order of slots");
            end += joined.count;
            for slot in joined.first..joined.first + joined.count {
                prop_assert_eq!(slots[slot as usize], Some(joined.row));
            }
        }
        let joined: u32 = plan.joined.iter().map(|joined| joined.count).sum();
        prop_assert_eq!(joined as usize, plan.slots());
    }

    #[test]
    fn blocks_take_divisors_of_groups_and_tiles_whole_groups(kv in 1..5_usize, group in 1..200_usize) {
        let heads = Heads { query: kv * group, kv, dim: 128 };
        match Fast::of(heads) {
            None => prop_assert!(group > TILE_PACKED),
            Some(fast) => {
                prop_assert_eq!((fast.group, group % fast.heads), (group, 0));
                prop_assert!((1..=HEADS_MAX).contains(&fast.heads) && fast.tile_rows >= 1);
                prop_assert!(fast.tile_rows * group <= TILE_PACKED);
            }
        }
    }
}

#[test]
fn a_split_does_not_depend_on_its_batch() {
    let alone = Plan::of(&batch(&[(1, 700)]), Fast::of(Heads { query: 4, kv: 1, dim: 64 }));
    let among = Plan::of(&batch(&[(1, 3), (1, 700), (5, 9)]), Fast::of(Heads { query: 4, kv: 1, dim: 64 }));
    let ends = |plan: &Plan, row: u32| -> Vec<(u32, u32)> {
        plan.splits.iter().filter(|split| split.row == row).map(|split| (split.begin, split.end)).collect()
    };
    assert_eq!(ends(&alone, 0), [(0, 256), (256, 512), (512, 701)]);
    assert_eq!(ends(&among, 1), ends(&alone, 0));
    assert_eq!(ends(&among, 0), [(0, 4)]);
    assert_eq!(among.splits[0].slot, ALONE);
}

#[test]
fn short_spans_over_long_contexts_come_in_pieces_and_long_ones_do_not() {
    let fast = Fast::of(Heads { query: 8, kv: 2, dim: 64 });
    let pieces = |rows, past| Plan::of(&batch(&[(rows, past)]), fast).tiles.len();
    assert_eq!((pieces(30, 900), pieces(30, 1_100), pieces(30, 40_000)), (1, 2, PIECES_MAX));
    assert_eq!((pieces(128, 40_000), pieces(256, 40_000), pieces(513, 40_000)), (4 * PIECES_MAX, 8 * 4, 17));
    assert!(Plan::of(&batch(&[(30, 8_700)]), fast).tiles.iter().all(|tile| tile.begin % 2 == 0), "whole steps");
}

#[test]
fn words_of_each_kind_begin_at_16_bytes() {
    let plan = Plan::of(&batch(&[(1, 700), (3, 9)]), Fast::of(Heads { query: 3, kv: 1, dim: 64 }));
    let mut words = vec![7; 5];
    let begins = plan.words(&mut words);
    assert!(begins.iter().all(|begin| begin % 4 == 0));
    assert_eq!(words[begins[0]..][..5], [0, 0, 0, 256, 0]);
    assert_eq!(words[begins[1]..][..3], [0, 0, 3]);
    assert_eq!(words[begins[2]..][..8], [1, 3, 9, 11, 0, 1, ALONE, 1]);
}

#[test]
fn odd_heads_are_attended_plainly() {
    for heads in [(4, 2, 80), (4, 3, 64), (129, 1, 64), (0, 2, 64), (4, 0, 64)] {
        assert_eq!(Fast::of(Heads { query: heads.0, kv: heads.1, dim: heads.2 }), None, "{heads:?}");
    }
    let fast = Fast::of(Heads { query: 32, kv: 8, dim: 128 });
    assert_eq!(fast, Some(Fast { dim: 128, group: 4, heads: 4, tile_rows: 32 }));
    assert_eq!(fast.map(|fast| fast.shared_bytes()), Some(65_536));
    assert_eq!(fast.map(|fast| fast.hopper_shared_bytes()), Some(163_904));
}
