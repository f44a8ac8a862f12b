//! A card on the suite of learning, and its sources on the emulator; that the same inputs give the same bits there; and ranks
//! of one group.
//!
//! It refuses to know how kernels compute.

#![allow(clippy::print_stderr, reason = "a test says what it skips")]

use super::checks::{Dice, Precision, fill, part, read, spoiled};
use super::emulated::Emulated;
use super::{attention, learns, shards};
use half::bf16;
use legwork_kernels::cuda::driver::Driver;
use legwork_kernels::cuda::{Card, Cuda, GroupName, Nvidia, Seat};
use legwork_kernels::{Group, Heads, Learn, Part, Rope};

/// Rounding to bf16 costs up to 2^-8 of a value: a product is rounded once, what is done to rows up to three
/// times, on the way forward as in Hugging Face's models. Of attention's products two have sides that were rounded, and what
/// comes back is a sum of such terms that may cancel. What never leaves single precision is held to that.
const BF16: Precision = Precision {
    round: |value| bf16::from_f32(value).to_f32(),
    single: 2e-5,
    product: 4e-3,
    rows: 1.2e-2,
    attention: 1.2e-2,
};

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

#[test]
fn the_sources_of_learning_conform_on_an_emulated_card() {
    with_emulated(|card| learns(card, BF16));
}

/// Heads that Hopper's kernels take, over sequences that end within a step and within a tile, and of one row.
const ON_HOPPER: [(Heads, &[u32]); 4] = [
    (Heads { query: 1, kv: 1, dim: 64 }, &[300]),
    (Heads { query: 4, kv: 1, dim: 128 }, &[1, 140, 3]),
    (Heads { query: 6, kv: 2, dim: 64 }, &[64, 65, 128]),
    (Heads { query: 2, kv: 2, dim: 128 }, &[200, 63]),
];

#[test]
fn attention_with_hoppers_instructions_conforms_on_an_emulated_card() {
    with_emulated_hopper(attends);
}

fn attends<D: Driver>(card: &Card<D>) {
    for (heads, lengths) in ON_HOPPER {
        attention(card, BF16, &mut Dice(21, BF16.round), heads, lengths);
    }
}

#[test]
fn a_card_learns() {
    with_card(|card| {
        learns(card, BF16);
        attends(card);
    });
}

#[test]
fn emulated_ranks_give_what_one_gives_alone() {
    with_emulated(|alone| {
        for count in [2, 4] {
            let ranks = Group::of(count).into_iter().map(|member| Emulated::find().unwrap().with_member(member));
            shards(alone, ranks.map(|driver| Card::new(driver).unwrap()).collect(), BF16);
        }
    });
}

/// Cards of two ranks: two, or one that both share, where NCCL was told to allow that.
fn cards_of_two_ranks() -> Option<[usize; 2]> {
    let is_shared = std::env::var("NCCL_MULTI_RANK_GPU_ENABLE").is_ok_and(|value| value == "1");
    match Nvidia::count() {
        0 => None,
        1 => is_shared.then_some([0, 0]),
        _ => Some([0, 1]),
    }
}

#[test]
fn cards_that_are_ranks_give_what_one_gives_alone() {
    let Some(cards) = cards_of_two_ranks() else {
        eprintln!("skipped: two ranks need two cards, or NCCL 2.30 and NCCL_MULTI_RANK_GPU_ENABLE=1 on one");
        return;
    };
    let name = GroupName::new().unwrap();
    let ranks = std::thread::scope(|scope| {
        let open = |(rank, member)| {
            let seat = Seat { name, rank, ranks: 2, meeting: Some(member) };
            scope.spawn(move || Cuda::open_rank(cards[rank], None, seat).unwrap())
        };
        let threads: Vec<_> = Group::of(2).into_iter().enumerate().map(open).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    with_card(|alone| shards(alone, ranks, BF16));
}

/// What the operations give whose sums are of many blocks.
fn bits<D: Driver>(card: &Card<D>, heads: Heads, starts: &[u32]) -> Vec<Vec<f32>> {
    let (dice, rows) = (&mut Dice(3, BF16.round), starts[starts.len() - 1] as usize);
    let x = fill(card, &dice.many(rows * 70), rows);
    let (mut scale, mut bias) =
        (card.param([1, 70], &dice.many(70)).unwrap(), card.param([1, 70], &dice.many(70)).unwrap());
    let mut weight = card.param([70, 70], &dice.many(70 * 70)).unwrap();
    let mut dx = fill(card, &dice.many(rows * 70), rows);
    card.norm_backward(&x, &mut scale, 1e-5, &x, &mut dx).unwrap();
    card.linear_backward(&x, &mut weight, Some(&mut bias), &dx, None).unwrap();
    let ids: Vec<u32> = (0..rows as u32).map(|row| row % 7).collect();
    card.embed_backward(&mut weight, 0, &ids, &dx).unwrap();
    let (qkv, d_out) = (dice.many(rows * heads.fused()), dice.many(rows * heads.width()));
    let (qkv, d_out) = (fill(card, &qkv, rows), fill(card, &d_out, rows));
    let (mut out, mut lse) = (spoiled(card, rows, heads.width()), card.sums(rows, heads.query).unwrap());
    let mut d_qkv = spoiled(card, rows, heads.fused());
    card.attend_forward(&qkv, heads, starts, &mut out, &mut lse).unwrap();
    card.attend_backward(&qkv, heads, starts, &out, &lse, &d_out, &mut d_qkv).unwrap();
    let mut norms = [0; 2].map(|_| card.param([1, heads.dim], &dice.many(heads.dim)).unwrap());
    let rope = Rope { frequencies: vec![0.3; heads.dim / 2], interleaved: false, scale: 1.0 };
    let positions: Vec<u32> = (0..rows as u32).collect();
    let [query, key] = &mut norms;
    card.rotate_backward(&qkv, heads, Some((query, key, 1e-6)), &rope, &positions, &mut d_qkv).unwrap();
    let squares = card.gradient_squares(&mut [&weight, &scale].into_iter()).unwrap();
    let mut all: Vec<Vec<f32>> = [&dx, &out, &d_qkv].map(|rows| read(card, rows)).into();
    all.extend([&scale, &bias, &weight, &norms[0], &norms[1]].map(|param| part(card, param, Part::Gradient)));
    all.push(vec![squares as f32, (squares - f64::from(squares as f32)) as f32]);
    all
}

#[test]
fn the_same_inputs_give_the_same_bits_on_an_emulated_card() {
    with_emulated(|card| {
        let heads = Heads { query: 3, kv: 1, dim: 64 };
        assert_eq!(bits(card, heads, &[0, 70, 75, 140]), bits(card, heads, &[0, 70, 75, 140]));
    });
}

#[test]
fn the_same_inputs_give_the_same_bits_with_hoppers_instructions_on_an_emulated_card() {
    with_emulated_hopper(|card| {
        let heads = Heads { query: 3, kv: 1, dim: 64 };
        assert_eq!(bits(card, heads, &[0, 70, 75, 240]), bits(card, heads, &[0, 70, 75, 240]));
    });
}

#[test]
fn the_same_inputs_give_the_same_bits_on_a_card() {
    with_card(|card| {
        for heads in [Heads { query: 32, kv: 8, dim: 128 }, Heads { query: 9, kv: 3, dim: 64 }] {
            let starts = [0, 700, 750, 4_000, 9_001];
            let first = bits(card, heads, &starts);
            assert!((0..3).all(|_| bits(card, heads, &starts) == first), "{heads:?}");
        }
    });
}

/// What a sequence gives does not depend on what it is packed with, even where that is no number.
fn neighbours_do_not_change_a_bit(card: &Card<Emulated>, heads: Heads, starts: &[u32]) {
    let (dice, fused, rows) = (&mut Dice(9, BF16.round), heads.fused(), starts[starts.len() - 1] as usize);
    let (all, d) = (dice.many(rows * fused), dice.many(rows * heads.width()));
    let attended = |qkv: &[f32], d: &[f32], starts: &[u32]| {
        let count = starts[starts.len() - 1] as usize;
        let (qkv, d_out) = (fill(card, qkv, count), fill(card, d, count));
        let (mut out, mut lse) = (spoiled(card, count, heads.width()), card.sums(count, heads.query).unwrap());
        let mut d_qkv = spoiled(card, count, fused);
        card.attend_forward(&qkv, heads, starts, &mut out, &mut lse).unwrap();
        card.attend_backward(&qkv, heads, starts, &out, &lse, &d_out, &mut d_qkv).unwrap();
        (read(card, &out), read(card, &d_qkv))
    };
    for pair in starts.windows(2) {
        let (begin, end) = (pair[0] as usize, pair[1] as usize);
        let own = |values: &[f32], width: usize| values[begin * width..end * width].to_vec();
        let of_others = |values: &[f32], width: usize| {
            let mut values = values.to_vec();
            values[..begin * width].fill(f32::NAN);
            values[end * width..].fill(f32::NAN);
            values
        };
        if begin == end {
            continue;
        }
        let (packed, d_packed) = attended(&of_others(&all, fused), &of_others(&d, heads.width()), starts);
        let (alone, d_alone) = attended(&own(&all, fused), &own(&d, heads.width()), &[0, (end - begin) as u32]);
        assert_eq!((own(&packed, heads.width()), own(&d_packed, fused)), (alone, d_alone), "{begin} to {end}");
    }
}

#[test]
fn neighbours_in_a_pack_do_not_change_a_bit_on_an_emulated_card() {
    let heads = Heads { query: 4, kv: 2, dim: 64 };
    with_emulated(|card| neighbours_do_not_change_a_bit(card, heads, &[0, 33, 33, 150]));
    with_emulated_hopper(|card| neighbours_do_not_change_a_bit(card, heads, &[0, 33, 33, 150, 281]));
}

#[test]
fn gradients_and_moments_take_no_memory_until_they_are_needed_and_read_as_zeros() {
    with_emulated(|card| {
        let mut param = card.param([3, 5], &[0.5; 15]).unwrap();
        for of in [Part::Gradient, Part::FirstMoment, Part::SecondMoment] {
            assert_eq!(part(card, &param, of), [0.0; 15]);
        }
        assert_eq!(card.gradient_squares(&mut [&param].into_iter()).unwrap(), 0.0);
        card.zero_gradient(&mut param).unwrap();
        card.write_param(&mut param, Part::SecondMoment, &[2.0; 15]).unwrap();
        assert_eq!(part(card, &param, Part::SecondMoment), [2.0; 15]);
        assert_eq!(part(card, &param, Part::FirstMoment), [0.0; 15]);
        let refused = card.param([usize::MAX, 2], &[]).err().unwrap().to_string();
        assert!(refused.contains("a learned tensor would take"), "{refused}");
        assert!(
            card.param([2, 2], &[0.0; 3]).is_err() && card.write_param(&mut param, Part::Value, &[0.0; 9]).is_err()
        );
        // What lies between rows stays 0, so that it is in no sum.
        card.write_param(&mut param, Part::Gradient, &[1.0; 15]).unwrap();
        assert_eq!(card.gradient_squares(&mut [&param].into_iter()).unwrap(), 15.0);
    });
}
