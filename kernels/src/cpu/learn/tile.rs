//! What attention does to a tile of scores between its products: `[keys, queries]`, so that all of it goes lane by lane and
//! nothing is summed across a register.
//!
//! It refuses to know where the tile lies, but for whether it is the diagonal's, where a query sees no key after itself.

use crate::cpu::panel::Level;
use crate::cpu::rowwise::{at_each_level, exp};

/// Queries and keys of a tile.
pub const TILE: usize = 64;

/// One number of each query.
pub type Lanes = [f32; TILE];

at_each_level!(
    /// Scores become exponentials below each query's greatest so far; `mass`, their sums, and `sums`, what was mixed with those
    /// before, are brought down to it.
    fold, fold_256, fold_512, fold_of,
    (scores: &mut [Lanes], diagonal: bool, most: &mut Lanes, mass: &mut Lanes, sums: &mut [Lanes])
);
at_each_level!(
    /// Scores become shares, `exp(score - lse)`, and the gradients `d` of shares those of products before they were scaled,
    /// `share * (d - delta) * factor`.
    unfold, unfold_256, unfold_512, unfold_of,
    (scores: &mut [Lanes], d: &mut [Lanes], diagonal: bool, lse: &Lanes, delta: &Lanes, factor: f32)
);

#[inline(always)]
fn fold_of(scores: &mut [Lanes], diagonal: bool, most: &mut Lanes, mass: &mut Lanes, sums: &mut [Lanes]) {
    let mut kept = *most;
    for (key, scores) in scores.iter_mut().enumerate() {
        if diagonal {
            scores[..key].fill(f32::NEG_INFINITY);
        }
        for (most, score) in most.iter_mut().zip(scores) {
            *most = most.max(*score);
        }
    }
    for ((kept, most), mass) in kept.iter_mut().zip(&*most).zip(&mut *mass) {
        *kept = exp(*kept - most);
        *mass *= *kept;
    }
    for scores in scores {
        for ((score, most), mass) in scores.iter_mut().zip(&*most).zip(&mut *mass) {
            *score = exp(*score - most);
            *mass += *score;
        }
    }
    for sums in sums {
        sums.iter_mut().zip(&kept).for_each(|(sum, kept)| *sum *= kept);
    }
}

#[inline(always)]
fn unfold_of(scores: &mut [Lanes], d: &mut [Lanes], diagonal: bool, lse: &Lanes, delta: &Lanes, factor: f32) {
    for (key, (scores, d)) in scores.iter_mut().zip(d).enumerate() {
        for (((score, d), lse), delta) in scores.iter_mut().zip(&mut *d).zip(lse).zip(delta) {
            *score = exp(*score - lse);
            *d = *score * (*d - delta) * factor;
        }
        if diagonal {
            scores[..key].fill(0.0);
            d[..key].fill(0.0);
        }
    }
}
