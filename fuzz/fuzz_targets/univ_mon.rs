//! libFuzzer's entry to the target `univ_mon`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    overbank_fuzz::targets::univ_mon::TARGET.call(data);
});
