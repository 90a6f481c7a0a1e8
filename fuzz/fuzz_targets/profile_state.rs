//! libFuzzer's entry to the target `profile_state`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    overbank_fuzz::targets::profile_state::TARGET.call(data);
});
