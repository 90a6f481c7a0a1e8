//! libFuzzer's entry to the target `planted`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    overbank_fuzz::targets::planted::TARGET.call(data);
});
