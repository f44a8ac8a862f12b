//! A card on the suite, and its sources on the emulator; and what only a card has: attention whose context is split and
//! whose prompts are tiled, and the sampler.
//!
//! It refuses to know how kernels compute.

#![allow(clippy::print_stderr, reason = "a test says what it skips")]

use super::draws;
use super::emulated::Emulated;
use super::few;
use super::{Dice, Precision, Story, attention, conforms};
use half::bf16;
use legwork_kernels::cuda::driver::Driver;
use legwork_kernels::cuda::{Card, Cuda, Nvidia};
use legwork_kernels::{Compared, Cpu, Heads};

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

fn with_emulated(run: impl FnOnce(&Card<Emulated>)) {
    match Emulated::find() {
        Some(driver) => run(&Card::new(driver).unwrap()),
        None => eprintln!("skipped: there is no C++ compiler here that is called c++"),
    }
}

fn with_card(run: impl FnOnce(&Cuda)) {
    match Nvidia::count() {
        0 => eprintln!("skipped: there is no card here"),
        _ => run(&Cuda::open(0, None).unwrap()),
    }
}

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
    });
}

#[test]
fn products_of_few_rows_are_sums_on_an_emulated_card() {
    with_emulated(|card| {
        few::products_of_few_rows_are_sums(card.driver(), &[2_568]);
        few::a_product_is_the_same_each_time(card.driver(), &[[3, 64, 40], [16, 1_032, 40], [64, 2_056, 40]]);
    });
}

#[test]
fn products_of_few_rows_are_sums_on_a_card() {
    with_card(|card| {
        few::products_of_few_rows_are_sums(card.driver(), &[2_568, 9_728]);
        let shapes = [[1, 2_560, 1_000], [8, 9_728, 640], [16, 4_096, 640], [33, 2_560, 640], [64, 9_728, 640]];
        few::a_product_is_the_same_each_time(card.driver(), &shapes);
    });
}

#[test]
fn an_emulated_card_draws_as_a_full_sort_and_the_processor_do() {
    with_emulated(|card| {
        draws::draws_are_those_of_a_full_sort(card);
        draws::odd_rows_are_drawn_from_or_refused(card);
        draws::draws_are_those_of_the_processor(card);
    });
}

#[test]
fn a_card_draws_as_a_full_sort_and_the_processor_do() {
    with_card(|card| {
        draws::draws_are_those_of_a_full_sort(card);
        draws::odd_rows_are_drawn_from_or_refused(card);
        draws::draws_are_those_of_the_processor(card);
    });
}

#[test]
fn a_card_conforms() {
    with_card(|card| conforms(card, BF16));
}

#[test]
fn splits_and_tiles_are_attention_on_a_card() {
    with_card(|card| {
        for (query, kv, dim) in [(32, 8, 128), (8, 2, 128), (9, 3, 64), (14, 2, 64), (16, 1, 128), (5, 5, 128)] {
            for story in [LONG, MIDDLE, PIECES] {
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
