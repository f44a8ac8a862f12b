//! Grading: what counts as the same answer, what a judge is asked, what its words mean, and the order in
//! which all that happens. It refuses to know who the judge is and how a call to it is retried.

mod confidence;
mod exact;
mod grader;
mod judge;
mod judgement;

pub use confidence::read_confidence;
pub use exact::{exact_match, foldagent_mended, relaxed_match};
pub use grader::{GradeStep, Grader};
pub use judge::{JUDGE_RESPONSE_CHARS_MAX, judge_prompt};
pub use judgement::{Judgement, read_judgement, read_published, read_robust};
