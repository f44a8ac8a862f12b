//! Numbers and texts as bytes, little end first, each list behind its length. Reading checks every length against what is there
//! before it takes room for it.
//! It refuses to know what they mean.

/// Why bytes are not what was expected of them.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Unread(pub(super) String);

/// Bytes under way out.
#[derive(Default)]
pub(super) struct Writer(pub(super) Vec<u8>);

impl Writer {
    pub(super) fn u8(&mut self, value: u8) {
        self.0.push(value);
    }

    pub(super) fn u64(&mut self, value: u64) {
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    pub(super) fn size(&mut self, value: usize) {
        self.u64(value as u64);
    }

    pub(super) fn f64(&mut self, value: f64) {
        self.u64(value.to_bits());
    }

    pub(super) fn bytes(&mut self, values: &[u8]) {
        self.size(values.len());
        self.0.extend_from_slice(values);
    }

    pub(super) fn f64s(&mut self, values: &[f64]) {
        self.size(values.len());
        self.0.extend(values.iter().flat_map(|value| value.to_le_bytes()));
    }

    pub(super) fn f32s(&mut self, values: &[f32]) {
        self.size(values.len());
        self.0.extend(values.iter().flat_map(|value| value.to_le_bytes()));
    }

    pub(super) fn u32s(&mut self, values: &[u32]) {
        self.size(values.len());
        self.0.extend(values.iter().flat_map(|value| value.to_le_bytes()));
    }
}

/// Bytes that came.
pub(super) struct Reader<'b>(&'b [u8]);

impl<'b> Reader<'b> {
    pub(super) fn new(bytes: &'b [u8]) -> Self {
        Self(bytes)
    }

    /// There must be nothing more.
    pub(super) fn end(&self) -> Result<(), Unread> {
        match self.0.len() {
            0 => Ok(()),
            left => Err(Unread(format!("expected its end, got {left} bytes more"))),
        }
    }

    fn take(&mut self, count: usize) -> Result<&'b [u8], Unread> {
        let Some((taken, left)) = self.0.split_at_checked(count) else {
            return Err(Unread(format!("expected {count} bytes, got {}", self.0.len())));
        };
        self.0 = left;
        Ok(taken)
    }

    fn words<const N: usize>(&mut self) -> Result<&'b [[u8; N]], Unread> {
        let count = self.size()?;
        let bytes = count.checked_mul(N).ok_or_else(|| Unread(format!("expected no {count} values of {N} bytes")))?;
        Ok(self.take(bytes)?.as_chunks::<N>().0)
    }

    pub(super) fn u8(&mut self) -> Result<u8, Unread> {
        Ok(self.take(1)?[0])
    }

    pub(super) fn flag(&mut self) -> Result<bool, Unread> {
        match self.u8()? {
            0 => Ok(false),
            1 => Ok(true),
            other => Err(Unread(format!("expected 0 or 1, got {other}"))),
        }
    }

    pub(super) fn u64(&mut self) -> Result<u64, Unread> {
        let (bytes, _) = self.take(8)?.as_chunks::<8>();
        Ok(u64::from_le_bytes(bytes[0]))
    }

    pub(super) fn size(&mut self) -> Result<usize, Unread> {
        let value = self.u64()?;
        usize::try_from(value).map_err(|_| Unread(format!("expected a size of this machine, got {value}")))
    }

    pub(super) fn f64(&mut self) -> Result<f64, Unread> {
        Ok(f64::from_bits(self.u64()?))
    }

    pub(super) fn bytes(&mut self) -> Result<&'b [u8], Unread> {
        let count = self.size()?;
        self.take(count)
    }

    pub(super) fn text(&mut self) -> Result<String, Unread> {
        let bytes = self.bytes()?;
        String::from_utf8(bytes.to_vec()).map_err(|error| Unread(format!("expected UTF-8, got {error}")))
    }

    pub(super) fn f64s(&mut self) -> Result<Vec<f64>, Unread> {
        Ok(self.words()?.iter().map(|bytes| f64::from_le_bytes(*bytes)).collect())
    }

    pub(super) fn f32s(&mut self) -> Result<Vec<f32>, Unread> {
        Ok(self.words()?.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect())
    }

    pub(super) fn u32s(&mut self) -> Result<Vec<u32>, Unread> {
        Ok(self.words()?.iter().map(|bytes| u32::from_le_bytes(*bytes)).collect())
    }
}
