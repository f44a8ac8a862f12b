//! A corpus as TREC text: `<DOC>`, `<DOCNO>`, then text in `<TEXT>` sections or free.
//!
//! It refuses entities and nested markup: they stay text as they stand. Tags are told in any case.

use super::lines::Lines;
use super::{Document, DocumentReader, MAX_TEXT_BYTES};
use crate::error::RetrievalError;
use std::path::Path;

pub(super) struct TrecReader {
    lines: Lines,
}

/// What is wrong, and the cure.
type Complaint = (String, &'static str);

/// Which part of a document a tag holds.
#[derive(Clone, Copy, PartialEq)]
enum Part {
    Docno,
    Title,
    Url,
    Text,
}

/// A tag that this reader knows; any other is text.
#[derive(Clone, Copy)]
struct Tag {
    name: &'static str,
    part: Part,
}

const TAGS: [Tag; 5] = [
    Tag { name: "docno", part: Part::Docno },
    Tag { name: "title", part: Part::Title },
    Tag { name: "headline", part: Part::Title },
    Tag { name: "url", part: Part::Url },
    Tag { name: "text", part: Part::Text },
];

/// Bytes of the longest known name with its slash.
const NAME_BYTES_MAX: usize = "/headline".len();

/// A document while it is being read.
#[derive(Default)]
struct Draft {
    start_line: u64,
    docid: Option<String>,
    title: Option<String>,
    url: Option<String>,
    /// The `<TEXT>` sections, joined by line breaks.
    sections: Option<String>,
    /// What stands outside every known tag; the text of a document without sections.
    free: String,
    /// The tag whose end is awaited, and what it holds so far.
    open: Option<Tag>,
    pending: String,
}

impl TrecReader {
    pub(super) fn open(path: &Path) -> Result<Self, RetrievalError> {
        Ok(Self { lines: Lines::open(path)? })
    }
}

impl DocumentReader for TrecReader {
    fn next_document(&mut self) -> Result<Option<(u64, Document)>, RetrievalError> {
        let mut draft: Option<Draft> = None;
        loop {
            let Some((number, line)) = self.lines.next_line()? else {
                let Some(draft) = draft else { return Ok(None) };
                let what = "expected </DOC>, got the end of the file".to_owned();
                return Err(self.lines.fault(draft.start_line, what, "the file may be cut off: fetch it anew"));
            };
            let taken = match draft.take() {
                None => begin(line, number).map(|begun| (begun, false)),
                Some(mut open) => open.take_line(line).map(|ended| (Some(open), ended)),
            };
            match taken {
                Ok((Some(ended), true)) => {
                    let start = ended.start_line;
                    return match ended.finish() {
                        Ok(document) => Ok(Some((start, document))),
                        Err((what, cure)) => Err(self.lines.fault(start, what, cure)),
                    };
                }
                Ok((going_on, _)) => draft = going_on,
                Err((what, cure)) => return Err(self.lines.fault(number, what, cure)),
            }
        }
    }

    fn fault(&self, place: u64, what: String, cure: &'static str) -> RetrievalError {
        self.lines.fault(place, what, cure)
    }
}

/// Between documents only blank lines and `<DOC>` may stand.
fn begin(line: &str, number: u64) -> Result<Option<Draft>, Complaint> {
    let line = line.trim();
    if line.is_empty() {
        return Ok(None);
    }
    if line.eq_ignore_ascii_case("<doc>") {
        return Ok(Some(Draft { start_line: number, ..Draft::default() }));
    }
    let start: String = line.chars().take(40).collect();
    let what = format!("expected <DOC> on a line of its own, got {start:?}");
    Err((what, "put every document between <DOC> and </DOC>"))
}

impl Draft {
    /// Takes a line; true when it ended the document.
    fn take_line(&mut self, line: &str) -> Result<bool, Complaint> {
        if line.trim().eq_ignore_ascii_case("</doc>") {
            return match self.open {
                None => Ok(true),
                Some(tag) => {
                    Err((format!("expected </{}>, got </DOC>", tag.name), "close every tag before the document ends"))
                }
            };
        }
        if line.trim().eq_ignore_ascii_case("<doc>") {
            return Err(("expected </DOC>, got another <DOC>".to_owned(), "end every document with </DOC>"));
        }
        let mut rest = line;
        while let Some(after) = self.take_to_tag(rest)? {
            rest = after;
        }
        let sections = self.sections.as_ref().map_or(0, String::len);
        if self.pending.len() + sections + self.free.len() > MAX_TEXT_BYTES {
            let what = format!("expected a document of at most {MAX_TEXT_BYTES} bytes, got a longer one");
            return Err((what, "split the document"));
        }
        Ok(false)
    }

    /// Takes text up to the next tag that matters and returns what follows it; `None` when the line is used up.
    fn take_to_tag<'a>(&mut self, rest: &'a str) -> Result<Option<&'a str>, Complaint> {
        if let Some(open) = self.open {
            let ends = |name: &str| known(name.strip_prefix('/')?).filter(|tag| tag.name == open.name);
            let Some((before, tag, after)) = next_tag(rest, ends) else {
                self.pending.push_str(rest);
                self.pending.push('\n');
                return Ok(None);
            };
            self.pending.push_str(before);
            self.close(tag)?;
            return Ok(Some(after));
        }
        let Some((before, tag, after)) = next_tag(rest, known) else {
            self.free.push_str(rest);
            self.free.push('\n');
            return Ok(None);
        };
        self.free.push_str(before);
        self.open = Some(tag);
        Ok(Some(after))
    }

    fn close(&mut self, tag: Tag) -> Result<(), Complaint> {
        self.open = None;
        let value = std::mem::take(&mut self.pending).trim().to_owned();
        let slot = match tag.part {
            Part::Docno => &mut self.docid,
            Part::Title => &mut self.title,
            Part::Url => &mut self.url,
            Part::Text => {
                match &mut self.sections {
                    Some(sections) => {
                        sections.push('\n');
                        sections.push_str(&value);
                    }
                    none => *none = Some(value),
                }
                return Ok(());
            }
        };
        if slot.is_some() {
            return Err((format!("expected one <{}>, got a second", tag.name), "remove one of them"));
        }
        *slot = Some(value);
        Ok(())
    }

    fn finish(self) -> Result<Document, Complaint> {
        let Some(docid) = self.docid else {
            return Err(("expected <DOCNO>, got none".to_owned(), "give the document a <DOCNO>"));
        };
        let free = self.free.trim();
        if self.sections.is_none() && free.is_empty() {
            return Err(("expected text, got none".to_owned(), "give the document a <TEXT>, which may be empty"));
        }
        let text = self.sections.unwrap_or_else(|| free.to_owned());
        Ok(Document { docid, text, title: self.title, url: self.url })
    }
}

fn known(name: &str) -> Option<Tag> {
    TAGS.into_iter().find(|tag| tag.name.eq_ignore_ascii_case(name))
}

/// The first `<name>` that `wanted` accepts, with what stands before and after it. No further than a known name reaches
/// is looked for its end: a line of many `<` must cost no more than its length.
fn next_tag(text: &str, wanted: impl Fn(&str) -> Option<Tag>) -> Option<(&str, Tag, &str)> {
    text.match_indices('<').find_map(|(at, _)| {
        let inside = &text[at + 1..];
        let end = inside.bytes().take(NAME_BYTES_MAX + 1).position(|byte| byte == b'>')?;
        wanted(&inside[..end]).map(|tag| (&text[..at], tag, &inside[end + 1..]))
    })
}
