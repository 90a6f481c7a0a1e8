//! Blocks and files: what is written is what is read, in as many bits as was promised, and other bytes are refused.

use super::*;
use crate::Error;
use crate::device::BLOCK_BYTES;
use crate::segment::{BODY_BYTES, SegmentWriter};
use xxhash_rust::xxh3::xxh3_128;

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]
    #[test]
    fn a_run_gives_back_what_was_written(
        (bits, model) in (16u32..=64).prop_flat_map(|bits| (Just(bits), models(bits))), is_ahead: bool,
    ) {
        let store = store();
        let info = write(store.files(), bits, &model);
        let run = open(store.files(), bits, &info);
        prop_assert_eq!(read(&run, is_ahead).unwrap(), listed(&model));
        let tombstones = model.values().filter(|&&count| count < 0).count() as u64;
        let occurrences: i64 = model.values().map(|&count| count.max(0)).sum();
        prop_assert_eq!((info.fingerprints, info.tombstones), (model.len() as u64, tombstones));
        prop_assert_eq!(info.occurrences, occurrences as u64);
        prop_assert_eq!((run.fingerprints(), run.tombstones()), (info.fingerprints, info.tombstones));
        prop_assert_eq!((run.occurrences(), run.blocks()), (info.occurrences, info.blocks));
        run.verify().unwrap();
    }

    #[test]
    fn batches_do_not_show(
        (bits, fingerprints) in (16u32..=64).prop_flat_map(|bits| (Just(bits), fingerprints(bits))),
        cuts in prop::collection::vec(1usize..3000, 1..20), is_behind: bool,
    ) {
        let store = store();
        let mut model = Model::new();
        fingerprints.iter().for_each(|&fingerprint| *model.entry(fingerprint).or_default() += 1);
        let whole = write(store.files(), bits, &model);
        let mut writer = RunWriter::create(store.files(), kind(bits), is_behind).unwrap();
        let (mut rest, mut cuts) = (&fingerprints[..], cuts.iter().cycle());
        while let Some(&cut) = cuts.next().filter(|_| !rest.is_empty()) {
            let (batch, after) = rest.split_at(cut.min(rest.len()));
            writer.push(batch).unwrap();
            rest = after;
        }
        let cut = writer.finish().unwrap();
        prop_assert_eq!((cut.blocks, cut.file.bytes), (whole.blocks, whole.file.bytes));
        let read_both = [whole, cut].map(|info| read(&open(store.files(), bits, &info), false).unwrap());
        prop_assert_eq!(&read_both[0], &listed(&model));
        prop_assert_eq!(&read_both[0], &read_both[1]);
    }

    #[test]
    fn bodies_that_no_writer_wrote_are_refused_or_in_order(
        model in models(40), flips in prop::collection::vec((0usize..400, any::<u8>()), 1..4), probes: [u64; 8],
    ) {
        let max = format::fingerprint_max(40);
        let mut entries = Entries::default();
        model.iter().for_each(|(&fingerprint, &count)| entries.push(fingerprint, count));
        let mut body = [0; BODY_BYTES];
        if !entries.is_empty() {
            encode::Cutter::new(entries.all()).cut(0, entries.len(), true, &mut body);
        }
        for (at, byte) in flips {
            // In the header and the exceptions more often than elsewhere.
            let at = if at < 100 { at % 16 } else if at < 200 { BODY_BYTES - 1 - at % 100 } else { at * 10 };
            body[at] ^= byte;
        }
        let mut found = Entries::default();
        if decode::decode(&body, max, &mut found).is_ok() {
            prop_assert!(found.fingerprints.is_sorted_by(|a, b| a < b) && found.fingerprints.last() <= Some(&max));
            prop_assert!(found.iter().all(|(_, count)| count != 0));
            let mut prober = decode::Prober::new(&body, max).unwrap();
            for (fingerprint, count) in found.iter() {
                prop_assert_eq!(prober.count(fingerprint).unwrap(), count);
            }
        } else if let Ok(mut prober) = decode::Prober::new(&body, max) {
            let mut probes = probes.map(|probe| probe & max);
            probes.sort_unstable();
            probes.iter().for_each(|&probe| { let _ = prober.count(probe); });
        }
    }

    #[test]
    fn noise_is_refused_or_in_order(head: [u8; 16], bytes in prop::collection::vec(any::<u8>(), 0..BODY_BYTES)) {
        let mut body = vec![0; BODY_BYTES];
        body[16..][..bytes.len().min(BODY_BYTES - 16)].copy_from_slice(&bytes[..bytes.len().min(BODY_BYTES - 16)]);
        for head in [head, [0, 0, 0, 0, 0, 0, 0, 0, head[0], head[1] % 4, 0, 0, head[2], 0, head[3] % 64, 0]] {
            body[..16].copy_from_slice(&head);
            let mut found = Entries::default();
            if decode::decode(&body, u64::MAX, &mut found).is_ok() {
                prop_assert!(found.fingerprints.is_sorted_by(|a, b| a < b));
            }
            if let Ok(mut prober) = decode::Prober::new(&body, u64::MAX) {
                [0, 1 << 20, 1 << 40, u64::MAX].into_iter().for_each(|probe| {
                    let _ = prober.count(probe);
                });
            }
        }
    }
}

#[test]
fn the_cost_is_below_r_and_two_and_a_half_bits() {
    let store = store();
    let n = 1_500_000;
    for bits in [21, 22, 24, 29, 32, 33, 44, 64] {
        let fingerprints = uniform(n, bits, 7);
        let mut writer = RunWriter::create(store.files(), kind(bits), false).unwrap();
        writer.push(&fingerprints).unwrap();
        let info = writer.finish().unwrap();
        let r = f64::from(bits) - (fingerprints.len() as f64).log2();
        let cost = info.file.bytes as f64 * 8.0 / fingerprints.len() as f64;
        assert!(cost <= r + 2.5, "{bits} bits: {cost} of r = {r}");
    }
}

#[test]
fn fingerprints_as_dense_as_793_million_in_42_bits_take_14_48_bits() {
    // Whole words of highs take an eightieth of a bit more: 28 bits of a block of 2,263 fingerprints.
    let n = 3_096_000;
    let store = store();
    let mut writer = RunWriter::create(store.files(), kind(34), false).unwrap();
    let fingerprints = uniform(n, 34, 11);
    writer.push(&fingerprints).unwrap();
    let info = writer.finish().unwrap();
    let bits = (info.blocks * BLOCK_BYTES as u64 * 8) as f64 / fingerprints.len() as f64;
    println!("{bits} bits a key in {} blocks", info.blocks);
    assert!(bits <= 14.482, "{bits} bits a key");
}

#[test]
fn counts_cost_little_where_few_and_two_bits_where_all_are_removals() {
    let store = store();
    let blocks = |count: &dyn Fn(u64) -> i64| {
        let model = uniform(200_000, 32, 3).into_iter().zip(0..).map(|(f, i)| (f, count(i))).collect();
        write(store.files(), 32, &model).blocks as f64
    };
    let plain = blocks(&|_| 1);
    assert!(blocks(&|i| if i % 100 == 0 { 2 } else { 1 }) < plain * 1.02);
    // 32 - 17.6 + 2 bits without them.
    assert!(blocks(&|_| -1) < plain * (18.6 / 16.4));
}

#[test]
fn a_run_has_the_bytes_of_its_version() {
    let device = Arc::new(MemoryDevice::new());
    let store = store_on(device.clone());
    let model: Model = uniform(9000, 40, 5)
        .into_iter()
        .zip(1..)
        .map(|(f, i)| (f, if i % 7 == 0 { i % 5 - 7 } else { 1 }))
        .collect();
    let run = run_of(store.files(), 40, &model);
    let mut bytes = run.segment.meta().to_vec();
    let numbers: Vec<u64> = (0..run.blocks()).collect();
    // Bodies without their seals, which have the store's random id in them.
    run.segment
        .read_blocks(&numbers, 1, &mut |_, body| {
            bytes.extend_from_slice(body);
            Ok(())
        })
        .unwrap();
    assert_eq!(format::STRUCTURE.version, 3, "a byte that changes bumps the version");
    assert_eq!(format!("{:032x}", xxh3_128(&bytes)), "ac0446b8ab9da5cc17a47fa1a83d259a");
    let [_, removed] = split_of(store.files(), 40, &model);
    bytes.truncate(0);
    bytes.extend_from_slice(removed.segment.meta());
    let mut scan = removed.segment.scan(0..removed.blocks()).unwrap();
    while let Some((_, body)) = scan.next_block().unwrap() {
        bytes.extend_from_slice(body);
    }
    assert_eq!(format!("{:032x}", xxh3_128(&bytes)), "e512500b8679ac3cedfe4c3dc855c5a7");
}

/// A copy of a run with the version of its structure changed, and its meta bytes.
fn copy_of(files: &Files, run: &FingerprintSegment, version: u16, meta: &[u8]) -> crate::store::FileRef {
    let structure = crate::store::Structure { version, ..format::STRUCTURE };
    let segment_kind = crate::segment::SegmentKind { structure, ..run.kind().segment_kind() };
    let mut writer = SegmentWriter::create(files, segment_kind).unwrap();
    let mut scan = run.segment.scan(0..run.blocks()).unwrap();
    while let Some((_, body)) = scan.next_block().unwrap() {
        let entries = decode_block(body, run.kind().fingerprint_bits).unwrap();
        let ends = [0, entries.len() - 1].map(|i| run.kind().hash(entries.fingerprints()[i]));
        writer.push_block(ends[0], ends[1], entries.len() as u64, body).unwrap();
    }
    writer.finish(meta).unwrap().file
}

#[test]
fn runs_of_version_1_are_read_on_and_signs_are_told_apart() {
    let store = store();
    let files = store.files();
    let model: Model = uniform(9000, 40, 5).into_iter().zip(1..).map(|(f, i)| (f, i % 3 - 1)).collect();
    let model: Model = model.into_iter().filter(|entry| entry.1 != 0).collect();
    // With tombstones, as version 1 had them.
    let run = run_of(files, 40, &model);
    let old = copy_of(files, &run, 1, run.segment.meta());
    assert_eq!(
        read(&FingerprintSegment::open(files, &old, kind(40)).unwrap(), false).unwrap(),
        listed(&model)
    );
    let newer = copy_of(files, &run, 4, run.segment.meta());
    let refused = FingerprintSegment::open(files, &newer, kind(40)).unwrap_err();
    assert!(matches!(refused, Error::UnsupportedVersion { found: 4, supported: 3, .. }), "{refused}");
    // Version 1 knew no runs of removals, and these have no tombstones.
    let [_, removed] = split_of(files, 40, &model);
    let refusals = [
        (1, removed.segment.meta().to_vec()),
        (2, {
            let mut meta = removed.segment.meta().to_vec();
            meta[8] = 1;
            meta
        }),
    ];
    for (version, meta) in refusals {
        let file = copy_of(files, &removed, version, &meta);
        let refused = FingerprintSegment::open(files, &file, removals(40)).unwrap_err();
        assert!(matches!(refused, Error::Corrupt { .. }), "{refused}");
    }
    for (run, other) in [(&run, removals(40)), (&removed, kind(40))] {
        let refused = FingerprintSegment::open(files, &run.file_ref(), other).unwrap_err();
        assert!(
            matches!(refused, Error::Incompatible { what: "what a run's counts are of", .. }),
            "{refused}"
        );
    }
    let mut writer = RunWriter::create(files, removals(40), false).unwrap();
    assert!(matches!(writer.push_counted(&[(1, -1)]), Err(Error::InvalidOption { name: "a count", .. })));
}

/// A block as version 2 had it, of one of this version that leaves room for that: the last word of the highs is whole.
fn with_whole_words(body: &[u8]) -> Vec<u8> {
    let (words, spare) = (usize::from(u16::from_le_bytes([body[12], body[13]])), usize::from(body[15]));
    let (highs, rest) = body.split_at(format::HEADER_BYTES + words * 8 - spare);
    assert!(rest.ends_with(&[0; 7]));
    let mut old = [highs, &[0; 7][..spare], &rest[..rest.len() - spare]].concat();
    old[15] = 0;
    old
}

#[test]
fn blocks_of_version_2_have_whole_words_of_highs() {
    let mut spares = [0; 8];
    for keys in 1..400u64 {
        let mut entries = Entries::default();
        let fingerprints = uniform(keys, 40, keys);
        fingerprints.iter().zip(1i64..).for_each(|(&f, i)| entries.push(f, 1 - i64::from(i % 7 == 0)));
        entries.retain(0, 0, |count| count != 0);
        let mut body = [0; BODY_BYTES];
        encode::Cutter::new(entries.all()).cut(0, entries.len(), true, &mut body).unwrap();
        spares[usize::from(body[15])] += 1;
        for body in [body.to_vec(), with_whole_words(&body)] {
            let mut found = Entries::default();
            decode::decode(&body, format::fingerprint_max(40), &mut found).unwrap();
            assert_eq!(found, entries);
            let mut prober = decode::Prober::new(&body, format::fingerprint_max(40)).unwrap();
            for (fingerprint, count) in entries.iter() {
                assert_eq!(prober.count(fingerprint).unwrap(), count);
            }
            assert_eq!(prober.count(u64::MAX >> 24).unwrap(), 0);
        }
    }
    assert!(spares.iter().all(|&blocks| blocks > 10), "{spares:?}");
    let mut body = [0; BODY_BYTES];
    let mut one = Entries::default();
    one.push(5, 1);
    encode::Cutter::new(one.all()).cut(0, 1, true, &mut body).unwrap();
    body[15] = 8;
    assert!(decode::Prober::new(&body, 99).is_err());
}

#[test]
fn every_flipped_byte_is_an_error_or_changes_nothing() {
    let device = Arc::new(MemoryDevice::new());
    let store = store_on(device.clone());
    let before = device.list().unwrap();
    let model: Model = uniform(3000, 36, 5)
        .into_iter()
        .zip(1..)
        .map(|(f, i)| (f, if i % 9 == 0 { -1 } else { 1 }))
        .collect();
    let info = write(store.files(), 36, &model);
    let name = device.list().unwrap().into_iter().find(|name| !before.contains(name)).unwrap();
    let file = device.open(&name, crate::device::Access::Write).unwrap();
    let probes: Vec<u64> = model.keys().copied().step_by(50).collect();
    let prefixes: Vec<u64> = probes.iter().map(|probe| probe << 28).collect();
    let expected: Vec<i64> = probes.iter().map(|probe| model[probe]).collect();
    let mut block = vec![0; BLOCK_BYTES];
    let mut refused = 0;
    for at in 0..info.file.bytes as usize {
        let offset = (at / BLOCK_BYTES * BLOCK_BYTES) as u64;
        file.read(offset, &mut block).unwrap();
        block[at % BLOCK_BYTES] ^= 1 << (at % 8);
        file.write(offset, &block).unwrap();
        let run = FingerprintSegment::open(store.files(), &info.file, kind(36));
        match run.and_then(|run| {
            let mut counts = vec![0; probes.len()];
            count_many(store.files(), &[&run], &prefixes, 4, &mut counts)?;
            assert_eq!(counts, expected, "byte {at}");
            read(&run, false)
        }) {
            Ok(entries) => assert_eq!(entries, listed(&model), "byte {at}"),
            Err(Error::Corrupt { at: told, .. }) => {
                assert_eq!(told / BLOCK_BYTES as u64 * BLOCK_BYTES as u64, offset, "byte {at}");
                refused += 1;
            }
            Err(other) => panic!("byte {at}: {other}"),
        }
        block[at % BLOCK_BYTES] ^= 1 << (at % 8);
        file.write(offset, &block).unwrap();
    }
    assert_eq!(refused, info.file.bytes, "all blocks are read, so all flips are found");
}

#[test]
fn forged_meta_bytes_are_refused() {
    let good = format::Meta { fingerprint_bits: 33, sign: Sign::Insertions, tombstones: 4, occurrences: 9 };
    for version in [1, 2, 3] {
        assert_eq!(format::Meta::decode(&good.encode(), 10, version).unwrap(), good);
    }
    let removed = format::Meta { sign: Sign::Removals, tombstones: 0, occurrences: 10, ..good };
    assert_eq!(format::Meta::decode(&removed.encode(), 10, 2).unwrap(), removed);
    assert!(format::Meta::decode(&removed.encode(), 10, 1).is_err());
    for (at, byte) in [(0, 0), (0, 65), (1, 1), (1, 2), (2, 1), (7, 9), (8, 11), (16, 5)] {
        let mut bad = good.encode();
        bad[at] = byte;
        assert!(matches!(format::Meta::decode(&bad, 10, 2), Err(Error::Corrupt { .. })), "{at}");
    }
    for length in 0..24 {
        assert!(format::Meta::decode(&good.encode()[..length], 10, 2).is_err());
    }
}

/// A run whose seals are right and whose blocks are not those of a writer.
fn forged(
    files: &Files,
    blocks: &[(u64, u64, [u8; BODY_BYTES])],
    meta: &[u8],
) -> crate::Result<FingerprintSegment> {
    let mut writer = SegmentWriter::create(files, kind(30).segment_kind()).unwrap();
    for (first, last, body) in blocks {
        writer.push_block(*first << 34, *last << 34, 2, body).unwrap();
    }
    let info = writer.finish(meta).unwrap();
    FingerprintSegment::open(files, &info.file, kind(30))
}

#[test]
fn a_forged_run_is_refused_where_it_would_lead_astray() {
    let store = store();
    let body = |fingerprints: [u64; 2]| {
        let mut entries = Entries::default();
        fingerprints.into_iter().for_each(|fingerprint| entries.push(fingerprint, 1));
        let mut body = [0; BODY_BYTES];
        assert_eq!(encode::Cutter::new(entries.all()).cut(0, 2, true, &mut body), Some(2));
        body
    };
    let meta = format::Meta { fingerprint_bits: 30, sign: Sign::Insertions, tombstones: 0, occurrences: 4 };
    let of = |blocks: &[(u64, u64, [u8; BODY_BYTES])], meta: format::Meta| {
        forged(store.files(), blocks, &meta.encode())
    };
    let good = [(3, 5, body([3, 5])), (7, 9, body([7, 9]))];
    of(&good, meta).unwrap().verify().unwrap();
    // The same block again, one that begins with the last fingerprint, and one of longer fingerprints.
    for second in [body([3, 5]), body([5, 6]), body([7, 1 << 30])] {
        let run = of(&[good[0], (7, 9, second)], meta).unwrap();
        assert!(matches!(read(&run, false), Err(Error::Corrupt { at: 4096, .. })));
        let merge = Merge::new(
            store.files(),
            kind(30),
            &[Source::Flash(&run)],
            0..=u64::MAX,
            MergeOptions::default(),
        )
        .unwrap();
        assert!(matches!(merge.finish(), Err(Error::Corrupt { at: 4096, .. })));
        assert!(matches!(run.verify(), Err(Error::Corrupt { .. })));
        // A lookup sees one block: it says what that block says, or that it is damaged.
        let mut counts = [0; 2];
        let _ = count_many(store.files(), &[&run], &[7 << 34, 9 << 34], 1, &mut counts);
    }
    let other = of(&good, format::Meta { occurrences: 5, ..meta }).unwrap();
    assert!(matches!(other.verify(), Err(Error::Corrupt { .. })));
    let bits = of(&good, format::Meta { fingerprint_bits: 29, ..meta });
    assert!(matches!(bits, Err(Error::Incompatible { .. })));
    assert!(matches!(forged(store.files(), &good, b""), Err(Error::Corrupt { .. })));
    let mut writer = SegmentWriter::create(store.files(), kind(30).segment_kind()).unwrap();
    writer.push_block(3 << 34, (9 << 34) + 1, 4, &good[0].2).unwrap();
    let info = writer.finish(&meta.encode()).unwrap();
    assert!(matches!(
        FingerprintSegment::open(store.files(), &info.file, kind(30)),
        Err(Error::Corrupt { .. })
    ));
}

#[test]
fn what_is_out_of_order_too_long_or_nothing_is_refused() {
    let store = store();
    let refused = |push: &dyn Fn(&mut RunWriter) -> crate::Result<()>| {
        let mut writer = RunWriter::create(store.files(), kind(16), false).unwrap();
        writer.push(&[5, 9]).unwrap();
        let is_refused = matches!(push(&mut writer), Err(Error::InvalidOption { .. }));
        is_refused && matches!(writer.finish(), Err(Error::InvalidOption { .. }))
    };
    assert!(refused(&|writer| writer.push(&[8])));
    assert!(refused(&|writer| writer.push(&[10, 12, 11, 13])));
    assert!(refused(&|writer| writer.push(&[1 << 16])));
    assert!(refused(&|writer| writer.push_counted(&[(9, 1)])), "a counted one is there once");
    assert!(refused(&|writer| writer.push_counted(&[(10, 0)])));
    assert!(refused(&|writer| writer.push_counted(&[(10, 1), (10, 1)])));
    assert!(refused(&|writer| writer.push_counted(&[(10, -1)]).and_then(|()| writer.push(&[10]))));
    assert!(!refused(&|writer| writer.push(&[9, 9, u16::MAX.into()])));
    for bits in [0, 65] {
        assert!(RunWriter::create(store.files(), kind(bits), false).is_err());
    }
}

#[test]
fn another_kind_of_fingerprint_is_incompatible() {
    let store = store();
    let info = write(store.files(), 30, &Model::from([(1, 1), (1 << 29, 2)]));
    let open = |kind| FingerprintSegment::open(store.files(), &info.file, kind).map(|_| ());
    open(kind(30)).unwrap();
    for other in [
        kind(31),
        RunKind { seed_fingerprint: 1, ..kind(30) },
        RunKind { hash_kind: HashKind::SipHash13, ..kind(30) },
    ] {
        assert!(matches!(open(other), Err(Error::Incompatible { .. })));
        let run = FingerprintSegment::open(store.files(), &info.file, kind(30)).unwrap();
        let merge =
            Merge::new(store.files(), other, &[Source::Flash(&run)], 0..=u64::MAX, MergeOptions::default());
        assert!(matches!(merge, Err(Error::Incompatible { .. })));
    }
}
