//! The byte census: one bit of many bytes of every file of a dictionary; files that are cut short; states that no commit wrote; the bytes
//! of this version.

use super::super::format;
use super::*;
use crate::Error;
use crate::device::{Access, Device};
use crate::dictionary::Compression;
use crate::lsm::{Merging, Size, Span, StoredRun, StoredTree};
use crate::store::{FileId, FileRef, Record};

/// A dictionary of three runs, one of them with deletions and operands, some values longer than a page; all its keys and values.
fn committed(compression: Compression) -> (Arc<SimDevice>, Model) {
    let (device, store) = simulated(0);
    let options = DictionaryOptions::new().compression(compression).merge_operator(MergeOperator::Append);
    let dictionary = small(&store, options, u128::MAX).unwrap();
    let mut model = Model::new();
    // Each less than a fifth of the one before.
    for (numbers, written) in [(0..400, 1), (90..150, 2), (140..150, 3)] {
        let (keys, values) = pairs(numbers, written, false);
        dictionary.insert_many(&keys, &values).unwrap();
        model.extend(keys.into_iter().zip(values));
        if written == 2 {
            let (removed, operands) = pairs(10..20, 4, false);
            dictionary.remove_many(&removed[..5]).unwrap();
            dictionary.merge_many(&removed[3..], &operands[3..]).unwrap();
            removed[..5].iter().for_each(|key| drop(model.remove(key)));
            let merged = removed[3..].iter().zip(&operands[3..]);
            merged.for_each(|(key, operand)| apply(&mut model, Some(MergeOperator::Append), key, operand));
        }
        dictionary.flush().unwrap();
    }
    let runs = dictionary.report().runs;
    assert!(runs.len() >= 2, "{runs:?}");
    store.commit(b"x").unwrap();
    assert!(scanned(&dictionary) == model);
    (device, model)
}

/// Asks in each way, and verifies; how much of that was corrupt.
fn ask(image: &SimDevice, model: &Model, place: &str) -> u32 {
    let mut corrupt = 0;
    let mut refused = |error: Error| {
        assert!(matches!(error, Error::Corrupt { .. }), "{place}: {error}");
        corrupt += 1;
    };
    let store = match Store::open_read_only_on(Arc::new(image.clone()), store_options(0)) {
        Ok(store) => store,
        Err(error) => {
            refused(error);
            return corrupt;
        }
    };
    assert!(!store.verify().unwrap().is_whole(), "{place} is not verified");
    let dictionary = match small(&store, DictionaryOptions::new(), u128::MAX) {
        Ok(dictionary) => dictionary,
        Err(error) => {
            refused(error);
            return corrupt;
        }
    };
    if let Err(error) = dictionary.verify() {
        refused(error);
    }
    let (keys, _) = pairs(0..420, 0, false);
    match dictionary.get_many(&keys) {
        Ok(found) => {
            let expected = keys.iter().map(|key| model.get(key).cloned());
            assert!(found.into_iter().eq(expected), "{place}: a wrong answer");
        }
        Err(error) => refused(error),
    }
    for key in keys.iter().step_by(37) {
        match dictionary.get(key) {
            Ok(found) => assert_eq!(found.as_ref(), model.get(key), "{place}: a wrong answer"),
            Err(error) => refused(error),
        }
    }
    match dictionary.scan().and_then(Iterator::collect::<crate::Result<Model>>) {
        Ok(found) => assert!(found == *model, "{place}: a wrong scan"),
        Err(error) => refused(error),
    }
    corrupt
}

fn segments(device: &SimDevice) -> Vec<(String, u64)> {
    let names = device.list().unwrap().into_iter().filter(|name| name.ends_with(".seg"));
    let length = |name: &str| device.fork().open(name, Access::Read).unwrap().len_bytes().unwrap();
    names.map(|name| (name.clone(), length(&name))).collect()
}

fn census(compression: Compression, step: u64) {
    let (device, model) = committed(compression);
    let (mut flipped, mut answered) = (0, 0);
    for (name, bytes) in segments(&device) {
        // What of each block begins it, whole; of the rest some.
        let near = |byte: &u64| byte % 4096 < 24 || byte.is_multiple_of(step);
        for byte in (0..bytes).filter(near) {
            let image = device.fork();
            assert!(image.flip_bit(&name, byte * 8 + byte % 8));
            // Some answers do not need what was flipped; who opens or verifies all sees it.
            let corrupt = ask(&image, &model, &format!("byte {byte} of {name}"));
            assert!(corrupt > 0, "byte {byte} of {name} is not seen");
            (flipped, answered) = (flipped + 1, answered + u32::from(corrupt == 1));
        }
    }
    println!(
        "{compression:?}: {flipped} bytes flipped, of which {answered} stood in the way of the opening or of no answer"
    );
}

#[test]
fn a_flipped_bit_is_corrupt_or_harmless_but_never_a_wrong_answer() {
    census(Compression::None, 127);
    for packed in [Compression::Lz4, Compression::Zstd] {
        if packed.check().is_ok() {
            census(packed, 509);
        }
    }
}

#[test]
fn a_file_that_is_cut_short_is_corrupt() {
    let (device, model) = committed(Compression::None);
    for (name, bytes) in segments(&device) {
        for blocks in 0..bytes / 4096 {
            let image = device.fork();
            let file = image.open(&name, Access::Write).unwrap();
            file.set_len(blocks * 4096).unwrap();
            let corrupt = ask(&image, &model, &format!("{blocks} blocks of {name}"));
            assert!(corrupt > 0, "{blocks} blocks of {name}");
        }
    }
}

#[test]
fn a_merge_of_a_damaged_run_is_corrupt_and_loses_nothing() {
    let (device, _) = committed(Compression::None);
    let store = Store::open_on(device.clone(), store_options(0)).unwrap();
    let dictionary = small(&store, DictionaryOptions::new(), u128::MAX).unwrap();
    let (keys, _) = pairs(0..420, 0, false);
    let answers =
        || -> Vec<Option<Option<Vec<u8>>>> { keys.iter().map(|key| dictionary.get(key).ok()).collect() };
    // A page that is still asked for some keys.
    let damaged = segments(&device).into_iter().find_map(|(name, _)| {
        assert!(device.flip_bit(&name, 999));
        let before = answers();
        let is_asked = before.contains(&None) && before.iter().any(Option::is_some);
        is_asked.then_some(before).or_else(|| {
            assert!(device.flip_bit(&name, 999));
            None
        })
    });
    let before = damaged.expect("a run whose first page is asked");
    let mut files = Vec::new();
    for turn in 0..3 {
        assert!(matches!(dictionary.compact(), Err(Error::Corrupt { .. })));
        assert!(answers() == before, "turn {turn}");
        // What is not damaged may have become one run; then nothing changes any more.
        let last = std::mem::replace(&mut files, device.list().unwrap());
        assert!(turn < 2 || files == last);
    }
}

/// Two runs, of which the older is in two files, and half a merge of them to a third.
fn stored_tree() -> (StoredTree<()>, Vec<FileRef>) {
    let file = |id: u64| FileRef { id: FileId(id), bytes: id * 4096, xxh3: u128::from(id) << 64 };
    let run = |id: u64, files: Vec<FileRef>| StoredRun {
        id,
        class: (),
        span: Span { oldest: 2 * id, newest: 2 * id + 1 },
        level: id as i32 - 1,
        files,
        replaced: Size::default(),
    };
    let mut runs = vec![run(0, vec![file(3), file(4)]), run(1, vec![file(5)]), run(2, vec![file(6)])];
    runs[0].replaced = Size { entries: 3, tombstones: 1, occurrences: 2, ..Size::default() };
    // The merge's output spans its inputs.
    runs[2].span = Span { oldest: 0, newest: 3 };
    let merges = vec![Merging { inputs: vec![0, 1], output: 2, border: 1 << 63 }];
    let tree = StoredTree { memtables: 9, runs, merges };
    let files = tree.files();
    (tree, files)
}

fn stored() -> (Vec<u8>, Vec<FileRef>) {
    let options = DictionaryOptions::new()
        .memory_bytes(32 << 20)
        .page_bytes(16 << 10)
        .merge_operator(MergeOperator::Max(crate::dictionary::Numbers::Text))
        .ranks(true);
    let (tree, files) = stored_tree();
    (format::encode(&options, &tree), files)
}

#[test]
fn state_that_no_commit_wrote_is_corrupt_and_nothing_else() {
    let (device, _) = committed(Compression::None);
    let store = Store::open_on(device, store_options(0)).unwrap();
    let Record { state, files } = store.record("d").unwrap().record;
    for (bytes, files) in [(state, files), stored()] {
        let (options, tree) = format::decode(&bytes, &files).unwrap();
        assert!(format::encode(&options, &tree) == bytes);
        for len in 0..bytes.len() {
            assert!(
                matches!(format::decode(&bytes[..len], &files), Err(Error::Corrupt { .. })),
                "{len} bytes"
            );
        }
        for (at, value) in (0..bytes.len()).flat_map(|at| [(at, 0u8), (at, 1), (at, 0x7f), (at, 0xff)]) {
            let mut forged = bytes.clone();
            forged[at] = value;
            match format::decode(&forged, &files) {
                Ok((options, tree)) => {
                    assert_eq!(format::encode(&options, &tree), forged, "byte {at} = {value}");
                }
                Err(Error::Corrupt { .. } | Error::UnsupportedVersion { .. }) => {}
                Err(error) => panic!("byte {at} = {value}: {error}"),
            }
        }
        // Without some of the files, or with others beside.
        assert!(matches!(format::decode(&bytes, &files[1..]), Err(Error::Corrupt { .. })));
        let more = [&files[..], &files[..1]].concat();
        assert!(matches!(format::decode(&bytes, &more), Err(Error::Corrupt { .. })));
    }
}

#[test]
fn the_bytes_of_a_record_are_those_of_format_version_1() {
    let (bytes, _) = stored();
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(hex, GOLDEN, "other bytes need another version");
}

const GOLDEN: &str = "4f42646901000000000000020000000004000000000501000900000000000000\
    0300000001000000ffffffff0200000000000000000000000100000000000000\
    0000000001000000020000000000000003000000000000000100000001000000\
    0000000000000000030000000000000000000000000000800200000002000000\
    0000000000000000030000000000000001000000000000000200000000000000\
    0100000000000000000000000000000000000000000000000000000000000000";

#[test]
fn the_store_tells_of_a_dictionary_and_verifies_it() {
    let (device, model) = committed(Compression::None);
    for read_only in [false, true] {
        let open = if read_only { Store::open_read_only_on } else { Store::open_on };
        let store = open(device.clone(), store_options(0)).unwrap();
        let [info] = &store.summaries()[..] else { panic!("one structure") };
        let files = store.record("d").unwrap().record.files;
        let bytes: u64 = files.iter().map(|file| file.bytes).sum();
        assert_eq!((info.name.as_str(), info.files), ("d", files.len()));
        assert_eq!(info.bytes, bytes + store.record("d").unwrap().record.state.len() as u64);
        let report = store.verify().unwrap();
        assert!(report.is_whole() && report.unchecked_blocks == 0, "{report:?}");
        assert!(report.blocks >= bytes / 4096, "{report:?}");
        let options = Dictionary::stored_options(&store, "d").unwrap();
        assert_eq!(options.chosen_operator(), Some(MergeOperator::Append));
        let dictionary = small(&store, DictionaryOptions::new(), u128::MAX).unwrap();
        dictionary.verify().unwrap();
        assert!(scanned(&dictionary) == model);
    }
}
