//! Giving an index its vectors: one a document in the order of ids, from an embedder or from a file.
//!
//! It refuses to know models. Vectors are appended to a passing file; an interrupted writer goes on where it
//! stopped. The index has them when the manifest names them, which is the last act.

use super::Index;
use super::manifest::{SCHEMA, VectorRecord};
use crate::corpus::{Lines, file_digest};
use crate::dense::Dense;
use crate::error::RetrievalError;
use crate::vectors::VectorFile;
use legwork_kernels::Matrix;
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::fs::{self, File, OpenOptions};
use std::io::{BufWriter, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

const PASSING: &str = "vectors.passing";
const PASSING_PLAN: &str = "vectors.passing.json";

/// What half-written vectors depend on.
#[derive(PartialEq, Serialize, Deserialize)]
struct Plan {
    schema: u32,
    corpus: String,
    source: String,
    dim: usize,
}

/// Appends vectors to an index.
pub struct VectorWriter {
    path: PathBuf,
    file: BufWriter<File>,
    source: String,
    dim: usize,
    written: u32,
    documents: u32,
}

impl Index {
    /// Starts or continues writing vectors of `dim` values from `source`; see [`VectorWriter::next_number`].
    ///
    /// # Errors
    /// A bad dimension or a failing disk.
    pub fn vector_writer(&self, source: &str, dim: usize) -> Result<VectorWriter, RetrievalError> {
        // The check of an empty matrix is the check of its dimension.
        Matrix::new([0.0_f32; 0], dim)?;
        let path = self.folder.join(PASSING);
        let plan_path = self.folder.join(PASSING_PLAN);
        let plan = Plan { schema: SCHEMA, corpus: self.manifest.corpus.digest.clone(), source: source.to_owned(), dim };
        let old = fs::read(&plan_path).ok().and_then(|bytes| serde_json::from_slice::<Plan>(&bytes).ok());
        let continues = old.as_ref() == Some(&plan);
        let mut file = OpenOptions::new()
            .create(true)
            .write(true)
            .truncate(!continues)
            .open(&path)
            .map_err(RetrievalError::io("opening", &path))?;
        let bytes = serde_json::to_vec(&plan).map_err(|e| RetrievalError::io("writing", &plan_path)(e.into()))?;
        fs::write(&plan_path, bytes).map_err(RetrievalError::io("writing", &plan_path))?;
        let row_bytes = (dim * size_of::<f32>()) as u64;
        let length = file.metadata().map_err(RetrievalError::io("reading", &path))?.len();
        let written = (length / row_bytes).min(self.len() as u64);
        file.set_len(written * row_bytes)
            .and_then(|()| file.seek(SeekFrom::End(0)))
            .map_err(RetrievalError::io("writing", &path))?;
        let documents = self.len() as u32;
        let file = BufWriter::new(file);
        Ok(VectorWriter { path, file, source: source.to_owned(), dim, written: written as u32, documents })
    }

    /// Takes the vectors of a `.npy` or `.safetensors` file.
    ///
    /// `docids` is a text file with the id of each row, one a line; without it the rows are in corpus order.
    /// `tensor` names a tensor where a safetensors file has several. The source written down is the file's digest.
    ///
    /// # Errors
    /// A file that is not as it must be, an id that the corpus lacks or that comes twice, a document without a
    /// vector, or a vector that is not finite.
    pub fn import_vectors(
        &mut self,
        file: &Path,
        tensor: Option<&str>,
        docids: Option<&Path>,
    ) -> Result<(), RetrievalError> {
        let vectors = VectorFile::open(file, tensor)?;
        let rows = match docids {
            Some(list) => self.rows_by_list(file, &vectors, list)?,
            None if vectors.rows() == self.len() => {
                (0..self.len() as u32).map(|number| self.store.row_of_rank(number) as usize).collect()
            }
            None => {
                let what = format!("expected {} vectors, one a document, got {}", self.len(), vectors.rows());
                return Err(RetrievalError::file(file, what, "give the list of ids that belongs to the vectors"));
            }
        };
        let source = format!("file blake3:{}", file_digest(file)?);
        let mut writer = self.vector_writer(&source, vectors.dim())?;
        let mut vector = vec![0.0; vectors.dim()];
        for &row in &rows[writer.written as usize..] {
            vectors.read(row, &mut vector);
            if let Err(RetrievalError::Vectors(error)) = writer.push(&vector) {
                let what = error.to_string();
                return Err(RetrievalError::Row {
                    path: file.to_owned(),
                    row: row as u64,
                    what,
                    cure: "write the vectors anew",
                });
            }
        }
        self.set_vectors(writer)
    }

    /// For each document number, its row in a file of vectors whose ids are listed.
    fn rows_by_list(&self, file: &Path, vectors: &VectorFile, list: &Path) -> Result<Vec<usize>, RetrievalError> {
        let mut lines = Lines::open(list)?;
        let mut rows: HashMap<u32, usize> = HashMap::new();
        let mut count = 0;
        while let Some((line, docid)) = lines.next_line()? {
            let fault = |what, cure| RetrievalError::Line { path: list.to_owned(), line, what, cure };
            let Some(number) = self.number_of_docid(docid)? else {
                let what = format!("expected an id of the corpus, got {docid:?}");
                return Err(fault(what, "embed the corpus that was indexed"));
            };
            if rows.insert(number, count).is_some() {
                return Err(fault(format!("docid {docid:?} was listed before"), "list each id once"));
            }
            count += 1;
        }
        if count != vectors.rows() {
            let what = format!("expected {count} vectors as {} lists, got {}", list.display(), vectors.rows());
            return Err(RetrievalError::file(file, what, "give the list that belongs to the vectors"));
        }
        (0..self.len() as u32)
            .map(|number| match rows.get(&number) {
                Some(&row) => Ok(row),
                None => {
                    let docid = self.document(number)?.docid;
                    let what = format!("expected a vector for every document, got none for {docid:?}");
                    Err(RetrievalError::file(list, what, "embed the missing documents"))
                }
            })
            .collect()
    }

    /// Ends a writer and gives its vectors to this index, in place of any that it had.
    ///
    /// # Errors
    /// A writer that has not had a vector for every document, or a failing disk.
    pub fn set_vectors(&mut self, writer: VectorWriter) -> Result<(), RetrievalError> {
        let VectorWriter { path, file, source, dim, written, documents } = writer;
        if written != documents || documents as usize != self.len() {
            let what = format!("expected {} vectors, got {written}", self.len());
            return Err(RetrievalError::file(&path, what, "write a vector for every document"));
        }
        let file = file.into_inner().map_err(|e| RetrievalError::io("writing", &path)(e.into_error()))?;
        file.sync_all().map_err(RetrievalError::io("writing", &path))?;
        let digest = file_digest(&path)?;
        let name = format!("vectors-{}.f32", &digest[..16]);
        let target = self.folder.join(&name);
        fs::rename(&path, &target).map_err(RetrievalError::io("renaming", &path))?;
        let dense = Dense::open(&target, dim, self.len())?;
        let old = self.manifest.vectors.replace(VectorRecord { file: name.clone(), dim, source, digest });
        self.manifest.write(&self.folder)?;
        self.dense = Some(dense);
        // What is no longer named may stay mapped elsewhere; removing a name takes nothing from who has it open.
        let stale = old.map(|v| v.file).filter(|file| *file != name);
        for name in stale.iter().map(String::as_str).chain([PASSING_PLAN]) {
            let _ = fs::remove_file(self.folder.join(name));
        }
        Ok(())
    }
}

impl VectorWriter {
    /// The number of the document whose vector comes next, or `None` when all are written.
    pub fn next_number(&self) -> Option<u32> {
        (self.written < self.documents).then_some(self.written)
    }

    /// Appends the vectors of the next documents, in the order of their numbers.
    ///
    /// # Errors
    /// Values that are no whole vectors or not finite, more vectors than documents, or a failing disk.
    pub fn push(&mut self, vectors: &[f32]) -> Result<(), RetrievalError> {
        let matrix = Matrix::new(vectors, self.dim)?;
        if matrix.rows() > (self.documents - self.written) as usize {
            let what = format!("expected at most {} vectors, got more", self.documents);
            return Err(RetrievalError::file(&self.path, what, "write one vector for each document"));
        }
        for value in vectors {
            self.file.write_all(&value.to_le_bytes()).map_err(RetrievalError::io("writing", &self.path))?;
        }
        self.written += matrix.rows() as u32;
        Ok(())
    }
}
