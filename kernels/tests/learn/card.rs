//! A card on the suite of learning, and its sources on the emulator; that the same inputs give the same bits there; and ranks
//! of one group.
//!
//! It refuses to know how kernels compute.

#![allow(clippy::print_stderr, reason = "a test says what it skips")]

use super::checks::{Dice, Precision, fill, part, read, spoiled};
use super::emulated::Emulated;
use super::{learns, shards};
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

#[test]
fn a_card_learns() {
    with_card(|card| learns(card, BF16));
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

#[test]
fn cards_that_are_ranks_give_what_one_gives_alone() {
    let count = Nvidia::count();
    if count < 2 {
        eprintln!("skipped: there are {count} cards here, ranks need two");
        return;
    }
    let name = GroupName::new().unwrap();
    let ranks = std::thread::scope(|scope| {
        let open = |(rank, member)| {
            let seat = Seat { name, rank, ranks: 2, meeting: Some(member) };
            scope.spawn(move || Cuda::open_rank(rank, None, seat).unwrap())
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
fn the_same_inputs_give_the_same_bits_on_a_card() {
    with_card(|card| {
        for heads in [Heads { query: 32, kv: 8, dim: 128 }, Heads { query: 9, kv: 3, dim: 64 }] {
            let starts = [0, 700, 750, 4_000, 9_001];
            let first = bits(card, heads, &starts);
            assert!((0..3).all(|_| bits(card, heads, &starts) == first), "{heads:?}");
        }
    });
}

/// What a sequence gives does not depend on what it is packed with.
#[test]
fn neighbours_in_a_pack_do_not_change_a_bit_on_an_emulated_card() {
    with_emulated(|card| {
        let heads = Heads { query: 4, kv: 2, dim: 64 };
        let (dice, fused) = (&mut Dice(9, BF16.round), heads.fused());
        let (rows, d) = (dice.many(150 * fused), dice.many(150 * heads.width()));
        let attended = |from: usize, starts: &[u32]| {
            let count = 150 - from;
            let (qkv, d_out) =
                (fill(card, &rows[from * fused..], count), fill(card, &d[from * heads.width()..], count));
            let (mut out, mut lse) = (spoiled(card, count, heads.width()), card.sums(count, heads.query).unwrap());
            let mut d_qkv = spoiled(card, count, fused);
            card.attend_forward(&qkv, heads, starts, &mut out, &mut lse).unwrap();
            card.attend_backward(&qkv, heads, starts, &out, &lse, &d_out, &mut d_qkv).unwrap();
            (read(card, &out), read(card, &d_qkv))
        };
        let (packed, d_packed) = attended(0, &[0, 33, 33, 150]);
        let (alone, d_alone) = attended(33, &[0, 117]);
        assert_eq!((&packed[33 * heads.width()..], &d_packed[33 * fused..]), (&alone[..], &d_alone[..]));
    });
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
