#![no_main]

libfuzzer_sys::fuzz_target!(
    init: legwork_fuzz::on_a_library(legwork_fuzz::PAGE_MAX_BYTES),
    |bytes: &[u8]| legwork_fuzz::readers::worlds::foldagent(bytes)
);
