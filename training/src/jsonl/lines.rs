//! The lines of a file one by one: what is no line of text is an error with its place, behind which the next line can be read;
//! memory does not grow with the file. It refuses to know what a row is.

use super::LINE_BYTES_MAX;
use crate::error::{Place, TrajectoryError};
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

/// Reads lines. After an error other than [`TrajectoryError::Unreadable`] it goes on with the next line.
pub(crate) struct Lines {
    name: String,
    reader: Box<dyn BufRead>,
    buffer: Vec<u8>,
    line: u64,
    /// The line in the buffer has not been looked at.
    held: bool,
    too_long: bool,
}

impl Lines {
    pub(crate) fn open(path: &Path) -> Result<Self, TrajectoryError> {
        let file =
            File::open(path).map_err(|source| TrajectoryError::Unreadable { file: path.to_path_buf(), source })?;
        Ok(Self::over(path.display().to_string(), BufReader::new(file)))
    }

    pub(crate) fn over(name: impl Into<String>, reader: impl BufRead + 'static) -> Self {
        let reader = Box::new(reader);
        Self { name: name.into(), reader, buffer: Vec::new(), line: 0, held: false, too_long: false }
    }

    /// Where the line that was read last stands.
    pub(crate) fn place(&self) -> Place {
        Place { file: self.name.clone(), line: self.line }
    }

    /// The text of the line that was read last, without its end.
    pub(crate) fn text(&self) -> &str {
        // What is no text was an error when it was read.
        line_text(&self.buffer).unwrap_or_default()
    }

    /// Whether the line that was read last has an end; the last one of a file need not have.
    pub(crate) fn is_whole(&self) -> bool {
        self.buffer.last() == Some(&b'\n')
    }

    /// Reads the next line with something in it; false at the end. Blank lines are allowed at the end only.
    pub(crate) fn advance(&mut self) -> Result<bool, TrajectoryError> {
        let mut blank: Option<Place> = None;
        loop {
            if !self.held && !self.fill()? {
                return Ok(false);
            }
            self.held = false;
            let text = line_text(&self.buffer);
            if !self.too_long && text.is_ok_and(|text| text.trim().is_empty()) {
                blank.get_or_insert(self.place());
                continue;
            }
            if let Some(place) = blank {
                self.held = true;
                return Err(TrajectoryError::BlankLine { place });
            }
            if self.too_long {
                return Err(TrajectoryError::TooLong { place: self.place(), max_bytes: LINE_BYTES_MAX });
            }
            return match text {
                Ok(_) => Ok(true),
                Err(at_byte) => Err(TrajectoryError::NotUtf8 { place: self.place(), at_byte }),
            };
        }
    }

    /// The next line into the buffer, as much of it as a line may have; false at the end.
    fn fill(&mut self) -> Result<bool, TrajectoryError> {
        self.buffer.clear();
        self.too_long = false;
        let unreadable = |source| TrajectoryError::Unreadable { file: PathBuf::from(&self.name), source };
        let read =
            (&mut self.reader).take(LINE_BYTES_MAX + 1).read_until(b'\n', &mut self.buffer).map_err(unreadable)?;
        if read as u64 > LINE_BYTES_MAX {
            self.too_long = true;
            if self.buffer.last() != Some(&b'\n') {
                self.reader.skip_until(b'\n').map_err(unreadable)?;
            }
        }
        self.line += u64::from(read > 0);
        Ok(read > 0)
    }
}

/// The line without its end, and without the byte order marks that stand before a line where files were joined; else the first
/// byte that is not UTF-8.
fn line_text(buffer: &[u8]) -> Result<&str, usize> {
    let bytes = buffer.strip_suffix(b"\n").unwrap_or(buffer);
    let mut bytes = bytes.strip_suffix(b"\r").unwrap_or(bytes);
    while let Some(unmarked) = bytes.strip_prefix(b"\xEF\xBB\xBF") {
        bytes = unmarked;
    }
    std::str::from_utf8(bytes).map_err(|error| error.valid_up_to())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Cursor;

    /// What each line is, or what is wrong with it.
    fn told(bytes: Vec<u8>) -> Vec<String> {
        let mut lines = Lines::over("x", Cursor::new(bytes));
        let mut told = Vec::new();
        loop {
            match lines.advance() {
                Ok(true) => told.push(format!("{} {}", lines.place().line, lines.text())),
                Ok(false) => return told,
                Err(error) => told.push(error.to_string().split([',', ';', '(']).next().unwrap().to_owned()),
            }
        }
    }

    #[test]
    fn after_a_bad_line_the_next_ones_are_read() {
        let bytes = [b"one\n\n \n\xff\n\r\ntwo\n", "\u{feff}three\r\n\n\n".as_bytes()].concat();
        let expected =
            ["1 one", "x:2: expected a row", "x:4: expected UTF-8", "x:5: expected a row", "6 two", "7 three"];
        assert_eq!(told(bytes), expected);
    }

    #[test]
    fn a_line_beyond_the_limit_is_passed_over_and_not_kept() {
        let long = LINE_BYTES_MAX as usize;
        let bytes = [b"one\n", vec![b'x'; long].as_slice(), b"\n", &vec![b'y'; long + 9], b"\ntwo"].concat();
        let expected = [
            "1 one",
            "x:2: the line is longer than 67108864 bytes",
            "x:3: the line is longer than 67108864 bytes",
            "4 two",
        ];
        assert_eq!(told(bytes), expected);
    }
}
