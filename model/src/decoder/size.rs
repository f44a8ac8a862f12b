//! How many numbers a decoder holds, before it is loaded: its weights, and what a step fills. It refuses to know how many
//! bytes a number has.

use super::HEAD_ROWS;
use crate::config::DecoderConfig;

impl DecoderConfig {
    /// Numbers of all weights, a tied head counted once.
    pub fn weight_values(&self) -> u64 {
        let [hidden, ffn, vocabulary, layers] = [self.hidden, self.ffn, self.vocabulary, self.layers].map(wide);
        let [q, kv, dim] = [self.q_width(), self.kv_width(), self.head_dim].map(wide);
        let qkv = q + 2 * kv;
        let biases = [(self.qkv_bias, qkv), (self.output_bias, hidden), (self.mlp_bias, 2 * ffn + hidden)];
        let biases: u64 = biases.iter().filter(|(there, _)| *there).map(|(_, count)| count).sum();
        let head_norms = if self.qk_norm { 2 * dim } else { 0 };
        let of_layer = hidden * (2 + qkv + q + 3 * ffn) + head_norms + biases;
        let tables = if self.tied { 1 } else { 2 };
        layers * of_layer + tables * vocabulary * hidden + hidden
    }

    /// Numbers of the buffers that a step of at most `rows_max` rows fills.
    pub fn step_values(&self, rows_max: usize) -> u64 {
        let [hidden, ffn, vocabulary] = [self.hidden, self.ffn, self.vocabulary].map(wide);
        let [q, kv] = [self.q_width(), self.kv_width()].map(wide);
        let of_row = 3 * hidden + (q + 2 * kv) + q + 3 * ffn;
        wide(rows_max).saturating_mul(of_row) + wide(HEAD_ROWS) * (hidden + vocabulary)
    }
}

fn wide(number: usize) -> u64 {
    number as u64
}

#[cfg(test)]
mod tests {
    use crate::folder::ModelFiles;
    use std::path::Path;

    /// What is counted of a shape is what its files hold.
    #[test]
    fn the_weights_of_every_golden_are_counted_to_the_last_number() {
        let goldens = Path::new(env!("CARGO_MANIFEST_DIR")).join("goldens");
        let mut counted = 0;
        for folder in walk(&goldens) {
            let Ok(files) = ModelFiles::open(&folder) else { continue };
            let Ok(config) = files.decoder() else { continue };
            let rest = files.weights.rest();
            let head = "lm_head.weight";
            let values = rest
                .iter()
                .filter(|name| !(config.tied && **name == head))
                .map(|name| files.weights.shape(name).unwrap().iter().map(|count| *count as u64).product::<u64>());
            assert_eq!(config.weight_values(), values.sum::<u64>(), "{}", folder.display());
            assert!(config.step_values(2) > config.step_values(1));
            counted += 1;
        }
        assert!(counted >= 4, "{counted} decoders among the goldens");
    }

    fn walk(folder: &Path) -> Vec<std::path::PathBuf> {
        let mut all = vec![folder.to_path_buf()];
        let mut at = 0;
        while at < all.len() {
            let below = std::fs::read_dir(&all[at]).unwrap().map(|entry| entry.unwrap().path());
            all.extend(below.filter(|path| path.is_dir()).collect::<Vec<_>>());
            at += 1;
        }
        all
    }
}
