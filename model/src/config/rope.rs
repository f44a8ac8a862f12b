//! Rotary positions as data: the base, which numbers form a pair, and how the angles are stretched beyond the context that
//! a model was trained on. It refuses to compute angles.

use super::limits;

/// How positions turn queries and keys.
#[derive(Clone, Debug, PartialEq)]
pub struct Rope {
    /// The base: the inverse frequency of pair `i` is `theta^(-2i / head_dim)`, before any scaling.
    pub theta: f64,
    /// How the frequencies are changed.
    pub scaling: RopeScaling,
    /// Pairs are neighbours `(2i, 2i + 1)`; otherwise halves `(i, i + head_dim / 2)`, as Hugging Face has it. GGUF's files of
    /// the architecture `llama` have the rows of queries and keys permuted for neighbours.
    pub interleaved: bool,
}

/// A change of the inverse frequencies, as `transformers` 5 and llama.cpp define it.
#[derive(Clone, Debug, PartialEq)]
pub enum RopeScaling {
    /// None.
    None,
    /// Every frequency is divided.
    Linear {
        /// By this.
        factor: f64,
    },
    /// Llama 3.1: long waves are divided, short ones kept, those between interpolated.
    Llama3 {
        /// Divides the long waves.
        factor: f64,
        /// Waves longer than `original_context / low_freq_factor` are long.
        low_freq_factor: f64,
        /// Waves shorter than `original_context / high_freq_factor` are short; above `low_freq_factor`.
        high_freq_factor: f64,
        /// The context before scaling.
        original_context: usize,
    },
    /// YaRN: a ramp between dividing and keeping, and a factor on sine and cosine.
    Yarn {
        /// Divides the long waves.
        factor: f64,
        /// The context before scaling.
        original_context: usize,
        /// Turns within the original context above which a wave is kept.
        beta_fast: f64,
        /// Turns below which a wave is divided.
        beta_slow: f64,
        /// Multiplies sine and cosine; resolved from `attention_factor`, `mscale` and `mscale_all_dim` where the file gives
        /// these.
        attention_factor: f64,
        /// Whether the ends of the ramp are rounded outwards to whole pairs.
        truncate: bool,
    },
    /// GGUF's `rope_freqs.weight`: the frequency of each pair is divided by its number. Llama 3.1's scaling arrives so.
    Divisors(Vec<f32>),
}

/// A field, what it must be, and what it is.
type Wrong = (&'static str, String, String);

impl Rope {
    pub(super) fn check(&self, head_dim: usize) -> Result<(), Wrong> {
        let within = |field, value: f64, least: f64, most: f64| {
            let fine = value >= least && value <= most;
            fine.then_some(()).ok_or_else(|| (field, format!("a number from {least} to {most}"), value.to_string()))
        };
        let context = |value: usize| {
            let fine = (1..=limits::CONTEXT_MAX).contains(&value);
            let expected = || format!("a number from 1 to {}", limits::CONTEXT_MAX);
            fine.then_some(()).ok_or_else(|| ("rope original context", expected(), value.to_string()))
        };
        within("rope theta", self.theta, 1.0, limits::THETA_MAX)?;
        match &self.scaling {
            RopeScaling::None => Ok(()),
            RopeScaling::Linear { factor } => within("rope factor", *factor, 1.0, 1e6),
            RopeScaling::Llama3 { factor, low_freq_factor, high_freq_factor, original_context } => {
                within("rope factor", *factor, 1.0, 1e6)?;
                within("rope low_freq_factor", *low_freq_factor, 1e-3, 1e6)?;
                if *high_freq_factor <= *low_freq_factor {
                    let expected = format!("more than the low factor {low_freq_factor}");
                    return Err(("rope high_freq_factor", expected, high_freq_factor.to_string()));
                }
                within("rope high_freq_factor", *high_freq_factor, 1e-3, 1e6)?;
                context(*original_context)
            }
            RopeScaling::Yarn { factor, original_context, beta_fast, beta_slow, attention_factor, .. } => {
                within("rope factor", *factor, 1.0, 1e6)?;
                within("rope beta_slow", *beta_slow, 1e-3, 1e6)?;
                if *beta_fast <= *beta_slow {
                    let expected = format!("more than beta_slow {beta_slow}");
                    return Err(("rope beta_fast", expected, beta_fast.to_string()));
                }
                within("rope beta_fast", *beta_fast, 1e-3, 1e6)?;
                within("rope attention_factor", *attention_factor, 1e-3, 1e3)?;
                context(*original_context)
            }
            RopeScaling::Divisors(divisors) => {
                let wrong = |got: String| ("rope_freqs.weight", format!("{} numbers above 0", head_dim / 2), got);
                if divisors.len() != head_dim / 2 {
                    return Err(wrong(format!("{} numbers", divisors.len())));
                }
                let bad = divisors.iter().find(|divisor| !(divisor.is_finite() && **divisor > 0.0));
                bad.map_or(Ok(()), |bad| Err(wrong(bad.to_string())))
            }
        }
    }
}

/// The default factor of YaRN on sine and cosine for a scaling by `factor` (its paper, equation 22).
pub(super) fn yarn_attention(factor: f64, mscale: f64) -> f64 {
    if factor <= 1.0 { 1.0 } else { 0.1 * mscale * factor.ln() + 1.0 }
}
