//! A whole repository into the cache: ask which commit and which files, choose, see that the disk has room, fetch what is
//! missing. Without a network, what is in the cache is used where it is whole.

use crate::cache::{Cache, free_bytes};
use crate::error::FetchError;
use crate::hub::{Failed, Hub, RemoteFile};
use crate::reference::{Reference, RepositoryKind};
use crate::settings::Settings;
use crate::transfer::{Told, Transfer, pause};
use crate::wanted::{Wanted, matches_any};
use std::path::PathBuf;

/// Bytes that stay free on the disk.
const DISK_MARGIN_BYTES: u64 = 256 << 20;

/// What happens meanwhile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Progress<'a> {
    /// What will be fetched is known.
    Chosen {
        /// Files that are wanted.
        files: usize,
        /// Their bytes.
        total_bytes: u64,
        /// Bytes of them that are here already.
        cached_bytes: u64,
    },
    /// More bytes of a file are here.
    Advanced {
        /// The file.
        file: &'a str,
        /// Its bytes that are here.
        done_bytes: u64,
        /// All its bytes.
        total_bytes: u64,
    },
    /// A file is here, whole and checked.
    Placed {
        /// The file.
        file: &'a str,
        /// Its bytes.
        bytes: u64,
        /// Whether it was here before.
        cached: bool,
    },
    /// A try failed, and the next one comes after a pause.
    Waiting {
        /// What was asked for.
        what: &'a str,
        /// Why it failed.
        why: &'a str,
        /// The pause.
        wait_ms: u64,
    },
    /// The hub is not asked, or did not answer: what is in the cache is used.
    Offline {
        /// Why.
        why: &'a str,
    },
}

/// A file that is here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FetchedFile {
    /// Its path in the repository.
    pub path: String,
    /// Its bytes.
    pub bytes: u64,
    /// Whether it was here before.
    pub cached: bool,
}

/// What is here now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fetched {
    /// The folder with the files, of this one commit.
    pub folder: PathBuf,
    /// The commit.
    pub commit: String,
    /// The files that were wanted.
    pub files: Vec<FetchedFile>,
    /// Whether the hub was asked.
    pub online: bool,
}

/// Fetches from one hub into one cache.
pub struct Fetcher {
    hub: Hub,
    settings: Settings,
}

impl std::fmt::Debug for Fetcher {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Fetcher").field(&self.settings).finish()
    }
}

/// A commit and its files, or why the hub said nothing.
enum Asked {
    Answered(String, Vec<RemoteFile>),
    Silent(String),
}

impl Fetcher {
    /// A fetcher.
    ///
    /// # Errors
    /// A token that cannot be sent, a client that does not start.
    pub fn new(settings: Settings) -> Result<Self, FetchError> {
        Ok(Self { hub: Hub::new(&settings)?, settings })
    }

    /// Fetches what is wanted of a repository; files that are in the cache already are not fetched again. It may be dropped
    /// at any time and called again: what is here is kept.
    ///
    /// # Errors
    /// A repository, revision or file that is not there or not given away; a hub that does not answer while the cache is not
    /// whole; bytes that are not those of the file; too little room.
    pub async fn fetch(
        &self,
        of: &Reference,
        wanted: &Wanted,
        progress: &mut (dyn FnMut(Progress<'_>) + Send),
    ) -> Result<Fetched, FetchError> {
        let cache = Cache::new(&self.settings.cache, of);
        if self.settings.offline {
            return cached(&cache, of, wanted, "the hub is not to be asked", progress);
        }
        match self.ask(of, progress).await? {
            Asked::Answered(commit, files) => self.fetch_files(&cache, of, wanted, commit, files, progress).await,
            Asked::Silent(why) => cached(&cache, of, wanted, &why, progress),
        }
    }

    async fn ask(&self, of: &Reference, told: Told<'_>) -> Result<Asked, FetchError> {
        let what = of.to_string();
        let mut tries = 0;
        loop {
            let answer = match self.hub.commit(of).await {
                Ok(commit) => self.hub.files(of, &commit).await.map(|files| (commit, files)),
                Err(failed) => Err(failed),
            };
            let failed = match answer {
                Ok((commit, files)) => return Ok(Asked::Answered(commit, files)),
                Err(failed) => failed,
            };
            tries += 1;
            if let Failed::Passing { detail, unreachable: true, .. } = &failed {
                return Ok(Asked::Silent(format!("the hub cannot be reached ({detail})")));
            }
            pause(self.hub.patience, tries, &what, failed, told).await?;
        }
    }

    async fn fetch_files(
        &self,
        cache: &Cache,
        of: &Reference,
        wanted: &Wanted,
        commit: String,
        files: Vec<RemoteFile>,
        told: Told<'_>,
    ) -> Result<Fetched, FetchError> {
        let files = wanted.choose(of.kind(), files)?;
        let (mut total_bytes, mut cached_bytes) = (0_u64, 0_u64);
        for file in &files {
            total_bytes = total_bytes.saturating_add(file.bytes);
            let here = if cache.has(&file.expected, file.bytes) {
                file.bytes
            } else {
                cache.partial_bytes(&file.expected).min(file.bytes)
            };
            cached_bytes = cached_bytes.saturating_add(here);
        }
        told(Progress::Chosen { files: files.len(), total_bytes, cached_bytes });
        see_that_there_is_room(cache, total_bytes - cached_bytes)?;
        let mut fetched = Vec::with_capacity(files.len());
        for file in &files {
            let mut here = cache.has(&file.expected, file.bytes);
            if here && wanted.verify_cached && !is_right(cache, file).await? {
                let blob = cache.blob(&file.expected);
                std::fs::remove_file(&blob).map_err(FetchError::io("remove the damaged", &blob))?;
                here = false;
            }
            if !here {
                Transfer { hub: &self.hub, cache, of, commit: &commit, file }.run(told).await?;
            }
            cache.link(&commit, &file.path, &file.expected)?;
            told(Progress::Placed { file: &file.path, bytes: file.bytes, cached: here });
            fetched.push(FetchedFile { path: file.path.clone(), bytes: file.bytes, cached: here });
        }
        // Last, so that a revision leads to a commit only once its files are here.
        cache.remember(of.revision(), &commit)?;
        Ok(Fetched { folder: cache.snapshot(&commit), commit, files: fetched, online: true })
    }
}

/// Reads the bytes in the cache again.
async fn is_right(cache: &Cache, file: &RemoteFile) -> Result<bool, FetchError> {
    let (hasher, blob) = (file.expected.hasher(file.bytes), cache.blob(&file.expected));
    let path = blob.clone();
    let hashed = tokio::task::spawn_blocking(move || hasher.take_file(&path)).await;
    let hashed = hashed.map_err(std::io::Error::other).and_then(|hashed| hashed);
    Ok(hashed.map_err(FetchError::io("read", &blob))?.hex() == file.expected.hex())
}

fn see_that_there_is_room(cache: &Cache, bytes: u64) -> Result<(), FetchError> {
    if bytes == 0 {
        return Ok(());
    }
    let need = bytes.saturating_add(DISK_MARGIN_BYTES);
    match free_bytes(cache.root()) {
        Some(free) if free < need => Err(FetchError::Disk { path: cache.root().to_path_buf(), need, free }),
        _ => Ok(()),
    }
}

/// What is in the cache, where it is whole.
fn cached(cache: &Cache, of: &Reference, wanted: &Wanted, why: &str, told: Told<'_>) -> Result<Fetched, FetchError> {
    let refused = |missing: Vec<String>| {
        let (what, cache, why) = (of.to_string(), cache.root().to_path_buf(), why.to_owned());
        Err(FetchError::NotCached { what, cache, why, missing })
    };
    let Some(commit) = cache.commit(of.revision()) else {
        return refused(vec!["every file".to_owned()]);
    };
    let (found, mut missing) = cache.found(&commit);
    let wants = |path: &str| {
        !matches_any(&wanted.exclude, path) && (wanted.include.is_empty() || matches_any(&wanted.include, path))
    };
    missing.retain(|path| wants(path));
    let found: Vec<(String, u64)> = found.into_iter().filter(|(path, _)| wants(path)).collect();
    let has = |path: &str| found.iter().any(|(known, _)| known == path);
    if wanted.include.is_empty() && of.kind() == RepositoryKind::Model {
        missing.extend(lacking(&has, &found, cache.shards(&commit)));
    }
    for pattern in &wanted.include {
        if !found.iter().any(|(path, _)| matches_any(std::slice::from_ref(pattern), path)) {
            missing.push(format!("anything that matches {pattern:?}"));
        }
    }
    if found.is_empty() && missing.is_empty() {
        missing.push("every file".to_owned());
    }
    if !missing.is_empty() {
        return refused(missing);
    }
    told(Progress::Offline { why });
    let files = found.into_iter().map(|(path, bytes)| FetchedFile { path, bytes, cached: true }).collect();
    Ok(Fetched { folder: cache.snapshot(&commit), commit, files, online: false })
}

/// What a model cannot be opened without.
fn lacking(has: &dyn Fn(&str) -> bool, found: &[(String, u64)], shards: Vec<String>) -> Vec<String> {
    let gguf = found.iter().any(|(path, _)| path.ends_with(".gguf"));
    let mut missing = Vec::new();
    if !gguf && !has("config.json") {
        missing.push("config.json".to_owned());
    }
    missing.extend(shards.into_iter().filter(|shard| !has(shard)));
    let weights = gguf || found.iter().any(|(path, _)| path.ends_with(".safetensors"));
    if !weights && missing.iter().all(|path| !path.ends_with(".safetensors")) {
        missing.push("model.safetensors".to_owned());
    }
    missing
}
