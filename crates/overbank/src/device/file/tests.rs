//! Every test runs on each engine, with and without O_DIRECT, on the disk and on tmpfs, wherever the machine allows it.

mod strangers;

use super::*;
use crate::device::{AlignedBuf, BLOCK_BYTES, ReadRequest};
use proptest::prelude::*;
use std::sync::atomic::{AtomicUsize, Ordering};
use tempfile::TempDir;

const BLOCK: u64 = BLOCK_BYTES as u64;

/// Runs `test` on every kind of device this machine allows, each over an empty directory.
fn on_every_device(test: impl Fn(&FileDevice)) {
    let mut ran = 0;
    let of = |engine, direct| FileOptions::new().engine(engine).direct(direct);
    for options in [
        of(Engine::IoUring, Direct::On),
        of(Engine::IoUring, Direct::Off),
        of(Engine::Threads, Direct::On),
        of(Engine::Threads, Direct::Off),
        of(Engine::Auto, Direct::Auto),
        of(Engine::Auto, Direct::Auto).portable(true),
    ] {
        for scratch in scratches() {
            match FileDevice::open(scratch.path(), options) {
                Ok(device) => {
                    ran += 1;
                    test(&device);
                }
                Err(Error::InvalidOption { name, why, .. }) => eprintln!("skipped: {name}: {why}"),
                Err(e) => panic!("{options:?}: {e}"),
            }
        }
    }
    assert!(ran >= 4, "threads work everywhere, so at least these ran");
}

fn scratches() -> Vec<TempDir> {
    let mut scratches = vec![TempDir::new().unwrap()];
    scratches.extend(TempDir::new_in("/dev/shm").ok());
    scratches
}

/// Block `i` of a test file: its number in every word.
fn block(i: u64) -> Vec<u8> {
    i.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes().repeat(BLOCK_BYTES / 8)
}

fn file_of(device: &FileDevice, name: &str, blocks: u64) -> Arc<dyn DeviceFile> {
    let file = device.create(name).unwrap();
    let data: Vec<u8> = (0..blocks).flat_map(block).collect();
    file.write(0, &data).unwrap();
    file
}

/// A handle to what no device opens as a file.
fn special(path: &str) -> FileHandle {
    let file = std::fs::File::options().read(true).write(true).open(path).unwrap();
    let opened = Opened { file, name: path.into(), path: path.into(), direct: false };
    FileHandle::new(opened, Arc::new(Batcher::Threads(pool::ThreadPool::new(1))))
}

fn is_past_end(error: &Error) -> bool {
    matches!(error, Error::Corrupt { what: "the file's length", .. })
}

#[test]
fn what_is_written_is_read_back_through_any_buffer() {
    on_every_device(|device| {
        let file = file_of(device, "a", 700);
        assert_eq!(file.len_bytes().unwrap(), 700 * BLOCK);
        // An unaligned buffer longer than a bounce piece, and an aligned one.
        let mut odd = vec![0u8; 600 * BLOCK_BYTES + 1];
        file.read(50 * BLOCK, &mut odd[1..]).unwrap();
        let mut even = AlignedBuf::zeroed(600 * BLOCK_BYTES);
        file.read(50 * BLOCK, &mut even).unwrap();
        let expected: Vec<u8> = (50..650).flat_map(block).collect();
        assert!(odd[1..] == expected && *even == expected);
        file.write(650 * BLOCK, &even).unwrap();
        let mut last = vec![0u8; BLOCK_BYTES];
        file.read(1249 * BLOCK, &mut last).unwrap();
        assert_eq!(last, block(649));
        file.sync().unwrap();
        file.read(0, &mut []).unwrap();
    });
}

#[test]
fn a_batch_over_several_files_reads_each_place_of_each() {
    on_every_device(|device| {
        let files: Vec<_> = (0..5).map(|i| file_of(device, &format!("f{i}"), 40 + i)).collect();
        // Other offsets in every file; the last block of file `i` is block 39 + i.
        let place = |i: u64| (i % 5, (i * 7) % (40 + i % 5), 1 + (i % 2) as u32);
        let reads: Vec<FileRead<'_>> = (0..400)
            .map(place)
            .filter(|&(file, at, blocks)| at + u64::from(blocks) <= 40 + file)
            .map(|(file, at, blocks)| FileRead {
                file: &*files[file as usize],
                request: ReadRequest { offset: at * BLOCK, bytes: blocks * BLOCK_BYTES as u32 },
            })
            .collect();
        for depth in [1, 8, 128] {
            let mut seen = vec![0; reads.len()];
            device
                .read_many(&reads, depth, &mut |i, bytes| {
                    seen[i] += 1;
                    let first = reads[i].request.offset / BLOCK;
                    let blocks = bytes.len() as u64 / BLOCK;
                    assert_eq!(bytes, (first..first + blocks).flat_map(block).collect::<Vec<u8>>());
                    Ok(())
                })
                .unwrap();
            assert!(seen.iter().all(|&times| times == 1));
        }
        // The error names the file that was too short.
        let beyond = FileRead { file: &*files[3], request: ReadRequest { offset: 43 * BLOCK, bytes: 4096 } };
        let outcome = device.read_many(&[reads[0], beyond, reads[1]], 4, &mut |_, _| Ok(()));
        assert!(outcome.is_err_and(|error| is_past_end(&error) && error.to_string().contains("f3")));
        device.read_many(&[], 4, &mut |_, _| Ok(())).unwrap();
    });
}

#[test]
fn unaligned_offsets_and_lengths_are_refused() {
    on_every_device(|device| {
        let file = file_of(device, "a", 4);
        let refused = |outcome: Result<()>| assert!(matches!(outcome, Err(Error::InvalidOption { .. })));
        refused(file.read(1, &mut [0; BLOCK_BYTES]));
        refused(file.read(0, &mut [0; 100]));
        refused(file.write(512, &[0; BLOCK_BYTES]));
        refused(file.write(0, &[0; 4097]));
        refused(file.read_many(&[ReadRequest { offset: 7, bytes: 4096 }], 4, &mut |_, _| Ok(())));
        refused(file.read_many(&[ReadRequest { offset: 0, bytes: 4000 }; 3], 4, &mut |_, _| Ok(())));
    });
}

#[test]
fn reading_past_the_end_is_corrupt_also_in_a_file_that_was_cut() {
    on_every_device(|device| {
        let file = file_of(device, "a", 8);
        let mut two = [0u8; 2 * BLOCK_BYTES];
        assert!(is_past_end(&file.read(8 * BLOCK, &mut two).unwrap_err()));
        assert!(is_past_end(&file.read(7 * BLOCK, &mut two).unwrap_err()));
        assert!(is_past_end(&file.read(u64::MAX - BLOCK + 1, &mut two).unwrap_err()));
        assert!(is_past_end(&file.read(1 << 62, &mut two).unwrap_err()) || cfg!(not(target_os = "linux")));
        file.set_len(7 * BLOCK + 100).unwrap();
        assert_eq!(file.len_bytes().unwrap(), 7 * BLOCK + 100);
        assert!(is_past_end(&file.read(6 * BLOCK, &mut two).unwrap_err()));
        file.read(5 * BLOCK, &mut two).unwrap();
        for depth in [1, 2, 32] {
            for bad in [
                ReadRequest { offset: 6 * BLOCK, bytes: 2 * BLOCK_BYTES as u32 },
                ReadRequest { offset: 9 * BLOCK, bytes: BLOCK_BYTES as u32 },
                ReadRequest { offset: u64::MAX - BLOCK + 1, bytes: BLOCK_BYTES as u32 },
            ] {
                let mut requests = vec![ReadRequest { offset: 0, bytes: BLOCK_BYTES as u32 }; 40];
                requests[17] = bad;
                let mut seen = 0;
                let error = file
                    .read_many(&requests, depth, &mut |i, _| {
                        assert_ne!(i, 17);
                        seen += 1;
                        Ok(())
                    })
                    .unwrap_err();
                assert!(is_past_end(&error), "{error}");
                assert!(seen < 40);
            }
        }
        file.set_len(9 * BLOCK).unwrap();
        file.read(7 * BLOCK, &mut two).unwrap();
        assert!(two[100..].iter().all(|&b| b == 0), "what a file grows by is zeros");
    });
}

#[test]
fn a_batch_calls_back_once_for_each_request_with_its_bytes() {
    on_every_device(|device| {
        let blocks = 300;
        let file = file_of(device, "a", blocks);
        for depth in [0, 1, 2, 3, 7, 32, 128, 1000] {
            let requests: Vec<ReadRequest> = (0..500u64)
                .map(|i| {
                    let length = i % 4;
                    let first = i.wrapping_mul(7919) % (blocks - length);
                    ReadRequest { offset: first * BLOCK, bytes: length as u32 * BLOCK_BYTES as u32 }
                })
                .collect();
            let mut times = vec![0; requests.len()];
            file.read_many(&requests, depth, &mut |i, bytes| {
                times[i] += 1;
                let first = requests[i].offset / BLOCK;
                let expected: Vec<u8> =
                    (first..first + u64::from(requests[i].bytes) / BLOCK).flat_map(block).collect();
                assert!(bytes == expected, "request {i} at depth {depth}");
                Ok(())
            })
            .unwrap();
            assert!(times.iter().all(|&t| t == 1), "depth {depth}: {times:?}");
        }
        file.read_many(&[], 8, &mut |_, _| panic!("nothing was asked for")).unwrap();
    });
}

#[test]
fn the_callbacks_error_ends_the_batch_and_the_device_lives_on() {
    on_every_device(|device| {
        let file = file_of(device, "a", 64);
        let requests: Vec<ReadRequest> =
            (0..64).map(|i| ReadRequest { offset: i * BLOCK, bytes: BLOCK_BYTES as u32 }).collect();
        for depth in [1, 16, 128] {
            let mut calls = 0;
            let outcome = file.read_many(&requests, depth, &mut |_, _| {
                calls += 1;
                if calls == 10 {
                    return Err(Error::NotFound { what: "patience", name: "caller".into() });
                }
                Ok(())
            });
            assert!(matches!(outcome, Err(Error::NotFound { what: "patience", .. })));
            assert_eq!(calls, 10, "no callback after the error");
            let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                file.read_many(&requests, depth, &mut |i, _| {
                    if i == 20 { panic!("on purpose") } else { Ok(()) }
                })
            }));
            assert!(panicked.is_err());
            let mut calls = 0;
            file.read_many(&requests, depth, &mut |i, bytes| {
                calls += 1;
                assert!(bytes == block(i as u64));
                Ok(())
            })
            .unwrap();
            assert_eq!(calls, 64);
        }
    });
}

#[test]
fn threads_and_nested_batches_share_a_device() {
    on_every_device(|device| {
        let file = file_of(device, "a", 200);
        let calls = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for t in 0..6u64 {
                let (file, calls) = (&file, &calls);
                scope.spawn(move || {
                    let own = device.create(&format!("own{t}")).unwrap();
                    for round in 0..5u64 {
                        let requests: Vec<ReadRequest> = (0..100u64)
                            .map(|i| ReadRequest {
                                offset: (i * 31 + t * 7 + round) % 200 * BLOCK,
                                bytes: BLOCK_BYTES as u32,
                            })
                            .collect();
                        file.read_many(&requests, 24, &mut |i, bytes| {
                            calls.fetch_add(1, Ordering::Relaxed);
                            assert!(bytes == block(requests[i].offset / BLOCK));
                            if i == 50 {
                                file.read_many(&requests[..5], 4, &mut |j, bytes| {
                                    assert!(bytes == block(requests[j].offset / BLOCK));
                                    Ok(())
                                })?;
                            }
                            Ok(())
                        })
                        .unwrap();
                        own.write(round * BLOCK, &block(t)).unwrap();
                    }
                    own.sync().unwrap();
                });
            }
        });
        assert_eq!(calls.into_inner(), 6 * 5 * 100);
    });
}

#[test]
fn names_never_become_paths() {
    on_every_device(|device| {
        for name in ["", ".", "..", "a/b", "/etc/passwd", "../a", "a\0b", "LOCK", &"x".repeat(256)] {
            let refused = |outcome: Result<()>| {
                assert!(matches!(outcome, Err(Error::InvalidOption { name: "file name", .. })), "{name:?}");
            };
            refused(device.create(name).map(|_| ()));
            refused(device.open(name, Access::Write).map(|_| ()));
            refused(device.remove(name));
            refused(device.rename(name, "b"));
            refused(device.rename("b", name));
        }
        assert!(device.list().unwrap().is_empty());
        let outside = TempDir::new().unwrap();
        std::fs::write(outside.path().join("secret"), "x").unwrap();
        std::os::unix::fs::symlink(outside.path().join("secret"), device.path().join("link")).unwrap();
        assert!(matches!(device.open("link", Access::Read), Err(Error::Io { .. })));
    });
}

#[test]
fn the_directory_lists_renames_and_removes() {
    on_every_device(|device| {
        file_of(device, "b", 1);
        file_of(device, "a", 2);
        std::fs::create_dir(device.path().join("folder")).unwrap();
        let lock = device.lock().unwrap();
        assert_eq!(device.list().unwrap(), ["a", "b", "folder/"]);
        assert!(matches!(device.create("a"), Err(Error::AlreadyExists { .. })));
        assert!(matches!(device.open("c", Access::Read), Err(Error::NotFound { .. })));
        assert!(matches!(device.remove("c"), Err(Error::NotFound { .. })));
        assert!(matches!(device.rename("c", "d"), Err(Error::NotFound { .. })));
        let open = device.open("b", Access::Read).unwrap();
        device.rename("a", "b").unwrap();
        device.sync_directory().unwrap();
        assert_eq!(device.list().unwrap(), ["b", "folder/"]);
        assert_eq!(device.open("b", Access::Read).unwrap().len_bytes().unwrap(), 2 * BLOCK);
        assert_eq!(open.len_bytes().unwrap(), BLOCK, "an open file survives its name");
        device.remove("b").unwrap();
        open.read(0, &mut [0; BLOCK_BYTES]).unwrap();
        assert!(matches!(open.write(0, &[0; BLOCK_BYTES]), Err(Error::Io { op: "write", .. })), "read only");
        drop(lock);
    });
}

#[test]
fn a_second_lock_is_refused_with_the_owners_id_until_the_first_is_dropped() {
    on_every_device(|device| {
        let first = device.lock().unwrap();
        let again = FileDevice::open(device.path(), FileOptions::new().engine(Engine::Threads)).unwrap();
        for other in [device, &again] {
            match other.lock() {
                Err(Error::Locked { pid, path }) => {
                    assert_eq!((pid, path), (std::process::id(), device.path()));
                }
                other => panic!("{other:?}"),
            }
        }
        drop(first);
        drop(again.lock().unwrap());
    });
}

#[test]
fn a_refused_io_uring_falls_back_to_threads_unless_it_is_demanded() {
    let scratch = TempDir::new().unwrap();
    let refused = FileOptions::new().refuse_io_uring(true);
    let device = FileDevice::open(scratch.path(), refused).unwrap();
    assert!(device.describe().starts_with("up to 128 threads"), "{}", device.describe());
    let file = file_of(&device, "a", 10);
    let mut calls = 0;
    file.read_many(&[ReadRequest { offset: 0, bytes: 4096 }; 10], 4, &mut |_, _| {
        calls += 1;
        Ok(())
    })
    .unwrap();
    assert_eq!(calls, 10);
    match FileDevice::open(scratch.path(), refused.engine(Engine::IoUring)) {
        Err(Error::InvalidOption { name: "engine", why, .. }) => {
            assert!(why.contains("choose auto"), "{why}")
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn what_only_linux_has_is_refused_by_the_portable_calls() {
    let scratch = TempDir::new().unwrap();
    let portable = FileOptions::new().portable(true);
    let device = FileDevice::open(scratch.path(), portable).unwrap();
    assert_eq!(device.describe(), "up to 128 threads, page cache");
    for (name, options) in
        [("direct", portable.direct(Direct::On)), ("engine", portable.engine(Engine::IoUring))]
    {
        match FileDevice::open(scratch.path(), options) {
            Err(Error::InvalidOption { name: found, why, .. }) => {
                assert!(found == name && why.contains("choose auto"), "{why}");
            }
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn one_lock_keeps_both_ways_out() {
    let scratch = TempDir::new().unwrap();
    let ways = [FileOptions::new(), FileOptions::new().portable(true)];
    let devices = ways.map(|options| FileDevice::open(scratch.path(), options).unwrap());
    for (first, second) in [(0, 1), (1, 0)] {
        let lock = devices[first].lock().unwrap();
        assert!(
            matches!(devices[second].lock(), Err(Error::Locked { pid, .. }) if pid == std::process::id())
        );
        assert_eq!(devices[second].writer().unwrap(), Some(std::process::id()));
        drop(lock);
        // What one way wrote, the other reads.
        file_of(&devices[first], "a", 3);
        let mut block = vec![0; BLOCK_BYTES];
        devices[second].open("a", Access::Read).unwrap().read(2 * BLOCK, &mut block).unwrap();
        assert_eq!(block, super::tests::block(2));
        devices[second].remove("a").unwrap();
    }
}

#[test]
fn a_small_pool_serves_a_great_depth() {
    let scratch = TempDir::new().unwrap();
    let options = FileOptions::new().engine(Engine::Threads).threads_max(2);
    let device = FileDevice::open(scratch.path(), options).unwrap();
    let file = file_of(&device, "a", 50);
    let requests: Vec<ReadRequest> =
        (0..50).map(|i| ReadRequest { offset: i * BLOCK, bytes: BLOCK_BYTES as u32 }).collect();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let mut calls = 0;
                file.read_many(&requests, 128, &mut |_, _| {
                    calls += 1;
                    Ok(())
                })
                .unwrap();
                assert_eq!(calls, 50);
            });
        }
    });
    let none = FileDevice::open(scratch.path(), FileOptions::new().threads_max(0));
    assert!(matches!(none, Err(Error::InvalidOption { name: "threads_max", .. })));
}

#[test]
fn a_missing_directory_is_not_found_and_can_be_made() {
    let scratch = TempDir::new().unwrap();
    let path = scratch.path().join("new");
    let missing = FileDevice::open(&path, FileOptions::new());
    assert!(matches!(missing, Err(Error::NotFound { what: "directory", .. })));
    FileDevice::open_or_create(&path, FileOptions::new()).unwrap();
    let device = FileDevice::open_or_create(&path, FileOptions::new()).unwrap();
    assert_ne!(device.random_128().unwrap(), device.random_128().unwrap());
    assert!(device.now_ns() > 1_700_000_000_000_000_000);
}

#[test]
fn a_full_file_system_is_full() {
    // Writing to /dev/full always fails with ENOSPC; it stands in for a disk that is.
    let file = special("/dev/full");
    match file.write(0, &[0; 2 * BLOCK_BYTES]) {
        Err(Error::Full { needed_bytes, .. }) => assert_eq!(needed_bytes, 2 * BLOCK),
        other => panic!("{other:?}"),
    }
}

#[test]
fn after_a_failed_sync_nothing_more_is_written() {
    // A sync of a character device that has none fails.
    let file = special("/dev/null");
    file.write(0, &[0; BLOCK_BYTES]).unwrap();
    assert!(matches!(file.sync(), Err(Error::Io { op: "sync", .. })));
    assert!(matches!(file.sync(), Err(Error::Poisoned { .. })));
    assert!(matches!(file.write(0, &[0; BLOCK_BYTES]), Err(Error::Poisoned { .. })));
    assert!(matches!(file.set_len(0), Err(Error::Poisoned { .. })));
}

/// A step of the model test; places and lengths in blocks.
#[derive(Clone, Debug)]
enum Step {
    Write { at: u64, blocks: usize, fill: u8 },
    Read { at: u64, blocks: usize },
    ReadMany { requests: Vec<(u64, u32)>, depth: usize },
    SetLen { bytes: u64 },
    Sync,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => (0..40u64, 0..5usize, any::<u8>()).prop_map(|(at, blocks, fill)| Step::Write { at, blocks, fill }),
        2 => (0..45u64, 0..5usize).prop_map(|(at, blocks)| Step::Read { at, blocks }),
        2 => (prop::collection::vec((0..45u64, 0..4u32), 0..40), 0..130usize)
            .prop_map(|(requests, depth)| Step::ReadMany { requests, depth }),
        1 => (0..45 * BLOCK).prop_map(|bytes| Step::SetLen { bytes }),
        1 => Just(Step::Sync),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]
    #[test]
    fn a_file_is_a_growing_array_of_bytes(steps in prop::collection::vec(step(), 1..30)) {
        on_every_device(|device| {
            let file = device.create("f").unwrap();
            let mut model: Vec<u8> = Vec::new();
            for step in &steps {
                run(&*file, &mut model, step);
                assert_eq!(file.len_bytes().unwrap(), model.len() as u64);
            }
        });
    }
}

fn run(file: &dyn DeviceFile, model: &mut Vec<u8>, step: &Step) {
    let within = |model: &[u8], at: u64, blocks: usize| {
        blocks == 0 || (at as usize + blocks) * BLOCK_BYTES <= model.len()
    };
    match step {
        Step::Write { at, blocks, fill } => {
            let data = vec![*fill; blocks * BLOCK_BYTES];
            file.write(at * BLOCK, &data).unwrap();
            let start = *at as usize * BLOCK_BYTES;
            if *blocks > 0 {
                model.resize(model.len().max(start + data.len()), 0);
                model[start..start + data.len()].copy_from_slice(&data);
            }
        }
        Step::Read { at, blocks } => {
            let mut into = vec![0; blocks * BLOCK_BYTES];
            let outcome = file.read(at * BLOCK, &mut into);
            if within(model, *at, *blocks) {
                outcome.unwrap();
                let start = *at as usize * BLOCK_BYTES;
                assert!(into.is_empty() || into == model[start..start + into.len()]);
            } else {
                assert!(is_past_end(&outcome.unwrap_err()));
            }
        }
        Step::ReadMany { requests, depth } => {
            let all_within = requests.iter().all(|&(at, blocks)| within(model, at, blocks as usize));
            let batch: Vec<ReadRequest> = requests
                .iter()
                .map(|&(at, blocks)| ReadRequest { offset: at * BLOCK, bytes: blocks * BLOCK_BYTES as u32 })
                .collect();
            let mut times = vec![0; batch.len()];
            let outcome = file.read_many(&batch, *depth, &mut |i, bytes| {
                times[i] += 1;
                let start = batch[i].offset as usize;
                assert!(bytes.is_empty() || bytes == &model[start..start + bytes.len()]);
                assert_eq!(bytes.len(), batch[i].bytes as usize);
                Ok(())
            });
            if all_within {
                outcome.unwrap();
                assert!(times.iter().all(|&t| t == 1));
            } else {
                assert!(is_past_end(&outcome.unwrap_err()));
                assert!(times.iter().all(|&t| t <= 1));
            }
        }
        Step::SetLen { bytes } => {
            file.set_len(*bytes).unwrap();
            model.resize(*bytes as usize, 0);
        }
        Step::Sync => file.sync().unwrap(),
    }
}
