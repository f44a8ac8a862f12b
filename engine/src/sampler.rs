//! Draws a token from one row of logits: a pure function of the row, the rules, what was seen before, and a counter. It
//! refuses to know requests and batches.
//!
//! The order is that of Hugging Face transformers: penalties, bias, temperature, top-k, top-p of what top-k left, min-p.
//! Masses are whole numbers of 2^-44 of the greatest ([`weights`]), so sums are exact in any order and the kept set is
//! exactly what a full sort would give; a token less probable than 2^-45 of the greatest is never drawn.

mod cut;
pub mod philox;
mod seen;
mod weights;

pub use seen::Seen;

use crate::request::Drawn;
use crate::sampling::Sampling;
use cut::Cutter;
use legwork_kernels::RowDraw;
use weights::{ONE, Scale, Weights};

/// Room for drawing, kept between rows so that nothing is allocated for each.
#[derive(Debug, Default)]
pub struct Scratch {
    changed: Vec<f32>,
    weights: Weights,
    cutter: Cutter,
}

/// Why a row cannot be drawn from.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("the logit of token {id} is {logit}; expected finite logits or -inf, and one that is not -inf")]
pub struct NotFinite {
    /// The first token that is wrong; 0 when all logits are -inf.
    pub id: u32,
    /// Its logit.
    pub logit: f32,
}

/// Draws the token at `position`, the number of tokens drawn before it. Equal arguments give equal tokens, on every machine.
///
/// # Errors
/// A logit that is no number or +inf, or none that is above -inf.
pub fn sample(
    logits: &[f32],
    rules: &Sampling,
    seen: &Seen,
    position: u64,
    scratch: &mut Scratch,
) -> Result<Drawn, NotFinite> {
    let raw = greatest(logits)?;
    let Scratch { changed, weights, cutter } = scratch;
    let (values, top) = if rules.changes_logits() {
        changed.clear();
        changed.extend_from_slice(logits);
        seen.change(changed, rules);
        let top = greatest(changed)?;
        (changed.as_slice(), top)
    } else {
        (logits, raw)
    };
    let raw_scale = Scale::new(raw.1, 1.0);
    let mut raw_sum = None;
    let id = if rules.temperature == 0.0 {
        top.0
    } else {
        weights.fill(values, Scale::new(top.1, rules.temperature));
        if rules.temperature == 1.0 && !rules.changes_logits() {
            raw_sum = Some(weights.sum());
        }
        keep(values, rules, weights, cutter);
        let mass = weights.sum();
        // Multiplying 64 random bits by the mass and keeping the upper half is uniform to within 2^-64.
        let point = ((u128::from(philox::draw(rules.seed, position)) * u128::from(mass)) >> 64) as u64;
        weights.at(point)
    };
    let Some(wanted) = rules.logprobs else { return Ok(Drawn { id, logprob: None, top: Vec::new() }) };
    let raw_sum = raw_sum.unwrap_or_else(|| raw_scale.sum(logits));
    let normal = f64::from(raw.1) + (raw_sum as f64 / ONE as f64).ln();
    let logprob = |logit: f32| (f64::from(logit) - normal) as f32;
    let best = most_probable(logits, wanted.into());
    let top = best.into_iter().map(|id| (id, logprob(logits[id as usize]))).collect();
    Ok(Drawn { id, logprob: Some(logprob(logits[id as usize])), top })
}

/// A token that was drawn where its logits are.
pub(crate) fn told(drawn: &RowDraw, rules: &Sampling) -> Drawn {
    let normal = f64::from(drawn.top) + (drawn.mass as f64 / ONE as f64).ln();
    let logprob = rules.logprobs.map(|_| (f64::from(drawn.logit) - normal) as f32);
    Drawn { id: drawn.id, logprob, top: Vec::new() }
}

/// Logits that are looked at side by side.
const LANES: usize = 16;

/// Takes the mass of all that may not be drawn.
fn keep(values: &[f32], rules: &Sampling, weights: &mut Weights, cutter: &mut Cutter) {
    if let Some(most) = rules.top_k.filter(|most| *most < values.len()) {
        cutter.keep_count(values, weights, most);
    }
    if rules.top_p < 1.0 {
        cutter.keep_mass(values, weights, rules.top_p);
    }
    if rules.min_p > 0.0 {
        weights.drop_below((rules.min_p * ONE as f64).ceil() as u64);
    }
}

/// The lowest id that has the greatest logit, and that logit.
fn greatest(logits: &[f32]) -> Result<(u32, f32), NotFinite> {
    // Lanes that do not wait for one another; a second number rather than a bool, so that all lanes are of one width.
    let (mut tops, mut wrongs) = ([f32::NEG_INFINITY; LANES], [0.0f32; LANES]);
    let mut look = |group: &[f32]| {
        for ((top, wrong), logit) in tops.iter_mut().zip(&mut wrongs).zip(group) {
            *top = if *logit > *top { *logit } else { *top };
            // Also for what is no number.
            *wrong = if *logit < f32::INFINITY { *wrong } else { 1.0 };
        }
    };
    let groups = logits.chunks_exact(LANES);
    look(groups.remainder());
    groups.for_each(look);
    let id_of = |suits: &dyn Fn(&f32) -> bool| logits.iter().position(suits).unwrap_or(0) as u32;
    if wrongs.contains(&1.0) {
        let id = id_of(&|logit| logit.is_nan() || *logit == f32::INFINITY);
        return Err(NotFinite { id, logit: logits[id as usize] });
    }
    let top = tops.into_iter().fold(f32::NEG_INFINITY, f32::max);
    match top == f32::NEG_INFINITY {
        true => Err(NotFinite { id: 0, logit: top }),
        false => Ok((id_of(&|logit| *logit == top), top)),
    }
}

/// The ids of the `wanted` greatest logits above -inf, best first, equal ones by id.
fn most_probable(logits: &[f32], wanted: usize) -> Vec<u32> {
    let mut best: Vec<(f32, u32)> = Vec::with_capacity(wanted + 1);
    for (id, logit) in logits.iter().enumerate() {
        let full = best.len() == wanted;
        if *logit == f32::NEG_INFINITY || full && best.last().is_none_or(|least| *logit <= least.0) {
            continue;
        }
        let at = best.partition_point(|known| known.0 >= *logit);
        best.insert(at, (*logit, id as u32));
        best.truncate(wanted);
    }
    best.into_iter().map(|(_, id)| id).collect()
}

#[cfg(test)]
mod tests;
