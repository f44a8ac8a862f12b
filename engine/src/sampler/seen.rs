//! Which tokens a request has seen and drawn, and how that and its bias change logits. It refuses to know how tokens are
//! drawn.

use crate::sampling::Sampling;
use std::collections::BTreeMap;

/// How often each token was drawn; tokens of the prompt are there with 0.
#[derive(Clone, Debug, Default)]
pub struct Seen(BTreeMap<u32, u32>);

impl Seen {
    /// Of a prompt; empty, and kept so, when the rules do not ask which tokens came before.
    pub fn new(prompt: &[u32], rules: &Sampling) -> Self {
        match rules.repetition_penalty != 1.0 {
            true => Self(prompt.iter().map(|id| (*id, 0)).collect()),
            false => Self::default(),
        }
    }

    /// Counts a drawn token.
    pub fn draw(&mut self, id: u32, rules: &Sampling) {
        if rules.counts_tokens() {
            *self.0.entry(id).or_insert(0) += 1;
        }
    }

    /// Applies the repetition penalty, then frequency and presence, then the bias. What leaves the range of f32 is brought
    /// back to its end, so that numbers stay numbers; -inf stays.
    pub(super) fn change(&self, logits: &mut [f32], rules: &Sampling) {
        for (id, drawn) in &self.0 {
            let Some(logit) = logits.get_mut(*id as usize) else { continue };
            let mut value = f64::from(*logit);
            value = if value < 0.0 { value * rules.repetition_penalty } else { value / rules.repetition_penalty };
            value -= rules.frequency_penalty * f64::from(*drawn);
            value -= if *drawn > 0 { rules.presence_penalty } else { 0.0 };
            *logit = within_f32(value);
        }
        for (id, bias) in &rules.logit_bias {
            if let Some(logit) = logits.get_mut(*id as usize) {
                *logit = within_f32(f64::from(*logit) + bias);
            }
        }
    }
}

fn within_f32(value: f64) -> f32 {
    if value == f64::NEG_INFINITY { f32::NEG_INFINITY } else { value.clamp(f32::MIN.into(), f32::MAX.into()) as f32 }
}
