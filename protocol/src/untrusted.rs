//! (untrusted: being written)
