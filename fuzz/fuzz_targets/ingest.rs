//! libFuzzer's entry to the target `ingest`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    overbank_fuzz::targets::ingest::TARGET.call(data);
});
