//! One step of a model over many sequences: new tokens of each, and the pages that hold what came before.
//!
//! It refuses to know which pages are free and whose they are.

/// Tokens of one page of the key-value cache.
pub const PAGE_TOKENS: usize = 64;

/// New tokens of one sequence within a [`Batch`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// The first of its rows in the batch.
    pub first: usize,
    /// New tokens, at least 1.
    pub rows: usize,
    /// Tokens before them, whose keys and values are in the cache already. The new ones stand at `past..past + rows`.
    pub past: usize,
    /// The first of its pages in [`Batch::pages`]. Position `p` lies in page `p / PAGE_TOKENS`, so the span has
    /// `(past + rows).div_ceil(PAGE_TOKENS)` of them.
    pub first_page: usize,
}

/// One step over many sequences. Rows of all spans lie one behind the other, in the spans' order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Batch {
    /// The new token of each row.
    pub ids: Vec<u32>,
    /// The position of each row in its sequence, from 0.
    pub positions: Vec<u32>,
    /// The sequences.
    pub spans: Vec<Span>,
    /// Page numbers of all spans, one behind the other.
    pub pages: Vec<u32>,
    /// The rows whose logits are wanted, in the order in which these are written.
    pub wanted: Vec<u32>,
}

/// What is wrong with a batch.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("this batch cannot be computed: {0}; this is a fault of its maker")]
pub struct BatchError(pub String);

impl Batch {
    /// Empties it and keeps its room.
    pub fn clear(&mut self) {
        self.ids.clear();
        self.positions.clear();
        self.spans.clear();
        self.pages.clear();
        self.wanted.clear();
    }

    /// Adds a sequence: its new tokens, how many came before, its pages, and whether the logits of its last row are wanted.
    pub fn push(&mut self, ids: &[u32], past: usize, pages: &[u32], wanted: bool) {
        let first = self.ids.len();
        self.spans.push(Span { first, rows: ids.len(), past, first_page: self.pages.len() });
        self.ids.extend_from_slice(ids);
        self.positions.extend((past..past + ids.len()).map(|position| position as u32));
        self.pages.extend_from_slice(&pages[..(past + ids.len()).div_ceil(PAGE_TOKENS)]);
        if wanted {
            self.wanted.push((self.ids.len() - 1) as u32);
        }
    }

    /// Rows of all spans.
    pub fn rows(&self) -> usize {
        self.ids.len()
    }

    /// The pages of a span.
    pub fn pages_of(&self, span: &Span) -> &[u32] {
        &self.pages[span.first_page..span.first_page + (span.past + span.rows).div_ceil(PAGE_TOKENS)]
    }

    /// Checks all that a backend relies on: `vocabulary` ids, `pages` pages, positions below `context`.
    ///
    /// # Errors
    /// The first thing that is wrong.
    pub fn check(&self, vocabulary: usize, pages: usize, context: usize) -> Result<(), BatchError> {
        let wrong = |detail: String| Err(BatchError(detail));
        if self.ids.len() != self.positions.len() {
            return wrong(format!("{} ids and {} positions", self.ids.len(), self.positions.len()));
        }
        if let Some(id) = self.ids.iter().find(|id| **id as usize >= vocabulary) {
            return wrong(format!("id {id} is not of a vocabulary of {vocabulary}"));
        }
        if let Some(page) = self.pages.iter().find(|page| **page as usize >= pages) {
            return wrong(format!("page {page} is not one of {pages}"));
        }
        let (mut row, mut page) = (0, 0);
        for span in &self.spans {
            let end = span.past + span.rows;
            if span.rows == 0 || span.first != row || span.first_page != page || end > context {
                return wrong(format!("{span:?} does not follow on row {row} and page {page} within {context} tokens"));
            }
            let positions = &self.positions[row..];
            if positions.len() < span.rows || (0..span.rows).any(|i| positions[i] as usize != span.past + i) {
                return wrong(format!("positions of {span:?} do not count up from {}", span.past));
            }
            row += span.rows;
            page += end.div_ceil(PAGE_TOKENS);
        }
        if row != self.ids.len() || page != self.pages.len() {
            return wrong(format!(
                "spans of {row} rows, {page} pages; got {} and {}",
                self.ids.len(),
                self.pages.len()
            ));
        }
        match self.wanted.iter().find(|wanted| **wanted as usize >= row) {
            Some(wanted) => wrong(format!("logits of row {wanted} of {row} are wanted")),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_that_was_pushed_is_whole_and_a_wrong_one_is_named() {
        let mut batch = Batch::default();
        batch.push(&[1, 2, 3], 62, &[4, 9, 7], true);
        batch.push(&[5], 0, &[0], false);
        assert_eq!(batch.check(6, 10, 65), Ok(()));
        assert_eq!((batch.pages.as_slice(), batch.wanted.as_slice()), (&[4, 9, 0][..], &[2][..]));
        assert!(batch.check(5, 10, 65).unwrap_err().0.contains("id 5"));
        assert!(batch.check(6, 9, 65).unwrap_err().0.contains("page 9"));
        assert!(batch.check(6, 10, 64).is_err());
        batch.positions[1] = 7;
        assert!(batch.check(6, 10, 65).unwrap_err().0.contains("count up"));
    }
}
