//! What is trained on: rows of chat and rows of token ids, with what each of them may say, and their files; and what learns
//! from them: a decoder's own way back, its update, its part on each rank, its checkpoints.
//!
//! It refuses to know runs and ledgers: rows come in from whoever made them.

mod error;
mod jsonl;

pub mod audit;
pub mod batch;
pub mod checkpoint;
pub mod contrast;
pub mod course;
pub mod decoder_rank;
pub mod embedder;
pub mod export;
pub mod init;
pub mod mask;
pub mod mix;
pub mod network;
pub mod pack;
pub mod processes;
pub mod rank;
pub mod replicas;
pub mod rows;
pub mod sample;
pub mod schedule;
pub mod shard;
pub mod shuffle;
pub mod slots;
pub mod tensor;
pub mod tensorboard;
pub mod trajectory;

pub use error::{Place, TrainingError, TrajectoryError};
pub use jsonl::{JsonlReader, JsonlWriter, LINE_BYTES_MAX, Row, Written};
pub use sample::Sample;
