//! The weights of a model by their Hugging Face names, whatever the files call them: taken one by one as stored matrices,
//! with the shape that the model's description asks for. What nobody takes can be listed.
//!
//! It refuses to know layers.

mod finite;
pub mod names;
mod safetensors;

#[cfg(test)]
pub(crate) mod tests;

use crate::error::ModelError;
use crate::gguf::{Gguf, TensorKind, unpack};
use legwork_kernels::{Dtype, SharedBytes, Stored};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Values of a tensor that [`Finite::Small`] looks at, at most.
pub const SMALL_VALUES: usize = 1 << 20;

/// How thoroughly weights are searched for what is no number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finite {
    /// Tensors of at most [`SMALL_VALUES`] values: norms and biases.
    Small,
    /// Every tensor: reads all bytes.
    All,
}

/// The memory that weights need, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Costs {
    /// Of mapped files: the operating system may drop and reread them.
    pub mapped_bytes: u64,
    /// Owned, once the tensors of kinds that are not computed on have been unpacked and taken.
    pub unpacked_bytes: u64,
}

/// Named tensors of one model.
#[derive(Debug)]
pub struct Weights {
    path: PathBuf,
    tensors: BTreeMap<String, Tensor>,
    files: Vec<PathBuf>,
    unpack_into: Dtype,
}

/// A tensor that was not taken yet.
#[derive(Clone, Debug)]
struct Tensor {
    /// As the file calls it.
    stored_as: String,
    shape: Vec<usize>,
    kind: TensorKind,
    bytes: SharedBytes,
}

impl Weights {
    /// Maps `model.safetensors` of a folder, or the shards that `model.safetensors.index.json` lists.
    ///
    /// # Errors
    /// Files that are missing, cut or damaged; tensors of a kind other than f32, f16 and bf16; an index that leads out of
    /// the folder or names a tensor that its shard has not.
    pub fn open_safetensors(folder: &Path) -> Result<Self, ModelError> {
        let (files, found) = safetensors::open(folder)?;
        Self::named(folder, files, found)
    }

    /// Takes the tensors of a GGUF file.
    ///
    /// # Errors
    /// Two tensors that stand for the same one.
    pub fn of_gguf(gguf: &Gguf) -> Result<Self, ModelError> {
        let found = gguf.tensors().iter().map(|tensor| Tensor {
            stored_as: tensor.name.clone(),
            shape: tensor.shape.clone(),
            kind: tensor.kind,
            bytes: tensor.bytes.clone(),
        });
        Self::named(gguf.path(), vec![gguf.path().to_path_buf()], found.collect())
    }

    fn named(path: &Path, files: Vec<PathBuf>, found: Vec<Tensor>) -> Result<Self, ModelError> {
        let canonical = names::canonical(found.iter().map(|tensor| tensor.stored_as.as_str()));
        let mut tensors: BTreeMap<String, Tensor> = BTreeMap::new();
        for (name, tensor) in canonical.into_iter().zip(found) {
            let stored_as = tensor.stored_as.clone();
            if let Some(other) = tensors.insert(name.clone(), tensor) {
                let detail = format!("expected one tensor `{name}`, got `{}` and `{stored_as}`", other.stored_as);
                return Err(ModelError::File { path: path.to_path_buf(), detail: format!("{detail}; fetch it anew") });
            }
        }
        Ok(Self { path: path.to_path_buf(), tensors, files, unpack_into: Dtype::F16 })
    }

    /// What tensors become that must be unpacked: f32, f16 or bf16. It is f16 unless this is called: half the memory of f32,
    /// and an error of at most 2⁻¹² of a weight, far below that of the packing.
    pub fn unpack_into(&mut self, dtype: Dtype) {
        self.unpack_into = dtype;
    }

    /// Where they were read from: a folder or a file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The files.
    pub fn files(&self) -> &[PathBuf] {
        &self.files
    }

    /// Whether a tensor is there that was not taken yet.
    pub fn has(&self, name: &str) -> bool {
        self.tensors.contains_key(name)
    }

    /// The shape of a tensor that was not taken yet.
    pub fn shape(&self, name: &str) -> Option<&[usize]> {
        self.tensors.get(name).map(|tensor| tensor.shape.as_slice())
    }

    /// Every tensor that was not taken: in a model that was read whole, those that it has no use for.
    pub fn rest(&self) -> Vec<&str> {
        self.tensors.keys().map(String::as_str).collect()
    }

    /// Makes the head the embedding: a head of its own that a file has nonetheless is given up, as `transformers` does.
    pub fn tie_head(&mut self) {
        if let Some(embedding) = self.tensors.get(names::EMBEDDING).cloned() {
            self.tensors.insert(names::HEAD.to_owned(), embedding);
        }
    }

    /// Takes a tensor of `rows` outputs and `cols` inputs; a vector is one row. Tensors of a kind that is not computed on are
    /// unpacked here, into memory that is owned.
    ///
    /// # Errors
    /// A tensor that is missing, has another shape, or holds what is no number.
    pub fn take(&mut self, name: &str, [rows, cols]: [usize; 2]) -> Result<Stored, ModelError> {
        let expected = [rows, cols];
        let Some(tensor) = self.tensors.get(name) else {
            return Err(ModelError::NoTensor { path: self.path.clone(), name: self.shown(name), expected });
        };
        let fits = match tensor.shape.as_slice() {
            [] => expected == [1, 1],
            [count] => expected == [1, *count],
            [r, c] => expected == [*r, *c],
            _ => false,
        };
        if !fits {
            let got = tensor.shape.clone();
            return Err(ModelError::TensorShape { path: self.path.clone(), name: self.shown(name), expected, got });
        }
        if tensor.kind.stored().is_none() {
            self.unpack(name, expected)?;
        }
        let tensor = self.tensors.remove(name).expect("it was found above");
        let dtype = tensor.kind.stored().expect("what is not computed on as it is was unpacked above");
        Stored::new(dtype, rows, cols, tensor.bytes)
            .map_err(|error| ModelError::File { path: self.path.clone(), detail: format!("tensor `{name}`: {error}") })
    }

    /// As [`Weights::take`], of a vector.
    ///
    /// # Errors
    /// As [`Weights::take`].
    pub fn take_vector(&mut self, name: &str, count: usize) -> Result<Stored, ModelError> {
        self.take(name, [1, count])
    }

    /// Unpacks a tensor, and with it the one that shares its bytes: an embedding that is the head is unpacked once.
    fn unpack(&mut self, name: &str, shape: [usize; 2]) -> Result<(), ModelError> {
        let tensor = &self.tensors[name];
        let (kind, packed, into) = (tensor.kind, tensor.bytes.clone(), self.unpack_into);
        let floats = TensorKind::of_floats(into);
        let unpacked =
            unpack(kind, shape, &packed, into).map_err(|why| why.error(&self.path, &self.shown(name), into))?;
        for tensor in self.tensors.values_mut().filter(|tensor| std::ptr::eq(&*tensor.bytes, &*packed)) {
            tensor.kind = floats.expect("`unpack` refuses what is no kind of floats");
            tensor.bytes = unpacked.clone();
        }
        Ok(())
    }

    /// A name with what the file calls it.
    fn shown(&self, name: &str) -> String {
        let stored_as = match self.tensors.get(name) {
            Some(tensor) => Some(tensor.stored_as.clone()),
            None if self.path.is_file() => names::to_gguf(name),
            None => None,
        };
        match stored_as {
            Some(other) if other != name => format!("{name} ({other})"),
            _ => name.to_owned(),
        }
    }

    /// What the tensors cost that were not taken yet.
    pub fn costs(&self) -> Costs {
        let width = self.unpack_into.block_bytes() as u64;
        let mut costs = Costs::default();
        let mut seen = BTreeSet::new();
        // An embedding that is the head counts once.
        for tensor in self.tensors.values().filter(|tensor| seen.insert(tensor.bytes.as_ptr())) {
            costs.mapped_bytes += tensor.bytes.len() as u64;
            if tensor.kind.stored().is_none() {
                costs.unpacked_bytes += tensor.shape.iter().product::<usize>() as u64 * width;
            }
        }
        costs
    }

    /// Searches tensors that were not taken yet for what is no number: the values of floats, the scales of packed kinds.
    ///
    /// # Errors
    /// The first found.
    pub fn check_finite(&self, which: Finite) -> Result<(), ModelError> {
        for (name, tensor) in &self.tensors {
            let values: usize = tensor.shape.iter().product();
            if which == Finite::Small && values > SMALL_VALUES {
                continue;
            }
            if let Some((at, value)) = finite::first_wrong(tensor.kind, &tensor.bytes) {
                let (path, got) = (self.path.clone(), value.to_string());
                return Err(ModelError::NotFinite { path, name: self.shown(name), got, at });
            }
        }
        Ok(())
    }
}
