#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| legwork_fuzz::readers::rows::any(bytes));
