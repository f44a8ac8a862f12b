//! For every term, the greatest tf/(tf + norm) in each block of its postings: what lets a search skip.
//!
//! It refuses to know queries. A bound depends on k1, b and the lengths, so the file belongs to one setting.

use crate::error::RetrievalError;
use std::fs;
use std::path::Path;
use tantivy::InvertedIndexReader;
use tantivy::postings::BlockSegmentPostings;
use tantivy::schema::IndexRecordOption;

const MAGIC: &[u8; 8] = b"lwbound1";
const HEAD_BYTES: usize = 24;

/// Block bounds of all terms, by the term's ordinal.
pub(super) struct Bounds {
    /// Where each term's blocks start, and one entry past the last.
    starts: Vec<u32>,
    last_rows: Vec<u32>,
    maxima: Vec<f32>,
}

/// The blocks of one term.
#[derive(Clone, Copy)]
pub(super) struct TermBounds<'a> {
    /// The last row of each block, ascending.
    pub(super) last_rows: &'a [u32],
    /// The greatest tf/(tf + norm) in each block.
    pub(super) maxima: &'a [f32],
}

/// tf/(tf + norm), in one place so that bounds and scores round alike.
#[inline]
pub(super) fn saturation(frequency: u32, norm: f32) -> f32 {
    let frequency = frequency as f32;
    frequency / (frequency + norm)
}

impl Bounds {
    /// One pass over all postings.
    pub(super) fn compute(index: &InvertedIndexReader, norms: &[f32]) -> Result<Self, RetrievalError> {
        let mut bounds = Self { starts: vec![0], last_rows: Vec::new(), maxima: Vec::new() };
        let failed = |e: std::io::Error| RetrievalError::Bm25(e.into());
        let mut terms = index.terms().stream().map_err(failed)?;
        let mut postings: Option<BlockSegmentPostings> = None;
        while terms.advance() {
            let mut blocks = match postings.take() {
                None => index
                    .read_block_postings_from_terminfo(terms.value(), IndexRecordOption::WithFreqs)
                    .map_err(failed)?,
                Some(mut blocks) => {
                    index.reset_block_postings_from_terminfo(terms.value(), &mut blocks).map_err(failed)?;
                    blocks
                }
            };
            while let Some(&last) = blocks.docs().last() {
                let pairs = blocks.docs().iter().zip(blocks.freqs());
                let greatest = pairs.map(|(&row, &tf)| saturation(tf, norms.get(row as usize).copied().unwrap_or(0.0)));
                bounds.maxima.push(greatest.fold(0.0, f32::max));
                bounds.last_rows.push(last);
                blocks.advance();
            }
            bounds.starts.push(bounds.last_rows.len() as u32);
            postings = Some(blocks);
        }
        Ok(bounds)
    }

    pub(super) fn write(&self, path: &Path) -> Result<(), RetrievalError> {
        let mut bytes = Vec::with_capacity(HEAD_BYTES + 4 * self.starts.len() + 8 * self.maxima.len());
        bytes.extend(MAGIC);
        bytes.extend((self.starts.len() as u64).to_le_bytes());
        bytes.extend((self.maxima.len() as u64).to_le_bytes());
        bytes.extend(self.starts.iter().chain(&self.last_rows).flat_map(|n| n.to_le_bytes()));
        bytes.extend(self.maxima.iter().flat_map(|n| n.to_le_bytes()));
        fs::write(path, bytes).map_err(RetrievalError::io("writing", path))
    }

    pub(super) fn read(path: &Path, terms: usize) -> Result<Self, RetrievalError> {
        let bytes = fs::read(path).map_err(RetrievalError::io("reading", path))?;
        Self::parse(&bytes, terms).ok_or_else(|| {
            let what = format!("expected the bounds of {terms} terms, got other content");
            RetrievalError::file(path, what, "the index is damaged: build it anew")
        })
    }

    /// Checks every length and order against the bytes at hand before anything is allocated by it.
    fn parse(bytes: &[u8], terms: usize) -> Option<Self> {
        let rest = bytes.strip_prefix(MAGIC)?;
        let (head, body) = rest.split_at_checked(HEAD_BYTES - MAGIC.len())?;
        let count = |at: usize| Some(u64::from_le_bytes(head.get(at..at + 8)?.try_into().ok()?) as usize);
        let (starts, blocks) = (count(0)?, count(8)?);
        let words = body.len() / 4;
        if !body.len().is_multiple_of(4) || starts != terms + 1 || starts.checked_add(blocks.checked_mul(2)?)? != words
        {
            return None;
        }
        let word = |b: &[u8]| u32::from_le_bytes([b[0], b[1], b[2], b[3]]);
        let (start_bytes, rest) = body.split_at_checked(4 * starts)?;
        let (last_bytes, max_bytes) = rest.split_at_checked(4 * blocks)?;
        let starts: Vec<u32> = start_bytes.chunks_exact(4).map(word).collect();
        let last_rows = last_bytes.chunks_exact(4).map(word).collect();
        let maxima: Vec<f32> = max_bytes.chunks_exact(4).map(word).map(f32::from_bits).collect();
        let ordered = starts.is_sorted() && starts.first() == Some(&0) && *starts.last()? as usize == blocks;
        (ordered && maxima.iter().all(|m| (0.0..=1.0).contains(m))).then_some(Self { starts, last_rows, maxima })
    }

    /// The blocks of a term; none for an ordinal that does not exist.
    pub(super) fn of(&self, ordinal: u64) -> TermBounds<'_> {
        let at = ordinal as usize;
        let range = match (self.starts.get(at), self.starts.get(at + 1)) {
            (Some(&start), Some(&end)) => start as usize..end as usize,
            _ => 0..0,
        };
        TermBounds { last_rows: &self.last_rows[range.clone()], maxima: &self.maxima[range] }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn bounds() -> Bounds {
        Bounds { starts: vec![0, 2, 3], last_rows: vec![5, 9, 1], maxima: vec![0.5, 0.25, 1.0] }
    }

    fn bytes() -> Vec<u8> {
        let file = tempfile::NamedTempFile::new().unwrap();
        bounds().write(file.path()).unwrap();
        fs::read(file.path()).unwrap()
    }

    #[test]
    fn bounds_come_back_as_written() {
        let read = Bounds::parse(&bytes(), 2).unwrap();
        assert_eq!(read.of(0).last_rows, [5, 9]);
        assert_eq!(read.of(1).maxima, [1.0]);
        assert!(read.of(2).maxima.is_empty());
        assert!(Bounds::parse(&bytes(), 3).is_none(), "another number of terms");
    }

    proptest! {
        #[test]
        fn damaged_bounds_never_panic_nor_allocate_what_they_claim(at in 0_usize..60, value: u8, keep in 0_usize..60) {
            let mut bad = bytes();
            let at = at % bad.len();
            bad[at] = value;
            bad.truncate(keep);
            let _ = Bounds::parse(&bad, 2);
        }
    }
}
