//! Models, libraries and token counters that misbehave when the desk says so, and are the real ones (or the mocks
//! behind them) otherwise.

mod counter;
mod library;
mod model;

pub use counter::TroubledCounter;
pub use library::TroubledLibrary;
pub use model::TroubledModel;
