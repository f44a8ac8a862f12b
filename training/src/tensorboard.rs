//! TensorBoard's event files: scalars by step, one record behind the other, each with its masked CRC-32C, so that a file that
//! is being written can be watched and one that was cut is read up to the cut. Protocol buffers of this one shape are few
//! enough bytes to be written by hand.
//! It refuses to know a clock and the machine's name: both come in.

use crate::error::TrainingError;
use std::fs::{File, OpenOptions};
use std::io::{self, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

/// The version of event files that is written, and that every reader knows.
const FILE_VERSION: &str = "brain.Event:2";
/// Bytes of a tag at most.
pub const TAG_BYTES_MAX: usize = 1024;
/// Scalars of one event at most.
pub const SCALARS_MAX: usize = 1024;
/// Files of one second and host at most; the number is put behind the name.
const SAME_NAME_MAX: u32 = 1000;
/// Added to a rotated checksum, as the format has it.
const MASK_DELTA: u32 = 0xa282_ead8;
/// Characters of a host's name that go into the file's.
const HOST_CHARS_MAX: usize = 64;

/// Writes one event file.
#[derive(Debug)]
pub struct EventWriter {
    path: PathBuf,
    file: File,
    /// Bytes of whole records.
    length: u64,
}

impl EventWriter {
    /// Begins `events.out.tfevents.SECONDS.HOST` in a folder, which is made if it is not there. A run that resumes begins a
    /// file of its own; TensorBoard reads all of them together.
    ///
    /// # Errors
    /// A folder or file that cannot be written.
    pub fn create(folder: &Path, wall_secs: f64, host: &str) -> Result<Self, TrainingError> {
        let failed = |path: &Path, source| TrainingError::Io { what: "write", path: path.to_path_buf(), source };
        std::fs::create_dir_all(folder).map_err(|source| failed(folder, source))?;
        let name = file_name(wall_secs, host);
        for number in 0..SAME_NAME_MAX {
            let path = folder.join(if number == 0 { name.clone() } else { format!("{name}.{number}") });
            match OpenOptions::new().write(true).create_new(true).open(&path) {
                Ok(file) => {
                    let mut writer = Self { path, file, length: 0 };
                    writer.append(&record(&Event::version(wall_secs)))?;
                    return Ok(writer);
                }
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(failed(&path, error)),
            }
        }
        let source =
            io::Error::new(io::ErrorKind::AlreadyExists, format!("{SAME_NAME_MAX} files of this second are there"));
        Err(failed(&folder.join(name), source))
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes scalars of a step, and hands them to the operating system. After an error the file ends behind the last whole
    /// event, and more may be written.
    ///
    /// # Errors
    /// A tag that is empty or too long, too many scalars, or a disk that is full.
    pub fn scalars(&mut self, step: u64, wall_secs: f64, scalars: &[(&str, f32)]) -> Result<(), TrainingError> {
        if let Some((tag, _)) = scalars.iter().find(|(tag, _)| !(1..=TAG_BYTES_MAX).contains(&tag.len())) {
            let expected = format!("a name of 1 to {TAG_BYTES_MAX} bytes");
            return Err(TrainingError::Setting { setting: "tag", expected, got: format!("{} bytes", tag.len()) });
        }
        if scalars.len() > SCALARS_MAX {
            let expected = format!("at most {SCALARS_MAX} in one event");
            return Err(TrainingError::Setting { setting: "scalars", expected, got: scalars.len().to_string() });
        }
        self.append(&record(&Event::scalars(step, wall_secs, scalars)))
    }

    fn append(&mut self, record: &[u8]) -> Result<(), TrainingError> {
        let written = self.file.write_all(record).and_then(|()| self.file.flush());
        match written {
            Ok(()) => {
                self.length += record.len() as u64;
                Ok(())
            }
            Err(source) => {
                // A torn record would hide every one behind it.
                let mended = self.file.set_len(self.length).and_then(|()| self.file.seek(SeekFrom::Start(self.length)));
                let source = mended.err().unwrap_or(source);
                Err(TrainingError::Io { what: "write", path: self.path.clone(), source })
            }
        }
    }
}

/// The name of a file: seconds of ten digits, so that names sort as times do, and a host's name made harmless.
fn file_name(wall_secs: f64, host: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_') { c } else { '_' };
    let host: String = host.chars().take(HOST_CHARS_MAX).map(plain).collect();
    // The cast saturates: below zero and what is no number become 0.
    format!("events.out.tfevents.{:010}.{}", wall_secs as u64, if host.is_empty() { "host" } else { &host })
}

/// Events as protocol buffers.
struct Event;

/// Kinds of fields.
const VARINT: u8 = 0;
const FIXED64: u8 = 1;
const BYTES: u8 = 2;
const FIXED32: u8 = 5;

impl Event {
    /// The first event of a file.
    fn version(wall_secs: f64) -> Vec<u8> {
        let mut event = Self::at(wall_secs, 0);
        put_bytes(&mut event, 3, FILE_VERSION.as_bytes());
        event
    }

    /// Scalars of a step.
    fn scalars(step: u64, wall_secs: f64, scalars: &[(&str, f32)]) -> Vec<u8> {
        let mut summary = Vec::new();
        for (tag, value) in scalars {
            let mut one = Vec::new();
            put_bytes(&mut one, 1, tag.as_bytes());
            put_key(&mut one, 2, FIXED32);
            one.extend_from_slice(&value.to_le_bytes());
            put_bytes(&mut summary, 1, &one);
        }
        let mut event = Self::at(wall_secs, step);
        put_bytes(&mut event, 5, &summary);
        event
    }

    /// Time and step. As protocol buffers have it, a number that is zero is left out.
    fn at(wall_secs: f64, step: u64) -> Vec<u8> {
        let mut event = Vec::new();
        if wall_secs.to_bits() != 0 {
            put_key(&mut event, 1, FIXED64);
            event.extend_from_slice(&wall_secs.to_le_bytes());
        }
        if step != 0 {
            put_key(&mut event, 2, VARINT);
            put_varint(&mut event, step);
        }
        event
    }
}

fn put_key(out: &mut Vec<u8>, field: u8, kind: u8) {
    out.push(field << 3 | kind);
}

fn put_bytes(out: &mut Vec<u8>, field: u8, bytes: &[u8]) {
    put_key(out, field, BYTES);
    put_varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

fn put_varint(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// A record: its length and the checksum of that, the event and the checksum of that.
fn record(event: &[u8]) -> Vec<u8> {
    let length = (event.len() as u64).to_le_bytes();
    [&length, masked(&length).to_le_bytes().as_slice(), event, &masked(event).to_le_bytes()].concat()
}

/// The checksum of checksums' own format: rotated and shifted, so that the checksum of bytes that hold one is of use.
fn masked(bytes: &[u8]) -> u32 {
    crc32c::crc32c(bytes).rotate_right(15).wrapping_add(MASK_DELTA)
}

#[cfg(test)]
mod tests;
