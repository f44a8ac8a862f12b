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

/// What each row sees by the plan: its pieces must follow one another without gap or overlap. Pages of a batch are its own
/// numbers of them, so that a split's first one tells where it begins.
fn planned(batch: &Batch, plan: &Plan, rows_with_reaches: &[u32]) -> BTreeMap<u32, (u32, u32)> {
    let mut pieces: BTreeMap<u32, Vec<(u32, u32, u32)>> = BTreeMap::new();
    for split in &plan.splits {
        assert!(split.tokens > 0 && split.tokens <= SPLIT_TOKENS as u32);
        let span = batch.spans.iter().find(|span| span.first == split.row as usize).unwrap();
        let count = split.tokens.div_ceil(PAGE_TOKENS as u32);
        let pages: Vec<u32> = (split.pages[0]..).take(count as usize).collect();
        assert!(split.pages[..count as usize] == pages && split.pages[count as usize..].iter().all(|page| *page == 0));
        let begin = (split.pages[0] - span.first_page as u32) * PAGE_TOKENS as u32;
        assert_eq!(split.is_new, begin + split.tokens == span.past as u32 + 1, "the last split has the new token");
        pieces.entry(split.row).or_default().push((begin, begin + split.tokens, span.first_page as u32));
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
        prop_assert_eq!(planned(&batch, &plan, if fast.is_some() { &[] } else { &rows }), expected(&batch));
        for tile in &plan.tiles {
            prop_assert!(tile.rows as usize * group <= TILE_PACKED);
        }
        prop_assert!(plan.splits.is_sorted_by_key(|split| std::cmp::Reverse(split.tokens)));
        prop_assert!(plan.tiles.is_sorted_by_key(|tile| std::cmp::Reverse(tile.end - tile.begin)));
    }

    #[test]
    fn slots_are_used_once_and_joined_by_row(spans in spans()) {
        let plan = Plan::of(&batch(&spans), Fast::of(Heads { query: 4, kv: 1, dim: 128 }));
        let mut slots = vec![None; plan.slots];
        for split in plan.splits.iter().filter(|split| split.slot != ALONE) {
            prop_assert_eq!(slots[split.slot as usize].replace(split.row), None);
            prop_assert_eq!(plan.joined[split.joined as usize].row, split.row);
        }
        for tile in plan.tiles.iter().filter(|tile| tile.slot != ALONE) {
            for row in 0..tile.rows {
                prop_assert_eq!(slots[(tile.slot + row * tile.step) as usize].replace(tile.row + row), None);
            }
        }
        for joined in plan.joined.iter().chain(&plan.pieced) {
            prop_assert!(joined.count > 1);
            for slot in joined.first..joined.first + joined.count {
                prop_assert_eq!(slots[slot as usize], Some(joined.row));
            }
        }
        let joined: u32 = plan.joined.iter().chain(&plan.pieced).map(|joined| joined.count).sum();
        prop_assert_eq!(joined as usize, plan.slots);
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

/// Tokens of a row's splits, in their order.
fn splits_of(plan: &Plan, row: u32) -> Vec<u32> {
    let mut of_row: Vec<(u32, u32)> =
        plan.splits.iter().filter(|split| split.row == row).map(|split| (split.slot, split.tokens)).collect();
    of_row.sort_unstable();
    of_row.into_iter().map(|(_, tokens)| tokens).collect()
}

#[test]
fn a_split_does_not_depend_on_the_lengths_of_others() {
    let fast = Fast::of(Heads { query: 4, kv: 1, dim: 64 });
    let few = |lengths: &[(usize, usize)]| splits_of(&Plan::of(&batch(lengths), fast), 1);
    assert_eq!(few(&[(1, 3), (1, 700)]), [128, 128, 128, 128, 128, 61]);
    assert_eq!(few(&[(1, 9_000), (1, 700), (5, 9)]), few(&[(1, 3), (1, 700)]));
    let many = |rows: usize, others: usize| {
        let lengths: Vec<(usize, usize)> = (0..rows).map(|at| (1, if at == 1 { 700 } else { others })).collect();
        splits_of(&Plan::of(&batch(&lengths), fast), 1)
    };
    assert_eq!((many(33, 3), many(97, 3), many(257, 3)), (vec![256, 256, 189], vec![512, 189], vec![701]));
    assert_eq!(many(97, 3), many(97, 5_000));
    let alone = Plan::of(&batch(&[(1, 3)]), fast);
    assert_eq!((alone.splits[0].slot, alone.splits[0].tokens, alone.slots), (ALONE, 4, 0));
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
fn words_of_each_kind_begin_at_16_bytes_and_splits_end_with_empty_ones() {
    let plan = Plan::of(&batch(&[(1, 150), (3, 9), (3, 1_100), (1, 2)]), Fast::of(Heads { query: 3, kv: 1, dim: 64 }));
    let mut words = vec![7; 8];
    let begins = plan.words(40, &mut words);
    let all = [begins.splits, begins.joined, begins.pieced, begins.tiles, begins.reaches];
    assert!(all.iter().all(|begin| begin % 4 == 0));
    let split = |words: &[u32]| [words, &vec![0; SPLIT_WORDS - words.len()]].concat();
    let splits =
        [split(&[0, 128, 0, 0, 0, 1]), split(&[0, IS_NEW + 23, 1, 0, 2]), split(&[7, IS_NEW + 3, ALONE, 1, 22])]
            .concat();
    assert_eq!(words[begins.splits..][..splits.len()], splits);
    assert!(words[begins.splits + splits.len()..][..40 * SPLIT_WORDS].iter().all(|word| *word == 0));
    assert!(begins.joined >= begins.splits + splits.len() + 40 * SPLIT_WORDS);
    assert_eq!(words[begins.joined..][..6], [0, 0, 2, 0, 0, 0]);
    assert_eq!(words[begins.pieced..][..9], [4, 2, 2, 5, 4, 2, 6, 6, 2]);
    assert_eq!(words[begins.tiles..][..8], [4, 3, 1_100, 4, 0, 16, 2, 2]);
}

#[test]
fn odd_heads_are_attended_plainly() {
    for heads in [(4, 2, 80), (4, 3, 64), (129, 1, 64), (0, 2, 64), (4, 0, 64)] {
        assert_eq!(Fast::of(Heads { query: heads.0, kv: heads.1, dim: heads.2 }), None, "{heads:?}");
    }
    let fast = Fast::of(Heads { query: 32, kv: 8, dim: 128 });
    assert_eq!(fast, Some(Fast { dim: 128, group: 4, heads: 4, parts: 8, tile_rows: 32 }));
    assert_eq!(fast.map(|fast| (fast.shared_bytes(), fast.stream_bytes())), Some((65_536, 57_744)));
    assert_eq!(fast.map(|fast| fast.hopper_shared_bytes()), Some(163_904));
}
