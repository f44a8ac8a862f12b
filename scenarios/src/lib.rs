//! Worlds and mocks.
