//! Every input of `fuzz/corpora` through its reader: what came from the field, and what a fuzzer once found, breaks no
//! promise again. It runs the readers of the fuzz targets and needs neither nightly Rust nor libFuzzer.

#[path = "../fuzz/src/readers.rs"]
#[allow(unreachable_pub, reason = "the fuzz crate shows these functions to its targets, this binary to nobody")]
mod readers;

use readers::{READERS, Reader};
use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

/// Inputs of one corpus at most.
const INPUTS_MAX: usize = 40;
/// Bytes of one corpus at most.
const CORPUS_BYTES_MAX: u64 = 200_000;
/// The target that is no reader: all of them in one program.
const ANY_READER: &str = "any_reader";
/// Threads that read.
const THREADS: usize = 4;

fn fuzz() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz")
}

/// What a folder holds, in order.
fn entries(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap_or_else(|error| panic!("cannot list {}: {error}", folder.display()));
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths
}

/// The names of what a folder holds, without endings.
fn stems(folder: &Path) -> BTreeSet<String> {
    entries(folder).iter().map(|path| path.file_stem().unwrap().to_string_lossy().into_owned()).collect()
}

/// Each input that breaks a promise; what was broken stands in the output.
fn broken(name: &str, reader: Reader) -> Vec<String> {
    let inputs = entries(&fuzz().join("corpora").join(name));
    let breaks = |input: &PathBuf| {
        let bytes = std::fs::read(input).unwrap();
        catch_unwind(AssertUnwindSafe(|| reader(&bytes))).is_err()
    };
    inputs.into_iter().filter(breaks).map(|input| input.display().to_string()).collect()
}

#[test]
fn every_reader_has_a_target_and_a_corpus_and_none_is_without_a_reader() {
    let named: BTreeSet<String> = READERS.iter().map(|(name, _)| (*name).to_owned()).collect();
    assert_eq!(named.len(), READERS.len(), "a name stands twice in READERS");
    let manifest: toml::Table = std::fs::read_to_string(fuzz().join("Cargo.toml")).unwrap().parse().unwrap();
    let bins = manifest["bin"].as_array().unwrap().iter().map(|bin| bin["name"].as_str().unwrap().to_owned()).collect();
    let targets: BTreeSet<String> = named.iter().cloned().chain([ANY_READER.to_owned()]).collect();
    for (what, named, found) in [
        ("fuzz/Cargo.toml `bin`", &targets, bins),
        ("fuzz/fuzz_targets", &targets, stems(&fuzz().join("fuzz_targets"))),
        ("fuzz/corpora", &named, stems(&fuzz().join("corpora"))),
    ] {
        let differ: Vec<&String> = named.symmetric_difference(&found).collect();
        assert!(differ.is_empty(), "in READERS or in {what}, but not in both: {differ:?}; see fuzz/README.md");
    }
}

#[test]
fn a_corpus_is_small() {
    for (name, _) in READERS {
        let inputs = entries(&fuzz().join("corpora").join(name));
        let bytes: u64 = inputs.iter().map(|input| input.metadata().unwrap().len()).sum();
        assert!((1..=INPUTS_MAX).contains(&inputs.len()), "{name} has {} inputs, of {INPUTS_MAX}", inputs.len());
        assert!(bytes <= CORPUS_BYTES_MAX, "{name} has {bytes} bytes, of {CORPUS_BYTES_MAX}");
    }
}

#[test]
fn every_input_leaves_its_reader_whole() {
    let broken: Vec<String> = std::thread::scope(|scope| {
        let share =
            |first| move || READERS.iter().skip(first).step_by(THREADS).flat_map(|(n, r)| broken(n, *r)).collect();
        let threads: Vec<_> = (0..THREADS).map(|first| scope.spawn::<_, Vec<String>>(share(first))).collect();
        threads.into_iter().flat_map(|thread| thread.join().expect("each panic is caught")).collect()
    });
    assert!(broken.is_empty(), "inputs that break a promise of their reader:\n  {}\n", broken.join("\n  "));
}

#[test]
fn a_reader_that_breaks_its_promise_is_named_with_the_input() {
    let broken = broken("calls_strict", |bytes| assert!(!bytes.starts_with(b"<think>look"), "made up"));
    assert_eq!(broken.len(), 1);
    assert!(broken[0].ends_with("one-call"), "{broken:?}");
}
