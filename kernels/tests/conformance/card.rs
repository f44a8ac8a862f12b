//! A card on the suite, and its sources on the emulator; and what only a card has: attention whose context is split and
//! whose prompts are tiled, and the sampler.
//!
//! It refuses to know how kernels compute.

#![allow(clippy::print_stderr, reason = "a test says what it skips")]

use super::draws;
use super::emulated::{Emulated, Started};
use super::few;
use super::{Dice, Precision, Story, attention, conforms, fill, near, near_as_vectors, read};
use half::bf16;
use legwork_kernels::cuda::driver::Driver;
use legwork_kernels::cuda::{Card, Cuda, Nvidia};
use legwork_kernels::{Batch, CacheShape, Compared, Cpu, Heads, Ops, PAGE_TOKENS, Rope, Stored};

/// Rounding to bf16 costs up to 2^-8 of a value. A product is rounded once; the norm of a sum three times; attention has queries
/// and keys that were rounded three times, whose scores are exponents.
const BF16: Precision =
    Precision { round: |value| bf16::from_f32(value).to_f32(), product: 4e-3, rows: 1.2e-2, attention: 1.6e-2 };

/// Contexts of several splits, prompts of several tiles, and pages that tiles begin and end within.
const LONG: Story = Story { lengths: [521, 200, 131], new: [1, 75, 1] };

/// Several key heads, groups that make no power of two or are more than one block takes, contexts that end within a split.
const MIDDLE: Story = Story { lengths: [270, 70, 66], new: [1, 6, 1] };

/// A short prompt over a context of several pieces.
const PIECES: Story = Story { lengths: [2_090, 3, 65], new: [40, 1, 2] };

/// Contexts about a page, about both kinds of a split, and of several.
const EDGES: [usize; 12] = [1, 63, 64, 65, 127, 128, 129, 255, 256, 257, 300, 700];

fn with_emulated(run: impl FnOnce(&Card<Emulated>)) {
    match Emulated::find() {
        Some(driver) => run(&Card::new(driver).unwrap()),
        None => eprintln!("skipped: there is no C++ compiler here that is called c++"),
    }
}

fn with_emulated_hopper(run: impl FnOnce(&Card<Emulated>)) {
    match Emulated::find() {
        Some(driver) => run(&Card::new(driver.with_hopper()).unwrap()),
        None => eprintln!("skipped: there is no C++ compiler here that is called c++"),
    }
}

fn with_card(run: impl FnOnce(&Cuda)) {
    match Nvidia::count() {
        0 => eprintln!("skipped: there is no card here"),
        _ => run(&Cuda::open(0, None).unwrap()),
    }
}

/// Rows of a tile on both sides of where a piece begins, so that some see nothing of it; and of several tiles, the first of which
/// ends before it.
const BORDERS: Story = Story { lengths: [1_044, 1_178, 1_030], new: [40, 300, 200] };

/// Attention of one shape of heads.
fn splits_and_tiles<D: Driver>(card: &Card<D>, (query, kv, dim): (usize, usize, usize), story: &Story) {
    let dice = &mut Dice(11, BF16.round);
    attention(card, BF16.attention, dice, Heads { query, kv, dim }, dim == 64, true, story);
}

#[test]
fn the_sources_conform_on_an_emulated_card() {
    with_emulated(|card| conforms(card, BF16));
}

#[test]
fn each_operation_on_an_emulated_card_is_near_the_processors_and_no_nearer_than_rounding() {
    let Some(driver) = Emulated::find() else {
        eprintln!("skipped: there is no C++ compiler here that is called c++");
        return;
    };
    let compared = Compared::new(Card::new(driver).unwrap(), Cpu::new(), 6e-3);
    conforms(&compared, BF16);
    let worst = compared.worst();
    eprintln!("furthest off, of a row's length: {worst:?}");
    assert_eq!(worst["pick"], 0.0, "copies are exact");
    let rounded = ["embed", "norm", "add", "add_norm", "linear", "rotate_and_keep", "attend", "swiglu", "normalize"];
    assert!(rounded.iter().all(|op| worst[op] > 1e-4), "bf16 rounds: {worst:?}");
}

#[test]
fn splits_and_tiles_are_attention_on_an_emulated_card() {
    with_emulated(|card| {
        splits_and_tiles(card, (3, 1, 64), &LONG);
        splits_and_tiles(card, (4, 1, 128), &LONG);
        splits_and_tiles(card, (10, 2, 64), &MIDDLE);
        splits_and_tiles(card, (16, 1, 64), &MIDDLE);
        splits_and_tiles(card, (1, 1, 64), &PIECES);
        splits_and_tiles(card, (4, 1, 64), &BORDERS);
    });
}

#[test]
fn tiles_are_attention_with_hoppers_instructions_on_an_emulated_card() {
    with_emulated_hopper(|card| {
        splits_and_tiles(card, (4, 2, 128), &MIDDLE);
        splits_and_tiles(card, (1, 1, 64), &BORDERS);
        what_no_row_sees_may_hold_anything(card, (3, 1, 64));
    });
}

/// A batch of single tokens at the ends of such contexts, whose pages lie criss-cross, and a cache with something for each of
/// them.
fn single_tokens(lengths: &[usize]) -> (Batch, usize) {
    let total: usize = lengths.iter().map(|length| length.div_ceil(PAGE_TOKENS)).sum();
    let (mut batch, mut page) = (Batch::default(), 0);
    for length in lengths {
        let count = length.div_ceil(PAGE_TOKENS);
        let pages: Vec<u32> = (page..page + count).map(|page| (page * 7 % total) as u32).collect();
        page += count;
        batch.push(&[0], length - 1, &pages, false);
    }
    (batch, total)
}

/// Attention of single tokens beside the plain definition in `f64`, over a cache of numbers that are all there, also behind the
/// ends of contexts, where they are none.
fn single_tokens_see_their_contexts<D: Driver>(card: &Card<D>, heads: Heads, lengths: &[usize]) {
    let (batch, total) = single_tokens(lengths);
    assert!(total % 7 != 0, "pages are a permutation");
    let dice = &mut Dice(5, BF16.round);
    let mut cache =
        card.cache(CacheShape { layers: 1, pages: total, kv_heads: heads.kv, head_dim: heads.dim }).unwrap();
    let values: Vec<f32> = dice.many(total * 2 * heads.kv * PAGE_TOKENS * heads.dim);
    let mut bits: Vec<u16> = values.iter().map(|value| bf16::from_f32(*value).to_bits()).collect();
    let place = |page: u32, kv: usize, value: usize, token: usize| {
        ((page as usize * heads.kv + kv) * 2 + value) * PAGE_TOKENS * heads.dim + token % PAGE_TOKENS * heads.dim
    };
    for span in &batch.spans {
        let last = *batch.pages_of(span).last().unwrap();
        for token in span.past + 1..(span.past + 1).next_multiple_of(PAGE_TOKENS) {
            for kv in 0..2 * heads.kv {
                bits[place(last, kv / 2, kv % 2, token)..][..heads.dim].fill(0x7fc0);
            }
        }
    }
    let bytes: Vec<u8> = bits.iter().flat_map(|bits| bits.to_le_bytes()).collect();
    card.load_pages(&mut cache, &(0..total as u32).collect::<Vec<_>>(), &bytes).unwrap();
    let queries = dice.many(lengths.len() * heads.fused());
    let qkv = fill(card, &queries, lengths.len());
    let mut out = card.rows(lengths.len(), heads.width()).unwrap();
    // Twice: what the first leaves behind must not be seen by the second.
    for _ in 0..2 {
        card.attend(&qkv, heads, &batch, 0, &cache, &mut out).unwrap();
        let mut expected = Vec::new();
        for (row, span) in batch.spans.iter().enumerate() {
            for head in 0..heads.query {
                let query = &queries[row * heads.fused() + head * heads.dim..][..heads.dim];
                let kv = head / (heads.query / heads.kv);
                let of = |token: usize, value: usize| {
                    let page = batch.pages_of(span)[token / PAGE_TOKENS];
                    &values[place(page, kv, value, token)..][..heads.dim]
                };
                let dot = |key: &[f32]| query.iter().zip(key).map(|(q, k)| f64::from(*q) * f64::from(*k)).sum::<f64>();
                let shares: Vec<f64> =
                    (0..=span.past).map(|token| (dot(of(token, 0)) / (heads.dim as f64).sqrt()).exp()).collect();
                let mass: f64 = shares.iter().sum();
                expected.extend((0..heads.dim).map(|d| {
                    let mixed: f64 = (0..=span.past).map(|token| shares[token] * f64::from(of(token, 1)[d])).sum();
                    (mixed / mass) as f32
                }));
            }
        }
        near("single tokens", &read(card, &out), &expected, 8e-3);
        near_as_vectors("single tokens", &read(card, &out), &expected, heads.dim, 8e-3);
        card.embed(
            &card.matrix(&[Stored::from_f32(1, heads.width(), &vec![9.0; heads.width()]).unwrap()]).unwrap(),
            &vec![0; lengths.len()],
            &mut out,
        )
        .unwrap();
    }
}

#[test]
fn single_tokens_see_their_contexts_on_an_emulated_card() {
    with_emulated(|card| {
        // More items than blocks, and fewer; blocks of one head and of eight.
        single_tokens_see_their_contexts(card, Heads { query: 8, kv: 2, dim: 128 }, &EDGES);
        single_tokens_see_their_contexts(card, Heads { query: 3, kv: 1, dim: 64 }, &EDGES);
        for length in EDGES {
            single_tokens_see_their_contexts(card, Heads { query: 1, kv: 1, dim: 64 }, &[length]);
        }
        single_tokens_see_their_contexts(card, Heads { query: 16, kv: 1, dim: 64 }, &[700, 40]);
        // Longer splits, which a kernel of their own puts together, where there are more rows and heads.
        for kv in [11, 32, 52] {
            single_tokens_see_their_contexts(card, Heads { query: kv, kv, dim: 64 }, &[1, 513, 1_023, 1_024, 1_025]);
        }
    });
}

#[test]
fn single_tokens_see_their_contexts_on_a_card() {
    with_card(|card| {
        let many: Vec<usize> = (0..80).map(|at| EDGES[at % 12] + 331 * at).collect();
        for (query, kv, dim) in
            [(32, 8, 128), (8, 2, 128), (9, 3, 64), (14, 2, 64), (16, 1, 128), (5, 5, 128), (2, 2, 64)]
        {
            let heads = Heads { query, kv, dim };
            single_tokens_see_their_contexts(card, heads, &EDGES);
            single_tokens_see_their_contexts(card, heads, &[9_001]);
            single_tokens_see_their_contexts(card, heads, &many[..if query == 8 { 80 } else { 7 }]);
        }
    });
}

/// Prompts over pages whose other tokens are no numbers give what they give over pages of zeros.
fn what_no_row_sees_may_hold_anything<D: Driver>(card: &Card<D>, (query, kv, dim): (usize, usize, usize)) {
    let heads = Heads { query, kv, dim };
    let rope = Rope { frequencies: vec![0.5; dim / 2], interleaved: false, scale: 1.0 };
    let mut told = Vec::new();
    for filled in [0x00, 0xff] {
        let dice = &mut Dice(5, BF16.round);
        let mut cache = card.cache(CacheShape { layers: 2, pages: 5, kv_heads: kv, head_dim: dim }).unwrap();
        let bytes = vec![filled; 5 * card.page_bytes(&cache)];
        card.load_pages(&mut cache, &[0, 1, 2, 3, 4], &bytes).unwrap();
        for (past, new) in [(0, 70), (70, 9), (79, 65)] {
            let mut batch = Batch::default();
            batch.push(&vec![0; new], past, &[3, 1, 4], false);
            let mut qkv = fill(card, &dice.many(new * heads.fused()), new);
            let mut out = card.rows(new, heads.width()).unwrap();
            card.rotate_and_keep(&mut qkv, heads, None, &rope, &batch, 1, &mut cache).unwrap();
            card.attend(&qkv, heads, &batch, 1, &cache, &mut out).unwrap();
            told.push(read(card, &out));
        }
    }
    assert!(told.iter().flatten().all(|value| value.is_finite()));
    assert_eq!(told[..3], told[3..]);
}

#[test]
fn what_no_row_sees_may_hold_anything_on_an_emulated_card() {
    with_emulated(|card| what_no_row_sees_may_hold_anything(card, (3, 1, 64)));
}

#[test]
fn what_no_row_sees_may_hold_anything_on_a_card() {
    with_card(|card| {
        for heads in [(32, 8, 128), (9, 3, 64), (16, 1, 128)] {
            what_no_row_sees_may_hold_anything(card, heads);
        }
    });
}

#[test]
fn what_single_tokens_start_does_not_depend_on_their_contexts() {
    with_emulated(|card| {
        let heads = Heads { query: 8, kv: 2, dim: 64 };
        let started = |lengths: &[usize]| {
            let (batch, total) = single_tokens(lengths);
            let cache = card.cache(CacheShape { layers: 1, pages: total, kv_heads: 2, head_dim: 64 }).unwrap();
            let qkv = fill(card, &vec![0.5; lengths.len() * heads.fused()], lengths.len());
            let mut out = card.rows(lengths.len(), heads.width()).unwrap();
            card.attend(&qkv, heads, &batch, 0, &cache, &mut out).unwrap();
            let graph = card.driver().record(&mut || card.attend(&qkv, heads, &batch, 0, &cache, &mut out)).unwrap();
            graph.unwrap().iter().map(Started::without_addresses).collect::<Vec<_>>()
        };
        assert_eq!(started(&[5, 70, 3]), started(&[900, 1, 2_000]));
        assert_eq!(started(&[5, 70, 3]).len(), 1);
    });
}

#[test]
fn products_of_few_rows_are_sums_on_an_emulated_card() {
    with_emulated(|card| {
        few::products_of_few_rows_are_sums(card.driver(), &[2_568]);
        few::vectors_are_sums_however_few_blocks_there_are(card.driver());
        few::a_product_is_the_same_each_time(card.driver(), &[[3, 64, 40], [16, 1_032, 40], [64, 2_056, 40]]);
    });
}

#[test]
fn products_of_few_rows_are_sums_on_a_card() {
    with_card(|card| {
        few::products_of_few_rows_are_sums(card.driver(), &[2_568, 9_728]);
        few::vectors_are_sums_however_few_blocks_there_are(card.driver());
        let shapes = [[1, 2_560, 1_000], [8, 9_728, 640], [16, 4_096, 640], [33, 2_560, 640], [64, 9_728, 640]];
        few::a_product_is_the_same_each_time(card.driver(), &shapes);
    });
}

#[test]
fn an_emulated_card_draws_as_a_full_sort_and_the_processor_do() {
    with_emulated(|card| {
        draws::draws_are_those_of_a_full_sort(card);
        draws::odd_rows_are_drawn_from_or_refused(card);
        draws::values_without_a_bin_are_drawn_like_others(card);
        draws::steps_of_many_and_few_rows_follow_one_another(card);
        draws::draws_are_those_of_the_processor(card);
    });
}

#[test]
fn a_card_draws_as_a_full_sort_and_the_processor_do() {
    with_card(|card| {
        draws::draws_are_those_of_a_full_sort(card);
        draws::odd_rows_are_drawn_from_or_refused(card);
        draws::values_without_a_bin_are_drawn_like_others(card);
        draws::steps_of_many_and_few_rows_follow_one_another(card);
        draws::draws_are_those_of_the_processor(card);
    });
}

#[test]
fn a_card_conforms() {
    // The library rounds a product before it adds a bias, which may be further from 0 than the sum is.
    with_card(|card| conforms(card, Precision { product: 4.0 * BF16.product, ..BF16 }));
}

#[test]
fn splits_and_tiles_are_attention_on_a_card() {
    with_card(|card| {
        for (query, kv, dim) in [(32, 8, 128), (8, 2, 128), (9, 3, 64), (14, 2, 64), (16, 1, 128), (5, 5, 128)] {
            for story in [LONG, MIDDLE, PIECES, BORDERS] {
                splits_and_tiles(card, (query, kv, dim), &story);
            }
        }
    });
}

#[test]
fn a_card_can_be_moved_to_the_thread_that_uses_it() {
    fn moves<T: Send>() {}
    moves::<Cuda>();
}
