//! The processor's kernels: one scalar truth and vector forms chosen at run time.
//!
//! They refuse to know files and models. Every form must agree with the scalar one within rounding.

pub mod dot;
#[cfg(target_arch = "x86_64")]
mod dot_x86;
pub mod top_k;
