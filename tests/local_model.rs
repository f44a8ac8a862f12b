//! A model in this process, as a user meets it: SmolLM2-135M-Instruct behind `legwork serve model`, asked by bytes on a socket,
//! and behind the worker of `legwork eval --model`. Where `.ci/fixtures` has not fetched it, each test says that it is skipped.
//! They refuse to know whether an answer is right.

mod apart;
mod episodes;
mod serving;
mod wire;

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// The model, where it is there.
#[allow(clippy::print_stdout, reason = "a test says what it skips")]
fn model() -> Option<&'static str> {
    static FOUND: OnceLock<Option<String>> = OnceLock::new();
    let found = FOUND.get_or_init(|| {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("target/fixtures/smollm2");
        let entries = std::fs::read_dir(folder).ok()?;
        let mut files = entries.flatten().map(|entry| entry.path());
        files
            .find(|path| path.extension().is_some_and(|end| end == "gguf"))
            .map(|path: PathBuf| path.display().to_string())
    });
    if found.is_none() {
        println!("skipped: target/fixtures/smollm2 has no .gguf; run .ci/fixtures");
    }
    found.as_deref()
}
