//! The SQLite file of a run: its schema, how it is made and opened, and how a batch of appends becomes one
//! transaction. One process writes, held by a lock on the folder.

use super::chain::{Chain, scope_code};
use super::error::LedgerError;
use super::manifest::Manifest;
use super::{Append, Difference};
use legwork_protocol::id::{EpisodeKey, Scope};
use legwork_protocol::question::Question;
use legwork_protocol::record::EpisodeRecord;
use rusqlite::{Connection, OpenFlags, OptionalExtension, params};
use std::collections::HashMap;
use std::fs::{File, TryLockError};
use std::path::{Path, PathBuf};

/// The schema that this program writes and reads.
pub const SCHEMA_VERSION: i64 = 1;
/// The database's name in a run's folder.
pub const RUN_DB: &str = "run.db";

const SCHEMA: &str = "
CREATE TABLE manifest (id INTEGER PRIMARY KEY CHECK (id = 0), body TEXT NOT NULL);
CREATE TABLE accepted (id INTEGER PRIMARY KEY, at_ms INTEGER NOT NULL, name TEXT NOT NULL, was TEXT NOT NULL, became TEXT NOT NULL);
CREATE TABLE questions (place INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, body TEXT NOT NULL);
CREATE TABLE episodes (id INTEGER PRIMARY KEY, round INTEGER NOT NULL, question TEXT NOT NULL, UNIQUE (round, question));
CREATE TABLE events (
  id INTEGER PRIMARY KEY, episode INTEGER NOT NULL, scope INTEGER NOT NULL, seq INTEGER NOT NULL,
  at_ms INTEGER NOT NULL, body BLOB NOT NULL, effect BLOB, link BLOB NOT NULL);
CREATE UNIQUE INDEX events_of_episode ON events (episode, scope, seq);
CREATE TABLE records (episode INTEGER PRIMARY KEY, body TEXT NOT NULL);
";

/// A run's database, open for writing by this process alone.
pub struct Store {
    connection: Connection,
    path: PathBuf,
    episodes: HashMap<EpisodeKey, i64>,
    chain: Chain,
    _lock: File,
}

impl Store {
    /// Makes a run: manifest, questions and the planned episodes, which fix the denominator before anything is
    /// asked.
    pub fn create(folder: &Path, manifest: &Manifest, questions: &[Question]) -> Result<Self, LedgerError> {
        std::fs::create_dir_all(folder).map_err(|source| io("make the folder", folder, source))?;
        let lock = lock(folder)?;
        let path = folder.join(RUN_DB);
        if path.exists() {
            return Err(LedgerError::RunExists { path: folder.to_path_buf() });
        }
        // Made beside its place and moved there whole, so that half a run is never found.
        let making = folder.join("run.db.making");
        let _left_from_an_interrupted_try = std::fs::remove_file(&making);
        let body = manifest.to_json();
        {
            let mut connection = Connection::open(&making)
                .map_err(|source| LedgerError::sqlite("make the database", &making, source))?;
            fill(&mut connection, &body, manifest, questions)
                .map_err(|source| LedgerError::sqlite("write the plan", &making, source))?;
        }
        std::fs::rename(&making, &path).map_err(|source| io("move the database to", &path, source))?;
        Self::open_locked(folder, lock)
    }

    /// Opens a run to go on with it. `now` is what the run would be begun with today; it must differ from what
    /// the run was begun with in nothing but `accept`ed names, and those are recorded.
    pub fn resume(folder: &Path, now: &Manifest, accept: &[String], at_ms: u64) -> Result<Self, LedgerError> {
        let store = Self::open(folder)?;
        let was = store.effective_manifest()?;
        let (accepted, refused): (Vec<Difference>, Vec<Difference>) = was
            .differences(now)
            .into_iter()
            .partition(|difference| accept.iter().any(|name| covers(name, &difference.name)));
        if !refused.is_empty() {
            return Err(LedgerError::ManifestDiffers { path: folder.to_path_buf(), differences: refused });
        }
        for difference in accepted {
            store
                .connection
                .execute(
                    "INSERT INTO accepted (at_ms, name, was, became) VALUES (?1, ?2, ?3, ?4)",
                    params![as_i64(at_ms), difference.name, difference.was, difference.is],
                )
                .map_err(|source| LedgerError::sqlite("record an accepted difference", &store.path, source))?;
        }
        Ok(store)
    }

    /// Opens a run for writing as it is.
    pub fn open(folder: &Path) -> Result<Self, LedgerError> {
        if !folder.join(RUN_DB).exists() {
            return Err(LedgerError::NoRun { path: folder.to_path_buf() });
        }
        let lock = lock(folder)?;
        Self::open_locked(folder, lock)
    }

    fn open_locked(folder: &Path, lock: File) -> Result<Self, LedgerError> {
        let path = folder.join(RUN_DB);
        let connection = open_connection(&path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
        let failed = |doing| {
            let path = path.clone();
            move |source| LedgerError::sqlite(doing, &path, source)
        };
        // WAL with full synchronisation: a commit that was acknowledged survives the loss of power.
        connection
            .execute_batch("PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA wal_autocheckpoint = 4000; PRAGMA cache_size = -8000;")
            .map_err(failed("prepare the database"))?;
        let manifest: String = connection
            .query_row("SELECT body FROM manifest WHERE id = 0", [], |row| row.get(0))
            .map_err(failed("read the manifest"))?;
        let last: Option<Vec<u8>> = connection
            .query_row("SELECT link FROM events ORDER BY id DESC LIMIT 1", [], |row| row.get(0))
            .optional()
            .map_err(failed("read the last event"))?;
        let chain = match last.and_then(|link| link.try_into().ok()) {
            Some(link) => Chain::after(link),
            None => Chain::over_manifest(&manifest),
        };
        let episodes = read_episodes(&connection).map_err(failed("read the planned episodes"))?;
        Ok(Self { connection, path, episodes, chain, _lock: lock })
    }

    /// Writes a batch as one transaction. Either all of it is durable on return or none of it; of each append, whether its place
    /// was free. One whose place is taken is left out: what was kept first stays.
    pub fn append(&mut self, batch: &[Box<Append>]) -> Result<Vec<bool>, LedgerError> {
        let mut chain = self.chain.clone();
        let kept = write_batch(&mut self.connection, &self.episodes, &mut chain, batch)
            .map_err(|source| LedgerError::sqlite("append", &self.path, source))?;
        self.chain = chain;
        Ok(kept)
    }

    /// All events of an episode, or of one scope of it, for a restart within the run.
    pub fn recall(&self, episode: &EpisodeKey, scope: Option<Scope>) -> Result<super::History, LedgerError> {
        match self.episodes.get(episode) {
            Some(id) => super::reader::history(&self.connection, &self.path, *id, episode, scope),
            None => Ok(super::History::new()),
        }
    }

    /// Puts these records in place of all that are there: records are only a view of the events.
    pub fn replace_records(&mut self, records: &[EpisodeRecord]) -> Result<(), LedgerError> {
        let episodes = &self.episodes;
        let mut write = || -> Result<(), rusqlite::Error> {
            let transaction = self.connection.transaction()?;
            transaction.execute("DELETE FROM records", [])?;
            for record in records {
                let episode = *episodes.get(&record.key).ok_or(rusqlite::Error::QueryReturnedNoRows)?;
                let body = serde_json::to_string(record).expect("records hold only what JSON can write");
                transaction.execute("INSERT INTO records (episode, body) VALUES (?1, ?2)", params![episode, body])?;
            }
            transaction.commit()
        };
        write().map_err(|source| LedgerError::sqlite("replace the records", &self.path, source))
    }

    /// Moves everything from the write-ahead log into the database.
    pub fn checkpoint(&self) {
        let _best_effort = self.connection.execute_batch("PRAGMA wal_checkpoint(TRUNCATE)");
    }

    /// Lets the database grow by no more than so many pages, as a full disk would.
    #[cfg(test)]
    pub(super) fn limit_growth(&self, pages: i64) {
        let count: i64 = self.connection.query_row("PRAGMA page_count", [], |row| row.get(0)).unwrap();
        self.connection.execute_batch(&format!("PRAGMA max_page_count = {}", count + pages)).unwrap();
    }

    /// The database's file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn effective_manifest(&self) -> Result<Manifest, LedgerError> {
        super::reader::effective_manifest(&self.connection, &self.path)
    }
}

/// Opens a run's database and checks its schema.
pub(super) fn open_connection(path: &Path, flags: OpenFlags) -> Result<Connection, LedgerError> {
    let connection = Connection::open_with_flags(path, flags | OpenFlags::SQLITE_OPEN_NO_MUTEX)
        .map_err(|source| LedgerError::sqlite("open the database", path, source))?;
    let found: i64 = connection
        .query_row("PRAGMA user_version", [], |row| row.get(0))
        .map_err(|source| LedgerError::sqlite("read the schema's version", path, source))?;
    if found != SCHEMA_VERSION {
        return Err(LedgerError::OtherSchema { path: path.to_path_buf(), found, expected: SCHEMA_VERSION });
    }
    Ok(connection)
}

fn fill(
    connection: &mut Connection,
    body: &str,
    manifest: &Manifest,
    questions: &[Question],
) -> Result<(), rusqlite::Error> {
    let transaction = connection.transaction()?;
    transaction.execute_batch(SCHEMA)?;
    transaction.pragma_update(None, "user_version", SCHEMA_VERSION)?;
    transaction.execute("INSERT INTO manifest (id, body) VALUES (0, ?1)", [body])?;
    {
        let mut question_row = transaction.prepare("INSERT INTO questions (id, body) VALUES (?1, ?2)")?;
        for question in questions {
            let body = serde_json::to_string(question).expect("questions hold only what JSON can write");
            question_row.execute(params![question.id.as_str(), body])?;
        }
        let mut episode_row = transaction.prepare("INSERT INTO episodes (round, question) VALUES (?1, ?2)")?;
        for round in 0..manifest.rounds {
            for question in questions {
                episode_row.execute(params![round, question.id.as_str()])?;
            }
        }
    }
    transaction.commit()
}

fn write_batch(
    connection: &mut Connection,
    episodes: &HashMap<EpisodeKey, i64>,
    chain: &mut Chain,
    batch: &[Box<Append>],
) -> Result<Vec<bool>, rusqlite::Error> {
    let transaction = connection.transaction()?;
    let mut kept = Vec::with_capacity(batch.len());
    {
        let mut event_row = transaction.prepare_cached(
            "INSERT INTO events (episode, scope, seq, at_ms, body, effect, link) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7) \
             ON CONFLICT (episode, scope, seq) DO NOTHING",
        )?;
        let mut record_row = transaction.prepare_cached("INSERT INTO records (episode, body) VALUES (?1, ?2)")?;
        for append in batch {
            let episode = *episodes.get(&append.episode).ok_or(rusqlite::Error::QueryReturnedNoRows)?;
            let effect = append.effect.as_ref().map(<[u8; 32]>::as_slice);
            let mut next = chain.clone();
            let link = next.add(episode, append.scope, append.seq, append.at_ms, &append.body, effect);
            let rows = event_row.execute(params![
                episode,
                scope_code(append.scope),
                append.seq,
                as_i64(append.at_ms),
                append.body,
                effect,
                link.as_slice()
            ])?;
            kept.push(rows > 0);
            if rows == 0 {
                continue;
            }
            *chain = next;
            if let Some(record) = &append.finished {
                let body = serde_json::to_string(record).expect("records hold only what JSON can write");
                record_row.execute(params![episode, body])?;
            }
        }
    }
    transaction.commit()?;
    Ok(kept)
}

fn read_episodes(connection: &Connection) -> Result<HashMap<EpisodeKey, i64>, rusqlite::Error> {
    let mut rows = connection.prepare("SELECT round, question, id FROM episodes")?;
    let keys = rows.query_map([], |row| {
        let question: String = row.get(1)?;
        Ok((EpisodeKey { round: row.get(0)?, question: question.into() }, row.get(2)?))
    })?;
    keys.collect()
}

/// An accepted name covers itself and everything below it.
fn covers(accepted: &str, name: &str) -> bool {
    name == accepted || name.strip_prefix(accepted).is_some_and(|rest| rest.starts_with('.'))
}

pub(super) fn as_i64(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

fn lock(folder: &Path) -> Result<File, LedgerError> {
    let path = folder.join("run.lock");
    let file =
        File::options().create(true).append(true).open(&path).map_err(|source| io("open the lock", &path, source))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(LedgerError::Locked { path: folder.to_path_buf() }),
        Err(TryLockError::Error(source)) => Err(io("lock", &path, source)),
    }
}

fn io(doing: &'static str, path: &Path, source: std::io::Error) -> LedgerError {
    LedgerError::Io { doing, path: path.to_path_buf(), source }
}
