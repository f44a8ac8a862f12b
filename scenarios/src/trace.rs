//! A trace: all that is needed to see a failure again and to read what happened, as one text file. It opens with the
//! scenario as TOML, and can be played again as it is.

use crate::scenario::Scenario;
use crate::universe::Played;
use legwork_actors::ledger::{LedgerError, LedgerReader};
use std::fmt::Write;
use std::path::Path;

/// Characters of one event that a trace shows.
pub const EVENT_CHARS_MAX: usize = 400;

/// The trace of a scenario that was played in `folder`, by the program whose digest is `program`.
///
/// # Errors
/// If the ledger cannot be read.
pub fn trace(scenario: &Scenario, played: &Played, folder: &Path, program: &str) -> Result<String, LedgerError> {
    let mut text = scenario.to_toml();
    let mut comment = |line: String| {
        for line in line.lines() {
            let _infallible = writeln!(text, "# {line}");
        }
    };
    comment(String::new());
    comment(format!("legwork {} · program {program}", env!("CARGO_PKG_VERSION")));
    comment(format!("hash {} over {} events", played.hash, played.events));
    comment(format!("lives {:?}", played.lives));
    comment(format!("struck {:?}", played.marks));
    played.findings.iter().for_each(|finding| comment(format!("FOUND {finding}")));
    let reader = LedgerReader::open(folder)?;
    for key in reader.planned()? {
        for stored in reader.events(&key)? {
            let event = serde_json::to_string(&stored.recorded.event).unwrap_or_default();
            let shown: String = event.chars().take(EVENT_CHARS_MAX).collect();
            comment(format!("{} {key} {} {} {shown}", stored.at_ms, stored.scope, stored.recorded.seq));
        }
    }
    Ok(text)
}
