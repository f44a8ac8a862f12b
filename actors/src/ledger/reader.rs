//! Reading a run without touching it: manifest, questions, records and events, and the check of the chain. Memory
//! does not grow with the number of events.

use super::chain::{Chain, scope_code, scope_of};
use super::error::LedgerError;
use super::manifest::Manifest;
use super::store::{RUN_DB, as_i64, open_connection};
use super::{Difference, History};
use legwork_protocol::event::{Event, RecordedEvent};
use legwork_protocol::id::{EpisodeKey, Scope};
use legwork_protocol::machine::Digest;
use legwork_protocol::question::Question;
use legwork_protocol::record::EpisodeRecord;
use rusqlite::{Connection, OpenFlags};
use std::collections::HashSet;
use std::path::{Path, PathBuf};

/// A run's ledger, open for reading.
pub struct LedgerReader {
    connection: Connection,
    path: PathBuf,
}

/// An event with where it stands.
#[derive(Clone, Debug)]
pub struct StoredEvent {
    /// The machine that it belongs to.
    pub scope: Scope,
    /// When it was recorded, in milliseconds since the Unix epoch.
    pub at_ms: u64,
    /// The event and the digest of its effect.
    pub recorded: RecordedEvent,
}

impl LedgerReader {
    /// Opens the run in a folder. What is read is the run as it is now, even while another process goes on with it.
    pub fn open(folder: &Path) -> Result<Self, LedgerError> {
        let path = folder.join(RUN_DB);
        if !path.exists() {
            return Err(LedgerError::NoRun { path: folder.to_path_buf() });
        }
        // A run that was killed leaves a write-ahead log behind, and reading that needs a writable file.
        let connection = match open_connection(&path, OpenFlags::SQLITE_OPEN_READ_WRITE) {
            Err(LedgerError::Sqlite { .. } | LedgerError::ReadOnly { .. }) => open_unwritable(&path)?,
            other => other?,
        };
        // One transaction over all that is read: records and events of a live run belong to one moment.
        connection.execute_batch("BEGIN").map_err(|source| LedgerError::sqlite("begin to read", &path, source))?;
        Ok(Self { connection, path })
    }

    /// The manifest that the run was begun with.
    pub fn manifest(&self) -> Result<Manifest, LedgerError> {
        first_manifest(&self.connection, &self.path).map(|(_, manifest)| manifest)
    }

    /// Differences that were accepted when the run was resumed.
    pub fn accepted(&self) -> Result<Vec<Difference>, LedgerError> {
        accepted(&self.connection)
            .map_err(|source| LedgerError::sqlite("read accepted differences", &self.path, source))
    }

    /// The questions, in the order they were planned.
    pub fn questions(&self) -> Result<Vec<Question>, LedgerError> {
        self.bodies("SELECT body FROM questions ORDER BY place", "questions")
    }

    /// Every planned episode, in order: the denominator.
    pub fn planned(&self) -> Result<Vec<EpisodeKey>, LedgerError> {
        let read = || -> Result<Vec<EpisodeKey>, rusqlite::Error> {
            let mut rows = self.connection.prepare("SELECT round, question FROM episodes ORDER BY id")?;
            let keys = rows.query_map([], |row| {
                let question: String = row.get(1)?;
                Ok(EpisodeKey { round: row.get(0)?, question: question.into() })
            })?;
            keys.collect()
        };
        read().map_err(|source| LedgerError::sqlite("read the planned episodes", &self.path, source))
    }

    /// The records of all finished episodes, in planned order.
    pub fn records(&self) -> Result<Vec<EpisodeRecord>, LedgerError> {
        self.bodies("SELECT body FROM records ORDER BY episode", "records")
    }

    /// Episodes that have begun and not ended.
    pub fn begun(&self) -> Result<HashSet<EpisodeKey>, LedgerError> {
        self.keys(
            "SELECT round, question FROM episodes WHERE EXISTS (SELECT 1 FROM events WHERE events.episode = episodes.id)
             AND NOT EXISTS (SELECT 1 FROM records WHERE records.episode = episodes.id)",
        )
    }

    /// Episodes that have ended.
    pub fn ended(&self) -> Result<HashSet<EpisodeKey>, LedgerError> {
        self.keys("SELECT round, question FROM episodes JOIN records ON records.episode = episodes.id")
    }

    /// Episodes that have ended, in the order in which their records were written, each with its place in that order: the
    /// number of the event that ended it. Events are only ever added, with rising numbers, and a record is written with its
    /// episode's last event, so what is read once stands there for ever and what ends later comes behind it. `after` is a
    /// place behind which to begin; 0 is before all.
    pub fn ended_after(&self, after: u64) -> Result<Vec<(EpisodeKey, u64)>, LedgerError> {
        let read = || -> Result<Vec<(EpisodeKey, u64)>, rusqlite::Error> {
            let mut rows = self.connection.prepare_cached(
                "SELECT round, question, place FROM (
                   SELECT episodes.round, episodes.question, (
                     SELECT events.id FROM events WHERE events.episode = records.episode AND scope = ?1 ORDER BY seq DESC LIMIT 1
                   ) AS place FROM records JOIN episodes ON episodes.id = records.episode
                 ) WHERE place > ?2 ORDER BY place",
            )?;
            let keys = rows.query_map([scope_code(Scope::Episode), as_i64(after)], |row| {
                let (question, place): (String, i64) = (row.get(1)?, row.get(2)?);
                Ok((EpisodeKey { round: row.get(0)?, question: question.into() }, place.unsigned_abs()))
            })?;
            keys.collect()
        };
        read().map_err(|source| LedgerError::sqlite("read which episodes have ended", &self.path, source))
    }

    /// All events of an episode, by scope.
    pub fn history(&self, key: &EpisodeKey) -> Result<History, LedgerError> {
        let id: Result<i64, _> = self.connection.query_row(
            "SELECT id FROM episodes WHERE round = ?1 AND question = ?2",
            rusqlite::params![key.round, key.question.as_str()],
            |row| row.get(0),
        );
        match id {
            Ok(id) => history(&self.connection, &self.path, id, key, None),
            Err(rusqlite::Error::QueryReturnedNoRows) => Ok(History::new()),
            Err(source) => Err(LedgerError::sqlite("find the episode", &self.path, source)),
        }
    }

    /// All events of an episode in the order they were recorded.
    pub fn events(&self, key: &EpisodeKey) -> Result<Vec<StoredEvent>, LedgerError> {
        let failed = |source| LedgerError::sqlite("read events", &self.path, source);
        let mut rows = self
            .connection
            .prepare_cached(
                "SELECT events.id, scope, seq, events.body, effect, at_ms FROM events JOIN episodes ON episodes.id = events.episode
                 WHERE round = ?1 AND question = ?2 ORDER BY events.id",
            )
            .map_err(failed)?;
        let mut rows = rows.query(rusqlite::params![key.round, key.question.as_str()]).map_err(failed)?;
        let mut events = Vec::new();
        while let Some(row) = rows.next().map_err(failed)? {
            let (scope, recorded) = read_event(row, &self.path, key)?;
            let at_ms: i64 = row.get(5).map_err(failed)?;
            events.push(StoredEvent { scope, at_ms: u64::try_from(at_ms).unwrap_or(0), recorded });
        }
        Ok(events)
    }

    /// Checks the chain over all records from the manifest on. Returns how many there are and the last link.
    pub fn verify_chain(&self) -> Result<(u64, String), LedgerError> {
        let failed = |source| LedgerError::sqlite("read events", &self.path, source);
        let (body, _) = first_manifest(&self.connection, &self.path)?;
        let mut chain = Chain::over_manifest(&body);
        let mut rows = self
            .connection
            .prepare("SELECT id, episode, scope, seq, at_ms, body, effect, link FROM events ORDER BY id")
            .map_err(failed)?;
        let mut rows = rows.query([]).map_err(failed)?;
        let mut count = 0;
        while let Some(row) = rows.next().map_err(failed)? {
            let scope = scope_of(row.get(2).map_err(failed)?).unwrap_or(Scope::Episode);
            let at_ms: i64 = row.get(4).map_err(failed)?;
            let (body, effect): (Vec<u8>, Option<Vec<u8>>) = (row.get(5).map_err(failed)?, row.get(6).map_err(failed)?);
            let seq = row.get(3).map_err(failed)?;
            let expected =
                chain.add(row.get(1).map_err(failed)?, scope, seq, at_ms.unsigned_abs(), &body, effect.as_deref());
            let found: Vec<u8> = row.get(7).map_err(failed)?;
            if found != expected {
                return Err(LedgerError::ChainBroken {
                    path: self.path.clone(),
                    id: row.get(0).map_err(failed)?,
                    expected: Digest(expected).to_string(),
                    found: found.iter().map(|byte| format!("{byte:02x}")).collect(),
                });
            }
            count += 1;
        }
        Ok((count, Digest(chain.last()).to_string()))
    }

    /// The database's file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn bodies<T: serde::de::DeserializeOwned>(&self, query: &str, what: &str) -> Result<Vec<T>, LedgerError> {
        let failed = |source| LedgerError::sqlite("read", &self.path, source);
        let mut rows = self.connection.prepare(query).map_err(failed)?;
        let bodies = rows.query_map([], |row| row.get::<_, String>(0)).map_err(failed)?;
        let mut all = Vec::new();
        for (place, body) in bodies.enumerate() {
            let body = body.map_err(failed)?;
            all.push(serde_json::from_str(&body).map_err(|error| LedgerError::Unreadable {
                path: self.path.clone(),
                id: i64::try_from(place).unwrap_or(i64::MAX),
                episode: what.to_owned(),
                scope: String::new(),
                seq: 0,
                detail: error.to_string(),
            })?);
        }
        Ok(all)
    }

    fn keys(&self, query: &str) -> Result<HashSet<EpisodeKey>, LedgerError> {
        let read = || -> Result<HashSet<EpisodeKey>, rusqlite::Error> {
            let mut rows = self.connection.prepare(query)?;
            let keys = rows.query_map([], |row| {
                let question: String = row.get(1)?;
                Ok(EpisodeKey { round: row.get(0)?, question: question.into() })
            })?;
            keys.collect()
        };
        read().map_err(|source| LedgerError::sqlite("read episodes", &self.path, source))
    }
}

/// Opens a run in a place where nothing can be written. There SQLite reads a write-ahead log only with its index beside
/// it, which a killed run leaves and a copy may lack. A run that was closed has no log: then the database is the whole
/// run, nobody can be writing it, and SQLite is told so, as it would otherwise want to make both files.
fn open_unwritable(path: &Path) -> Result<Connection, LedgerError> {
    let has_log = ["db-wal", "db-journal"].iter().any(|kind| path.with_extension(kind).exists());
    if has_log {
        return open_connection(path, OpenFlags::SQLITE_OPEN_READ_ONLY);
    }
    let mut uri = String::from("file:");
    for byte in path.as_os_str().as_encoded_bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'.' | b'-' | b'_' => uri.push(char::from(*byte)),
            _ => uri.push_str(&format!("%{byte:02X}")),
        }
    }
    uri.push_str("?immutable=1");
    open_connection(Path::new(&uri), OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI)
}

/// The events of an episode, or of one scope of it, by scope.
pub(super) fn history(
    connection: &Connection,
    path: &Path,
    id: i64,
    key: &EpisodeKey,
    only: Option<Scope>,
) -> Result<History, LedgerError> {
    let failed = |source| LedgerError::sqlite("read events", path, source);
    let (first, last) = only.map_or((i64::MIN, i64::MAX), |scope| (scope_code(scope), scope_code(scope)));
    let mut rows = connection
        .prepare_cached(
            "SELECT id, scope, seq, body, effect FROM events WHERE episode = ?1 AND scope BETWEEN ?2 AND ?3 ORDER BY scope, seq",
        )
        .map_err(failed)?;
    let mut rows = rows.query([id, first, last]).map_err(failed)?;
    let mut history = History::new();
    while let Some(row) = rows.next().map_err(failed)? {
        let (scope, recorded) = read_event(row, path, key)?;
        history.entry(scope).or_default().push(recorded);
    }
    Ok(history)
}

fn read_event(row: &rusqlite::Row<'_>, path: &Path, key: &EpisodeKey) -> Result<(Scope, RecordedEvent), LedgerError> {
    let failed = |source| LedgerError::sqlite("read an event", path, source);
    let (id, code, seq): (i64, i64, u32) =
        (row.get(0).map_err(failed)?, row.get(1).map_err(failed)?, row.get(2).map_err(failed)?);
    let unreadable = |detail: String| LedgerError::Unreadable {
        path: path.to_path_buf(),
        id,
        episode: key.to_string(),
        scope: code.to_string(),
        seq,
        detail,
    };
    let scope = scope_of(code).ok_or_else(|| unreadable(format!("no scope has the number {code}")))?;
    let body = row.get_ref(3).map_err(failed)?.as_bytes().map_err(|error| unreadable(error.to_string()))?;
    let event: Event = serde_json::from_slice(body).map_err(|error| unreadable(error.to_string()))?;
    let effect: Option<Vec<u8>> = row.get(4).map_err(failed)?;
    let effect = match effect {
        None => None,
        Some(bytes) => {
            Some(Digest(bytes.try_into().map_err(|_| unreadable("the effect's digest is not 32 bytes".into()))?))
        }
    };
    Ok((scope, RecordedEvent { seq, event, effect }))
}

/// The manifest as it was begun, with what was accepted since put in.
pub(super) fn effective_manifest(connection: &Connection, path: &Path) -> Result<Manifest, LedgerError> {
    let (body, manifest) = first_manifest(connection, path)?;
    let accepted =
        accepted(connection).map_err(|source| LedgerError::sqlite("read accepted differences", path, source))?;
    if accepted.is_empty() {
        return Ok(manifest);
    }
    let mut value: serde_json::Value = serde_json::from_str(&body).unwrap_or_default();
    for difference in &accepted {
        put(&mut value, &difference.name, &difference.is);
    }
    Ok(serde_json::from_value(value).unwrap_or(manifest))
}

/// Puts what was accepted in its place. A key may hold dots itself, so that names are matched and not split.
fn put(value: &mut serde_json::Value, name: &str, is: &str) {
    let serde_json::Value::Object(map) = value else { return };
    if let Some(place) = map.get_mut(name).filter(|place| !place.is_object()) {
        *place = match place {
            serde_json::Value::String(_) => serde_json::Value::String(is.to_owned()),
            _ => serde_json::from_str(is).unwrap_or_else(|_| serde_json::Value::String(is.to_owned())),
        };
        return;
    }
    let below = map.iter_mut().find_map(|(key, below)| {
        let rest = name.strip_prefix(key.as_str())?.strip_prefix('.')?;
        below.is_object().then_some((below, rest.to_owned()))
    });
    match below {
        Some((below, rest)) => put(below, &rest, is),
        // It was absent when the run was begun.
        None => drop(map.insert(name.to_owned(), serde_json::from_str(is).unwrap_or_else(|_| is.into()))),
    }
}

fn first_manifest(connection: &Connection, path: &Path) -> Result<(String, Manifest), LedgerError> {
    let body: String = connection
        .query_row("SELECT body FROM manifest WHERE id = 0", [], |row| row.get(0))
        .map_err(|source| LedgerError::sqlite("read the manifest", path, source))?;
    let manifest = serde_json::from_str(&body).map_err(|error| LedgerError::Unreadable {
        path: path.to_path_buf(),
        id: 0,
        episode: "manifest".to_owned(),
        scope: String::new(),
        seq: 0,
        detail: error.to_string(),
    })?;
    Ok((body, manifest))
}

fn accepted(connection: &Connection) -> Result<Vec<Difference>, rusqlite::Error> {
    let mut rows = connection.prepare("SELECT name, was, became FROM accepted ORDER BY id")?;
    let differences =
        rows.query_map([], |row| Ok(Difference { name: row.get(0)?, was: row.get(1)?, is: row.get(2)? }))?;
    differences.collect()
}
