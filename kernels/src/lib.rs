//! The numeric operations.
