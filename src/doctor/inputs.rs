//! What the doctor is asked to look at, as plain names and paths.

use std::path::PathBuf;

/// What to look at.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DoctorInputs {
    /// Where runs are kept; need not exist yet.
    pub runs_folder: PathBuf,
    /// Episodes at once.
    pub concurrency: usize,
    /// Whether this build has code for a GPU.
    pub has_gpu_code: bool,
    /// Servers that the configuration names.
    pub endpoints: Vec<EndpointInput>,
    /// Tokenizer files by the part they count for.
    pub tokenizers: Vec<FileInput>,
    /// Models in this process by the part that they play.
    pub models: Vec<FileInput>,
    /// An index built before.
    pub index: Option<PathBuf>,
    /// The corpus that the index must be of.
    pub corpus: Option<PathBuf>,
}

/// A server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndpointInput {
    /// Its name in the configuration, such as `models.worker`.
    pub name: String,
    /// Its base URL. Passwords and parameters in it are never shown.
    pub url: String,
    /// Where its key is to be found, if it wants one.
    pub key: Option<KeySource>,
}

/// Where a key is to be found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeySource {
    /// In an environment variable of this name.
    Env(String),
    /// In a file that holds nothing else.
    File(PathBuf),
}

/// A file with the name that the configuration gives it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileInput {
    /// Its name in the configuration, such as `tokenizers.worker`.
    pub name: String,
    /// Where it lies.
    pub path: PathBuf,
}
