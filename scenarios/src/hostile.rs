//! Hostile documents: attacks written as data, a world poisoned with them, and how often they succeed. An attack has a
//! canary that proves its success; a rate is told for each profile and kind of attack, so that a harness' own defences
//! (which are structural) are kept apart from what a model may be talked into.
//!
//! It refuses to know reports and configurations, and asks whatever endpoint it is given.

mod attack;
mod gullible;
mod measure;
mod poison;
mod readable;
mod suite;
mod trial;

pub use attack::{
    Attack, AttackError, AttackKind, Class, FILLER_MAX_BYTES, Filler, Heard, Order, Proof, TEXT_MAX_BYTES,
};
pub use gullible::GullibleModel;
pub use measure::{Counts, Measured, Players, measure};
pub use poison::{Place, PoisonedLibrary, PoisonedPage, Spot};
pub use readable::readable;
pub use suite::{embedded, read_folder};
pub use trial::{Trace, Trial};
