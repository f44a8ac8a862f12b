//! What this machine and this configuration have and lack, before a run finds out: each finding says what was
//! looked at, what was seen and what to do about it.
//!
//! It takes plain names and paths and refuses to know the configuration they came from. Keys are looked for, never
//! shown. Looking (`look`) is apart from judging (`judge`), which is pure.

mod address;
mod inputs;
mod judge;
mod look;
mod seen;

pub use inputs::{DoctorInputs, EndpointInput, FileInput, KeySource};

use crate::terminal::here;
use legwork_protocol::untrusted::Untrusted;
use serde::Serialize;
use std::fmt::Write;

/// Characters of what was seen, or of a cure, that are shown.
const TEXT_CHARS_MAX: usize = 600;
/// Width of the column that says what was looked at.
const WHAT_COLUMNS: usize = 22;

/// How a finding stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// As it should be.
    Good,
    /// Worth knowing; a run can go on.
    Note,
    /// A run that needs it fails.
    Bad,
}

/// One thing looked at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// What was looked at, such as `memory` or `endpoint worker`.
    pub what: String,
    /// How it stands.
    pub state: State,
    /// What was seen.
    pub saw: String,
    /// What to do, where something is to be done.
    pub cure: Option<String>,
}

/// Looks at everything and judges it. It takes a second for endpoints that do not answer, and as long as reading the
/// corpus takes if there is an index to compare it with.
pub async fn examine(inputs: DoctorInputs) -> Vec<Finding> {
    let seen = look::look(&inputs, here(crate::terminal::Flags::default())).await;
    judge::judge(&inputs, &seen)
}

/// Whether nothing is bad; the exit code is 0 then, else 1.
pub fn is_fit(findings: &[Finding]) -> bool {
    findings.iter().all(|finding| finding.state != State::Bad)
}

/// The findings as text, a line each, with cures below.
pub fn text(findings: &[Finding]) -> String {
    let mut text = String::new();
    for finding in findings {
        let mark = match finding.state {
            State::Good => "good",
            State::Note => "note",
            State::Bad => "BAD ",
        };
        let (what, saw) = (clean(&finding.what), clean(&finding.saw));
        line(&mut text, format_args!("{mark}  {what:<WHAT_COLUMNS$}  {saw}"));
        if let Some(cure) = &finding.cure {
            line(&mut text, format_args!("      {:<WHAT_COLUMNS$}  -> {}", "", clean(cure)));
        }
    }
    let count = |state| findings.iter().filter(|finding| finding.state == state).count();
    let verdict = if is_fit(findings) { "fit to run" } else { "not fit to run" };
    let (good, notes, bad) = (count(State::Good), count(State::Note), count(State::Bad));
    line(&mut text, format_args!("{verdict}: {good} good, {notes} to note, {bad} bad"));
    text
}

/// The findings as one JSON object.
pub fn json(findings: &[Finding]) -> String {
    let object = serde_json::json!({ "fit": is_fit(findings), "findings": findings });
    format!("{object:#}\n")
}

fn line(text: &mut String, line: std::fmt::Arguments<'_>) {
    writeln!(text, "{line}").expect("writing to a string does not fail");
}

/// Paths, names and errors of others on one line.
fn clean(text: &str) -> String {
    Untrusted::new(text).for_log(TEXT_CHARS_MAX).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finding(state: State, cure: Option<&str>) -> Finding {
        Finding { what: "index".to_owned(), state, saw: "a\x1b[2J\nb".to_owned(), cure: cure.map(str::to_owned) }
    }

    #[test]
    fn text_has_a_clean_line_for_each_finding_its_cure_and_a_verdict() {
        let text = text(&[finding(State::Good, None), finding(State::Bad, Some("build it"))]);
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines[0], "good  index                   a\\x1b[2J\\nb");
        assert_eq!(lines[1], "BAD   index                   a\\x1b[2J\\nb");
        assert_eq!(lines[2].trim_start(), "-> build it");
        assert_eq!(lines[3], "not fit to run: 1 good, 0 to note, 1 bad");
    }

    #[test]
    fn json_keeps_every_field_and_says_whether_it_is_fit() {
        let read: serde_json::Value = serde_json::from_str(&json(&[finding(State::Note, None)])).unwrap();
        assert_eq!(read["fit"], true);
        assert_eq!(read["findings"][0]["state"], "note");
        assert_eq!(read["findings"][0]["cure"], serde_json::Value::Null);
    }

    #[test]
    fn only_what_is_bad_makes_unfit() {
        assert!(is_fit(&[finding(State::Good, None), finding(State::Note, None)]));
        assert!(!is_fit(&[finding(State::Note, None), finding(State::Bad, None)]));
    }
}
