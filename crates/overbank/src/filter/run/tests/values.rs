//! Values under keys against an ordered map.

use super::*;
use crate::Error;
use crate::device::sim::SimDevice;

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, ..ProptestConfig::default() })]
    #[test]
    fn values_are_those_of_all_sources(
        families in prop::collection::vec((18u32..=64).prop_flat_map(|bits| (Just(bits), models(bits))), 1..4),
        on_flash: [bool; 4], value_bits in 0u32..10, probes in prop::collection::vec(any::<u64>(), 0..40),
        stride in 1usize..50, depth in 1usize..40,
    ) {
        let store = store();
        let families: Vec<(u32, Model)> =
            families.into_iter().map(|(bits, model)| (bits, packed::small(model))).collect();
        let runs: Vec<FingerprintSegment> = families.iter().map(|(bits, model)| run_of(store.files(), *bits, model)).collect();
        let sources: Vec<Source<'_>> = (runs.iter().zip(&families).zip(on_flash))
            .map(|((run, (bits, model)), on_flash)| match on_flash {
                true => Source::Flash(run),
                false => Source::Memory(packed::packed(*bits, model)),
            })
            .collect();
        let mut asked = probes;
        for (bits, model) in &families {
            let near = |&fingerprint: &u64| [fingerprint, fingerprint.saturating_sub(1), fingerprint];
            asked.extend(model.keys().step_by(stride).flat_map(near).map(|fingerprint| fingerprint << (64 - bits)));
        }
        asked.sort_unstable();
        let values = values_many(store.files(), &sources, value_bits, &asked, depth).unwrap();
        prop_assert_eq!((values.len(), values.is_empty()), (asked.len(), asked.is_empty()));
        for (i, prefix) in asked.iter().enumerate() {
            let mut expected = BTreeMap::<u64, i64>::new();
            for (bits, model) in &families {
                let key = prefix >> (64 - (bits - value_bits));
                let (first, last) = (key << value_bits, key << value_bits | ((1 << value_bits) - 1));
                for (fingerprint, count) in model.range(first..=last) {
                    *expected.entry(fingerprint - first).or_default() += count;
                }
            }
            expected.retain(|_, &mut count| count != 0);
            prop_assert_eq!(values.of(i), &listed(&expected)[..], "{:#x}", prefix);
        }
    }
}

#[test]
fn a_key_costs_a_block_of_each_run_and_seldom_two() {
    let device = SimDevice::new(1);
    let store = store_on(Arc::new(device.clone()));
    let runs = [1, 2].map(|seed| {
        run_of(store.files(), 44, &uniform(400_000, 44, seed).into_iter().map(|f| (f, 1)).collect())
    });
    let sources = runs.each_ref().map(Source::Flash);
    let asked = uniform(2000, 44, 1);
    device.reset_counts();
    for fingerprint in &asked {
        values_many(store.files(), &sources, 4, &[fingerprint << 20], 1).unwrap();
    }
    // A second block is read where the key's entry is the first of its block: of 2000, each with 1 in about 1190 entries of a block.
    // More than 20 have a probability below 1e-9.
    let read = device.io_counts().blocks_read;
    assert!((4000..=4020).contains(&read), "{read}");
}

#[test]
fn values_as_long_as_fingerprints_are_refused() {
    let store = store();
    let run = packed::packed(20, &Model::from([(5, 1)]));
    let ask = |value_bits, asked: &[u64]| {
        values_many(store.files(), &[Source::Memory(run.clone())], value_bits, asked, 1)
            .map(|values| values.of(0).to_vec())
    };
    assert_eq!(ask(19, &[3]).unwrap(), [(5, 1)]);
    assert_eq!(ask(0, &[5 << 44]).unwrap(), [(0, 1)]);
    assert!(matches!(ask(20, &[3]), Err(Error::InvalidOption { .. })));
    assert!(matches!(ask(4, &[3, 2]), Err(Error::InvalidOption { .. })));
}
