//! The statistics, as pure functions over counts and slices. Each states its formula and its source,
//! answers `None` where it is not defined, and knows nothing of episodes except in `retrieval`,
//! which takes document ids.

pub mod agreement;
pub mod binomial;
pub mod bootstrap;
pub mod calibration;
pub mod citations;
pub mod paired;
pub mod percentile;
pub mod proportion;
pub mod recall;
pub mod rounds;
