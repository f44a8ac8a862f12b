//! Files mapped into memory, as bytes or as little-endian `f32`.
//!
//! It refuses to know what the bytes mean. Whoever maps a file promises that no process shortens it
//! meanwhile; the index folders of this house are never changed in place, so they keep that promise.

use std::fs::File;
use std::io;
use std::ops::Deref;
use std::path::Path;

/// A read-only mapping of a whole file; an empty file maps to an empty slice.
#[derive(Debug)]
pub struct MappedBytes(Option<memmap2::Mmap>);

/// A read-only mapping of a whole file of little-endian `f32`.
#[derive(Debug)]
pub struct MappedF32(MappedBytes);

impl MappedBytes {
    /// Maps the file at `path`.
    ///
    /// # Errors
    /// Whatever the operating system says on opening or mapping.
    #[allow(unsafe_code)]
    pub fn open(path: &Path) -> io::Result<Self> {
        let file = File::open(path)?;
        if file.metadata()?.len() == 0 {
            return Ok(Self(None));
        }
        // SAFETY: the mapping is read-only and private to this value. The files mapped here are written
        // once under another name and then renamed into place, so nothing shortens or changes them while
        // mapped; this is stated as the caller's duty at the head of this file.
        let map = unsafe { memmap2::Mmap::map(&file)? };
        Ok(Self(Some(map)))
    }
}

impl Deref for MappedBytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.0.as_deref().unwrap_or(&[])
    }
}

impl AsRef<[u8]> for MappedBytes {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl MappedF32 {
    /// Maps the file at `path`, whose length must be a multiple of four bytes.
    ///
    /// # Errors
    /// As [`MappedBytes::open`]; [`io::ErrorKind::InvalidData`] for a length that is no multiple of four, and
    /// [`io::ErrorKind::Unsupported`] on a big-endian machine.
    pub fn open(path: &Path) -> io::Result<Self> {
        if cfg!(target_endian = "big") {
            return Err(io::Error::new(
                io::ErrorKind::Unsupported,
                "vector files are little-endian; use a little-endian machine",
            ));
        }
        let bytes = MappedBytes::open(path)?;
        if bytes.len() % size_of::<f32>() != 0 {
            let text = format!("{} bytes are no whole number of four-byte floats; write the file anew", bytes.len());
            return Err(io::Error::new(io::ErrorKind::InvalidData, text));
        }
        Ok(Self(bytes))
    }
}

impl Deref for MappedF32 {
    type Target = [f32];

    #[allow(unsafe_code)]
    fn deref(&self) -> &[f32] {
        // SAFETY: every bit pattern is a valid f32, and the reference lives no longer than the mapping.
        // `align_to` itself finds where alignment begins; a mapping starts at a page, so nothing precedes it.
        let (head, floats, tail) = unsafe { self.0.align_to::<f32>() };
        debug_assert!(head.is_empty() && tail.is_empty(), "a mapping starts at a page and holds whole floats");
        floats
    }
}

impl AsRef<[f32]> for MappedF32 {
    fn as_ref(&self) -> &[f32] {
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file_with(bytes: &[u8]) -> tempfile::NamedTempFile {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), bytes).unwrap();
        file
    }

    #[test]
    fn floats_come_back_as_written() {
        let bytes: Vec<u8> = [1.5_f32, -2.0, 0.0].iter().flat_map(|x| x.to_le_bytes()).collect();
        let mapped = MappedF32::open(file_with(&bytes).path()).unwrap();
        assert_eq!(&mapped[..], &[1.5, -2.0, 0.0]);
    }

    #[test]
    fn an_empty_file_is_an_empty_slice() {
        assert!(MappedBytes::open(file_with(b"").path()).unwrap().is_empty());
        assert!(MappedF32::open(file_with(b"").path()).unwrap().is_empty());
    }

    #[test]
    fn a_torn_float_is_refused() {
        let error = MappedF32::open(file_with(&[0, 0, 0]).path()).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidData);
    }
}
