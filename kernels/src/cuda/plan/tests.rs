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

/// What each row sees by the plan; each row once, and its tokens without gap or overlap.
fn planned(plan: &Plan, rows_with_reaches: &[u32]) -> BTreeMap<u32, (u32, u32)> {
    let mut seen = BTreeMap::new();
    for split in &plan.splits {
        let (page, tokens) = seen.entry(split.row).or_insert((split.first_page, 0));
        assert_eq!((*page, *tokens), (split.first_page, split.begin), "splits follow one another");
        assert!(split.end > split.begin && split.end - split.begin <= SPLIT_TOKENS as u32);
        *tokens = split.end;
    }
    for tile in &plan.tiles {
        for row in 0..tile.rows {
            let before = seen.insert(tile.row + row, (tile.first_page, tile.past + row + 1));
            assert_eq!(before, None, "a row twice");
        }
    }
    for (row, reach) in rows_with_reaches.iter().zip(&plan.reaches) {
        assert_eq!(seen.insert(*row, (reach.first_page, reach.seen)), None, "a row twice");
    }
    seen
}

fn spans() -> impl Strategy<Value = Vec<(usize, usize)>> {
    prop::collection::vec((prop_oneof![Just(1_usize), 2..200_usize], prop_oneof![Just(0_usize), 0..1500_usize]), 1..6)
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
            prop_assert!(tile.rows as usize * group <= 16 * TILE_WARPS);
        }
        prop_assert!(plan.tiles.is_sorted_by_key(|tile| std::cmp::Reverse(tile.past + tile.rows)));
    }

    #[test]
    fn slots_are_used_once_and_joined_by_row(spans in spans()) {
        let plan = Plan::of(&batch(&spans), Fast::of(Heads { query: 4, kv: 1, dim: 128 }));
        let mut slots = vec![None; plan.slots()];
        for split in plan.splits.iter().filter(|split| split.slot != ALONE) {
            prop_assert_eq!(slots[split.slot as usize].replace(split.row), None);
        }
        for joined in &plan.joined {
            prop_assert!(joined.count > 1);
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
            None => prop_assert!(group > 16 * TILE_WARPS),
            Some(fast) => {
                prop_assert_eq!((fast.group, group % fast.heads), (group, 0));
                prop_assert!((1..=HEADS_MAX).contains(&fast.heads) && fast.tile_rows >= 1);
                prop_assert!(fast.tile_rows * group <= 16 * TILE_WARPS);
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
fn words_of_each_kind_begin_at_16_bytes() {
    let plan = Plan::of(&batch(&[(1, 700), (3, 9)]), Fast::of(Heads { query: 3, kv: 1, dim: 64 }));
    let mut words = vec![7; 5];
    let begins = plan.words(&mut words);
    assert!(begins.iter().all(|begin| begin % 4 == 0));
    assert_eq!(words[begins[0]..][..5], [0, 0, 0, 256, 0]);
    assert_eq!(words[begins[1]..][..3], [0, 0, 3]);
    assert_eq!(words[begins[2]..][..4], [1, 3, 9, 11]);
}

#[test]
fn odd_heads_are_attended_plainly() {
    for heads in [(4, 2, 80), (4, 3, 64), (129, 1, 64), (0, 2, 64), (4, 0, 64)] {
        assert_eq!(Fast::of(Heads { query: heads.0, kv: heads.1, dim: heads.2 }), None, "{heads:?}");
    }
    let fast = Fast::of(Heads { query: 32, kv: 8, dim: 128 });
    assert_eq!(fast, Some(Fast { dim: 128, group: 4, heads: 4, tile_rows: 32 }));
    assert_eq!(fast.map(|fast| fast.shared_bytes()), Some(65_536));
}
