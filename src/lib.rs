//! legwork.
