//! The engine: many requests share one model by continuous batching over a paged key-value cache.
//!
//! It is a state machine that its owner steps: it refuses to know threads, clocks, sockets and actors. Time and seeds come
//! in as arguments.
