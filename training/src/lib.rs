//! What is trained on: rows of chat and rows of token ids, with what each of them may say, and their files.
//!
//! It refuses to know runs, ledgers and models: rows come in from whoever made them.

mod error;
mod jsonl;

pub mod batch;
pub mod course;
pub mod pack;
pub mod rank;
pub mod sample;
pub mod shuffle;
pub mod tensor;
pub mod trajectory;

pub use error::{Place, TrainingError, TrajectoryError};
pub use jsonl::{JsonlReader, JsonlWriter, LINE_BYTES_MAX, Row, Written};
pub use sample::Sample;
