//! Which texts are computed together: those that follow one another and fit into one step. A pure function of their lengths.
//!
//! It refuses to know the texts.

use legwork_kernels::PAGE_TOKENS;
use std::ops::Range;

/// What one step has room for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Budget {
    /// Tokens of all texts.
    pub(super) tokens: usize,
    /// Pages of all texts, each of which begins one.
    pub(super) pages: usize,
}

/// Cuts texts into steps. A text that alone is too long for one is alone in its step.
pub(super) fn batches(lengths: &[usize], budget: Budget) -> Vec<Range<usize>> {
    let (mut batches, mut first) = (Vec::new(), 0);
    let (mut tokens, mut pages) = (0_usize, 0_usize);
    for (text, length) in lengths.iter().enumerate() {
        let needed = length.div_ceil(PAGE_TOKENS);
        if text > first && (tokens + length > budget.tokens || pages + needed > budget.pages) {
            batches.push(first..text);
            (first, tokens, pages) = (text, 0, 0);
        }
        tokens += length;
        pages += needed;
    }
    if first < lengths.len() {
        batches.push(first..lengths.len());
    }
    batches
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn texts_share_a_step_as_long_as_they_fit() {
        let of = |lengths: &[usize], tokens, pages| batches(lengths, Budget { tokens, pages });
        assert!(of(&[], 10, 10).is_empty());
        assert_eq!(of(&[4, 6, 1, 20, 3], 10, 10), [0..2, 2..3, 3..4, 4..5]);
        assert_eq!(of(&[1, 1, 65, 1], 100, 2), [0..2, 2..3, 3..4], "a page each, and two of the third");
        assert_eq!(of(&[0, 0, 0, 11], 10, 1), [0..3, 3..4]);
    }

    proptest! {
        #[test]
        fn every_text_has_one_step_and_every_step_of_several_texts_is_within_the_budget(
            lengths in proptest::collection::vec(0_usize..200, 0..60), tokens in 1_usize..400, pages in 1_usize..8,
        ) {
            let made = batches(&lengths, Budget { tokens, pages });
            let covered: Vec<usize> = made.iter().cloned().flatten().collect();
            prop_assert_eq!(covered, (0..lengths.len()).collect::<Vec<_>>());
            for batch in made {
                let of_batch = &lengths[batch.clone()];
                prop_assert!(!batch.is_empty());
                let fits = of_batch.iter().sum::<usize>() <= tokens
                    && of_batch.iter().map(|length| length.div_ceil(PAGE_TOKENS)).sum::<usize>() <= pages;
                prop_assert!(fits || of_batch.len() == 1);
            }
        }
    }
}
