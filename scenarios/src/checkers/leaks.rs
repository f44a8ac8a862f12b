//! After a run nobody is left: no actor, no task, no call of a model.

use super::Case;

pub(super) fn check(case: &Case<'_>) -> Vec<String> {
    let mut found: Vec<String> =
        case.leaked.iter().map(|(life, tasks)| format!("{tasks} tasks outlived life {life}")).collect();
    let calls = case.probe.calls_under_way();
    if calls != 0 {
        found.push(format!("{calls} calls of models are still under way"));
    }
    found
}
