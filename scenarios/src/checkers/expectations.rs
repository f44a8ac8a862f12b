//! What the scenario itself expects: its outcomes, its resumes, and that every fault of a named scenario struck.

use super::Case;
use std::collections::BTreeMap;

pub(super) fn check(case: &Case<'_>) -> Vec<String> {
    let mut found = Vec::new();
    let expect = &case.scenario.expect;
    let mut outcomes: BTreeMap<String, u32> = BTreeMap::new();
    for record in case.records {
        *outcomes.entry(record.outcome.name().to_owned()).or_default() += 1;
    }
    if expect.all_correct {
        for record in case.records.iter().filter(|record| !record.outcome.is_correct()) {
            found.push(format!("{} ended as {:?}, not correct: {:?}", record.key, record.outcome, record.failure));
        }
    }
    if !expect.outcomes.is_empty() && outcomes != expect.outcomes {
        found.push(format!("outcomes are {outcomes:?}, expected {:?}", expect.outcomes));
    }
    let resumes = u32::try_from(case.lives.len().saturating_sub(1)).unwrap_or(u32::MAX);
    if let Some(expected) = expect.resumes.filter(|expected| *expected != resumes) {
        found.push(format!("the run was taken up again {resumes} times, expected {expected}: {:?}", case.lives));
    }
    let marks = case.desk.marks();
    for (mark, times) in &expect.strikes {
        let struck = marks.get(mark).copied().unwrap_or_default();
        if struck < *times {
            found.push(format!("`{mark}` struck {struck} times, expected {times} at least"));
        }
    }
    found
}
