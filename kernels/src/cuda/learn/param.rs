//! A learned tensor on a card: its value in `f32`, the bf16 copy that products use, and gradient and moments from when they
//! are first needed, so that a network which only reads costs no more. All of them have one stride, and what lies between a
//! row's width and the stride is 0 in all, so that updates go over them as they lie.
//!
//! It refuses to know operations.

use crate::cuda::driver::Driver;
use crate::cuda::memory::{VALUE_BYTES, counted, stride};
use crate::learn::Part;
use crate::ops::OpsError;

/// Bytes of a single.
pub(super) const SINGLE_BYTES: usize = size_of::<f32>();
/// Bytes that are copied between host and card at once.
const COPIED_MAX: usize = 1 << 26;

/// A learned tensor.
pub struct CardParam<D: Driver> {
    pub(super) rows: usize,
    pub(super) cols: usize,
    pub(super) stride: usize,
    value: D::Memory,
    copy: D::Memory,
    gradient: Option<D::Memory>,
    moments: Option<[D::Memory; 2]>,
}

impl<D: Driver> CardParam<D> {
    /// Zeros.
    pub(super) fn new(driver: &D, [rows, cols]: [usize; 2]) -> Result<Self, OpsError> {
        let (what, stride) = ("a learned tensor", stride(cols));
        let value = driver.reserve(what, counted(what, &[rows, stride, SINGLE_BYTES])?)?;
        let copy = driver.reserve(what, counted(what, &[rows, stride, VALUE_BYTES])?)?;
        Ok(Self { rows, cols, stride, value, copy, gradient: None, moments: None })
    }

    /// Values, those between rows included; a multiple of 8.
    pub(super) fn values(&self) -> usize {
        self.rows * self.stride
    }

    pub(super) fn value_at(&self, driver: &D) -> u64 {
        driver.address(&self.value)
    }

    /// Where the copy in bf16 is.
    pub(super) fn copy_at(&self, driver: &D) -> u64 {
        driver.address(&self.copy)
    }

    /// Where the gradient is, if there is one yet.
    pub(super) fn known_gradient(&self, driver: &D) -> Option<u64> {
        self.gradient.as_ref().map(|memory| driver.address(memory))
    }

    /// Where the gradient is; zeros from the first use on.
    pub(super) fn gradient_at(&mut self, driver: &D) -> Result<u64, OpsError> {
        let memory = match self.gradient.take() {
            Some(memory) => memory,
            None => driver.reserve("a gradient", self.values() * SINGLE_BYTES)?,
        };
        Ok(driver.address(self.gradient.insert(memory)))
    }

    /// Where the moments are; zeros from the first use on.
    pub(super) fn moments_at(&mut self, driver: &D) -> Result<[u64; 2], OpsError> {
        let moments = match self.moments.take() {
            Some(moments) => moments,
            None => {
                let bytes = self.values() * SINGLE_BYTES;
                [driver.reserve("a moment", bytes)?, driver.reserve("a moment", bytes)?]
            }
        };
        Ok(self.moments.insert(moments).each_ref().map(|memory| driver.address(memory)))
    }

    /// Where a part is; zeros from the first use on.
    pub(super) fn part_at(&mut self, driver: &D, part: Part) -> Result<u64, OpsError> {
        Ok(match part {
            Part::Value => self.value_at(driver),
            Part::Gradient => self.gradient_at(driver)?,
            Part::FirstMoment => self.moments_at(driver)?[0],
            Part::SecondMoment => self.moments_at(driver)?[1],
        })
    }

    /// Bytes of a part as they are copied: where each piece of whole rows begins, and how many it has.
    pub(super) fn pieces(&self) -> impl Iterator<Item = [usize; 2]> + use<D> {
        let (rows, some, row_bytes) = (self.rows, self.some(), self.stride * SINGLE_BYTES);
        (0..rows).step_by(some).map(move |first| [first * row_bytes, some.min(rows - first) * row_bytes])
    }

    /// Appends the values of whole rows, without what lies between them.
    pub(super) fn take_rows(&self, bytes: &[u8], out: &mut Vec<f32>) {
        for row in bytes.chunks_exact((self.stride * SINGLE_BYTES).max(1)) {
            let values = row.as_chunks::<SINGLE_BYTES>().0.iter().take(self.cols);
            out.extend(values.map(|bytes| f32::from_le_bytes(*bytes)));
        }
    }

    fn part(&self, part: Part) -> Option<&D::Memory> {
        match part {
            Part::Value => Some(&self.value),
            Part::Gradient => self.gradient.as_ref(),
            Part::FirstMoment => self.moments.as_ref().map(|[first, _]| first),
            Part::SecondMoment => self.moments.as_ref().map(|[_, second]| second),
        }
    }

    /// Rows that are copied at once.
    fn some(&self) -> usize {
        (COPIED_MAX / (self.stride * SINGLE_BYTES).max(1)).max(1)
    }

    pub(super) fn read(&self, driver: &D, part: Part, out: &mut Vec<f32>) -> Result<(), OpsError> {
        out.clear();
        let Some(memory) = self.part(part) else {
            out.resize(self.rows * self.cols, 0.0);
            return Ok(());
        };
        if self.cols == 0 {
            return Ok(());
        }
        let mut bytes = Vec::new();
        for [at, count] in self.pieces() {
            bytes.resize(count, 0);
            driver.download(memory, at, &mut bytes)?;
            self.take_rows(&bytes, out);
        }
        Ok(())
    }

    /// Overwrites a part; of the value, the copy is the caller's to renew. The caller has checked how many values there are.
    pub(super) fn write(&mut self, driver: &D, part: Part, values: &[f32]) -> Result<(), OpsError> {
        match part {
            Part::Value => {}
            Part::Gradient => drop(self.gradient_at(driver)?),
            Part::FirstMoment | Part::SecondMoment => drop(self.moments_at(driver)?),
        }
        let (cols, some, row_bytes) = (self.cols, self.some(), self.stride * SINGLE_BYTES);
        if cols == 0 {
            return Ok(());
        }
        let memory = match part {
            Part::Value => Some(&mut self.value),
            Part::Gradient => self.gradient.as_mut(),
            Part::FirstMoment => self.moments.as_mut().map(|[first, _]| first),
            Part::SecondMoment => self.moments.as_mut().map(|[_, second]| second),
        };
        let memory = memory.expect("the lines above made it");
        let mut at = 0;
        if self.stride == cols && cfg!(target_endian = "little") {
            for some in values.chunks(some * cols) {
                driver.upload(as_bytes(some), memory, at)?;
                at += size_of_val(some);
            }
            return Ok(());
        }
        let mut bytes = Vec::new();
        for rows in values.chunks(some * cols) {
            bytes.clear();
            for row in rows.chunks_exact(cols) {
                bytes.extend(row.iter().flat_map(|value| value.to_le_bytes()));
                bytes.resize(bytes.len().next_multiple_of(row_bytes), 0);
            }
            driver.upload(&bytes, memory, at)?;
            at += bytes.len();
        }
        Ok(())
    }
}

/// Singles as they lie in memory.
fn as_bytes(values: &[f32]) -> &[u8] {
    #[allow(unsafe_code)]
    // SAFETY: a single is four bytes, all of which are set and may be read as such.
    unsafe {
        std::slice::from_raw_parts(values.as_ptr().cast(), size_of_val(values))
    }
}

/// Rows of sums in `f32`.
pub struct CardSums<D: Driver> {
    memory: D::Memory,
    pub(super) address: u64,
    pub(super) width: usize,
    pub(super) rows: usize,
    rows_max: usize,
}

impl<D: Driver> CardSums<D> {
    pub(super) fn new(driver: &D, rows_max: usize, width: usize) -> Result<Self, OpsError> {
        let what = "rows of sums";
        let memory = driver.reserve(what, counted(what, &[rows_max, width, SINGLE_BYTES])?)?;
        Ok(Self { address: driver.address(&memory), memory, width, rows: 0, rows_max })
    }

    /// Holds so many rows from now on.
    pub(super) fn set_rows(&mut self, rows: usize) -> Result<(), OpsError> {
        if rows > self.rows_max {
            let (expected, got) = (format!("at most {} rows", self.rows_max), rows.to_string());
            return Err(OpsError::Shape { op: "sums", expected, got });
        }
        self.rows = rows;
        Ok(())
    }

    pub(super) fn read(&self, driver: &D, out: &mut Vec<f32>) -> Result<(), OpsError> {
        let mut bytes = vec![0; self.rows * self.width * SINGLE_BYTES];
        driver.download(&self.memory, 0, &mut bytes)?;
        out.clear();
        out.extend(bytes.as_chunks::<SINGLE_BYTES>().0.iter().map(|bytes| f32::from_le_bytes(*bytes)));
        Ok(())
    }
}
