//! libFuzzer's entry to the target `elastic`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    overbank_fuzz::targets::elastic::TARGET.call(data);
});
