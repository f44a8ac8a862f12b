//! The processor's kernels: one scalar truth and vector forms chosen at run time.
//!
//! They refuse to know files and models. Every form agrees with the scalar one to the bit, where it says so,
//! or within rounding.

pub mod panel;
#[cfg(target_arch = "x86_64")]
mod panel_x86;
pub mod top_k;
