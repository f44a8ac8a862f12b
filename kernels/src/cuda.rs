//! Graphics cards as a backend of [`crate::Ops`]: rows, weights and cache in bf16, sums in `f32`. [`Card`] knows what to
//! compute and how work is laid out; a [`driver::Driver`] runs it: [`Nvidia`] on a card, and in the tests an emulator that runs the
//! same sources on the processor.
//!
//! Kernels are the `.cu` files beside this one, compiled when first needed. It refuses to know models.

mod attention;
mod backend;
mod batch;
mod boxes;
mod compile;
pub mod driver;
mod error;
mod gemm;
mod gemm_gradient;
mod group;
pub mod learn;
pub mod linear;
mod measure;
mod memory;
mod nvidia;
mod pinned;
pub mod plan;
mod profiled;
mod recorded;
mod sampler;
pub mod source;

pub use backend::Card;
pub use compile::{Arch, Compiled, compile, compiler_version};
pub use error::CardError;
pub use group::{GroupName, Seat};
pub use learn::{CardParam, CardSums};
pub use measure::Ceilings;
pub use memory::{CardCache, CardMatrix, CardRows, CardVector};
pub use nvidia::Nvidia;
pub use profiled::{Profiled, Spent};
pub use recorded::Recordings;

/// A card of NVIDIA as a backend.
pub type Cuda = Card<Nvidia>;
