//! Folders and files of the configuration: where runs go, keys, tokenizers, index and corpus.

use crate::doctor::inputs::{DoctorInputs, KeySource};
use crate::doctor::seen::{CorpusSeen, Folder, IndexSeen, Key};
use legwork_model::{ModelFiles, Tokenizer};
use legwork_retrieval::corpus::Corpus;
use legwork_retrieval::index::{Index, OpenSettings};
use std::fs::{self, OpenOptions};
use std::io::{ErrorKind, Read};
use std::path::Path;

/// The largest key file, in bytes.
const KEY_FILE_MAX_BYTES: u64 = 64 * 1024;
/// What every tokenizer is tried with.
const SAMPLE: &str = "Which archive keeps the letters of 1887?";

/// What was seen of files.
pub(super) struct Files {
    pub(super) runs: Folder,
    pub(super) tokenizers: Vec<Result<u64, String>>,
    pub(super) models: Vec<Result<String, String>>,
    pub(super) index: Option<Result<IndexSeen, String>>,
    pub(super) corpus: Option<Result<CorpusSeen, String>>,
}

/// Looks at all of them.
pub(super) fn look(inputs: &DoctorInputs) -> Files {
    let index = inputs.index.as_deref().map(index);
    let has_index = matches!(index, Some(Ok(_)));
    Files {
        runs: folder(&inputs.runs_folder),
        tokenizers: inputs.tokenizers.iter().map(|file| tokenizer(&file.path)).collect(),
        models: inputs.models.iter().map(|file| model(&file.path)).collect(),
        corpus: inputs.corpus.as_deref().map(|path| corpus(path, has_index)),
        index,
    }
}

/// A model's shape; only headers are read.
fn model(path: &Path) -> Result<String, String> {
    let files = ModelFiles::open(path).map_err(|error| error.to_string())?;
    let config = files.decoder().map_err(|error| error.to_string())?;
    let mebibytes = (files.weights.costs().mapped_bytes + files.weights.costs().unpacked_bytes) >> 20;
    let family = config.family.name();
    Ok(format!("{family}, {} layers of {}, context {}, {mebibytes} MiB", config.layers, config.hidden, config.context))
}

/// A folder that runs will be written to.
fn folder(path: &Path) -> Folder {
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let nearest = absolute.ancestors().find(|folder| folder.exists()).unwrap_or(Path::new("/")).to_owned();
    Folder {
        exists: nearest == absolute,
        refused: try_to_write(&nearest).err(),
        free_bytes: free_bytes(&nearest),
        nearest,
    }
}

fn try_to_write(folder: &Path) -> Result<(), String> {
    // Named by the process, so that two doctors do not meet.
    let probe = folder.join(format!(".legwork-doctor-{}", std::process::id()));
    let made = OpenOptions::new().write(true).create_new(true).open(&probe);
    made.map_err(|error| error.to_string())?;
    fs::remove_file(&probe).map_err(|error| error.to_string())
}

#[cfg(unix)]
fn free_bytes(folder: &Path) -> Option<u64> {
    let room = rustix::fs::statvfs(folder).ok()?;
    room.f_bavail.checked_mul(room.f_frsize)
}

#[cfg(not(unix))]
fn free_bytes(_folder: &Path) -> Option<u64> {
    None
}

/// Whether a key is there. It is read only to see that it is not blank.
pub(super) fn key(source: Option<&KeySource>) -> Key {
    match source {
        None => Key::NotWanted,
        Some(KeySource::Env(name)) => match std::env::var(name) {
            Ok(value) if value.trim().is_empty() => Key::Missing("the variable is blank".to_owned()),
            Ok(_) => Key::Present,
            Err(std::env::VarError::NotPresent) => Key::Missing("the variable is not set".to_owned()),
            Err(std::env::VarError::NotUnicode(_)) => Key::Missing("the variable is not text".to_owned()),
        },
        Some(KeySource::File(path)) => key_file(path).unwrap_or_else(Key::Missing),
    }
}

fn key_file(path: &Path) -> Result<Key, String> {
    let told = |error: std::io::Error| match error.kind() {
        ErrorKind::InvalidData => "the file is not text".to_owned(),
        _ => error.to_string(),
    };
    let mut text = String::new();
    let file = fs::File::open(path).map_err(told)?;
    let is_for_all = is_for_all(&file);
    file.take(KEY_FILE_MAX_BYTES).read_to_string(&mut text).map_err(told)?;
    Ok(match (text.trim().is_empty(), is_for_all) {
        (true, _) => Key::Missing("the file is blank".to_owned()),
        (false, true) => Key::PresentForAll,
        (false, false) => Key::Present,
    })
}

#[cfg(unix)]
fn is_for_all(file: &fs::File) -> bool {
    use std::os::unix::fs::PermissionsExt;
    file.metadata().is_ok_and(|metadata| metadata.permissions().mode() & 0o077 != 0)
}

#[cfg(not(unix))]
fn is_for_all(_file: &fs::File) -> bool {
    false
}

fn tokenizer(path: &Path) -> Result<u64, String> {
    Tokenizer::open(path).map(|tokenizer| tokenizer.count(SAMPLE)).map_err(|error| error.to_string())
}

fn index(path: &Path) -> Result<IndexSeen, String> {
    let index = Index::open(path, &OpenSettings::default()).map_err(|error| error.to_string())?;
    let manifest = index.manifest();
    Ok(IndexSeen {
        documents: manifest.corpus.documents,
        corpus_digest: manifest.corpus.digest.clone(),
        vectors: manifest.vectors.as_ref().map(|vectors| (vectors.dim, vectors.source.clone())),
    })
}

/// A corpus whose first document can be read. The digest costs reading the file once.
fn corpus(path: &Path, with_digest: bool) -> Result<CorpusSeen, String> {
    let bytes = fs::metadata(path).map_err(|error| format!("{}: {error}", path.display()))?.len();
    let corpus = Corpus::open(path).map_err(|error| error.to_string())?;
    let first = corpus.documents().map_err(|error| error.to_string())?.next();
    match first {
        None => Err(format!("{}: expected documents, got none", path.display())),
        Some(Err(error)) => Err(error.to_string()),
        Some(Ok(_)) => {
            let digest = with_digest.then(|| corpus.digest().map_err(|error| error.to_string())).transpose()?;
            Ok(CorpusSeen { bytes, digest })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_that_is_a_file_is_refused_with_a_reason() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("file");
        fs::write(&file, "x").unwrap();
        let seen = folder(&file.join("runs"));
        assert_eq!(seen.nearest, file);
        assert!(seen.refused.is_some());
        let seen = folder(dir.path());
        assert!(seen.exists && seen.refused.is_none() && seen.free_bytes.is_some());
    }

    #[test]
    fn a_key_file_is_present_blank_missing_or_open_to_all() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("key");
        let seen = || key(Some(&KeySource::File(path.clone())));
        assert!(matches!(seen(), Key::Missing(_)));
        fs::write(&path, " \n").unwrap();
        assert_eq!(seen(), Key::Missing("the file is blank".to_owned()));
        fs::write(&path, [0xff, 0xfe]).unwrap();
        assert_eq!(seen(), Key::Missing("the file is not text".to_owned()));
        fs::write(&path, "sk-123456\n").unwrap();
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
            assert_eq!(seen(), Key::PresentForAll);
            fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        }
        assert_eq!(seen(), Key::Present);
    }

    #[test]
    fn an_index_and_its_corpus_are_seen_with_equal_digests() {
        use legwork_retrieval::bm25::Bm25Params;
        use legwork_retrieval::index::BuildSettings;
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("corpus.jsonl");
        fs::write(&path, "{\"docid\":\"d1\",\"text\":\"some words\"}\n").unwrap();
        let built = dir.path().join("index");
        let settings = BuildSettings::new(Bm25Params { k1: 0.9, b: 0.4 }, 1);
        Index::build(&Corpus::open(&path).unwrap(), &built, &settings, &mut |_| ()).unwrap();
        let inputs = DoctorInputs { index: Some(built), corpus: Some(path.clone()), ..DoctorInputs::default() };
        let seen = look(&inputs);
        let (index, corpus) = (seen.index.unwrap().unwrap(), seen.corpus.unwrap().unwrap());
        assert_eq!((index.documents, index.vectors), (1, None));
        assert_eq!(corpus.digest, Some(index.corpus_digest));

        fs::write(&path, "").unwrap();
        let seen =
            look(&DoctorInputs { index: Some(dir.path().to_owned()), corpus: Some(path), ..DoctorInputs::default() });
        assert!(seen.index.unwrap().unwrap_err().contains("build the index"), "no index there");
        let error = seen.corpus.unwrap().unwrap_err();
        assert!(error.contains("corpus.jsonl"), "{error}");
    }

    #[test]
    fn a_tokenizer_that_is_none_says_what_to_give() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("tokenizer.json");
        fs::write(&path, "{}").unwrap();
        assert!(tokenizer(&path).unwrap_err().contains("tokenizer.json"));
    }
}
