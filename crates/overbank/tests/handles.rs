//! What a store opens is shared by threads.

use overbank::sketch::{CountMin, DdSketch, HyperLogLog, SpaceSaving};
use overbank::{Filter, Frequency, FrequencyWindow, Maplet, Profile, Store, Stored};

fn is_handle<T: Clone + Send + Sync + 'static>() {}

#[test]
fn handles_are_cloned_and_shared_by_threads() {
    is_handle::<Store>();
    is_handle::<Filter>();
    is_handle::<Maplet>();
    is_handle::<Frequency>();
    is_handle::<FrequencyWindow>();
    is_handle::<Profile>();
    is_handle::<Stored<CountMin<u32>>>();
    is_handle::<Stored<CountMin<u64>>>();
    is_handle::<Stored<HyperLogLog>>();
    is_handle::<Stored<SpaceSaving>>();
    is_handle::<Stored<DdSketch>>();
    is_handle::<Stored<overbank::filter::QuotientFilter>>();
}

#[test]
fn what_is_not_a_handle_still_moves_between_threads() {
    fn moves<T: Send + Sync + 'static>() {}
    moves::<overbank::store::VerifyReport>();
    moves::<overbank::Error>();
}
