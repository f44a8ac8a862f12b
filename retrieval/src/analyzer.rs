//! Text to terms, as Lucene's English analysis does it: letters and digits, lower case, Lucene's 33 stop
//! words, Porter's stems. Corpus and queries pass through the same code.
//!
//! It refuses query languages: quotes, colons and the word AND are separators and words like any other.
//! Differences from Lucene, on purpose: an apostrophe or full stop always separates (Lucene keeps "3.5" and
//! drops a possessive 's), and composed and decomposed letters are one (NFC first).

use frostem::{Algorithm, Stemmer};
use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use unicode_normalization::{IsNormalized, UnicodeNormalization, is_nfc_quick};

/// Name and version of this analysis; an index of another one is refused.
pub const ANALYZER: &str = "lucene-english-1";
/// A longer run of letters and digits is cut into terms of this many characters, as Lucene does.
pub const MAX_TERM_CHARS: usize = 255;

/// Words up to this length are their own stems.
const MAX_UNSTEMMED_BYTES: usize = 2;
/// Stems remembered by one analyzer.
const MAX_CACHED_STEMS: usize = 100_000;
/// Longer words are rare; their stems are not remembered.
const MAX_CACHED_WORD_BYTES: usize = 32;

/// Lucene's English stop words, sorted.
const STOP_WORDS: [&str; 33] = [
    "a", "an", "and", "are", "as", "at", "be", "but", "by", "for", "if", "in", "into", "is", "it", "no", "not", "of",
    "on", "or", "such", "that", "the", "their", "then", "there", "these", "they", "this", "to", "was", "will", "with",
];
const MAX_STOP_WORD_BYTES: usize = 5;

/// Turns text into terms. It holds only a cache, so two analyzers always agree.
pub struct Analyzer {
    stemmer: Stemmer,
    stems: HashMap<Box<str>, Box<str>>,
    word: String,
}

impl Default for Analyzer {
    fn default() -> Self {
        Self { stemmer: Stemmer::new(Algorithm::Porter), stems: HashMap::new(), word: String::new() }
    }
}

impl Analyzer {
    /// Calls `each` with every term of `text`, in order.
    pub fn terms(&mut self, text: &str, mut each: impl FnMut(&str)) {
        let text = composed(text);
        for run in text.split(|c: char| !c.is_alphanumeric()).filter(|run| !run.is_empty()) {
            let mut rest = run;
            while !rest.is_empty() {
                let end = if rest.len() <= MAX_TERM_CHARS {
                    rest.len()
                } else {
                    rest.char_indices().nth(MAX_TERM_CHARS).map_or(rest.len(), |(at, _)| at)
                };
                let (part, after) = rest.split_at(end);
                rest = after;
                if let Some(term) = self.term(part) {
                    each(term);
                }
            }
        }
    }

    /// The distinct terms of `text` with how often each occurs.
    pub fn counts(&mut self, text: &str) -> BTreeMap<String, u32> {
        let mut counts = BTreeMap::new();
        self.terms(text, |term| match counts.get_mut(term) {
            Some(n) => *n += 1,
            None => {
                counts.insert(term.to_owned(), 1);
            }
        });
        counts
    }

    /// Lower case, stop words, stem.
    fn term(&mut self, part: &str) -> Option<&str> {
        self.word.clear();
        if part.is_ascii() {
            self.word.push_str(part);
            self.word.make_ascii_lowercase();
        } else {
            self.word.push_str(&part.to_lowercase());
        }
        let word = self.word.as_str();
        if word.len() <= MAX_STOP_WORD_BYTES && STOP_WORDS.binary_search(&word).is_ok() {
            return None;
        }
        // Porter's own program and Lucene leave words of one or two letters alone; the published rules would not.
        if word.len() <= MAX_UNSTEMMED_BYTES {
            return Some(&self.word);
        }
        if word.len() > MAX_CACHED_WORD_BYTES {
            self.word = self.stemmer.stem(word).into_owned();
            return Some(&self.word);
        }
        if !self.stems.contains_key(word) {
            if self.stems.len() >= MAX_CACHED_STEMS {
                self.stems.clear();
            }
            let stem = self.stemmer.stem(word).into_owned().into_boxed_str();
            self.stems.insert(word.into(), stem);
        }
        self.stems.get(word).map(AsRef::as_ref)
    }
}

/// The text with letters and their marks composed.
fn composed(text: &str) -> Cow<'_, str> {
    if text.is_ascii() || is_nfc_quick(text.chars()) == IsNormalized::Yes {
        Cow::Borrowed(text)
    } else {
        Cow::Owned(text.nfc().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn terms(text: &str) -> Vec<String> {
        let mut all = Vec::new();
        Analyzer::default().terms(text, |t| all.push(t.to_owned()));
        all
    }

    #[test]
    fn letters_and_digits_are_lowered_stopped_and_stemmed() {
        assert_eq!(terms("The Connections, of 3.5 ponies' U.S. NOT us"), ["connect", "3", "5", "poni", "u", "s", "us"]);
        assert_eq!(terms("generalizations relational"), ["gener", "relat"], "porter, not its successor");
    }

    #[test]
    fn query_syntax_is_text() {
        assert_eq!(terms("title:\"cat AND dog\" OR -bird^2 (x~"), ["titl", "cat", "dog", "bird", "2", "x"]);
        assert!(terms("\"::AND\" *").is_empty());
    }

    #[test]
    fn composed_and_decomposed_letters_are_one() {
        assert_eq!(terms("Café"), terms("Cafe\u{301}"));
        assert_eq!(terms("ÉCOLE"), ["école"]);
    }

    #[test]
    fn an_endless_word_is_cut() {
        let lengths: Vec<_> = terms(&"ж".repeat(600)).iter().map(|t| t.chars().count()).collect();
        assert_eq!(lengths, [255, 255, 90]);
    }

    #[test]
    fn stop_words_are_sorted_as_the_search_needs() {
        assert!(STOP_WORDS.is_sorted() && STOP_WORDS.iter().all(|w| w.len() <= MAX_STOP_WORD_BYTES));
    }

    proptest! {
        #[test]
        fn terms_are_whole_words_without_separators(text in "\\PC{0,80}") {
            for term in terms(&text) {
                prop_assert!(!term.is_empty() && !term.contains(char::is_whitespace));
            }
        }
    }
}
