//! BM25 over tantivy's inverted index, in Lucene's form, with explicit k1 and b and exact lengths.
//!
//! Score of a document: the sum over query terms of `qtf · ln(1 + (N − n + ½)/(n + ½)) · tf/(tf + k1·(1 − b + b·len/avg))`,
//! which is Lucene's (since version 8 without the constant factor k1 + 1) but for the length, which Lucene
//! rounds to a byte and this does not. tantivy keeps dictionary and postings; its own scoring, whose constants
//! are fixed, is not used. The text of a query is never parsed as a query language.

mod bounds;
mod evaluate;
mod part;

use crate::analyzer::Analyzer;
use crate::error::RetrievalError;
use bounds::Bounds;
use evaluate::Cursor;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use tantivy::schema::IndexRecordOption;
use tantivy::{InvertedIndexReader, SegmentReader};

pub(crate) use part::{merge_parts, write_part};

/// Longest query, in bytes.
pub const MAX_QUERY_BYTES: usize = 256 * 1024;
/// Most distinct terms of one query.
pub const MAX_QUERY_TERMS: usize = 4_096;

/// Folder of tantivy's files inside an index.
pub(crate) const POSTINGS: &str = "bm25";
/// Exact document lengths, in terms, as little-endian `u32`.
const LENGTHS: &str = "lengths.u32";
/// Greatest term impacts by block, for skipping.
const BOUNDS: &str = "bounds.bin";

/// The flat files of this part, for manifests.
pub(crate) const FILES: [&str; 2] = [LENGTHS, BOUNDS];

/// The two constants of BM25.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Bm25Params {
    /// How soon repetitions of a term stop counting; 0 to 1,000.
    pub k1: f64,
    /// How much length counts; 0 to 1.
    pub b: f64,
}

impl Bm25Params {
    /// The constants of Anserini and Pyserini: k1 = 0.9, b = 0.4.
    pub const ANSERINI: Self = Self { k1: 0.9, b: 0.4 };
    /// The constants of Lucene: k1 = 1.2, b = 0.75.
    pub const LUCENE: Self = Self { k1: 1.2, b: 0.75 };

    /// Checks the ranges.
    ///
    /// # Errors
    /// A constant outside its range.
    pub fn checked(self) -> Result<Self, RetrievalError> {
        let setting = |name, expected, got: f64| Err(RetrievalError::Setting { name, expected, got: got.to_string() });
        if !(0.0..=1_000.0).contains(&self.k1) {
            return setting("k1", "a number from 0 to 1000", self.k1);
        }
        if !(0.0..=1.0).contains(&self.b) {
            return setting("b", "a number from 0 to 1", self.b);
        }
        Ok(self)
    }
}

/// A document found, named by its position in the order of ids.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Ranked {
    pub(crate) rank: u32,
    pub(crate) score: f64,
}

/// The words of a corpus, ready to be searched by any number of threads.
pub struct Bm25 {
    postings: Arc<InvertedIndexReader>,
    /// For each row k1·(1 − b + b·len/avg).
    norms: Vec<f32>,
    bounds: Bounds,
    params: Bm25Params,
}

impl Bm25 {
    /// Opens the words in an index folder. Other constants than those of the build cost one pass over the postings.
    pub(crate) fn open(folder: &Path, built: Bm25Params, wanted: Bm25Params) -> Result<Self, RetrievalError> {
        let wanted = wanted.checked()?;
        let postings = inverted_index(&folder.join(POSTINGS))?;
        let norms = norms(&part::read_lengths(&folder.join(LENGTHS))?, wanted);
        let bounds = if built == wanted {
            Bounds::read(&folder.join(BOUNDS), postings.terms().num_terms())?
        } else {
            Bounds::compute(&postings, &norms)?
        };
        Ok(Self { postings, norms, bounds, params: wanted })
    }

    /// The constants in use.
    pub fn params(&self) -> Bm25Params {
        self.params
    }

    /// Number of documents.
    pub fn documents(&self) -> usize {
        self.norms.len()
    }

    /// The distinct terms of a text that the corpus has, each with its idf; for choosing passages.
    ///
    /// # Errors
    /// A dictionary that cannot be read.
    pub fn term_weights(&self, text: &str) -> Result<BTreeMap<String, f64>, RetrievalError> {
        let mut weights = BTreeMap::new();
        for term in Analyzer::default().counts(text).into_keys() {
            if let Some(info) = self.postings.terms().get(&term).map_err(unreadable)? {
                weights.insert(term, idf(self.documents(), info.doc_freq));
            }
        }
        Ok(weights)
    }

    /// The `k` best documents that share a term with `query`, best first; equal scores by position in `ranks`.
    ///
    /// `ranks` gives for each row its position in the order of ids; `number` is the query's place in its batch.
    pub(crate) fn search(
        &self,
        number: usize,
        query: &str,
        k: usize,
        ranks: &[u32],
    ) -> Result<Vec<Ranked>, RetrievalError> {
        let refuse = |what, cure| Err(RetrievalError::Query { number, what, cure });
        if query.len() > MAX_QUERY_BYTES {
            let what = format!("expected at most {MAX_QUERY_BYTES} bytes, got {}", query.len());
            return refuse(what, "shorten the query");
        }
        let counts = Analyzer::default().counts(query);
        if counts.len() > MAX_QUERY_TERMS {
            let what = format!("expected at most {MAX_QUERY_TERMS} distinct terms, got {}", counts.len());
            return refuse(what, "shorten the query");
        }
        let dictionary = self.postings.terms();
        let mut terms = Vec::with_capacity(counts.len());
        for (term, count) in &counts {
            let Some(info) = dictionary.get(term).map_err(unreadable)? else { continue };
            let Some(ordinal) = dictionary.term_ord(term).map_err(unreadable)? else { continue };
            terms.push((f64::from(*count) * idf(self.documents(), info.doc_freq), ordinal, info));
        }
        let scale = evaluate::scale(terms.iter().map(|(weight, ..)| weight).sum());
        let mut cursors = Vec::with_capacity(terms.len());
        for (weight, ordinal, info) in terms {
            let postings = self
                .postings
                .read_block_postings_from_terminfo(&info, IndexRecordOption::WithFreqs)
                .map_err(unreadable)?;
            cursors.push(Cursor::new(postings, (weight * scale) as f32, self.bounds.of(ordinal)));
        }
        let best = evaluate::best(cursors, &self.norms, ranks, k);
        Ok(best.into_iter().map(|(rank, score)| Ranked { rank, score: f64::from(score) / scale }).collect())
    }
}

/// Lucene's inverse document frequency; above zero for every n up to N.
fn idf(documents: usize, containing: u32) -> f64 {
    let (all, n) = (documents as f64, f64::from(containing));
    (1.0 + (all - n + 0.5) / (n + 0.5)).ln()
}

fn norms(lengths: &[u32], Bm25Params { k1, b }: Bm25Params) -> Vec<f32> {
    let total: u64 = lengths.iter().map(|&n| u64::from(n)).sum();
    let average = (total as f64 / lengths.len().max(1) as f64).max(f64::MIN_POSITIVE);
    lengths.iter().map(|&length| (k1 * (1.0 - b + b * f64::from(length) / average)) as f32).collect()
}

/// The one segment's postings of the one field.
fn inverted_index(folder: &Path) -> Result<Arc<InvertedIndexReader>, RetrievalError> {
    let index = tantivy::Index::open_in_dir(folder)?;
    let segments = index.searchable_segments()?;
    let [segment] = segments.as_slice() else {
        let what = format!("expected one segment, got {}", segments.len());
        return Err(RetrievalError::file(folder, what, "the index is damaged: build it anew"));
    };
    let field = index.schema().get_field(part::FIELD)?;
    Ok(SegmentReader::open(segment)?.inverted_index(field)?)
}

fn unreadable(error: std::io::Error) -> RetrievalError {
    RetrievalError::Bm25(error.into())
}

#[cfg(test)]
mod tests;
