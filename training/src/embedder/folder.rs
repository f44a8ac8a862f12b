//! An embedder as a folder that sentence-transformers reads: the decoder, its tokenizer, and beside them that a text's vector is
//! the mean of its rows with the length 1.
//! It refuses to know how it was trained.

use super::LearningEmbedder;
use crate::error::TrainingError;
use crate::export::{FolderMaking, NumberKind, SHARD_BYTES_MAX, WeightsMaking, wanted};
use crate::tensor::NamedTensor;
use legwork_kernels::{Learn, Part};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

/// Files of the model that training began from, which training does not change.
const COPIED: [&str; 2] = ["tokenizer.json", "tokenizer_config.json"];

/// An embedder's folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EmbedderMade {
    /// Where it is.
    pub folder: PathBuf,
    /// Bytes of its weights.
    pub bytes: u64,
}

impl<B: Learn> LearningEmbedder<B> {
    /// Writes the folder. `original` is the folder that training began from, `tokens_max` what is read of a text.
    ///
    /// # Errors
    /// A place that has something already or cannot be written, a file of the original that is missing, or a value that the kind
    /// of number cannot say. Nothing is left under the folder's name then.
    pub fn write(
        &self,
        original: &Path,
        out: &Path,
        kind: NumberKind,
        tokens_max: usize,
    ) -> Result<EmbedderMade, TrainingError> {
        let network = self.rank.network();
        let read = |name: &str| {
            let path = original.join(name);
            std::fs::read(&path).map_err(|source| TrainingError::Io { what: "read", path, source })
        };
        let mut description: Value = serde_json::from_slice(&read("config.json")?).map_err(|error| {
            let (expected, got) = ("a config.json of JSON".to_owned(), error.to_string());
            TrainingError::Setting { setting: "model", expected, got }
        })?;
        description["torch_dtype"] = kind.name().into();
        let making = FolderMaking::begin(out)?;
        let mut tensors: Vec<Result<NamedTensor, TrainingError>> = Vec::new();
        let shard = network.shard();
        network.read(Part::Value, |fused, _, values| {
            let whole = |piece: &crate::shard::Piece| NamedTensor {
                name: piece.name.clone(),
                shape: piece.shape,
                is_vector: fused.is_vector,
                values: vec![0.0; piece.shape[0] * piece.shape[1]],
            };
            let mut wholes: Vec<NamedTensor> = fused.pieces.iter().map(whole).collect();
            shard.place(fused, values, &mut wholes)?;
            tensors.extend(wholes.into_iter().map(Ok));
            Ok(())
        })?;
        let made = WeightsMaking::begin(&making, "the embedder", wanted(network.config()), kind, SHARD_BYTES_MAX)?
            .fill(tensors)?;
        let pooling = json!({
            "word_embedding_dimension": network.config().hidden, "pooling_mode_cls_token": false,
            "pooling_mode_mean_tokens": true, "pooling_mode_max_tokens": false,
            "pooling_mode_mean_sqrt_len_tokens": false, "pooling_mode_weightedmean_tokens": false,
            "pooling_mode_lasttoken": false, "include_prompt": true,
        });
        let module = |idx: usize, path: &str, kind: &str| json!({"idx": idx, "name": idx.to_string(), "path": path, "type": format!("sentence_transformers.models.{kind}")});
        let modules = json!([
            module(0, "", "Transformer"),
            module(1, "1_Pooling", "Pooling"),
            module(2, "2_Normalize", "Normalize")
        ]);
        let limits = json!({"max_seq_length": tokens_max, "do_lower_case": false});
        for (name, value) in [
            ("config.json", &description),
            ("modules.json", &modules),
            ("1_Pooling/config.json", &pooling),
            ("sentence_bert_config.json", &limits),
        ] {
            making.write(name, format!("{value:#}\n").as_bytes())?;
        }
        for name in COPIED {
            making.write(name, &read(name)?)?;
        }
        Ok(EmbedderMade { folder: making.finish()?, bytes: made.bytes })
    }
}
