//! The first words of a page, as snippets and pages are cut. A word is what stands between Python's
//! spaces; text without spaces is cut by characters, so that one long word cannot fill a context.

use super::notice::TRUNCATED;
use crate::call::python::is_space;
use crate::profile::ToolStyle;

/// Characters of a page or snippet at most, in any style.
pub const PAGE_CHARS_MAX: usize = 1_000_000;

/// Characters that the plain style allows for each word it may show; scripts without spaces are cut by it.
const PLAIN_CHARS_PER_WORD: usize = 16;

/// The first words, joined by single spaces.
pub(super) fn snippet(text: &str, words: u32, style: ToolStyle) -> String {
    let mut snippet = String::new();
    for word in text.split(is_space).filter(|word| !word.is_empty()).take(words as usize) {
        if !snippet.is_empty() {
            snippet.push(' ');
        }
        snippet.push_str(word);
    }
    if let Some((end, _)) = snippet.char_indices().nth(chars_max(words, style)) {
        snippet.truncate(end);
    }
    snippet
}

/// The first words with the spaces between them, and a line that says so where something was cut. FoldAgent
/// says so, and drops what spaces follow, as soon as the last word allowed is there, whether more come or not.
pub(super) fn page(text: &str, words: u32, style: ToolStyle) -> String {
    let by_words = nth_word_end(text, words)
        .filter(|end| style == ToolStyle::Foldagent || text[*end..].contains(|c| !is_space(c)));
    let by_chars = text.char_indices().nth(chars_max(words, style)).map(|(at, _)| at);
    match [by_words, by_chars].into_iter().flatten().min() {
        Some(end) => format!("{}\n{TRUNCATED}", &text[..end]),
        None => text.to_owned(),
    }
}

fn chars_max(words: u32, style: ToolStyle) -> usize {
    match style {
        ToolStyle::Foldagent => PAGE_CHARS_MAX,
        ToolStyle::Plain => (words as usize).saturating_mul(PLAIN_CHARS_PER_WORD).min(PAGE_CHARS_MAX),
    }
}

/// Where the n-th word ends; none if there are fewer, or if none is asked for.
fn nth_word_end(text: &str, n: u32) -> Option<usize> {
    let mut words = 0;
    let mut in_word = false;
    for (at, c) in text.char_indices() {
        match (is_space(c), in_word) {
            (false, false) => {
                words += 1;
                in_word = true;
            }
            (true, true) if words == n => return Some(at),
            (true, _) => in_word = false,
            (false, true) => {}
        }
    }
    (in_word && words == n).then_some(text.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use ToolStyle::{Foldagent, Plain};

    #[test]
    fn snippets_join_the_first_words() {
        assert_eq!(snippet(" a\t\tb\n\u{a0}c d ", 3, Foldagent), "a b c");
        assert_eq!(snippet("a", 3, Foldagent), "a");
        assert_eq!(snippet("", 3, Plain), "");
        assert_eq!(snippet("a\u{1f}b", 1, Foldagent), "a");
    }

    #[test]
    fn a_page_keeps_its_spaces_and_is_flagged_where_it_is_cut() {
        let cases = [
            ("a  b\nc d", 3, "a  b\nc\n[Document is truncated.]", "a  b\nc\n[Document is truncated.]"),
            ("a b c \n", 3, "a b c\n[Document is truncated.]", "a b c \n"),
            ("a b c", 3, "a b c\n[Document is truncated.]", "a b c"),
            ("a b", 3, "a b", "a b"),
            ("", 3, "", ""),
        ];
        for (text, words, foldagent, plain) in cases {
            assert_eq!(page(text, words, Foldagent), foldagent, "foldagent: {text:?}");
            assert_eq!(page(text, words, Plain), plain, "plain: {text:?}");
        }
    }

    #[test]
    fn text_without_spaces_is_cut_by_characters() {
        let long = "字".repeat(3 * PLAIN_CHARS_PER_WORD);
        assert_eq!(snippet(&long, 2, Plain).chars().count(), 2 * PLAIN_CHARS_PER_WORD);
        assert!(page(&long, 2, Plain).ends_with(TRUNCATED));
        assert_eq!(page(&long, 3, Plain), long);
        let endless = "x".repeat(2 * PAGE_CHARS_MAX);
        assert!(page(&endless, 4096, Foldagent).len() < PAGE_CHARS_MAX + 100);
    }
}
