//! `followed.jsonl`: which rows a training that follows a run was given, a line each, in order, with the digest of the very line
//! that an export writes. Of a training that goes on, each line must be the one that is there already.
//! It refuses to know rows.

use super::FollowError;
use serde::Serialize;
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

/// Its name in a training's folder.
pub(in super::super) const FOLLOWED: &str = "followed.jsonl";
/// A line is never longer.
const LINE_BYTES_MAX: u64 = 64 << 10;

/// What was done with a row.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Followed<'a> {
    /// The episode's question.
    pub(super) episode: &'a str,
    /// Its round.
    pub(super) round: u32,
    /// The machine whose conversation it is.
    pub(super) scope: &'a str,
    /// What kind of row it is.
    pub(super) source: &'a str,
    /// The BLAKE3 digest of the row's line in an export, without its end.
    pub(super) row: String,
    /// Its tokens, if it could be encoded.
    pub(super) tokens: usize,
    /// Of these, those that are marked for the loss.
    pub(super) supervised: usize,
    /// Whether it was bad and skipped.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(super) skipped: bool,
}

/// The list, open for going over what is there and adding to it.
pub(super) struct List {
    path: PathBuf,
    file: BufReader<File>,
    /// Where the last line ends that was gone over or added.
    end: u64,
    /// Lines so far.
    lines: u64,
    /// Whether what was there has been gone over.
    is_at_end: bool,
}

impl List {
    /// Opens the list of a training's folder; one that is not there is begun.
    pub(super) fn open(folder: &Path) -> Result<Self, FollowError> {
        let path = folder.join(FOLLOWED);
        let file = File::options().create(true).truncate(false).read(true).write(true).open(&path);
        let file = file.map_err(|source| FollowError::List { path: path.clone(), source })?;
        Ok(Self { path, file: BufReader::new(file), end: 0, lines: 0, is_at_end: false })
    }

    /// The number of the line that comes next, from 1.
    pub(super) fn next_line(&self) -> u64 {
        self.lines + 1
    }

    /// The line of a row: it must be the one that is there, or is added.
    pub(super) fn put(&mut self, row: &Followed<'_>) -> Result<(), FollowError> {
        let mut line = serde_json::to_vec(row).expect("a row's line holds only what JSON can write");
        line.push(b'\n');
        let found = if self.is_at_end { None } else { self.read_line()? };
        match found {
            Some(found) if found != line => {
                return Err(FollowError::Differs {
                    path: self.path.clone(),
                    line: self.lines + 1,
                    found: String::from_utf8_lossy(&found).trim_end().to_owned(),
                    expected: String::from_utf8_lossy(&line).trim_end().to_owned(),
                });
            }
            Some(_) => {}
            None => self.add(&line)?,
        }
        self.end += line.len() as u64;
        self.lines += 1;
        Ok(())
    }

    /// The next whole line that is there.
    fn read_line(&mut self) -> Result<Option<Vec<u8>>, FollowError> {
        let mut line = Vec::new();
        let read = (&mut self.file).take(LINE_BYTES_MAX).read_until(b'\n', &mut line);
        read.map_err(|source| FollowError::List { path: self.path.clone(), source })?;
        // What a kill left of a line is cut off when the next one is added.
        Ok((line.ends_with(b"\n") || line.len() as u64 == LINE_BYTES_MAX).then_some(line))
    }

    fn add(&mut self, line: &[u8]) -> Result<(), FollowError> {
        let (file, end) = (self.file.get_mut(), self.end);
        let mut write = || -> std::io::Result<()> {
            if !self.is_at_end {
                file.set_len(end)?;
                file.seek(SeekFrom::Start(end))?;
            }
            file.write_all(line)
        };
        write().map_err(|source| FollowError::List { path: self.path.clone(), source })?;
        self.is_at_end = true;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(episode: &str) -> Followed<'_> {
        let row = blake3::hash(episode.as_bytes()).to_hex().to_string();
        Followed { episode, round: 0, scope: "worker/0", source: "core", row, tokens: 7, supervised: 3, skipped: false }
    }

    fn put(folder: &Path, episodes: &[&str]) -> Result<(), FollowError> {
        let mut list = List::open(folder)?;
        episodes.iter().try_for_each(|episode| list.put(&row(episode)))
    }

    #[test]
    fn a_list_that_is_gone_over_again_goes_on_where_it_ended_and_a_torn_line_is_cut() {
        let folder = tempfile::tempdir().unwrap();
        put(folder.path(), &["a", "b", "c", "d"]).unwrap();
        let path = folder.path().join(FOLLOWED);
        let whole = std::fs::read(&path).unwrap();
        for kept in 0..whole.len() {
            std::fs::write(&path, &whole[..kept]).unwrap();
            put(folder.path(), &["a", "b", "c", "d"]).unwrap();
            assert_eq!(std::fs::read(&path).unwrap(), whole, "{kept} bytes were kept");
        }
        put(folder.path(), &["a"]).unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), whole, "going over a part takes nothing away");
    }

    #[test]
    fn another_row_than_the_one_that_was_trained_on_is_told_with_its_line() {
        let folder = tempfile::tempdir().unwrap();
        put(folder.path(), &["a", "b"]).unwrap();
        let refused = put(folder.path(), &["a", "c"]).unwrap_err().to_string();
        assert!(refused.contains("followed.jsonl:2: expected") && refused.contains("\"episode\":\"b\""), "{refused}");
    }
}
