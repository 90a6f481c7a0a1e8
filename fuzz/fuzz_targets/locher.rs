//! libFuzzer's entry to the target `locher`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    overbank_fuzz::targets::locher::TARGET.call(data);
});
