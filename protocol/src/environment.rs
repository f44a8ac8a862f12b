//! (environment: being written)
