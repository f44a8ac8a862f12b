//! The numeric operations: matrices whose numbers were checked once, and exact inner-product search.
//!
//! This crate knows floats, rows and processor features. It refuses to know what a row stands for: no
//! corpus, no model, no file format. It is the only crate of the house that may say `unsafe`, and each
//! such place states why it is sound.

pub mod batch;
pub mod compared;
pub mod cpu;
#[cfg(feature = "cuda")]
pub mod cuda;
pub mod draw;
pub mod host;
pub mod learn;
pub mod mapped;
pub mod matrix;
pub mod ops;
pub mod stored;

pub use batch::{Batch, BatchError, PAGE_TOKENS, Span};
pub use compared::Compared;
pub use cpu::backend::Cpu;
pub use cpu::group::{Carrier, Group, Member, Reduce};
pub use cpu::learn::CpuParam;
pub use cpu::top_k::{Scored, top_k};
#[cfg(feature = "cuda")]
pub use cuda::Cuda;
pub use draw::{DrawRules, RowDraw};
pub use host::{HostBytes, HostMemory};
pub use learn::{AdamW, Learn, Part};
pub use mapped::{MappedBytes, MappedF32};
pub use matrix::{KernelError, Matrix};
pub use ops::{CacheShape, Heads, Ops, OpsError, Rope};
pub use stored::{BLOCK, Dtype, SharedBytes, Stored, StoredError};
