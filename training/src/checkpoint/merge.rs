//! Tensors of a checkpoint put together from its ranks' parts: whole ones under the names of a Hugging Face folder, or a part
//! for another number of ranks.
//! It refuses to know where they go.

use super::{Checkpoint, PARTS, RankFile, rank_file};
use crate::error::TrainingError;
use crate::network::Tensors;
use crate::shard::{Cut, Fused, Shard};
use crate::tensor::NamedTensor;
use legwork_kernels::Part;

/// The files of all ranks.
pub(crate) struct Reader {
    files: Vec<(Shard, RankFile)>,
    layout: Tensors<Fused>,
}

impl Reader {
    pub(crate) fn layout(&self) -> &Tensors<Fused> {
        &self.layout
    }

    /// Whole pieces of a tensor of this checkpoint's layout.
    pub(crate) fn wholes(&mut self, part: Part, fused: &Fused) -> Result<Vec<NamedTensor>, TrainingError> {
        let name = tensor_name(part, fused);
        let mut wholes: Vec<NamedTensor> = Vec::new();
        for (shard, file) in &mut self.files {
            let local = file.tensor(&name, shard.shape(fused))?;
            // Room is made once the first part has shown that it is there.
            if wholes.is_empty() {
                wholes.extend(fused.pieces.iter().map(|piece| NamedTensor {
                    name: piece.name.clone(),
                    shape: piece.shape,
                    is_vector: fused.is_vector,
                    values: vec![0.0; piece.shape[0] * piece.shape[1]],
                }));
            }
            shard.place(fused, &local, &mut wholes)?;
            if matches!(fused.cut, Cut::Copied | Cut::Summed) {
                break;
            }
        }
        Ok(wholes)
    }
}

impl Checkpoint {
    /// Opens the files of all ranks.
    pub(crate) fn reader(&self) -> Result<Reader, TrainingError> {
        let ranks = self.state.ranks;
        let file = |rank| {
            let shard = Shard::new(&self.config, rank, ranks)?;
            Ok((shard, RankFile::open(&self.folder.join(rank_file(rank, ranks)))?))
        };
        let files = (0..ranks).map(file).collect::<Result<_, TrainingError>>()?;
        Ok(Reader { files, layout: Tensors::of(&self.config, self.state.padded_vocabulary) })
    }

    /// The weights under the names and in the shapes of a Hugging Face folder, one at a time. Embedding and head still have
    /// the rows that pad the vocabulary.
    ///
    /// # Errors
    /// Files that cannot be opened; each tensor says whether it can be read.
    pub fn tensors(&self) -> Result<impl Iterator<Item = Result<NamedTensor, TrainingError>> + use<>, TrainingError> {
        let mut reader = self.reader()?;
        let fused: Vec<Fused> = reader.layout().each().cloned().collect();
        Ok(fused.into_iter().flat_map(move |fused| match reader.wholes(Part::Value, &fused) {
            Ok(wholes) => wholes.into_iter().map(Ok).collect::<Vec<_>>(),
            Err(error) => vec![Err(error)],
        }))
    }
}

/// As a rank's file calls a part of a tensor.
pub(crate) fn tensor_name(part: Part, fused: &Fused) -> String {
    let prefix = PARTS.iter().find(|(known, _)| *known == part).map_or("gradient", |(_, prefix)| prefix);
    format!("{prefix}/{}", fused.name)
}
