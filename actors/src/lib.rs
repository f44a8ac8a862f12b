//! Everything that runs concurrently.
