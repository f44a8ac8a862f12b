//! After the faults there is progress: the last life is complete, and none ever stood still.

use super::Case;
use crate::universe::LifeEnd;

pub(super) fn check(case: &Case<'_>) -> Vec<String> {
    match case.lives.last() {
        Some(LifeEnd::Complete) => Vec::new(),
        Some(end) => vec![format!("after {} lives the run is not complete but {end:?}", case.lives.len())],
        None => vec!["there was no life at all".to_owned()],
    }
}
