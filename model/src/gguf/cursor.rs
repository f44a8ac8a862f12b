//! A place in bytes that moves forward and never over their end. It refuses to know what is read.

/// A place in bytes.
pub(super) struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Cursor<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    pub(super) fn position(&self) -> u64 {
        self.at as u64
    }

    pub(super) fn left(&self) -> u64 {
        (self.bytes.len() - self.at) as u64
    }

    /// The next bytes.
    pub(super) fn take(&mut self, count: u64) -> Result<&'a [u8], String> {
        if count > self.left() {
            return Err(format!(
                "expected {count} bytes at {} of the header, got the end of the file after {}",
                self.at,
                self.left()
            ));
        }
        let (start, end) = (self.at, self.at + count as usize);
        self.at = end;
        Ok(&self.bytes[start..end])
    }

    pub(super) fn array<const N: usize>(&mut self) -> Result<[u8; N], String> {
        let bytes = self.take(N as u64)?;
        Ok(*bytes.first_chunk().expect("as many bytes were taken"))
    }

    pub(super) fn u32(&mut self) -> Result<u32, String> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    pub(super) fn u64(&mut self) -> Result<u64, String> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    /// A text behind its length of eight bytes.
    pub(super) fn text(&mut self, max_bytes: u64) -> Result<&'a str, String> {
        let at = self.at;
        let length = self.u64()?;
        if length > max_bytes {
            return Err(format!("expected a text of at most {max_bytes} bytes at {at} of the header, got {length}"));
        }
        let bytes = self.take(length)?;
        std::str::from_utf8(bytes).map_err(|error| format!("expected UTF-8 at {at} of the header: {error}"))
    }
}
