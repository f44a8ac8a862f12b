//! The command line of legwork as a library: configuration, putting runs together, the verbs, and what a person sees.
//! It carries decisions of others out and decides nothing about episodes itself.

pub mod assemble;
pub mod config;
pub mod doctor;
pub mod export;
pub mod runs;
pub mod terminal;
pub mod verbs;

/// Faults, mocks and universes, for tests of whoever builds on legwork.
pub use legwork_scenarios as scenarios;
