//! What a card holds: rows, matrices, vectors and a cache, all bf16, with rows at strides of whole 16 bytes; and room that
//! grows to what a step needs.
//!
//! It refuses to know kernels.

use super::driver::Driver;
use super::plan::FAST_DIMS;
use crate::batch::PAGE_TOKENS;
use crate::cpu::panel::Level;
use crate::cpu::unpack::unpack;
use crate::host::HostBytes;
use crate::ops::{CacheShape, OpsError, expect_equal};
use crate::stored::{Dtype, Stored};
use half::bf16;
use half::slice::HalfFloatSliceExt;

/// Bytes of a value.
pub(super) const VALUE_BYTES: usize = size_of::<u16>();
/// Bytes of the largest piece of memory: more than any card has.
const PIECE_MAX_BYTES: u128 = 1 << 42;
/// Rows and values of a row at most: kernels count them in 32 bits.
const COUNT_MAX: usize = 1 << 30;
/// Values of a matrix that are converted at once.
const CONVERTED_MAX: usize = 1 << 22;

/// Values from the start of one row to that of the next.
pub(super) fn stride(width: usize) -> usize {
    width.next_multiple_of(8)
}

/// Bytes that can be counted and that a card may have.
pub(super) fn counted(what: &'static str, factors: &[usize]) -> Result<usize, OpsError> {
    let bytes = factors.iter().fold(1_u128, |bytes, factor| bytes.saturating_mul(*factor as u128));
    let too_many = bytes > PIECE_MAX_BYTES || factors.iter().any(|factor| *factor > COUNT_MAX);
    if too_many { Err(OpsError::Memory { what, bytes }) } else { Ok(bytes as usize) }
}

/// Rows of activations.
pub struct CardRows<D: Driver> {
    memory: D::Memory,
    pub(super) address: u64,
    pub(super) width: usize,
    pub(super) stride: usize,
    pub(super) rows: usize,
    rows_max: usize,
}

impl<D: Driver> CardRows<D> {
    pub(super) fn new(driver: &D, rows_max: usize, width: usize) -> Result<Self, OpsError> {
        let what = "a buffer of rows";
        counted(what, &[width])?;
        let stride = stride(width);
        let memory = driver.reserve(what, counted(what, &[rows_max, stride, VALUE_BYTES])?)?;
        Ok(Self { address: driver.address(&memory), memory, width, stride, rows: 0, rows_max })
    }

    /// Rows that it holds now.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Values of a row.
    pub fn width(&self) -> usize {
        self.width
    }

    /// Holds so many rows from now on.
    pub(super) fn set_rows(&mut self, rows: usize) -> Result<(), OpsError> {
        if rows > self.rows_max {
            let (expected, got) = (format!("at most {} rows", self.rows_max), rows.to_string());
            return Err(OpsError::Shape { op: "rows", expected, got });
        }
        self.rows = rows;
        Ok(())
    }

    pub(super) fn read(&self, driver: &D, out: &mut Vec<f32>) -> Result<(), OpsError> {
        out.clear();
        self.read_some(driver, 0, self.rows, out)
    }

    pub(super) fn read_row(&self, driver: &D, row: usize, out: &mut Vec<f32>) -> Result<(), OpsError> {
        if row >= self.rows {
            let (expected, got) = (format!("a row below {}", self.rows), row.to_string());
            return Err(OpsError::Shape { op: "read_row", expected, got });
        }
        self.read_some(driver, row, 1, out)
    }

    fn read_some(&self, driver: &D, first: usize, rows: usize, out: &mut Vec<f32>) -> Result<(), OpsError> {
        if rows == 0 || self.width == 0 {
            return Ok(());
        }
        let row_bytes = self.stride * VALUE_BYTES;
        let mut bytes = vec![0; rows * row_bytes];
        driver.download(&self.memory, first * row_bytes, &mut bytes)?;
        out.reserve(rows * self.width);
        for row in bytes.chunks_exact(self.stride * VALUE_BYTES) {
            let values = row.as_chunks::<VALUE_BYTES>().0.iter().take(self.width);
            out.extend(values.map(|bits| bf16::from_bits(u16::from_le_bytes(*bits)).to_f32()));
        }
        Ok(())
    }
}

/// A weight matrix.
pub struct CardMatrix<D: Driver> {
    _memory: D::Memory,
    pub(super) address: u64,
    pub(super) rows: usize,
    pub(super) cols: usize,
    pub(super) stride: usize,
}

impl<D: Driver> CardMatrix<D> {
    pub(super) fn new(driver: &D, parts: &[Stored]) -> Result<Self, OpsError> {
        let what = "a weight matrix";
        let cols = parts.first().map_or(0, Stored::cols);
        for part in parts {
            expect_equal("matrix", "inputs", cols, part.cols())?;
        }
        let (rows, stride) = (parts.iter().map(Stored::rows).sum(), stride(cols));
        let mut memory = driver.reserve(what, counted(what, &[rows, stride, VALUE_BYTES])?)?;
        let mut at = 0;
        for part in parts {
            upload_part(driver, part, stride, &mut memory, at)?;
            at += part.rows() * stride * VALUE_BYTES;
        }
        Ok(Self { address: driver.address(&memory), _memory: memory, rows, cols, stride })
    }
}

/// Copies a stored matrix as bf16 with zeros between its rows, some rows at a time.
fn upload_part<D: Driver>(
    driver: &D,
    part: &Stored,
    stride: usize,
    memory: &mut D::Memory,
    mut at: usize,
) -> Result<(), OpsError> {
    let cols = part.cols();
    if cols == 0 || part.rows() == 0 {
        return Ok(());
    }
    if part.dtype() == Dtype::Bf16 && stride == cols {
        return driver.upload(part.bytes(), memory, at);
    }
    let row_bytes = part.dtype().row_bytes(cols).expect("whole blocks, as `Stored` checks");
    let some = (CONVERTED_MAX / stride).max(1);
    let (mut values, mut narrow, mut bytes) = (Vec::new(), Vec::new(), Vec::new());
    for stored in part.bytes().chunks(some * row_bytes) {
        let rows = stored.len() / row_bytes;
        values.resize(rows * cols, 0.0);
        unpack(Level::detect(), part.dtype(), stored, &mut values);
        narrow.resize(rows * cols, bf16::ZERO);
        narrow.convert_from_f32_slice(&values);
        bytes.clear();
        for row in narrow.chunks_exact(cols) {
            bytes.extend(row.iter().flat_map(|value| value.to_le_bytes()));
            bytes.resize(bytes.len() + (stride - cols) * VALUE_BYTES, 0);
        }
        driver.upload(&bytes, memory, at)?;
        at += bytes.len();
    }
    Ok(())
}

/// A vector of weights.
pub struct CardVector<D: Driver> {
    _memory: D::Memory,
    pub(super) address: u64,
    pub(super) len: usize,
}

impl<D: Driver> CardVector<D> {
    pub(super) fn new(driver: &D, values: &[f32]) -> Result<Self, OpsError> {
        let what = "a vector of weights";
        let mut memory = driver.reserve(what, counted(what, &[stride(values.len()), VALUE_BYTES])?)?;
        let bytes: Vec<u8> = values.iter().flat_map(|value| bf16::from_f32(*value).to_le_bytes()).collect();
        driver.upload(&bytes, &mut memory, 0)?;
        Ok(Self { address: driver.address(&memory), _memory: memory, len: values.len() })
    }
}

/// Keys and values: for each page and layer those of each key head, its keys `[PAGE_TOKENS, dim]` before its values, so that
/// a page over all layers is one piece.
pub struct CardCache<D: Driver> {
    memory: D::Memory,
    address: u64,
    /// What the copy engine knows of its rows, and where that is; none where no kernel asks for it.
    boxes: Option<(D::Memory, u64)>,
    pub(super) shape: CacheShape,
}

impl<D: Driver> CardCache<D> {
    pub(super) fn new(driver: &D, shape: CacheShape) -> Result<Self, OpsError> {
        let what = "the key-value cache";
        let of_layer = [shape.kv_heads, shape.head_dim, 2 * PAGE_TOKENS, VALUE_BYTES];
        let of_page = counted(what, &[&of_layer[..], &[shape.layers]].concat())?;
        // A slot of a token is a number of 32 bits.
        if shape.pages > u32::MAX as usize / PAGE_TOKENS {
            return Err(OpsError::Memory { what, bytes: (of_page as u128).saturating_mul(shape.pages as u128) });
        }
        let memory = driver.reserve(what, counted(what, &[&of_layer[..], &[shape.layers, shape.pages]].concat())?)?;
        let address = driver.address(&memory);
        Ok(Self { boxes: boxes(driver, address, shape)?, address, memory, shape })
    }

    /// Values of a page of one layer.
    fn layer_values(&self) -> usize {
        2 * self.shape.kv_heads * self.shape.head_dim * PAGE_TOKENS
    }

    /// Values from one page to the next.
    pub(super) fn page_stride(&self) -> usize {
        self.layer_values() * self.shape.layers
    }

    /// Bytes of a page over all layers.
    pub(super) fn page_bytes(&self) -> usize {
        self.page_stride() * VALUE_BYTES
    }

    /// Where the description of its rows is, and which of these is the first of a layer of page 0.
    pub(super) fn boxes(&self, layer: usize) -> Option<(u64, u32)> {
        let first = layer * 2 * self.shape.kv_heads * PAGE_TOKENS;
        self.boxes.as_ref().map(|(_, address)| (*address, first as u32))
    }

    /// Where a layer of page 0 begins.
    pub(super) fn layer(&self, op: &'static str, layer: usize) -> Result<u64, OpsError> {
        if layer >= self.shape.layers {
            let expected = format!("a layer below {}", self.shape.layers);
            return Err(OpsError::Shape { op, expected, got: layer.to_string() });
        }
        Ok(self.address + (layer * self.layer_values() * VALUE_BYTES) as u64)
    }

    pub(super) fn save(&self, driver: &D, pages: &[u32]) -> Result<HostBytes, OpsError> {
        self.expect_pages(pages)?;
        let size = self.page_bytes();
        let mut bytes = driver.host(pages.len() * size);
        if size > 0 {
            for (page, bytes) in pages.iter().zip(bytes.chunks_exact_mut(size)) {
                driver.download(&self.memory, *page as usize * size, bytes)?;
            }
        }
        Ok(bytes)
    }

    pub(super) fn load(&mut self, driver: &D, pages: &[u32], bytes: &[u8]) -> Result<(), OpsError> {
        self.expect_pages(pages)?;
        let size = self.page_bytes();
        expect_equal("load_pages", "bytes", pages.len() * size, bytes.len())?;
        if size > 0 {
            for (page, bytes) in pages.iter().zip(bytes.chunks_exact(size)) {
                driver.upload(bytes, &mut self.memory, *page as usize * size)?;
            }
        }
        Ok(())
    }

    fn expect_pages(&self, pages: &[u32]) -> Result<(), OpsError> {
        match pages.iter().find(|page| **page as usize >= self.shape.pages) {
            None => Ok(()),
            Some(page) => Err(OpsError::Shape {
                op: "pages",
                expected: format!("a page below {}", self.shape.pages),
                got: page.to_string(),
            }),
        }
    }
}

/// The description of a cache's rows, where heads have a shape that Hopper's kernels take.
fn boxes<D: Driver>(driver: &D, address: u64, shape: CacheShape) -> Result<Option<(D::Memory, u64)>, OpsError> {
    let rows = shape.pages * shape.layers * shape.kv_heads * 2 * PAGE_TOKENS;
    if rows == 0 || !FAST_DIMS.contains(&shape.head_dim) {
        return Ok(None);
    }
    let Some(bytes) = driver.boxes(address, rows as u64, shape.head_dim)? else {
        return Ok(None);
    };
    let mut memory = driver.reserve("a description of the key-value cache", bytes.len())?;
    driver.upload(&bytes, &mut memory, 0)?;
    let address = driver.address(&memory);
    Ok(Some((memory, address)))
}

/// Room that grows to the most that was ever needed.
pub(super) struct Growing<D: Driver> {
    memory: Option<D::Memory>,
    address: u64,
    bytes: usize,
}

impl<D: Driver> Growing<D> {
    pub(super) fn new() -> Self {
        Self { memory: None, address: 0, bytes: 0 }
    }

    /// Room for so many bytes, whose address is given. What it held is lost when it grows.
    pub(super) fn at_least(&mut self, driver: &D, what: &'static str, bytes: usize) -> Result<u64, OpsError> {
        let memory = match self.memory.take() {
            Some(memory) if self.bytes >= bytes => memory,
            // Given back before more is reserved; the card does so after the work that used it.
            other => {
                drop(other);
                let room = counted(what, &[bytes.max(4096)])?.next_power_of_two();
                let memory = driver.reserve(what, room)?;
                self.bytes = room;
                memory
            }
        };
        self.address = driver.address(&memory);
        self.memory = Some(memory);
        Ok(self.address)
    }

    /// Puts words there.
    pub(super) fn put(&mut self, driver: &D, what: &'static str, words: &[u32]) -> Result<u64, OpsError> {
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let address = self.at_least(driver, what, bytes.len())?;
        let memory = self.memory.as_mut().expect("the line above reserved it");
        driver.upload(&bytes, memory, 0)?;
        Ok(address)
    }

    /// Where it is now; 0 for nowhere.
    pub(super) fn now(&self) -> u64 {
        self.address
    }

    /// Reads bytes from its start.
    pub(super) fn download(&self, driver: &D, bytes: &mut [u8]) -> Result<(), OpsError> {
        match &self.memory {
            Some(memory) => driver.download(memory, 0, bytes),
            None => expect_equal("download", "bytes", 0, bytes.len()),
        }
    }
}
