//! Corpora as files: JSON lines, parquet or TREC text, read as a stream of documents.
//!
//! It refuses to repair. A document that is not exactly readable stops the reading with the file, the line
//! and the cure; byte order marks before a line and CRLF are the only liberties. Ids are opaque text: "12" and
//! "012" differ.

mod jsonl;
mod lines;
mod pages;
mod parquet;
mod trec;

use crate::error::RetrievalError;
use std::collections::HashMap;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

pub(crate) use lines::Lines;

/// Longest document id, in bytes.
pub const MAX_DOCID_BYTES: usize = 1_024;
/// Longest title or url, in bytes.
pub const MAX_FIELD_BYTES: usize = 64 * 1024;
/// Longest document text, in bytes.
pub const MAX_TEXT_BYTES: usize = 256 * 1024 * 1024;
/// Most documents of a corpus: rows are numbered by `u32`, and the highest number is never given.
pub const MAX_DOCUMENTS: u64 = u32::MAX as u64 - 1;

/// Bytes read at a time for a digest.
const DIGEST_CHUNK_BYTES: usize = 1024 * 1024;

/// One document.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Document {
    /// Its id: opaque, unique, not empty.
    pub docid: String,
    /// Its text; may be empty, must be given.
    pub text: String,
    /// Its title, where the corpus has one.
    pub title: Option<String>,
    /// Its address, where the corpus has one.
    pub url: Option<String>,
}

/// How a corpus is written down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// One JSON object a line: `docid`, `text`, optional `title` and `url`; other keys are ignored.
    Jsonl,
    /// The same names as columns of strings.
    Parquet,
    /// `<DOC>` … `</DOC>` with `<DOCNO>`, text, optional `<TITLE>` or `<HEADLINE>`, and `<URL>`.
    Trec,
}

/// A corpus file and its format. Reading starts anew with each call of [`Corpus::documents`].
#[derive(Clone, Debug)]
pub struct Corpus {
    path: PathBuf,
    format: Format,
}

/// The documents of a corpus in file order, each with its place. After an error the stream ends.
///
/// Memory: the document at hand and 24 bytes for each id seen, by which a second use of an id is noticed.
pub struct Documents {
    path: PathBuf,
    reader: Box<dyn DocumentReader>,
    seen: HashMap<u128, u64>,
    finished: bool,
}

/// One format's way of reading.
trait DocumentReader {
    /// The next document and its place: the line of a text file (from one), the row of a binary one (from zero).
    fn next_document(&mut self) -> Result<Option<(u64, Document)>, RetrievalError>;

    /// An error at a place of this file.
    fn fault(&self, place: u64, what: String, cure: &'static str) -> RetrievalError;
}

impl Corpus {
    /// The corpus at `path`, its format told by the name: `.jsonl` or `.json`, `.parquet`, `.trec`, `.sgml` or `.txt`.
    ///
    /// # Errors
    /// An unknown ending; then use [`Corpus::with_format`].
    pub fn open(path: &Path) -> Result<Self, RetrievalError> {
        let ending = path.extension().and_then(|e| e.to_str()).unwrap_or("").to_ascii_lowercase();
        let format = match ending.as_str() {
            "jsonl" | "json" | "ndjson" => Format::Jsonl,
            "parquet" => Format::Parquet,
            "trec" | "sgml" | "txt" => Format::Trec,
            _ => {
                let what = format!("expected a corpus ending in .jsonl, .parquet or .trec, got {ending:?}");
                return Err(RetrievalError::file(path, what, "rename the file or state its format"));
            }
        };
        Ok(Self::with_format(path, format))
    }

    /// The corpus at `path` in a stated format.
    pub fn with_format(path: &Path, format: Format) -> Self {
        Self { path: path.to_owned(), format }
    }

    /// Where it lies.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Starts reading at the first document.
    ///
    /// # Errors
    /// A file that cannot be opened or, for parquet, whose footer or columns are not as they must be.
    pub fn documents(&self) -> Result<Documents, RetrievalError> {
        let reader: Box<dyn DocumentReader> = match self.format {
            Format::Jsonl => Box::new(jsonl::JsonlReader::open(&self.path)?),
            Format::Parquet => Box::new(parquet::ParquetReader::open(&self.path)?),
            Format::Trec => Box::new(trec::TrecReader::open(&self.path)?),
        };
        Ok(Documents { path: self.path.clone(), reader, seen: HashMap::new(), finished: false })
    }

    /// The BLAKE3 digest of the file, in hexadecimal: the identity of the corpus in a manifest.
    ///
    /// # Errors
    /// A file that cannot be read.
    pub fn digest(&self) -> Result<String, RetrievalError> {
        file_digest(&self.path)
    }
}

/// The BLAKE3 digest of a file, in hexadecimal.
pub(crate) fn file_digest(path: &Path) -> Result<String, RetrievalError> {
    let mut file = File::open(path).map_err(RetrievalError::io("opening", path))?;
    let mut hasher = blake3::Hasher::new();
    let mut chunk = vec![0; DIGEST_CHUNK_BYTES];
    loop {
        let n = file.read(&mut chunk).map_err(RetrievalError::io("reading", path))?;
        if n == 0 {
            return Ok(hasher.finalize().to_hex().to_string());
        }
        hasher.update(&chunk[..n]);
    }
}

impl Documents {
    fn advance(&mut self) -> Result<Option<Document>, RetrievalError> {
        let Some((place, document)) = self.reader.next_document()? else {
            if self.seen.is_empty() {
                let what = "expected at least one document, got an empty corpus";
                return Err(RetrievalError::file(&self.path, what, "give a corpus with documents"));
            }
            return Ok(None);
        };
        if let Some((what, cure)) = complaint(&document) {
            return Err(self.reader.fault(place, what, cure));
        }
        if self.seen.len() as u64 >= MAX_DOCUMENTS {
            let what = format!("expected at most {MAX_DOCUMENTS} documents, got more");
            return Err(self.reader.fault(place, what, "split the corpus"));
        }
        if let Some(first) = self.seen.insert(id_key(&document.docid), place) {
            let what = format!("docid {:?} was used before, at {first}", document.docid);
            return Err(self.reader.fault(place, what, "give each document an id of its own"));
        }
        Ok(Some(document))
    }
}

impl Iterator for Documents {
    type Item = Result<Document, RetrievalError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.finished {
            return None;
        }
        let next = self.advance().transpose();
        self.finished = !matches!(next, Some(Ok(_)));
        next
    }
}

/// 128 bits of the id's digest: two ids of a corpus meet in them with a chance below one in 10^19.
fn id_key(docid: &str) -> u128 {
    let mut key = [0; 16];
    key.copy_from_slice(&blake3::hash(docid.as_bytes()).as_bytes()[..16]);
    u128::from_le_bytes(key)
}

/// What is wrong with a document whatever its format, and the cure.
fn complaint(document: &Document) -> Option<(String, &'static str)> {
    let Document { docid, text, title, url } = document;
    if docid.is_empty() {
        return Some(("expected a docid, got an empty one".into(), "give the document an id"));
    }
    if docid.len() > MAX_DOCID_BYTES {
        let what = format!("expected a docid of at most {MAX_DOCID_BYTES} bytes, got {}", docid.len());
        return Some((what, "shorten the id"));
    }
    if docid.chars().any(char::is_control) {
        return Some((format!("docid {docid:?} has control characters"), "remove them"));
    }
    let fields = [
        ("title", title.as_deref(), MAX_FIELD_BYTES),
        ("url", url.as_deref(), MAX_FIELD_BYTES),
        ("text", Some(text.as_str()), MAX_TEXT_BYTES),
    ];
    for (name, value, limit_bytes) in fields {
        let value = value.unwrap_or("");
        if value.len() > limit_bytes {
            let what = format!("expected a {name} of at most {limit_bytes} bytes, got {}", value.len());
            return Some((what, "shorten or split the document"));
        }
        if value.contains('\0') {
            return Some((format!("the {name} has a NUL character"), "remove it: text with NUL is no text"));
        }
    }
    None
}

#[cfg(test)]
mod tests;
