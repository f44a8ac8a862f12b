//! Behaviour of whole reports, from records to bytes, in one binary.

mod agreement;
mod compare;
mod gallery;
mod goldens;
mod render;
mod summary;
mod support;
