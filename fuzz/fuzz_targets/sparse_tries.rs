//! libFuzzer's entry to the target `sparse_tries`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    overbank_fuzz::targets::sparse_tries::TARGET.call(data);
});
