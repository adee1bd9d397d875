//! See `varve_fuzz::TARGETS`.
#![no_main]
libfuzzer_sys::fuzz_target!(|data: &[u8]| varve_fuzz::run("history", data));
