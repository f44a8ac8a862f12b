//! Every reader in one program, chosen by `LEGWORK_READER`: for a machine to which one small file is carried.
#![no_main]

use legwork_fuzz::readers::{READERS, Reader};
use legwork_fuzz::{ALLOCATION_MAX_BYTES, PAGE_MAX_BYTES, on_a_library};
use std::sync::OnceLock;

static CHOSEN: OnceLock<Reader> = OnceLock::new();

/// The reader that the environment names, on what its own target allows it.
fn chosen() -> Reader {
    let name = std::env::var("LEGWORK_READER").unwrap_or_default();
    match name.as_str() {
        "world_foldagent" | "retrieval_parquet" => on_a_library(PAGE_MAX_BYTES),
        "model_tokenizer" => on_a_library(ALLOCATION_MAX_BYTES),
        _ => {}
    }
    let reader = READERS.iter().find(|(known, _)| *known == name);
    reader.unwrap_or_else(|| panic!("LEGWORK_READER is {name:?}; it names one of fuzz/corpora")).1
}

libfuzzer_sys::fuzz_target!(
    init: { CHOSEN.get_or_init(chosen); },
    |bytes: &[u8]| CHOSEN.get_or_init(chosen)(bytes)
);
