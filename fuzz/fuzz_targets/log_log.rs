//! libFuzzer's entry to the target `log_log`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    overbank_fuzz::targets::log_log::TARGET.call(data);
});
