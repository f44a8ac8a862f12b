//! The envelope of FoldAgent's search server: what is read of a request and what is written of an answer.

use legwork_protocol::id::DocId;
use legwork_protocol::retrieval::{Hit, Page, PageRef, SearchAnswer};
use serde::{Deserialize, Serialize};

/// Documents of a search that does not say how many.
pub(super) const K_DEFAULT: u32 = 20;
/// What stands in place of a page that is not there.
const NOT_FOUND: &str = "Document not found for given docid.";
/// What stands in place of a page that was not named, or named by an unknown address.
const NOT_NAMED: &str = "Missing docid and url, or url not indexed.";

/// The body of `POST /search`. Other fields are left alone.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct SearchRequest {
    /// What is searched for.
    pub query: String,
    /// Documents wanted; the server's limit is laid upon it later.
    #[serde(default = "k_default")]
    pub k: u32,
}

fn k_default() -> u32 {
    K_DEFAULT
}

/// The body of `POST /open`: the docid goes before the url, and an empty one is none.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct OpenRequest {
    #[serde(default)]
    docid: Option<String>,
    #[serde(default)]
    url: Option<String>,
}

impl OpenRequest {
    /// The page that is asked for; none if the body names none.
    pub fn page(&self) -> Option<PageRef> {
        let named = |name: &Option<String>| name.clone().filter(|name| !name.is_empty());
        named(&self.docid)
            .map(|docid| PageRef::DocId(DocId::from(docid)))
            .or_else(|| named(&self.url).map(PageRef::Url))
    }
}

/// The body of every answer.
#[derive(Debug, Serialize)]
pub(super) struct Envelope {
    results: Vec<Row>,
    took_ms: f64,
    /// A part of the library was down; other servers do not say so.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    degraded: bool,
}

#[derive(Debug, Serialize)]
struct Row {
    docid: Option<String>,
    url: Option<String>,
    text: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    title: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    score: Option<f64>,
}

/// The answer to a search: the first `words` words of each document.
pub(super) fn found(answer: &SearchAnswer, words: usize, took_ms: f64) -> Envelope {
    let row = |hit: &Hit| Row {
        docid: Some(hit.docid.to_string()),
        // Clients of this protocol take the url for text; a missing one is blank.
        url: Some(hit.url.clone().unwrap_or_default()),
        text: head(&hit.text, words).to_owned(),
        title: hit.title.clone(),
        score: Some(if hit.score.is_finite() { hit.score } else { 0.0 }),
    };
    Envelope { results: answer.hits.iter().map(row).collect(), took_ms, degraded: answer.degraded }
}

/// The answer to an open: the first `words` words, or the sentence for a page that is not there.
pub(super) fn opened(request: &OpenRequest, page: Option<&Page>, words: usize, took_ms: f64) -> Envelope {
    let row = match page {
        Some(page) => Row {
            docid: Some(page.docid.to_string()),
            url: Some(page.url.clone().or_else(|| request.url.clone()).unwrap_or_default()),
            text: head(&page.text, words).to_owned(),
            title: page.title.clone(),
            score: None,
        },
        None => {
            let docid = request.docid.clone().filter(|docid| !docid.is_empty());
            let text = if docid.is_some() { NOT_FOUND } else { NOT_NAMED };
            Row { docid, url: request.url.clone(), text: text.to_owned(), title: None, score: None }
        }
    };
    Envelope { results: vec![row], took_ms, degraded: false }
}

/// The text up to the end of its `words`-th word.
fn head(text: &str, words: usize) -> &str {
    let mut left = words;
    let mut in_word = false;
    for (at, letter) in text.char_indices() {
        let space = letter.is_whitespace();
        if in_word && space {
            left -= 1;
            if left == 0 {
                return &text[..at];
            }
        }
        in_word = !space;
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_text_is_cut_after_its_last_word_that_may_stay() {
        for (words, expected) in [(1, " a"), (2, " a\n\u{a0}bé"), (3, " a\n\u{a0}bé  c"), (4, " a\n\u{a0}bé  c ")] {
            assert_eq!(head(" a\n\u{a0}bé  c ", words), expected, "{words}");
        }
        assert_eq!(head("", 1), "");
    }

    #[test]
    fn the_docid_goes_before_the_url_and_an_empty_one_is_none() {
        let page = |body: &str| serde_json::from_str::<OpenRequest>(body).unwrap().page();
        let docid = Some(PageRef::DocId(DocId::from("1")));
        assert_eq!(page(r#"{"docid":"1","url":"u"}"#), docid);
        assert_eq!(page(r#"{"docid":"","url":"u"}"#), Some(PageRef::Url("u".into())));
        assert_eq!(page(r#"{"docid":null}"#), None);
    }

    proptest! {
        #[test]
        fn a_head_is_a_prefix_with_no_more_words_than_asked(text in "[a-c \n\u{a0}é]{0,40}", words in 1usize..6) {
            let head = head(&text, words);
            let expected: Vec<&str> = text.split_whitespace().take(words).collect();
            prop_assert!(text.starts_with(head));
            prop_assert_eq!(head.split_whitespace().collect::<Vec<_>>(), expected);
        }
    }
}
