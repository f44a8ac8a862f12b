//! Lines of a text file with their numbers: strict UTF-8, CRLF or LF, byte order marks before any line, since files are joined
//! as they stand.
//!
//! It refuses to know what a line says. A line is held once and is bounded.

use crate::error::RetrievalError;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

/// Longest line, in bytes: the longest text with its JSON escapes, by a margin.
pub(crate) const MAX_LINE_BYTES: usize = 512 * 1024 * 1024;

/// A byte order mark in UTF-8.
const MARK: &[u8] = b"\xef\xbb\xbf";

const BUFFER_BYTES: usize = 1024 * 1024;

/// Reads a file line by line into one buffer.
pub(crate) struct Lines<R = BufReader<File>> {
    path: PathBuf,
    input: R,
    line: Vec<u8>,
    number: u64,
    max_line_bytes: usize,
}

impl Lines {
    /// Opens `path`.
    pub(crate) fn open(path: &Path) -> Result<Self, RetrievalError> {
        let file = File::open(path).map_err(RetrievalError::io("opening", path))?;
        Ok(Self::new(path, BufReader::with_capacity(BUFFER_BYTES, file), MAX_LINE_BYTES))
    }
}

impl<R: BufRead> Lines<R> {
    /// Lines of any input; `path` is only for messages.
    pub(crate) fn new(path: &Path, input: R, max_line_bytes: usize) -> Self {
        Self { path: path.to_owned(), input, line: Vec::new(), number: 0, max_line_bytes }
    }

    /// The next line without its end, and its number from one; `None` at the end of the file.
    pub(crate) fn next_line(&mut self) -> Result<Option<(u64, &str)>, RetrievalError> {
        self.line.clear();
        let mut limited = (&mut self.input).take(self.max_line_bytes as u64 + 1);
        let read = limited.read_until(b'\n', &mut self.line).map_err(RetrievalError::io("reading", &self.path))?;
        if read == 0 {
            return Ok(None);
        }
        self.number += 1;
        if read > self.max_line_bytes {
            let what = format!("expected a line of at most {} bytes, got a longer one", self.max_line_bytes);
            return Err(self.fault(self.number, what, "put one record on each line"));
        }
        let mut bytes = self.line.as_slice();
        while let Some(unmarked) = bytes.strip_prefix(MARK) {
            bytes = unmarked;
        }
        bytes = bytes.strip_suffix(b"\n").unwrap_or(bytes);
        bytes = bytes.strip_suffix(b"\r").unwrap_or(bytes);
        match std::str::from_utf8(bytes) {
            Ok(text) => Ok(Some((self.number, text))),
            Err(error) => {
                let what = format!("expected UTF-8, got another encoding after byte {}", error.valid_up_to());
                Err(self.fault(self.number, what, "convert the file to UTF-8"))
            }
        }
    }

    /// An error at a line of this file.
    pub(crate) fn fault(&self, line: u64, what: String, cure: &'static str) -> RetrievalError {
        RetrievalError::Line { path: self.path.clone(), line, what, cure }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(bytes: &[u8], max: usize) -> Result<Vec<String>, String> {
        let mut lines = Lines::new(Path::new("f"), bytes, max);
        let mut all = Vec::new();
        while let Some((_, line)) = lines.next_line().map_err(|e| e.to_string())? {
            all.push(line.to_owned());
        }
        Ok(all)
    }

    #[test]
    fn marks_before_a_line_and_either_line_end_are_tolerated() {
        assert_eq!(lines(b"\xef\xbb\xbfa\r\nb\nc", 10).unwrap(), ["a", "b", "c"]);
        let joined = b"a\n\xef\xbb\xbfb\n\xef\xbb\xbf\xef\xbb\xbfc";
        assert_eq!(lines(joined, 10).unwrap(), ["a", "b", "c"], "of an empty file nothing is left but its mark");
        assert_eq!(lines(b"a\xef\xbb\xbfb", 10).unwrap(), ["a\u{feff}b"], "a mark elsewhere is text");
    }

    #[test]
    fn a_line_beyond_the_limit_is_refused_by_number() {
        assert!(lines(b"abc\nabcdefgh", 5).unwrap_err().starts_with("f, line 2: expected a line of at most 5 bytes"));
    }

    #[test]
    fn another_encoding_is_refused_by_number() {
        assert!(
            lines(b"ok\nab\xffc", 10)
                .unwrap_err()
                .contains("line 2: expected UTF-8, got another encoding after byte 2")
        );
    }
}
