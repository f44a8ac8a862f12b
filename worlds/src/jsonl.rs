//! Reads JSON lines one by one, strictly: byte order marks before a line and CRLF are accepted, and what is not a whole
//! record is an error with its place. It refuses to know what the records mean.

use crate::error::{Place, WorldError};
use serde::de::{self, DeserializeOwned, Deserializer, Visitor};
use std::collections::BTreeMap;
use std::fmt;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

/// A line may be so long; the longest record of a published set, a question with all its documents, is far below it.
pub const LINE_BYTES_MAX: u64 = 256 << 20;

/// A file to read, or bytes that stand for one.
pub(crate) struct Source<'a> {
    /// The name in messages.
    pub(crate) name: String,
    reader: Box<dyn BufRead + 'a>,
}

impl<'a> Source<'a> {
    pub(crate) fn open(path: &Path) -> Result<Source<'static>, WorldError> {
        let unreadable = |source| WorldError::Unreadable { file: path.to_owned(), source };
        let file = File::open(path).map_err(unreadable)?;
        Ok(Source { name: path.display().to_string(), reader: Box::new(BufReader::new(file)) })
    }

    pub(crate) fn bytes(name: &str, bytes: &'a [u8]) -> Source<'a> {
        Source { name: name.to_owned(), reader: Box::new(bytes) }
    }

    /// Calls `take` for every line that is not blank. Blank lines are allowed at the end only.
    pub(crate) fn lines(mut self, mut take: impl FnMut(Line<'_>) -> Result<(), WorldError>) -> Result<(), WorldError> {
        let mut buffer = Vec::new();
        let mut blank: Option<Place> = None;
        for number in 1.. {
            buffer.clear();
            let place = Place { file: self.name.clone(), line: number };
            let read = (&mut self.reader).take(LINE_BYTES_MAX + 1).read_until(b'\n', &mut buffer);
            let read = read.map_err(|source| WorldError::Unreadable { file: self.name.clone().into(), source })?;
            if read == 0 {
                return Ok(());
            }
            if read as u64 > LINE_BYTES_MAX {
                let what = format!("line {number}");
                return Err(WorldError::TooLarge { file: self.name, what, max_bytes: LINE_BYTES_MAX });
            }
            let whole = buffer.last() == Some(&b'\n');
            let text = line_text(&buffer, &place)?;
            if text.trim().is_empty() {
                blank.get_or_insert(place);
                continue;
            }
            if let Some(place) = blank {
                return Err(WorldError::BlankLine { place });
            }
            take(Line { place, text, whole })?;
        }
        Ok(())
    }

    /// Calls `take` for every record.
    pub(crate) fn records<T: DeserializeOwned>(
        self,
        expected: &'static str,
        mut take: impl FnMut(Place, T) -> Result<(), WorldError>,
    ) -> Result<(), WorldError> {
        self.lines(|line| {
            let record = line.record(expected)?;
            take(line.place, record)
        })
    }
}

/// One line without its end.
pub(crate) struct Line<'a> {
    pub(crate) place: Place,
    pub(crate) text: &'a str,
    /// Whether the line ended in a line feed.
    whole: bool,
}

impl Line<'_> {
    fn record<T: DeserializeOwned>(&self, expected: &'static str) -> Result<T, WorldError> {
        serde_json::from_str(self.text).map_err(|error| {
            let place = self.place.clone();
            if let Some(escape) = lone_surrogate(self.text) {
                return WorldError::LoneSurrogate { place, escape };
            }
            let message = error.to_string().replace(" at line 1 column ", " at column ");
            if error.is_eof() && !self.whole {
                return WorldError::TornLine { place, message };
            }
            WorldError::BadRecord { place, expected, message }
        })
    }
}

fn line_text<'b>(buffer: &'b [u8], place: &Place) -> Result<&'b str, WorldError> {
    let bytes = buffer.strip_suffix(b"\n").unwrap_or(buffer);
    let mut bytes = bytes.strip_suffix(b"\r").unwrap_or(bytes);
    // Files are joined as they stand, so that a mark stands before any line.
    while let Some(unmarked) = bytes.strip_prefix(b"\xEF\xBB\xBF") {
        bytes = unmarked;
    }
    std::str::from_utf8(bytes)
        .map_err(|error| WorldError::NotUtf8 { place: place.clone(), at_byte: error.valid_up_to() })
}

/// The first `\ud800`–`\udfff` escape of the line that is not half of a pair.
fn lone_surrogate(text: &str) -> Option<String> {
    let bytes = text.as_bytes();
    let unit = |at: usize| -> Option<u16> {
        let escape = bytes.get(at..at + 6)?;
        let hex = std::str::from_utf8(escape.strip_prefix(b"\\u")?).ok()?;
        u16::from_str_radix(hex, 16).ok()
    };
    let mut at = 0;
    while at < bytes.len() {
        if bytes[at] != b'\\' {
            at += 1;
            continue;
        }
        match unit(at) {
            Some(0xD800..=0xDBFF) if matches!(unit(at + 6), Some(0xDC00..=0xDFFF)) => at += 12,
            Some(0xD800..=0xDFFF) => return Some(text[at..at + 6].to_owned()),
            Some(_) => at += 6,
            None => at += 2,
        }
    }
    None
}

/// An id as JSON text. A number is refused, for 1, "1" and "01" are three ids.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct IdText(pub(crate) String);

impl<'de> de::Deserialize<'de> for IdText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Text;
        impl Visitor<'_> for Text {
            type Value = IdText;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an id as text")
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<IdText, E> {
                Ok(IdText(text.to_owned()))
            }
            fn visit_u64<E: de::Error>(self, number: u64) -> Result<IdText, E> {
                Err(E::custom(format_args!("the id {number} is a number; quote it as \"{number}\", ids are text")))
            }
            fn visit_i64<E: de::Error>(self, number: i64) -> Result<IdText, E> {
                Err(E::custom(format_args!("the id {number} is a number; quote it as \"{number}\", ids are text")))
            }
            fn visit_f64<E: de::Error>(self, number: f64) -> Result<IdText, E> {
                Err(E::custom(format_args!("the id {number} is a number; quote it, ids are text")))
            }
        }
        deserializer.deserialize_any(Text)
    }
}

/// Remembers where each id stood and refuses a second one.
#[derive(Default)]
pub(crate) struct Seen(BTreeMap<String, Place>);

impl Seen {
    pub(crate) fn insert(&mut self, what: &'static str, id: &str, place: &Place) -> Result<(), WorldError> {
        if let Some(first) = self.0.get(id) {
            let (place, first) = (place.clone(), first.clone());
            return Err(WorldError::DuplicateId { place, first, what, id: id.to_owned() });
        }
        self.0.insert(id.to_owned(), place.clone());
        Ok(())
    }

    pub(crate) fn first(&self, id: &str) -> Option<&Place> {
        self.0.get(id)
    }
}

/// Checks a text that may be empty.
pub(crate) fn without_nul(place: &Place, field: &str, text: &str) -> Result<(), WorldError> {
    if text.contains('\0') {
        let cure = "remove it: NUL ends a text in many tools and hides what follows";
        return Err(WorldError::BadText {
            place: place.clone(),
            field: field.to_owned(),
            got: "a NUL character",
            cure,
        });
    }
    Ok(())
}

/// Checks a text that must say something.
pub(crate) fn some_text(place: &Place, field: &str, text: &str) -> Result<(), WorldError> {
    if text.trim().is_empty() {
        let cure = "fill it in or remove the record";
        return Err(WorldError::BadText { place: place.clone(), field: field.to_owned(), got: "no text", cure });
    }
    without_nul(place, field, text)
}

#[cfg(test)]
mod tests;
