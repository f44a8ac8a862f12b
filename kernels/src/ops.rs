//! The operations that decoders are made of, as a trait that a backend implements: the processor's here, a graphics card's
//! beside it. Buffers belong to the backend and are allocated once; a step only fills them. Weights are matrices
//! `[outputs, inputs]`, activations are rows.
//!
//! It refuses to know which model the operations make up.

use crate::batch::Batch;
use crate::draw::{DrawRules, RowDraw};
use crate::host::HostBytes;
use crate::stored::Stored;

/// What a backend could not do.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum OpsError {
    /// Buffers, weights or batch do not fit each other.
    #[error("{op}: expected {expected}, got {got}; this is a fault of the caller")]
    Shape {
        /// The operation.
        op: &'static str,
        /// What would fit.
        expected: String,
        /// What came.
        got: String,
    },
    /// More memory than there is.
    #[error("{what} would take {bytes} bytes; use fewer pages, a shorter context or a smaller model")]
    Memory {
        /// What was to be allocated.
        what: &'static str,
        /// Its size in bytes.
        bytes: u128,
    },
    /// The device failed.
    #[error("the device failed: {0}; start the model anew")]
    Device(String),
}

/// The heads of an attention.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Heads {
    /// Query heads.
    pub query: usize,
    /// Key and value heads; `query` is a multiple.
    pub kv: usize,
    /// Values of one head; even.
    pub dim: usize,
}

impl Heads {
    /// Values of one row of queries, keys and values one behind the other.
    pub fn fused(&self) -> usize {
        (self.query + 2 * self.kv) * self.dim
    }

    /// Values of one row of queries, and of what attention gives.
    pub fn width(&self) -> usize {
        self.query * self.dim
    }
}

/// How heads are rotated by position (RoPE): pair `i` of `dim / 2` turns by `position * frequencies[i]`, and all is
/// multiplied by `scale`.
#[derive(Clone, Debug, PartialEq)]
pub struct Rope {
    /// Radians of a position, for each pair.
    pub frequencies: Vec<f32>,
    /// A pair is values `2 i` and `2 i + 1` (GGUF's Llama order) and not `i` and `i + dim / 2` (Hugging Face's).
    pub interleaved: bool,
    /// YaRN's attention factor; 1 for others.
    pub scale: f32,
}

/// The shape of a key-value cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheShape {
    /// Layers.
    pub layers: usize,
    /// Pages of [`crate::PAGE_TOKENS`] tokens.
    pub pages: usize,
    /// Key heads, as many as value heads.
    pub kv_heads: usize,
    /// Values of one head.
    pub head_dim: usize,
}

/// The operations. Buffers of rows are made for a most number of rows and say how many they hold; an operation sets that of
/// its output.
pub trait Ops {
    /// A weight matrix where the backend computes on it.
    type Matrix: Send;
    /// A vector of weights: a norm's, a bias.
    type Vector: Send;
    /// Rows of activations.
    type Rows: Send;
    /// A key-value cache.
    type Cache: Send;

    /// Takes matrices, one below the other, as one.
    ///
    /// # Errors
    /// Matrices of different widths, or too little memory.
    fn matrix(&self, parts: &[Stored]) -> Result<Self::Matrix, OpsError>;

    /// Takes a vector, widened to `f32`.
    ///
    /// # Errors
    /// Too little memory.
    fn vector(&self, values: &[f32]) -> Result<Self::Vector, OpsError>;

    /// Makes room for rows.
    ///
    /// # Errors
    /// Too little memory.
    fn rows(&self, rows_max: usize, width: usize) -> Result<Self::Rows, OpsError>;

    /// Makes a cache.
    ///
    /// # Errors
    /// Too little memory.
    fn cache(&self, shape: CacheShape) -> Result<Self::Cache, OpsError>;

    /// `out[i] = table[ids[i]]`.
    ///
    /// # Errors
    /// An id that the table lacks, or a shape that does not fit.
    fn embed(&self, table: &Self::Matrix, ids: &[u32], out: &mut Self::Rows) -> Result<(), OpsError>;

    /// RMSNorm: `out = x / sqrt(mean(x²) + eps) * weight` (Zhang and Sennrich 2019), in `f32`.
    ///
    /// # Errors
    /// A shape that does not fit.
    fn norm(&self, x: &Self::Rows, weight: &Self::Vector, eps: f32, out: &mut Self::Rows) -> Result<(), OpsError>;

    /// `x += delta`, then as [`Ops::norm`].
    ///
    /// # Errors
    /// A shape that does not fit.
    fn add_norm(
        &self,
        x: &mut Self::Rows,
        delta: &Self::Rows,
        weight: &Self::Vector,
        eps: f32,
        out: &mut Self::Rows,
    ) -> Result<(), OpsError>;

    /// `out = x Wᵀ + bias`.
    ///
    /// # Errors
    /// A shape that does not fit.
    fn linear(
        &self,
        x: &Self::Rows,
        weight: &Self::Matrix,
        bias: Option<&Self::Vector>,
        out: &mut Self::Rows,
    ) -> Result<(), OpsError>;

    /// On rows of queries, keys and values: norms each query and key head (Qwen3's q/k-norm, where given), rotates them by
    /// their positions, and writes keys and values to the pages of the batch. `out`'s queries are what [`Ops::attend`] takes.
    ///
    /// # Errors
    /// A shape that does not fit.
    #[allow(clippy::too_many_arguments, reason = "one pass over the rows; parts of it would be passes")]
    fn rotate_and_keep(
        &self,
        qkv: &mut Self::Rows,
        heads: Heads,
        norms: Option<(&Self::Vector, &Self::Vector, f32)>,
        rope: &Rope,
        batch: &Batch,
        layer: usize,
        cache: &mut Self::Cache,
    ) -> Result<(), OpsError>;

    /// Causal attention of each row over its sequence in the cache, itself included, scaled by `1 / sqrt(dim)`.
    ///
    /// # Errors
    /// A shape that does not fit.
    fn attend(
        &self,
        qkv: &Self::Rows,
        heads: Heads,
        batch: &Batch,
        layer: usize,
        cache: &Self::Cache,
        out: &mut Self::Rows,
    ) -> Result<(), OpsError>;

    /// SwiGLU: of rows `[gate, up]`, `out = gate * sigmoid(gate) * up` (Shazeer 2020).
    ///
    /// # Errors
    /// A shape that does not fit.
    fn swiglu(&self, gate_up: &Self::Rows, out: &mut Self::Rows) -> Result<(), OpsError>;

    /// `out[i] = x[rows[i]]`.
    ///
    /// # Errors
    /// A row that is not there, or a shape that does not fit.
    fn pick(&self, x: &Self::Rows, rows: &[u32], out: &mut Self::Rows) -> Result<(), OpsError>;

    /// `out[i] = x[i] / max(‖x[i]‖, 1e-12)`.
    ///
    /// # Errors
    /// A shape that does not fit.
    fn normalize(&self, x: &mut Self::Rows) -> Result<(), OpsError>;

    /// Copies rows to the host.
    ///
    /// # Errors
    /// A device that failed.
    fn read(&self, x: &Self::Rows, out: &mut Vec<f32>) -> Result<(), OpsError>;

    /// Copies one row to the host, behind what is there already.
    ///
    /// # Errors
    /// A row that is not there, or a device that failed.
    fn read_row(&self, x: &Self::Rows, row: usize, out: &mut Vec<f32>) -> Result<(), OpsError>;

    /// Says that a buffer holds so many rows: what [`Ops::step`] left there when it played back a recording.
    ///
    /// # Errors
    /// More rows than it was made for.
    fn set_rows(&self, x: &mut Self::Rows, rows: usize) -> Result<(), OpsError>;

    /// Draws a token from each row of logits, as exactly as the engine's sampler does; none where a row holds no finite
    /// distribution. `false` where the backend leaves that to the host.
    ///
    /// # Errors
    /// Rules that are not one a row, or a device that failed.
    fn draw(
        &self,
        _logits: &Self::Rows,
        _rules: &[DrawRules],
        _drawn: &mut Vec<Option<RowDraw>>,
    ) -> Result<bool, OpsError> {
        Ok(false)
    }

    /// Runs the operations of one step over a batch. A backend may record what `run` starts for batches in which each sequence
    /// has one new token, and play that back for later batches of as many rows and of the same kind, which says what `run`
    /// does; `run` is not called then, and buffers hold what it would have left in them.
    ///
    /// # Errors
    /// Those of `run`, or a device that failed.
    fn step(
        &self,
        _batch: &Batch,
        _heads: Heads,
        _pages: usize,
        _kind: u32,
        run: &mut dyn FnMut() -> Result<(), OpsError>,
    ) -> Result<(), OpsError> {
        run()
    }

    /// Sums `x` over all ranks of a tensor-parallel group, in place; a group of one has nothing to do.
    ///
    /// # Errors
    /// A device or a peer that failed.
    fn all_reduce(&self, x: &mut Self::Rows) -> Result<(), OpsError>;

    /// Bytes of one page over all layers, as [`Ops::save_pages`] gives it.
    fn page_bytes(&self, cache: &Self::Cache) -> usize;

    /// Copies pages to the host, in the order given.
    ///
    /// # Errors
    /// A page that is not there.
    fn save_pages(&self, cache: &Self::Cache, pages: &[u32]) -> Result<HostBytes, OpsError>;

    /// Writes what [`Ops::save_pages`] gave into pages.
    ///
    /// # Errors
    /// A page that is not there, or bytes of another length.
    fn load_pages(&self, cache: &mut Self::Cache, pages: &[u32], bytes: &[u8]) -> Result<(), OpsError>;
}

/// That two numbers which must be equal are.
///
/// # Errors
/// [`OpsError::Shape`] with both.
pub fn expect_equal(op: &'static str, what: &str, expected: usize, got: usize) -> Result<(), OpsError> {
    if expected == got {
        return Ok(());
    }
    Err(OpsError::Shape { op, expected: format!("{what} {expected}"), got: got.to_string() })
}
