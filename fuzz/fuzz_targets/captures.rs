//! libFuzzer's entry to the target `captures`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    overbank_fuzz::targets::captures::TARGET.call(data);
});
