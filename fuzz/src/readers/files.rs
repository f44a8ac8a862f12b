//! Files for readers that take a path: one folder a thread, made once, so that an input costs a write and no more.
//! A name keeps its ending, since readers tell formats by it.

use std::cell::OnceCell;
use std::path::PathBuf;
use tempfile::TempDir;

thread_local! {
    static FOLDER: OnceCell<TempDir> = const { OnceCell::new() };
}

/// Writes the bytes to a file of this name and says where it is. The next call with the name replaces it.
pub(super) fn file(name: &str, bytes: &[u8]) -> PathBuf {
    let path = folder().join(name);
    std::fs::write(&path, bytes).unwrap_or_else(|error| panic!("cannot write {}: {error}", path.display()));
    path
}

/// This thread's folder.
pub(super) fn folder() -> PathBuf {
    FOLDER.with(|folder| folder.get_or_init(|| tempfile::tempdir().expect("a folder for inputs")).path().to_owned())
}
