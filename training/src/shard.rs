//! Which part of each tensor a rank of a tensor-parallel group holds, after Megatron-LM: queries, keys, values, gate and up by
//! their outputs, attention's and the feed-forward's way out by their inputs, embedding and head by rows of the vocabulary.
//! It refuses to compute: it cuts whole tensors and puts parts together again.

use crate::error::TrainingError;
use crate::tensor::NamedTensor;
use legwork_kernels::Heads;
use legwork_model::DecoderConfig;
use std::ops::Range;

/// Ranks of a group at most.
pub const RANKS_MAX: usize = 1_024;
/// The vocabulary is padded to a multiple of this times the ranks, as Megatron-LM pads it.
pub const VOCABULARY_MULTIPLE: usize = 128;

/// How a tensor lies on the ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    /// Each rank has some of the outputs: rows of a matrix, values of its bias.
    Outputs,
    /// Each rank has some of the inputs: columns of a matrix.
    Inputs,
    /// Each rank has all of it, and computes all of its gradient.
    Copied,
    /// Each rank has all of it, and computes the part of its gradient that comes from its own heads.
    Summed,
}

/// A tensor as a Hugging Face folder has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Its name.
    pub name: String,
    /// Rows and columns of all of it; of embedding and head with the rows that pad the vocabulary.
    pub shape: [usize; 2],
}

/// A learned tensor: one of a folder, or several of the same inputs, one below the other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fused {
    /// Its name, such as `model.layers.0.self_attn.qkv_proj.weight`.
    pub name: String,
    /// What it is made of. Each rank has the same part of each piece.
    pub pieces: Vec<Piece>,
    /// How it lies on the ranks.
    pub cut: Cut,
    /// Whether it has one dimension. Its pieces then lie one behind the other, and it does not decay.
    pub is_vector: bool,
    /// Whether rows may be fewer or more in other files: those of the vocabulary.
    pub is_vocabulary: bool,
}

/// A rank's part of a decoder.
#[derive(Clone, Debug, PartialEq)]
pub struct Shard {
    rank: usize,
    ranks: usize,
    heads: Heads,
    ffn: usize,
    vocabulary: usize,
    padded_vocabulary: usize,
}

impl Shard {
    /// A rank's part.
    ///
    /// # Errors
    /// A rank that is not there, or a number of ranks that does not divide what is cut.
    pub fn new(config: &DecoderConfig, rank: usize, ranks: usize) -> Result<Self, TrainingError> {
        let wrong = |setting, expected: String, got: usize| {
            Err(TrainingError::Setting { setting, expected, got: got.to_string() })
        };
        let cut = [config.heads, config.kv_heads, config.ffn];
        if ranks == 0 || ranks > RANKS_MAX || cut.iter().any(|size| !size.is_multiple_of(ranks)) {
            let fitting = |ranks: &usize| cut.iter().all(|size| size.is_multiple_of(*ranks));
            let fitting: Vec<String> =
                (1..=config.kv_heads.min(RANKS_MAX)).filter(fitting).map(|n| n.to_string()).collect();
            let expected = format!(
                "one of {}, which divide {} heads, {} key-value heads and the feed-forward width {}",
                fitting.join(", "),
                config.heads,
                config.kv_heads,
                config.ffn
            );
            return wrong("tensor-parallel ranks", expected, ranks);
        }
        if rank >= ranks {
            return wrong("rank", format!("a number below the {ranks} ranks"), rank);
        }
        let heads = Heads { query: config.heads / ranks, kv: config.kv_heads / ranks, dim: config.head_dim };
        let padded_vocabulary = padded_vocabulary(config.vocabulary, ranks);
        Ok(Self { rank, ranks, heads, ffn: config.ffn / ranks, vocabulary: config.vocabulary, padded_vocabulary })
    }

    /// The rank.
    pub fn rank(&self) -> usize {
        self.rank
    }

    /// Ranks of the group.
    pub fn ranks(&self) -> usize {
        self.ranks
    }

    /// Its heads.
    pub fn heads(&self) -> Heads {
        self.heads
    }

    /// Its width inside the feed-forward part.
    pub fn ffn(&self) -> usize {
        self.ffn
    }

    /// Tokens of the vocabulary, without padding.
    pub fn vocabulary(&self) -> usize {
        self.vocabulary
    }

    /// Rows of embedding and head over all ranks.
    pub fn padded_vocabulary(&self) -> usize {
        self.padded_vocabulary
    }

    /// The ids whose rows it has.
    pub fn ids(&self) -> Range<usize> {
        self.part_of(self.padded_vocabulary)
    }

    /// Its shape of a learned tensor.
    pub fn shape(&self, fused: &Fused) -> [usize; 2] {
        let mut shape = [0, 0];
        for piece in &fused.pieces {
            let [rows, cols] = self.window(fused, piece).map(|range| range.len());
            shape = if fused.is_vector { [rows, shape[1] + cols] } else { [shape[0] + rows, cols] };
        }
        shape
    }

    /// Its part of whole pieces. Where a vocabulary has other rows than here, those that are missing are 0 and those that
    /// are too many are left out: both are padding.
    ///
    /// # Errors
    /// Pieces of other shapes.
    pub fn cut(&self, fused: &Fused, wholes: &[NamedTensor]) -> Result<Vec<f32>, TrainingError> {
        let [rows, cols] = self.shape(fused);
        let mut local = Vec::with_capacity(rows * cols);
        for (piece, whole) in fused.pieces.iter().zip(wholes) {
            let [there, width] = whole.shape;
            let enough = there == piece.shape[0] || fused.is_vocabulary && there >= self.vocabulary;
            if !enough || width != piece.shape[1] || there.checked_mul(width) != Some(whole.values.len()) {
                return Err(TrainingError::Setting {
                    setting: "a tensor of the model",
                    expected: format!("{} of shape {:?}", piece.name, piece.shape),
                    got: format!("{} of shape {:?} and {} values", whole.name, whole.shape, whole.values.len()),
                });
            }
            let [rows, cols] = self.window(fused, piece);
            for row in rows {
                match whole.values.get(row * width..(row + 1) * width) {
                    Some(values) => local.extend_from_slice(&values[cols.clone()]),
                    None => local.extend(std::iter::repeat_n(0.0, cols.len())),
                }
            }
        }
        Ok(local)
    }

    /// Puts its part into whole pieces of their full shapes: what [`Shard::cut`] undoes.
    ///
    /// # Errors
    /// A part of another shape.
    pub fn place(&self, fused: &Fused, local: &[f32], wholes: &mut [NamedTensor]) -> Result<(), TrainingError> {
        let [rows, cols] = self.shape(fused);
        if local.len() != rows * cols {
            return Err(TrainingError::Setting {
                setting: "a part of a tensor",
                expected: format!("{rows} x {cols} values of {}", fused.name),
                got: local.len().to_string(),
            });
        }
        let mut rest = local;
        for (piece, whole) in fused.pieces.iter().zip(wholes) {
            let [rows, cols] = self.window(fused, piece);
            for row in rows {
                let (values, after) = rest.split_at(cols.len());
                whole.values[row * piece.shape[1]..][cols.clone()].copy_from_slice(values);
                rest = after;
            }
        }
        Ok(())
    }

    /// Rows and columns of a piece that it has.
    fn window(&self, fused: &Fused, piece: &Piece) -> [Range<usize>; 2] {
        let [rows, cols] = piece.shape;
        match (fused.cut, fused.is_vector) {
            (Cut::Copied | Cut::Summed, _) => [0..rows, 0..cols],
            (Cut::Outputs, false) => [self.part_of(rows), 0..cols],
            (Cut::Outputs, true) | (Cut::Inputs, _) => [0..rows, self.part_of(cols)],
        }
    }

    fn part_of(&self, size: usize) -> Range<usize> {
        let part = size / self.ranks;
        self.rank * part..(self.rank + 1) * part
    }
}

/// Rows of embedding and head: the vocabulary, padded for so many ranks.
pub fn padded_vocabulary(vocabulary: usize, ranks: usize) -> usize {
    vocabulary.next_multiple_of(VOCABULARY_MULTIPLE * ranks.max(1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::network::Tensors;
    use crate::network::tests::{numbered, shape};

    #[test]
    fn the_vocabulary_is_padded_as_megatron_pads_it() {
        assert_eq!(padded_vocabulary(151_936, 1), 151_936);
        assert_eq!(padded_vocabulary(151_936, 4), 152_064);
        assert_eq!(padded_vocabulary(300, 2), 512);
    }

    #[test]
    fn parts_of_all_ranks_are_the_whole_again_for_every_tensor_and_number_of_ranks() {
        let config = shape();
        for ranks in [1, 2, 4] {
            let padded = padded_vocabulary(config.vocabulary, ranks);
            for fused in Tensors::of(&config, padded).each() {
                let wholes: Vec<NamedTensor> = fused.pieces.iter().map(|piece| numbered(fused, piece)).collect();
                let mut again = wholes.clone();
                again.iter_mut().for_each(|whole| whole.values.fill(f32::NAN));
                for rank in 0..ranks {
                    let shard = Shard::new(&config, rank, ranks).unwrap();
                    let local = shard.cut(fused, &wholes).unwrap();
                    assert_eq!(local.len(), shard.shape(fused).iter().product::<usize>());
                    shard.place(fused, &local, &mut again).unwrap();
                }
                assert_eq!(again, wholes, "{} on {ranks}", fused.name);
            }
        }
    }

    #[test]
    fn a_rank_has_whole_heads_and_the_same_part_of_gate_and_up() {
        let config = shape();
        let shard = Shard::new(&config, 1, 2).unwrap();
        let tensors = Tensors::of(&config, shard.padded_vocabulary());
        let qkv = &tensors.layers[0].qkv;
        let wholes: Vec<NamedTensor> = qkv.pieces.iter().map(|piece| numbered(qkv, piece)).collect();
        let local = shard.cut(qkv, &wholes).unwrap();
        let (q, kv, width) = (config.q_width() / 2, config.kv_width() / 2, config.hidden);
        assert_eq!(local[..width], wholes[0].values[q * width..][..width]);
        assert_eq!(local[q * width..][..width], wholes[1].values[kv * width..][..width]);
        assert_eq!(local[(q + kv) * width..][..width], wholes[2].values[kv * width..][..width]);
        assert_eq!(shard.heads(), Heads { query: 4, kv: 2, dim: 16 });
    }

    #[test]
    fn rows_beyond_a_files_vocabulary_are_0_and_rows_too_many_are_left_out() {
        let config = shape();
        let shard = Shard::new(&config, 1, 2).unwrap();
        let tensors = Tensors::of(&config, shard.padded_vocabulary());
        let mut whole = numbered(&tensors.embedding, &tensors.embedding.pieces[0]);
        whole.shape[0] = config.vocabulary;
        whole.values.truncate(config.vocabulary * config.hidden);
        let local = shard.cut(&tensors.embedding, std::slice::from_ref(&whole)).unwrap();
        let there = (config.vocabulary - shard.ids().start) * config.hidden;
        assert_eq!(local[..there], whole.values[shard.ids().start * config.hidden..]);
        assert!(local[there..].iter().all(|value| *value == 0.0) && local.len() > there);
        whole.shape[0] -= 1;
        whole.values.truncate(whole.shape[0] * config.hidden);
        assert!(shard.cut(&tensors.embedding, &[whole]).unwrap_err().to_string().contains("model.embed_tokens.weight"));
    }

    #[test]
    fn ranks_that_do_not_divide_are_refused_with_those_that_do() {
        let refused = Shard::new(&shape(), 0, 3).unwrap_err().to_string();
        assert!(refused.contains("one of 1, 2, 4, which divide 8 heads, 4 key-value heads"), "{refused}");
        assert!(Shard::new(&shape(), 0, 0).is_err() && Shard::new(&shape(), 0, 8).is_err());
        assert!(Shard::new(&shape(), 2, 2).unwrap_err().to_string().starts_with("rank: expected a number below the 2"));
    }
}
