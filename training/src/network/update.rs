//! From gradients to an update: sums over ranks, the global norm, clipping, AdamW. A gradient that is no number changes nothing.
//! It refuses to know the model's shape and the schedule.

use super::Network;
use crate::error::TrainingError;
use crate::rank::Update;
use crate::shard::{Cut, Fused};
use legwork_kernels::{AdamW, Learn};

/// Added to the norm that the clip is divided by, as Megatron and torch do.
const NORM_EPS: f64 = 1e-6;

impl<B: Learn> Network<B> {
    /// Sums the gradients of which each rank has a part, then those of all replicas, each where its tensor belongs to. It is called
    /// once, when the gradients of all packs are there.
    ///
    /// # Errors
    /// A device or a peer that failed.
    pub fn sum_gradients(&mut self) -> Result<(), TrainingError> {
        if self.ops.ranks() > 1 {
            for (fused, param) in self.layout.each().zip(self.params.each_mut()) {
                if fused.cut == Cut::Summed {
                    self.ops.all_reduce_gradient(param)?;
                }
            }
        }
        if self.ops.replicas() > 1 {
            self.ops.reduce_gradients(&mut self.params.each_mut().zip(self.owners.iter().copied()))?;
        }
        Ok(())
    }

    /// The norm of all gradients of all ranks, after [`Network::sum_gradients`]: of a tensor that lies in parts each part
    /// counts, of one that all have only the first rank's; of replicas the one that a tensor belongs to. The same number on all.
    ///
    /// # Errors
    /// A device or a peer that failed.
    pub fn gradient_norm(&mut self) -> Result<f64, TrainingError> {
        let first = self.ops.rank() == 0;
        let counts = |cut: Cut| first || matches!(cut, Cut::Outputs | Cut::Inputs);
        let replica = self.ops.replica();
        let each = self.layout.each().zip(self.params.each()).zip(&self.owners);
        let counted = each.filter(|((fused, _), owner)| counts(fused.cut) && **owner == replica);
        let mut squares = [self.ops.gradient_squares(&mut counted.map(|((_, param), _)| param))?];
        if self.ops.ranks() > 1 {
            self.ops.all_reduce_host(&mut squares)?;
        }
        self.ops.sum_over_replicas(&mut squares)?;
        Ok(squares[0].sqrt())
    }

    /// Clips by the global norm and updates, each tensor where it belongs to, or sets the gradients to 0 if they are no numbers. Gives the norm before
    /// clipping and whether the update was made.
    ///
    /// # Errors
    /// A device or a peer that failed.
    pub fn update(&mut self, update: &Update) -> Result<(f64, bool), TrainingError> {
        self.sum_gradients()?;
        let norm = self.gradient_norm()?;
        if !norm.is_finite() {
            self.zero_gradients()?;
            return Ok((norm, false));
        }
        let &Update { step, rate, clip, beta1, beta2, eps, decay } = update;
        let scale = (clip / (norm + NORM_EPS)).min(1.0);
        let step = AdamW { rate, beta1, beta2, eps, decay, step, scale };
        let decay_of = |fused: &Fused| if fused.is_vector { 0.0 } else { decay };
        let replica = self.ops.replica();
        let each = self.layout.each().zip(self.params.each_mut()).zip(&self.owners);
        let (mine, others): (Vec<_>, Vec<_>) = each.partition(|(_, owner)| **owner == replica);
        self.ops.adamw_each(&mut mine.into_iter().map(|((fused, param), _)| (param, decay_of(fused))), &step)?;
        for ((_, param), _) in others {
            self.ops.zero_gradient(param)?;
        }
        if self.ops.replicas() > 1 {
            self.ops.spread_values(&mut self.params.each_mut().zip(self.owners.iter().copied()))?;
        }
        Ok((norm, true))
    }

    /// Forgets all gradients.
    ///
    /// # Errors
    /// A device that failed.
    pub fn zero_gradients(&mut self) -> Result<(), TrainingError> {
        for param in self.params.each_mut() {
            self.ops.zero_gradient(param)?;
        }
        Ok(())
    }
}

/// Finds what an update cannot be.
pub(crate) fn check(update: &Update) -> Result<(), TrainingError> {
    let wrong = |setting, expected: &str, got: f64| {
        Err(TrainingError::Setting { setting, expected: expected.to_owned(), got: got.to_string() })
    };
    if update.step == 0 {
        return wrong("step of an update", "a number from 1", 0.0);
    }
    for (setting, beta) in [("beta1", update.beta1), ("beta2", update.beta2)] {
        if !(0.0..1.0).contains(&beta) {
            return wrong(setting, "a number from 0 to below 1", beta);
        }
    }
    if !(update.eps > 0.0 && update.eps.is_finite()) {
        return wrong("eps", "a number above 0", update.eps);
    }
    if !(update.clip > 0.0 && update.clip.is_finite()) {
        return wrong("clip", "a number above 0", update.clip);
    }
    for (setting, value) in [("learning rate", update.rate), ("weight decay", update.decay)] {
        if !(value >= 0.0 && value.is_finite()) {
            return wrong(setting, "a number from 0", value);
        }
    }
    Ok(())
}
