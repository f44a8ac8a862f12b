//! Building an index folder: one pass over the corpus, words indexed in parts by threads, bounded memory.
//!
//! All work happens in a folder beside the target. An interrupted build leaves whole parts there; the next one
//! with the same corpus and limits reads the corpus again but analyses only what is missing. The last act is
//! a rename, so half an index never has the index's name.

use super::is_index;
use super::manifest::{CorpusRecord, FileRecord, Manifest, SCHEMA, sync_folder};
use crate::analyzer::ANALYZER;
use crate::bm25::{self, Bm25Params, merge_parts, write_part};
use crate::corpus::{Corpus, Document};
use crate::error::RetrievalError;
use crate::store::{self, StoreWriter};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

/// Bytes of text after which a part ends. A thread holds one part and its postings, about three times this.
pub const PART_TEXT_BYTES: usize = 48 * 1024 * 1024;
/// Documents after which a part ends.
pub const PART_DOCUMENTS: usize = 200_000;
/// Most threads of a build.
pub const MAX_BUILD_THREADS: usize = 64;

/// Documents between two calls of the progress callback.
const PROGRESS_DOCUMENTS: u64 = 1_000;
const PLAN: &str = "plan.json";
const LOCK: &str = "build.lock";
const PARTS: &str = "parts";

/// How to build.
#[derive(Clone, Debug)]
pub struct BuildSettings {
    /// The constants of BM25.
    pub bm25: Bm25Params,
    /// Threads that analyse and index; 1 to [`MAX_BUILD_THREADS`].
    pub threads: usize,
    /// Bytes of text of one part, at most [`PART_TEXT_BYTES`]; smaller parts hold less memory and merge longer.
    pub part_text_bytes: usize,
}

impl BuildSettings {
    /// Largest parts, on `threads` threads.
    pub fn new(bm25: Bm25Params, threads: usize) -> Self {
        Self { bm25, threads, part_text_bytes: PART_TEXT_BYTES }
    }
}

/// How far a build is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BuildProgress {
    /// What is being done.
    pub stage: Stage,
    /// Documents read so far.
    pub documents: u64,
    /// Parts found whole from an interrupted build.
    pub resumed_parts: usize,
}

/// What a build is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Taking the corpus' digest.
    Digesting,
    /// Reading documents; words are indexed meanwhile.
    Reading,
    /// Merging the parts.
    Merging,
    /// Taking the files' digests.
    Sealing,
}

/// What parts of an interrupted build depend on.
#[derive(PartialEq, Serialize, Deserialize)]
struct Plan {
    schema: u32,
    analyzer: String,
    corpus: String,
    part_text_bytes: usize,
    part_documents: usize,
}

/// A run of documents on its way to a thread.
struct Job {
    folder: PathBuf,
    texts: Vec<String>,
}

/// See [`super::Index::build`].
pub(super) fn build(
    corpus: &Corpus,
    folder: &Path,
    settings: &BuildSettings,
    progress: &mut dyn FnMut(BuildProgress),
) -> Result<(), RetrievalError> {
    check(folder, settings)?;
    let mut state = BuildProgress { stage: Stage::Digesting, documents: 0, resumed_parts: 0 };
    progress(state);
    let digest = corpus.digest()?;
    let work = beside(folder)?;
    fs::create_dir_all(&work).map_err(RetrievalError::io("creating", &work))?;
    let _lock = lock(&work)?;
    prepare(&work, &digest, settings)?;
    state.stage = Stage::Reading;
    progress(state);
    let parts = read_and_index(corpus, &work, settings, &mut state, progress)?;
    state.stage = Stage::Merging;
    progress(state);
    merge_parts(&parts, &work, settings.bm25)?;
    state.stage = Stage::Sealing;
    progress(state);
    if corpus.digest()? != digest {
        let cure = "let the corpus rest while it is being indexed, then build anew";
        return Err(RetrievalError::file(corpus.path(), "the corpus changed during the build", cure));
    }
    for leftover in [PARTS, PLAN] {
        let path = work.join(leftover);
        let removed = if path.is_dir() { fs::remove_dir_all(&path) } else { fs::remove_file(&path) };
        removed.map_err(RetrievalError::io("removing", &path))?;
    }
    seal(&work, digest, state.documents, settings.bm25)?;
    fs::rename(&work, folder).map_err(RetrievalError::io("renaming", &work))?;
    // The lock's file moved along with the folder; it is of no use there.
    let _ = fs::remove_file(folder.join(LOCK));
    folder.parent().filter(|p| !p.as_os_str().is_empty()).map_or(Ok(()), sync_folder)
}

fn check(folder: &Path, settings: &BuildSettings) -> Result<(), RetrievalError> {
    settings.bm25.checked()?;
    let refuse = |name, expected, got: usize| Err(RetrievalError::Setting { name, expected, got: got.to_string() });
    if settings.threads == 0 || settings.threads > MAX_BUILD_THREADS {
        return refuse("threads", "a number from 1 to 64", settings.threads);
    }
    if settings.part_text_bytes == 0 || settings.part_text_bytes > PART_TEXT_BYTES {
        return refuse("part_text_bytes", "a number from 1 to 50331648", settings.part_text_bytes);
    }
    if is_index(folder) {
        return Err(RetrievalError::file(
            folder,
            "an index is here already",
            "open it, or remove the folder to build anew",
        ));
    }
    let content = fs::read_dir(folder).map(|mut entries| entries.next().is_some());
    if folder.is_file() || content.unwrap_or(false) {
        return Err(RetrievalError::file(folder, "expected no such folder, got one in use", "choose another folder"));
    }
    Ok(())
}

/// The folder in which the work is done: the target's name with an ending.
fn beside(folder: &Path) -> Result<PathBuf, RetrievalError> {
    let Some(name) = folder.file_name() else {
        return Err(RetrievalError::file(folder, "expected a folder's name, got none", "name a folder for the index"));
    };
    let mut name = name.to_owned();
    name.push(".building");
    Ok(folder.with_file_name(name))
}

fn lock(work: &Path) -> Result<File, RetrievalError> {
    let path = work.join(LOCK);
    let file = File::create(&path).map_err(RetrievalError::io("creating", &path))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(fs::TryLockError::WouldBlock) => {
            Err(RetrievalError::file(work, "another build is at work here", "wait for it, or build elsewhere"))
        }
        Err(fs::TryLockError::Error(error)) => Err(RetrievalError::io("locking", &path)(error)),
    }
}

/// Keeps the parts of a build with the same plan; removes those of any other.
fn prepare(work: &Path, digest: &str, settings: &BuildSettings) -> Result<(), RetrievalError> {
    let plan = Plan {
        schema: SCHEMA,
        analyzer: ANALYZER.to_owned(),
        corpus: digest.to_owned(),
        part_text_bytes: settings.part_text_bytes,
        part_documents: PART_DOCUMENTS,
    };
    let path = work.join(PLAN);
    let parts = work.join(PARTS);
    let old = fs::read(&path).ok().and_then(|bytes| serde_json::from_slice::<Plan>(&bytes).ok());
    if old.as_ref() != Some(&plan) && parts.exists() {
        fs::remove_dir_all(&parts).map_err(RetrievalError::io("removing", &parts))?;
    }
    fs::create_dir_all(&parts).map_err(RetrievalError::io("creating", &parts))?;
    let bytes = serde_json::to_vec(&plan).map_err(|e| RetrievalError::io("writing", &path)(e.into()))?;
    fs::write(&path, bytes).map_err(RetrievalError::io("writing", &path))
}

/// One pass: documents to the store, their words to the threads. Returns the folders of all parts in order.
fn read_and_index(
    corpus: &Corpus,
    work: &Path,
    settings: &BuildSettings,
    state: &mut BuildProgress,
    progress: &mut dyn FnMut(BuildProgress),
) -> Result<Vec<PathBuf>, RetrievalError> {
    let stop = AtomicBool::new(false);
    // No job waits in the channel: a part is handed over when a thread is free for it.
    let (sender, receiver) = sync_channel(0);
    let receiver = Mutex::new(receiver);
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..settings.threads).map(|_| scope.spawn(|| index_jobs(&receiver, &stop))).collect();
        let read = read_documents(corpus, work, settings, &sender, &stop, state, progress);
        drop(sender);
        let mut outcome = Ok(());
        for thread in threads {
            match thread.join() {
                Ok(result) => outcome = outcome.and(result),
                Err(panic) => resume_unwind(panic),
            }
        }
        // A thread's failure is the cause of the reader's stopping, so it is told first.
        outcome.and(read)
    })
}

fn index_jobs(jobs: &Mutex<Receiver<Job>>, stop: &AtomicBool) -> Result<(), RetrievalError> {
    loop {
        let job = match jobs.lock() {
            Ok(jobs) => jobs.recv(),
            // Another thread panicked; its panic is raised again where the threads are joined.
            Err(_) => return Ok(()),
        };
        let Ok(Job { folder, texts }) = job else { return Ok(()) };
        // After a failure jobs are taken and dropped, so that the reader is never left waiting.
        if !stop.load(Ordering::Relaxed) {
            // Even a panic must not leave the reader waiting for a thread that is gone.
            let written = catch_unwind(AssertUnwindSafe(|| write_part(&folder, &texts)));
            if !matches!(written, Ok(Ok(()))) {
                stop.store(true, Ordering::Relaxed);
                while jobs.lock().is_ok_and(|jobs| jobs.recv().is_ok()) {}
                return written.unwrap_or_else(|panic| resume_unwind(panic));
            }
        }
    }
}

fn read_documents(
    corpus: &Corpus,
    work: &Path,
    settings: &BuildSettings,
    sender: &SyncSender<Job>,
    stop: &AtomicBool,
    state: &mut BuildProgress,
    progress: &mut dyn FnMut(BuildProgress),
) -> Result<Vec<PathBuf>, RetrievalError> {
    let mut store = StoreWriter::create(work)?;
    let mut parts = Vec::new();
    let mut texts = Vec::new();
    let mut bytes = 0;
    let mut hand_over = |texts: &mut Vec<String>, state: &mut BuildProgress| {
        let folder = work.join(PARTS).join(format!("{:06}", parts.len()));
        parts.push(folder.clone());
        let texts = std::mem::take(texts);
        if folder.is_dir() {
            state.resumed_parts += 1;
        } else {
            // A closed channel means that every thread stopped; the cause is told where they are joined.
            let _ = sender.send(Job { folder, texts });
        }
    };
    for document in corpus.documents()? {
        let document = document?;
        if stop.load(Ordering::Relaxed) {
            break;
        }
        store.push(&document)?;
        let text = words_of(document);
        bytes += text.len();
        texts.push(text);
        state.documents += 1;
        if bytes >= settings.part_text_bytes || texts.len() >= PART_DOCUMENTS {
            hand_over(&mut texts, state);
            bytes = 0;
        }
        if state.documents.is_multiple_of(PROGRESS_DOCUMENTS) {
            progress(*state);
        }
    }
    if !texts.is_empty() {
        hand_over(&mut texts, state);
    }
    progress(*state);
    store.finish()?;
    Ok(parts)
}

/// Title and text joined: the one field that is searched.
fn words_of(document: Document) -> String {
    match document.title {
        None => document.text,
        Some(title) => title + "\n" + &document.text,
    }
}

/// Writes the manifest over every file of the folder.
fn seal(work: &Path, digest: String, documents: u64, bm25: Bm25Params) -> Result<(), RetrievalError> {
    let mut files = BTreeMap::new();
    for name in store::FILES.iter().chain(&bm25::FILES) {
        files.insert((*name).to_owned(), FileRecord::of(&work.join(name))?);
    }
    let folder = work.join(bm25::POSTINGS);
    for entry in fs::read_dir(&folder).map_err(RetrievalError::io("reading", &folder))? {
        let entry = entry.map_err(RetrievalError::io("reading", &folder))?;
        let Ok(name) = entry.file_name().into_string() else { continue };
        // tantivy leaves lock files and a list of its files; neither is part of the index.
        if !name.starts_with('.') {
            files.insert(format!("{}/{name}", bm25::POSTINGS), FileRecord::of(&entry.path())?);
        }
    }
    let corpus = CorpusRecord { digest, documents };
    Manifest { schema: SCHEMA, corpus, analyzer: ANALYZER.to_owned(), bm25, files, vectors: None }.write(work)
}
