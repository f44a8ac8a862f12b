//! Frequencies of rotary positions from a description, rounded where Hugging Face rounds: the exponent and the inverse in
//! `f32`, since a long context multiplies every error (candle's pull request 3005 is one that had it wrong).

use crate::config::{DecoderConfig, RopeScaling};
use legwork_kernels::Rope;
use std::f64::consts::PI;

impl DecoderConfig {
    /// How positions turn heads, as every backend takes it.
    pub fn rotation(&self) -> Rope {
        of(self)
    }
}

pub(super) fn of(config: &DecoderConfig) -> Rope {
    let (dim, rope) = (config.head_dim, &config.rope);
    let plain: Vec<f32> = (0..dim / 2)
        .map(|pair| {
            let exponent = (2 * pair) as f32 / dim as f32;
            1.0 / (rope.theta.powf(f64::from(exponent)) as f32)
        })
        .collect();
    let mut scale = 1.0;
    let frequencies = match &rope.scaling {
        RopeScaling::None => plain,
        RopeScaling::Linear { factor } => plain.iter().map(|f| (f64::from(*f) / factor) as f32).collect(),
        RopeScaling::Llama3 { factor, low_freq_factor, high_freq_factor, original_context } => {
            let context = *original_context as f64;
            let scaled = |frequency: &f32| {
                let frequency = f64::from(*frequency);
                let wave = 2.0 * PI / frequency;
                if wave > context / low_freq_factor {
                    return (frequency / factor) as f32;
                }
                if wave < context / high_freq_factor {
                    return frequency as f32;
                }
                let smooth = (context / wave - low_freq_factor) / (high_freq_factor - low_freq_factor);
                ((1.0 - smooth) * frequency / factor + smooth * frequency) as f32
            };
            plain.iter().map(scaled).collect()
        }
        RopeScaling::Yarn { factor, original_context, beta_fast, beta_slow, attention_factor, truncate } => {
            scale = *attention_factor as f32;
            // The pair whose wave turns so often within the original context (YaRN's equation 17 ff.).
            let pair_of = |turns: f64| {
                dim as f64 * (*original_context as f64 / (turns * 2.0 * PI)).ln() / (2.0 * rope.theta.ln())
            };
            let (mut low, mut high) = (pair_of(*beta_fast), pair_of(*beta_slow));
            if *truncate {
                (low, high) = (low.floor(), high.ceil());
            }
            let (low, high) = (low.max(0.0), high.min((dim - 1) as f64));
            let width = if high == low { 0.001 } else { high - low };
            let scaled = |(pair, frequency): (usize, &f32)| {
                let ramp = ((pair as f64 - low) / width).clamp(0.0, 1.0);
                let frequency = f64::from(*frequency);
                (frequency / factor * ramp + frequency * (1.0 - ramp)) as f32
            };
            plain.iter().enumerate().map(scaled).collect()
        }
        RopeScaling::Divisors(divisors) => plain.iter().zip(divisors).map(|(f, divisor)| f / divisor).collect(),
    };
    Rope { frequencies, interleaved: rope.interleaved, scale }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{DecoderConfig, Family, Rope as Described};

    fn frequencies(theta: f64, scaling: RopeScaling) -> Rope {
        of(&DecoderConfig {
            family: Family::Qwen3,
            hidden: 512,
            layers: 1,
            heads: 4,
            kv_heads: 4,
            head_dim: 128,
            ffn: 8,
            vocabulary: 8,
            context: 131_072,
            rms_eps: 1e-6,
            rope: Described { theta, scaling, interleaved: false },
            tied: true,
            qkv_bias: false,
            output_bias: false,
            mlp_bias: false,
            qk_norm: true,
            dtype: None,
        })
    }

    /// The golden's model turns by angles of up to 40,959 radians, of which a unit in the last place is 0.004.
    #[test]
    fn frequencies_are_those_of_transformers_up_to_the_last_position() {
        let text = include_str!("../../goldens/decoder/rope.json");
        let golden: serde_json::Value = serde_json::from_str(text).unwrap();
        let position = golden["position"].as_u64().unwrap() as f32;
        let yarn = RopeScaling::Yarn {
            factor: 4.0,
            original_context: 32_768,
            beta_fast: 32.0,
            beta_slow: 1.0,
            attention_factor: 0.1 * 4.0_f64.ln() + 1.0,
            truncate: true,
        };
        let llama3 =
            RopeScaling::Llama3 { factor: 8.0, low_freq_factor: 1.0, high_freq_factor: 4.0, original_context: 8_192 };
        for (name, rope) in [
            ("qwen3", frequencies(1e6, RopeScaling::None)),
            ("yarn", frequencies(1e6, yarn)),
            ("llama3", frequencies(5e5, llama3)),
        ] {
            let numbers = |field: &str| -> Vec<f32> {
                golden[name][field].as_array().unwrap().iter().map(|x| x.as_f64().unwrap() as f32).collect()
            };
            let (expected, cos, sin) = (numbers("frequencies"), numbers("cos"), numbers("sin"));
            assert_eq!(rope.frequencies.len(), 64);
            for (pair, frequency) in rope.frequencies.iter().enumerate() {
                let off = (frequency / expected[pair] - 1.0).abs();
                assert!(off < 2e-7, "{name}, pair {pair}: {frequency} for {}", expected[pair]);
                let angle = position * frequency;
                let unit = angle * 2e-7 + 1e-6;
                assert!((angle.cos() * rope.scale - cos[pair]).abs() < unit, "{name}, cosine of pair {pair}");
                assert!((angle.sin() * rope.scale - sin[pair]).abs() < unit, "{name}, sine of pair {pair}");
            }
        }
    }
}
