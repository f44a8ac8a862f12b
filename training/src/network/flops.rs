//! The floating-point operations that a step needs by the model's shape alone: what a share of the machine's peak (MFU) is
//! counted from. What is computed again on the way back does not count, as PaLM's appendix B has it.
//! It refuses to know time and machines.

use legwork_model::DecoderConfig;

/// Operations of forward and backward over sequences of these lengths, with `head_rows` rows through the head.
///
/// A product of a row with `n` weights is `2 n` operations forward and twice that back, hence `6 n`. Causal attention of a
/// sequence of `len` tokens meets `len^2 / 2` pairs of query and key; each pair is `4 * width` operations forward (scores and
/// their weighted values) and twice that back. Published figures let all tokens through the head: pass the sum of the lengths
/// to compare with them, and the supervised rows to count what is computed here.
pub fn step_flops(config: &DecoderConfig, lengths: &[usize], head_rows: usize) -> f64 {
    let (hidden, width) = (config.hidden as f64, config.q_width() as f64);
    let attention_weights = hidden * (2.0 * width + 2.0 * config.kv_width() as f64);
    let layer_weights = attention_weights + 3.0 * hidden * config.ffn as f64;
    let layers = config.layers as f64;
    let tokens: f64 = lengths.iter().map(|len| *len as f64).sum();
    let pairs: f64 = lengths.iter().map(|len| (*len as f64).powi(2) / 2.0).sum();
    let head = 6.0 * hidden * config.vocabulary as f64 * head_rows as f64;
    6.0 * layers * layer_weights * tokens + 12.0 * layers * width * pairs + head
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::network::tests::shape;

    #[test]
    fn operations_of_qwen3_4b_are_its_weights_times_six_and_attention() {
        let config = DecoderConfig {
            hidden: 2_560,
            layers: 36,
            heads: 32,
            kv_heads: 8,
            head_dim: 128,
            ffn: 9_728,
            vocabulary: 151_936,
            ..shape()
        };
        // 4.02e9 weights in products, the tied head counted once; norms are in none.
        let weights = step_flops(&config, &[1], 1) - 12.0 * 36.0 * 4_096.0 / 2.0;
        assert_eq!(weights / 6.0, 36.0 * (2_560.0 * 10_240.0 + 3.0 * 2_560.0 * 9_728.0) + 2_560.0 * 151_936.0);
        assert!((weights / 6.0 / 4.022e9 - 1.0).abs() < 1e-3);
        // Two sequences of half the length meet half the pairs.
        let (one, two) = (step_flops(&config, &[8_192], 0), step_flops(&config, &[4_096, 4_096], 0));
        assert_eq!(one - two, 12.0 * 36.0 * 4_096.0 * (8_192.0_f64.powi(2) / 4.0));
    }
}
