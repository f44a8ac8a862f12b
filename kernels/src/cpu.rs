//! The processor's kernels: one scalar truth and vector forms chosen at run time.
//!
//! They refuse to know files and models. Every form agrees with the scalar one to the bit, where it says so,
//! or within rounding.

pub mod attend;
pub mod backend;
pub mod encode;
#[cfg(target_arch = "x86_64")]
mod fused_x86;
pub mod gemm;
pub mod group;
pub mod learn;
pub mod linear;
pub mod panel;
#[cfg(target_arch = "x86_64")]
mod panel_x86;
pub mod product;
#[cfg(target_arch = "x86_64")]
mod product_x86;
pub mod rowwise;
mod scratch;
pub mod team;
pub mod top_k;
pub mod turn;
pub mod unpack;
#[cfg(target_arch = "x86_64")]
mod unpack_x86;
