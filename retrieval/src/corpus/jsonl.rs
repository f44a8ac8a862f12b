//! A corpus as JSON lines. It refuses to guess: a number is no docid, and half a character is no text.

use super::lines::Lines;
use super::{Document, DocumentReader};
use crate::error::RetrievalError;
use serde::Deserialize;
use serde::de::{self, Deserializer, Visitor};
use std::fmt;
use std::path::Path;

/// Longest part of a bad line that a message quotes, in characters.
const QUOTED_CHARS: usize = 60;

pub(super) struct JsonlReader {
    lines: Lines,
}

impl JsonlReader {
    pub(super) fn open(path: &Path) -> Result<Self, RetrievalError> {
        Ok(Self { lines: Lines::open(path)? })
    }
}

impl DocumentReader for JsonlReader {
    fn next_document(&mut self) -> Result<Option<(u64, Document)>, RetrievalError> {
        let mut blank = None;
        loop {
            let parsed = match self.lines.next_line()? {
                None => return Ok(None),
                // Blank lines may end a file; one between documents is a record lost, and is told below.
                Some((number, line)) if line.trim().is_empty() => {
                    blank = blank.or(Some(number));
                    continue;
                }
                Some((number, line)) => match (blank, parse(line)) {
                    (Some(blank), _) => {
                        Err((blank, ("expected a document, got a blank line".to_owned(), "remove the line")))
                    }
                    (None, Err(complaint)) => Err((number, complaint)),
                    (None, Ok(document)) => Ok((number, document)),
                },
            };
            return match parsed {
                Ok(found) => Ok(Some(found)),
                Err((number, (what, cure))) => Err(self.lines.fault(number, what, cure)),
            };
        }
    }

    fn fault(&self, place: u64, what: String, cure: &'static str) -> RetrievalError {
        self.lines.fault(place, what, cure)
    }
}

#[derive(Deserialize)]
struct Line {
    docid: Id,
    text: String,
    #[serde(default)]
    title: Option<String>,
    #[serde(default)]
    url: Option<String>,
}

/// A docid that must be a JSON string; a number is refused with a sentence of its own.
struct Id(String);

const ONE_OBJECT: &str = "write one JSON object a line: {\"docid\": \"12\", \"text\": \"…\"}";
const NUMERIC_ID: &str = "numeric docid";

impl<'de> Deserialize<'de> for Id {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct IdVisitor;
        impl Visitor<'_> for IdVisitor {
            type Value = Id;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a docid in quotes")
            }

            fn visit_str<E: de::Error>(self, id: &str) -> Result<Id, E> {
                Ok(Id(id.to_owned()))
            }

            fn visit_u64<E: de::Error>(self, id: u64) -> Result<Id, E> {
                Err(E::custom(format!("{NUMERIC_ID} {id}: write \"{id}\" in quotes")))
            }

            fn visit_i64<E: de::Error>(self, id: i64) -> Result<Id, E> {
                Err(E::custom(format!("{NUMERIC_ID} {id}: write \"{id}\" in quotes")))
            }

            fn visit_f64<E: de::Error>(self, id: f64) -> Result<Id, E> {
                Err(E::custom(format!("{NUMERIC_ID} {id}: write it in quotes")))
            }
        }
        deserializer.deserialize_any(IdVisitor)
    }
}

/// One line as a document, or what is wrong and the cure.
fn parse(line: &str) -> Result<Document, (String, &'static str)> {
    // A list of the right length would pass for an object otherwise.
    if !line.trim_start().starts_with('{') {
        let start: String = line.chars().take(QUOTED_CHARS).collect();
        return Err((format!("expected a JSON object, got {start:?}"), ONE_OBJECT));
    }
    match serde_json::from_str::<Line>(line) {
        Ok(Line { docid: Id(docid), text, title, url }) => Ok(Document { docid, text, title, url }),
        Err(error) => {
            let start: String = line.chars().take(QUOTED_CHARS).collect();
            Err((format!("{error} (the line starts {start:?})"), cure_of(&error.to_string())))
        }
    }
}

fn cure_of(message: &str) -> &'static str {
    if message.contains(NUMERIC_ID) {
        "ids are text: write every docid in quotes"
    } else if message.contains("surrogate") || message.contains("hex escape") {
        "half a surrogate pair is no character: write the file anew with whole characters"
    } else if message.contains("missing field") {
        "every document needs docid and text"
    } else if message.contains("control character") {
        "escape line breaks and remove NUL and other control characters inside strings"
    } else if message.contains("EOF") {
        "the object ends too early: the file may be cut off, or one document spread over several lines"
    } else {
        ONE_OBJECT
    }
}
