//! Ranks of one training run that are processes, on one machine or several: how they find each other, what they tell each other,
//! and a rank that is somewhere else. The process of rank 0 has the run; the others do what it orders, one order at a time, and
//! meet in sums through it.
//!
//! It refuses to know the order of a run, and whoever starts processes. What comes from a connection is believed only as far as
//! it could be read: no length is, and no path.

mod bytes;
mod distant;
mod line;
mod message;
mod rendezvous;
mod served;

pub use distant::DistantRank;
pub use line::{Line, News};
pub use message::{Hello, Making, Over, OverKind};
pub use rendezvous::{Listening, Peers, Watch, World, join};
pub use served::{Served, serve};
