//! Building the inverted index in parts: each a run of rows, analysed and indexed by one thread, then merged.
//!
//! A part is written under a passing name and renamed when whole, so an interrupted build finds only whole parts.
//! Merging keeps the order of rows: tantivy's document number is the row.

use super::bounds::Bounds;
use super::{BOUNDS, Bm25Params, LENGTHS, POSTINGS, inverted_index, norms};
use crate::analyzer::Analyzer;
use crate::error::RetrievalError;
use std::fs;
use std::path::{Path, PathBuf};
use tantivy::directory::MmapDirectory;
use tantivy::schema::{Field, IndexRecordOption, Schema, TextFieldIndexing, TextOptions};
use tantivy::{IndexSettings, SingleSegmentIndexWriter, TantivyDocument};

/// The one field: title and text joined.
pub(super) const FIELD: &str = "words";

/// From this tantivy derives the first size of its term table.
const TERM_TABLE_BUDGET_BYTES: usize = 64 * 1024 * 1024;

/// Analyses and indexes the texts of consecutive rows into `folder`, which appears only when it is whole.
pub(crate) fn write_part(folder: &Path, texts: &[String]) -> Result<(), RetrievalError> {
    let passing = folder.with_extension("passing");
    remove_if_there(&passing)?;
    let postings = passing.join(POSTINGS);
    fs::create_dir_all(&postings).map_err(RetrievalError::io("creating", &postings))?;
    let (schema, field) = schema();
    let directory = MmapDirectory::open(&postings).map_err(tantivy::TantivyError::from)?;
    let settings = IndexSettings { docstore_compress_dedicated_thread: false, ..IndexSettings::default() };
    let mut writer: SingleSegmentIndexWriter<TantivyDocument> = tantivy::Index::builder()
        .schema(schema)
        .settings(settings)
        .single_segment_index_writer(directory, TERM_TABLE_BUDGET_BYTES)?;
    let mut analyzer = Analyzer::default();
    let mut lengths = Vec::with_capacity(texts.len() * 4);
    for text in texts {
        let mut words = String::with_capacity(text.len());
        let mut length = 0_u32;
        analyzer.terms(text, |term| {
            words.push_str(term);
            words.push(' ');
            length += 1;
        });
        lengths.extend(length.to_le_bytes());
        let mut document = TantivyDocument::default();
        document.add_text(field, words);
        writer.add_document(document)?;
    }
    writer.finalize()?;
    let path = passing.join(LENGTHS);
    fs::write(&path, lengths).map_err(RetrievalError::io("writing", &path))?;
    fs::rename(&passing, folder).map_err(RetrievalError::io("renaming", &passing))
}

/// Merges parts, in the order given, into an index folder.
pub(crate) fn merge_parts(parts: &[PathBuf], folder: &Path, params: Bm25Params) -> Result<(), RetrievalError> {
    let mut lengths = Vec::new();
    let mut indices = Vec::with_capacity(parts.len());
    for part in parts {
        lengths.extend(read_lengths(&part.join(LENGTHS))?);
        indices.push(tantivy::Index::open_in_dir(part.join(POSTINGS))?);
    }
    let postings = folder.join(POSTINGS);
    remove_if_there(&postings)?;
    fs::create_dir_all(&postings).map_err(RetrievalError::io("creating", &postings))?;
    let directory = MmapDirectory::open(&postings).map_err(tantivy::TantivyError::from)?;
    tantivy::indexer::merge_indices(&indices, directory)?;
    let bytes: Vec<u8> = lengths.iter().flat_map(|n| n.to_le_bytes()).collect();
    let path = folder.join(LENGTHS);
    fs::write(&path, bytes).map_err(RetrievalError::io("writing", &path))?;
    Bounds::compute(&*inverted_index(&postings)?, &norms(&lengths, params))?.write(&folder.join(BOUNDS))
}

/// The lengths of documents, in terms.
pub(super) fn read_lengths(path: &Path) -> Result<Vec<u32>, RetrievalError> {
    let bytes = fs::read(path).map_err(RetrievalError::io("reading", path))?;
    if !bytes.len().is_multiple_of(4) {
        let what = format!("expected whole lengths of four bytes, got {} bytes", bytes.len());
        return Err(RetrievalError::file(path, what, "the index is damaged: build it anew"));
    }
    Ok(bytes.chunks_exact(4).map(|b| u32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect())
}

/// Term frequencies without positions or tantivy's rounded lengths; the text comes analysed, so spaces separate.
fn schema() -> (Schema, Field) {
    let indexing = TextFieldIndexing::default()
        .set_tokenizer("whitespace")
        .set_fieldnorms(false)
        .set_index_option(IndexRecordOption::WithFreqs);
    let mut builder = Schema::builder();
    let field = builder.add_text_field(FIELD, TextOptions::default().set_indexing_options(indexing));
    (builder.build(), field)
}

fn remove_if_there(folder: &Path) -> Result<(), RetrievalError> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(RetrievalError::io("removing", folder)(error))
        }
        _ => Ok(()),
    }
}
