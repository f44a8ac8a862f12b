#![no_main]
// The parquet library panics over some damaged pages and our reader catches that: only a panic that gets out of the
// reader may end the process.
libfuzzer_sys::fuzz_target!(
    init: std::panic::set_hook(Box::new(|_| ())),
    |bytes: &[u8]| legwork_fuzz::readers::worlds::foldagent(bytes)
);
