//! What a ledger gives back: events, records, questions and manifests as JSON, and a whole database file. What can be
//! read can be written and reads the same; a damaged file is an error and never a panic.

use super::text;
use legwork_actors::ledger::{LedgerReader, Manifest, RUN_DB, Store};
use legwork_protocol::event::{Event, RecordedEvent};
use legwork_protocol::id::Scope;
use legwork_protocol::question::Question;
use legwork_protocol::record::EpisodeRecord;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Episodes whose events are read; a damaged file may tell of many.
const EPISODES_READ: usize = 8;

pub fn event(bytes: &[u8]) {
    comes_back::<Event>(bytes);
    comes_back::<RecordedEvent>(bytes);
    let text = text(bytes);
    if let Some(scope) = Scope::parse(&text) {
        assert_eq!(Scope::parse(&scope.to_string()), Some(scope));
    }
}

pub fn record(bytes: &[u8]) {
    comes_back::<EpisodeRecord>(bytes);
    comes_back::<Question>(bytes);
    comes_back::<Manifest>(bytes);
}

/// The bytes are the database of a run.
pub fn file(bytes: &[u8]) {
    let folder = tempfile::tempdir().expect("a folder for the damaged run");
    std::fs::write(folder.path().join(RUN_DB), bytes).expect("the damaged run is written");
    if let Ok(reader) = LedgerReader::open(folder.path()) {
        let told: [Result<(), String>; 6] = [
            reader.manifest().map(drop).map_err(|error| error.to_string()),
            reader.accepted().map(drop).map_err(|error| error.to_string()),
            reader.questions().map(drop).map_err(|error| error.to_string()),
            reader.records().map(drop).map_err(|error| error.to_string()),
            reader.begun().and(reader.ended()).map(drop).map_err(|error| error.to_string()),
            reader.verify_chain().map(drop).map_err(|error| error.to_string()),
        ];
        for problem in told.into_iter().filter_map(Result::err) {
            assert!(problem.contains(RUN_DB), "an error without its file: {problem}");
        }
        for key in reader.planned().unwrap_or_default().iter().take(EPISODES_READ) {
            let _ = (reader.history(key), reader.events(key));
        }
    }
    // Continuing the run opens it for writing.
    let _ = Store::open(folder.path());
}

fn comes_back<T: DeserializeOwned + Serialize + PartialEq + std::fmt::Debug>(bytes: &[u8]) {
    let Ok(read) = serde_json::from_slice::<T>(bytes) else { return };
    let written = serde_json::to_vec(&read).expect("what was read from JSON can be written as JSON");
    let again: T = match serde_json::from_slice(&written) {
        Ok(again) => again,
        Err(error) => panic!("{error} in what was just written: {}", String::from_utf8_lossy(&written)),
    };
    assert_eq!(again, read);
}
