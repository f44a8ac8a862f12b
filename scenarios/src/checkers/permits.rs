//! Never more episodes inside than there are permits.

use super::Case;

pub(super) fn check(case: &Case<'_>) -> Vec<String> {
    let (most, permits) = (case.probe.inside_most(), case.scenario.concurrency);
    if most > permits {
        vec![format!("{most} episodes were inside at once; there are {permits} permits")]
    } else {
        Vec::new()
    }
}
