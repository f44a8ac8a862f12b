//! Nothing is asked of a model twice without a cause: no turn is asked again unless something struck.

use super::Case;

pub(super) fn check(case: &Case<'_>) -> Vec<String> {
    let (again, struck) = (case.probe.asked_again(), u64::from(case.desk.struck()));
    // One strike (a power cut, a dead shared actor) interrupts at most the turns of all episodes inside, and a turn may
    // be tried as often as the profile says.
    let inside = case.scenario.concurrency as u64 * u64::from(case.profile.coordinator.briefs_at_once_max.max(1));
    let most = struck * inside * u64::from(case.profile.worker.turn_attempts_max.max(1));
    if again > most {
        return vec![format!("{again} turns were asked again after {struck} strikes; at most {most} have a cause")];
    }
    Vec::new()
}
