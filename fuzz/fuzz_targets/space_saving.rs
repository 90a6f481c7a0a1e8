//! libFuzzer's entry to the target `space_saving`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    overbank_fuzz::targets::space_saving::TARGET.call(data);
});
