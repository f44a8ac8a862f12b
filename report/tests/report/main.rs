//! Behaviour of whole reports, from records to bytes, in one binary.

#![allow(clippy::unwrap_used, reason = "helpers of tests are tests: clippy sees only the functions marked so")]

mod agreement;
mod compare;
mod gallery;
mod goldens;
mod render;
mod summary;
mod support;
