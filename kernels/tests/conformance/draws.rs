//! The sampler of a card beside a full sort, and beside what the engine's sampler on the processor draws. Masses, order and
//! random numbers are defined exactly, so equal means equal.
//!
//! It refuses to know how the kernel finds its cut.

use super::Dice;
use half::bf16;
use legwork_kernels::cuda::Card;
use legwork_kernels::cuda::driver::Driver;
use legwork_kernels::{DrawRules, Ops, RowDraw, Stored};

/// What the most probable token weighs.
const ONE: f64 = (1_u64 << 44) as f64;

/// Logits with ties, with tokens that are ruled out, and of every width; what card and processor see of them is bf16.
fn logits(dice: &mut Dice, count: usize, spread: f32) -> Vec<f32> {
    let mut logits: Vec<f32> = (0..count).map(|_| bf16::from_f32(dice.next() * spread).to_f32()).collect();
    for at in (5..count).step_by(11) {
        logits[at] = f32::NEG_INFINITY;
    }
    if count > 3 {
        (logits[1], logits[3]) = (0.0, -0.0);
    }
    logits
}

fn rules(temperature: f64, top_p: f64, min_p: f64, seed: u64, position: u64) -> DrawRules {
    DrawRules { temperature, top_p, min_p, seed, position }
}

/// `exp((value - top) / temperature)` in units of 2^-44: additions and multiplications in the order that both samplers have.
fn mass(top: f32, value: f32, temperature: f64) -> u64 {
    const ROUNDER: f64 = 6_755_399_441_055_744.0;
    let halvings = (f64::from(top) - f64::from(value)) * (std::f64::consts::LOG2_E / temperature).min(1e300);
    let halvings = if halvings < 60.0 { halvings } else { 60.0 };
    let rounded = halvings + ROUNDER;
    let rest = ((rounded - ROUNDER) - halvings) * std::f64::consts::LN_2;
    let mut power = 0.0;
    for term in [1.0 / 5_040.0, 1.0 / 720.0, 1.0 / 120.0, 1.0 / 24.0, 1.0 / 6.0, 0.5, 1.0, 1.0] {
        power = power * rest + term;
    }
    let unit = f64::from_bits((1_023 + 44 - (rounded.to_bits() & 0xfff)) << 52);
    (power * unit + ROUNDER).to_bits() & ((1 << 51) - 1)
}

/// Philox4x32-10 at a counter of the position under the key of the seed; words 0 and 1.
fn random(seed: u64, position: u64) -> u64 {
    let [mut a, mut b, mut c, mut d] = [position as u32, (position >> 32) as u32, 0, 0];
    for round in 0..10_u32 {
        let key = [
            (seed as u32).wrapping_add(round.wrapping_mul(0x9E37_79B9)),
            ((seed >> 32) as u32).wrapping_add(round.wrapping_mul(0xBB67_AE85)),
        ];
        let (left, right) = (u64::from(a) * 0xD251_1F53, u64::from(c) * 0xCD9E_8D57);
        let before = (b, d);
        (a, b) = ((right >> 32) as u32 ^ before.0 ^ key[0], right as u32);
        (c, d) = ((left >> 32) as u32 ^ before.1 ^ key[1], left as u32);
    }
    u64::from(a) | u64::from(b) << 32
}

/// The definition: sort, keep the fewest that make up the part, and lay what is kept one behind the other by id.
fn drawn(logits: &[f32], rules: &DrawRules) -> Option<u32> {
    let top = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    if logits.iter().any(|logit| logit.is_nan() || *logit == f32::INFINITY) || top == f32::NEG_INFINITY {
        return None;
    }
    if rules.temperature == 0.0 {
        return logits.iter().position(|logit| *logit == top).map(|id| id as u32);
    }
    let mut masses: Vec<u64> = logits.iter().map(|logit| mass(top, *logit, rules.temperature)).collect();
    if rules.top_p < 1.0 {
        let mut order: Vec<usize> = (0..logits.len()).collect();
        order.sort_by(|a, b| logits[*b].partial_cmp(&logits[*a]).unwrap().then(a.cmp(b)));
        let enough = ((rules.top_p * masses.iter().sum::<u64>() as f64).ceil() as u64).max(1);
        let (mut sum, mut kept) = (0, vec![0; masses.len()]);
        for id in order {
            if sum < enough {
                sum += masses[id];
                kept[id] = masses[id];
            }
        }
        masses = kept;
    }
    let least = (rules.min_p * ONE).ceil() as u64;
    masses.iter_mut().filter(|mass| **mass < least).for_each(|mass| *mass = 0);
    let all: u64 = masses.iter().sum();
    let point = ((u128::from(random(rules.seed, rules.position)) * u128::from(all)) >> 64) as u64;
    let mut before = 0;
    let found = masses.iter().position(|mass| {
        before += mass;
        before > point
    });
    found.map(|id| id as u32)
}

/// Rows of every width under every rule, as the definition draws them.
pub(crate) fn draws_are_those_of_a_full_sort<D: Driver>(card: &Card<D>) {
    assert_eq!(random(0, 0), 0xe169_c58d_6627_e8d5, "a known answer of the authors' library");
    let dice = &mut Dice(23, |value| value);
    for (count, spread) in [(1, 3.0), (7, 1.0), (255, 20.0), (256, 0.02), (1_000, 60.0), (2_500, 5.0)] {
        let mut rows = Vec::new();
        let mut all_rules = Vec::new();
        for (at, temperature) in [0.0, 0.3, 1.0, 7.0].into_iter().enumerate() {
            for top_p in [1e-9, 0.3, 0.95, 1.0] {
                rows.push(logits(dice, count, spread));
                let min_p = if at % 2 == 0 { 0.0 } else { 0.05 };
                all_rules.push(rules(temperature, top_p, min_p, (77 + at as u64) << 33, 1 << 32 | count as u64));
            }
        }
        compare(card, &rows, &all_rules);
    }
}

/// Equal logits, one that outweighs all, and rows that nothing can be drawn from.
pub(crate) fn odd_rows_are_drawn_from_or_refused<D: Driver>(card: &Card<D>) {
    let count = 600;
    let equal = vec![1.5; count];
    let mut outweighs = vec![-30.0; count];
    outweighs[599] = 80.0;
    let mut wrong = equal.clone();
    wrong[300] = f32::NAN;
    let mut infinite = equal.clone();
    infinite[0] = f32::INFINITY;
    let rows = [equal, outweighs, wrong, infinite, vec![f32::NEG_INFINITY; count]];
    for (temperature, top_p) in [(0.0, 1.0), (1.0, 0.5), (1.0, 1.0), (0.01, 0.999)] {
        let all_rules: Vec<DrawRules> =
            (0..rows.len()).map(|row| rules(temperature, top_p, 0.0, 5, row as u64)).collect();
        compare(card, &rows, &all_rules);
    }
}

/// Values that are too small or too great to have a bin: few of them, more than a list holds, and nothing else; zeros without
/// end; equal logits on both sides of where chunks meet.
pub(crate) fn values_without_a_bin_are_drawn_like_others<D: Driver>(card: &Card<D>) {
    let dice = &mut Dice(67, |value| value);
    let count = 4_700;
    let narrow = |value: f32| bf16::from_f32(value).to_f32();
    let of_scale =
        |dice: &mut Dice, scale: f32| -> Vec<f32> { (0..count).map(|_| narrow(dice.next() * scale)).collect() };
    let mut few = logits(dice, count, 4.0);
    for (at, value) in [(9, 1e-6), (700, -1e-6), (701, 1e-6), (2_000, 3e-38), (4_699, -2_048.0)] {
        few[at] = narrow(value);
    }
    let mut great = of_scale(dice, 3.0);
    great[123..140].fill(1_536.0);
    great[3_000..3_009].fill(1_528.0);
    let mut zeros = vec![0.0; count];
    zeros[7..2_000].fill(-0.0);
    zeros[4_000] = narrow(-1e-5);
    let mut equal = of_scale(dice, 1.0);
    equal[200..4_200].fill(1.25);
    let rows = [few, great, of_scale(dice, 1e-5), of_scale(dice, 1e5), zeros, equal, vec![narrow(-1e30); count]];
    for (temperature, top_p, min_p) in [(0.0, 1.0, 0.0), (1.0, 0.6, 0.0), (1.0, 1.0, 0.0), (1e4, 0.99, 0.4)] {
        let all_rules: Vec<DrawRules> =
            (0..rows.len() as u64).map(|row| rules(temperature, top_p, min_p, 9 + row, row << 30)).collect();
        compare(card, &rows, &all_rules);
    }
}

/// So many rows that each has fewer chunks, and what was put for one step does not stay for the next.
pub(crate) fn steps_of_many_and_few_rows_follow_one_another<D: Driver>(card: &Card<D>) {
    let dice = &mut Dice(5, |value| value);
    for (rows, count) in [(2, 900), (33, 2_600), (1, 3_000), (3, 30)] {
        let all: Vec<Vec<f32>> = (0..rows).map(|_| logits(dice, count, 6.0)).collect();
        let all_rules: Vec<DrawRules> = (0..rows as u64).map(|row| rules(0.8, 0.9, 0.0, row, row)).collect();
        compare(card, &all, &all_rules);
    }
}

/// What is told of the draw: also what its log-probability at temperature 1 is made of.
fn told(logits: &[f32], rules: &DrawRules) -> Option<RowDraw> {
    let id = drawn(logits, rules)?;
    let top = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let mass = logits.iter().map(|logit| mass(top, *logit, 1.0)).sum();
    Some(RowDraw { id, logit: logits[id as usize], top, mass })
}

fn compare<D: Driver>(card: &Card<D>, rows: &[Vec<f32>], all_rules: &[DrawRules]) {
    let expected: Vec<Option<RowDraw>> = rows.iter().zip(all_rules).map(|(row, rules)| told(row, rules)).collect();
    assert_eq!(on(card, rows, all_rules), expected, "{} tokens, {all_rules:?}", rows[0].len());
}

fn on<D: Driver>(card: &Card<D>, rows: &[Vec<f32>], all_rules: &[DrawRules]) -> Vec<Option<RowDraw>> {
    let width = rows[0].len();
    let table = card.matrix(&[Stored::from_f32(rows.len(), width, &rows.concat()).unwrap()]).unwrap();
    let mut logits = card.rows(rows.len(), width).unwrap();
    card.embed(&table, &(0..rows.len() as u32).collect::<Vec<_>>(), &mut logits).unwrap();
    let mut drawn = vec![None];
    card.sample(&logits, all_rules, &mut drawn).unwrap();
    drawn
}

/// What the engine's `sample` drew for these rows and rules, written down by a test of that crate that is not kept: the two
/// crates do not know each other.
const OF_THE_ENGINE: [u32; 12] = [626, 506, 1257, 1265, 1412, 1036, 1139, 305, 1443, 1152, 1063, 633];

pub(crate) fn draws_are_those_of_the_processor<D: Driver>(card: &Card<D>) {
    let dice = &mut Dice(41, |value| value);
    let rows: Vec<Vec<f32>> = (0..OF_THE_ENGINE.len()).map(|_| logits(dice, 1_500, 9.0)).collect();
    let all_rules: Vec<DrawRules> = (0..OF_THE_ENGINE.len() as u64)
        .map(|row| rules([0.6, 1.0, 1.7][row as usize % 3], [0.95, 0.7][row as usize % 2], 0.0, 1_000 + row, row * row))
        .collect();
    let expected: Vec<Option<u32>> = OF_THE_ENGINE.iter().copied().map(Some).collect();
    let definition: Vec<Option<u32>> = rows.iter().zip(&all_rules).map(|(row, rules)| drawn(row, rules)).collect();
    assert_eq!(definition, expected);
    let told: Vec<Option<u32>> = on(card, &rows, &all_rules).iter().map(|draw| draw.map(|draw| draw.id)).collect();
    assert_eq!(told, expected);
}
