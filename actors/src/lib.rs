//! Everything that runs concurrently: the actors of a run, their supervision and the ledger. It knows tokio and
//! ractor; what to decide it asks of `protocol`, whose machines it only carries. It refuses to know HTTP.

pub mod address;
pub mod admission;
pub mod board;
pub mod cast;
pub mod clock;
pub mod coordinator;
pub mod episode;
pub mod errand;
pub mod gate;
pub mod grader;
pub mod inference;
pub mod journal;
pub mod ledger;
pub mod local;
pub mod retriever;
pub mod run;
pub mod stage;
pub mod supervision;
pub mod trainer;
pub mod worker;
