//! The one integration binary: what a user of legwork relies on, through the library and through the program.
#![allow(clippy::unwrap_used, reason = "tests")]

mod configuration;
mod corpora;
mod crash;
mod follow;
mod full_disk;
mod gate_rows;
mod house;
mod local_model;
mod mock_swap;
mod model_folders;
mod oracle_server;
mod program;
mod ranks;
mod read_only;
mod restarts;
mod rows;
mod run_folder;
mod signals;
mod stage;
mod token_differences;
mod training;
