//! Passages of a document: its head or its best window, by words or by the tokens of a given counter.
//!
//! It cuts and never writes: no ellipsis, no joining; what it gives is a slice of the text, and no character is
//! ever halved. How a harness renders passages is known elsewhere.

use crate::analyzer::Analyzer;
use std::collections::BTreeMap;
use std::ops::Range;

/// Splits text into the tokens of some tokenizer.
pub trait TokenSpans {
    /// The byte range of each token of `text`, in order. Ranges may end inside a character, as byte-level tokens do.
    fn spans(&self, text: &str) -> Vec<Range<usize>>;
}

/// The text up to the end of its `words`-th word; words are what whitespace separates.
pub fn head_words(text: &str, words: usize) -> &str {
    match word_spans(text).take(words).last() {
        Some(last) => &text[..last.end],
        None => "",
    }
}

/// The text up to the end of its `tokens`-th token, less a character that the token cuts.
pub fn head_tokens<'a>(text: &'a str, tokens: usize, counter: &impl TokenSpans) -> &'a str {
    let end = counter.spans(text).into_iter().take(tokens).map(|span| span.end).max().unwrap_or(0);
    &text[..text.floor_char_boundary(end)]
}

/// The window of at most `words` consecutive words that says most about the query; the earliest of equals.
///
/// `weights` gives what each analysed term is worth, as [`crate::bm25::Bm25::term_weights`] does. A window is worth
/// the sum over distinct terms in it; among windows of equal worth the one with more occurrences wins.
/// Without any of the terms it is the head.
pub fn best_window<'a>(text: &'a str, words: usize, weights: &BTreeMap<String, f64>) -> &'a str {
    let spans: Vec<_> = word_spans(text).collect();
    if words == 0 {
        return "";
    }
    if spans.len() <= words {
        return head_words(text, words);
    }
    let found = occurrences(text, &spans, weights);
    let Some(first) = best_start(&found, words) else { return head_words(text, words) };
    let first = first.min(spans.len() - words);
    &text[spans[first].start..spans[first + words - 1].end]
}

/// A word of the text that is a term of the query.
#[derive(Clone, Copy)]
struct Occurrence {
    word: usize,
    term: usize,
    weight: f64,
}

fn occurrences(text: &str, spans: &[Range<usize>], weights: &BTreeMap<String, f64>) -> Vec<Occurrence> {
    let numbers: BTreeMap<&str, (usize, f64)> =
        weights.iter().enumerate().map(|(i, (term, weight))| (term.as_str(), (i, *weight))).collect();
    let mut analyzer = Analyzer::default();
    let mut found = Vec::new();
    for (word, span) in spans.iter().enumerate() {
        analyzer.terms(&text[span.clone()], |term| {
            if let Some(&(term, weight)) = numbers.get(term) {
                found.push(Occurrence { word, term, weight });
            }
        });
    }
    found
}

/// First word of the best window. A best window may begin at an occurrence, so only those are tried.
fn best_start(found: &[Occurrence], words: usize) -> Option<usize> {
    let mut best: Option<(f64, usize, usize)> = None;
    let mut counts: BTreeMap<usize, (usize, f64)> = BTreeMap::new();
    let mut end = 0;
    for (i, first) in found.iter().enumerate() {
        while let Some(o) = found.get(end).filter(|o| o.word < first.word + words) {
            counts.entry(o.term).or_insert((0, o.weight)).0 += 1;
            end += 1;
        }
        // Summed anew for each window, in the order of terms, so that equal windows are worth exactly the same.
        let worth: f64 = counts.values().map(|(_, weight)| weight).sum();
        if best.is_none_or(|(most, occurrences, _)| worth > most || (worth == most && end - i > occurrences)) {
            best = Some((worth, end - i, first.word));
        }
        if let Some((count, _)) = counts.get_mut(&first.term) {
            *count -= 1;
            if *count == 0 {
                counts.remove(&first.term);
            }
        }
    }
    best.map(|(_, _, start)| start)
}

/// The byte ranges of the words.
fn word_spans(text: &str) -> impl Iterator<Item = Range<usize>> + '_ {
    text.split_whitespace().map(|word| {
        let start = word.as_ptr() as usize - text.as_ptr() as usize;
        start..start + word.len()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Tokens of three bytes, which may cut characters.
    struct Threes;

    impl TokenSpans for Threes {
        fn spans(&self, text: &str) -> Vec<Range<usize>> {
            (0..text.len()).step_by(3).map(|i| i..(i + 3).min(text.len())).collect()
        }
    }

    fn weights(query: &str) -> BTreeMap<String, f64> {
        Analyzer::default().counts(query).into_keys().map(|term| (term, 1.0)).collect()
    }

    #[test]
    fn the_head_keeps_whitespace_and_whole_words() {
        assert_eq!(head_words("  one\ttwo\n three ", 2), "  one\ttwo");
        assert_eq!(head_words("one two", 5), "one two");
        assert_eq!(head_words("one", 0), "");
        assert_eq!(head_words(" \n", 3), "");
    }

    #[test]
    fn a_token_that_cuts_a_character_loses_it() {
        assert_eq!(head_tokens("aéa", 1, &Threes), "aé");
        assert_eq!(head_tokens("aaé", 1, &Threes), "aa");
        assert_eq!(head_tokens("abc", 0, &Threes), "");
    }

    #[test]
    fn the_best_window_has_most_of_the_query() {
        let text = "cats sleep. a b c d e f the cats saw dogs and ran x y z cats cats cats";
        assert_eq!(best_window(text, 4, &weights("dog cat")), "cats saw dogs and");
        assert_eq!(best_window(text, 3, &weights("cat")), "cats cats cats", "more occurrences win");
        assert_eq!(best_window(text, 2, &weights("whale")), "cats sleep.", "the head without a match");
        assert_eq!(best_window("a cat", 9, &weights("cat")), "a cat");
        assert_eq!(best_window(text, 0, &weights("cat")), "");
    }

    #[test]
    fn a_window_near_the_end_is_as_long_as_any() {
        assert_eq!(best_window("a b c d cat", 3, &weights("cat")), "c d cat");
    }

    #[test]
    fn weights_decide_between_windows() {
        let weights = BTreeMap::from([("cat".to_owned(), 0.1), ("whale".to_owned(), 5.0)]);
        assert_eq!(best_window("cat cat x x x x whale x", 2, &weights), "whale x");
    }

    proptest! {
        #[test]
        fn passages_are_slices_of_whole_characters(text in "[a-cé😀 \\n]{0,60}", n in 0_usize..20) {
            let window = best_window(&text, n, &weights("a b"));
            prop_assert!(text.contains(window) && window.split_whitespace().count() <= n);
            let head = head_words(&text, n);
            prop_assert_eq!(head.split_whitespace().count(), n.min(text.split_whitespace().count()));
            prop_assert!(text.starts_with(head) && text.starts_with(head_tokens(&text, n, &Threes)));
        }
    }
}
