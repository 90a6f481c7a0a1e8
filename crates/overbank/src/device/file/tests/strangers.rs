//! What stands in the place of a file and is none: refused at once, by name, and left as it was.

use super::*;
use rustix::fs::{FileType, Mode};
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;

fn fifo(path: &Path) {
    let mode = Mode::from_raw_mode(0o644);
    rustix::fs::mknodat(rustix::fs::CWD, path, FileType::Fifo, mode, 0).unwrap();
}

type Make = Box<dyn Fn(&Path)>;

/// Each kind of thing that is no regular file, and the word that names it.
fn strangers() -> Vec<(&'static str, Make)> {
    vec![
        ("a named pipe", Box::new(fifo)),
        ("a directory", Box::new(|path: &Path| std::fs::create_dir(path).unwrap())),
        ("a socket", Box::new(|path: &Path| drop(UnixListener::bind(path).unwrap()))),
        (
            "a symbolic link",
            Box::new(|path: &Path| {
                std::fs::write(path.with_extension("target"), "mine").unwrap();
                symlink(path.with_extension("target"), path).unwrap();
            }),
        ),
        ("a symbolic link", Box::new(|path: &Path| symlink("/dev/zero", path).unwrap())),
    ]
}

fn is_refused<T: std::fmt::Debug>(result: Result<T>, path: &Path, word: &str) {
    let error = result.unwrap_err();
    let text = error.to_string();
    let named = text.contains(&path.display().to_string()) && text.contains(word);
    assert!(matches!(error, Error::Io { .. }) && named, "{text}");
}

#[test]
fn what_is_no_regular_file_is_refused_at_once() {
    on_every_device(|device| {
        for (i, (word, make)) in strangers().into_iter().enumerate() {
            let name = format!("{i:06}.seg");
            let path = device.path().join(&name);
            make(&path);
            is_refused(device.open(&name, Access::Read), &path, word);
            is_refused(device.open(&name, Access::Write), &path, word);
            assert!(matches!(device.create(&name), Err(Error::AlreadyExists { .. })));
        }
    });
}

#[test]
fn a_file_with_a_second_name_is_read_and_not_written() {
    on_every_device(|device| {
        file_of(device, "a", 2);
        let (path, other) = (device.path().join("a"), device.path().join("backup"));
        std::fs::hard_link(&path, &other).unwrap();
        device.open("a", Access::Read).unwrap().read(BLOCK, &mut [0; BLOCK_BYTES]).unwrap();
        is_refused(device.open("a", Access::Write), &path, "2 names");
        device.remove("backup").unwrap();
        device.open("a", Access::Write).unwrap();
    });
}

#[test]
fn a_lock_that_is_not_ours_is_neither_taken_nor_written() {
    on_every_device(|device| {
        let place = device.path();
        let lock = place.join("LOCK");
        for (word, make) in strangers() {
            make(&lock);
            is_refused(device.lock(), &lock, word);
            is_refused(device.writer(), &lock, word);
            std::fs::remove_file(&lock).or_else(|_| std::fs::remove_dir(&lock)).unwrap();
        }
        let diary = place.join("diary");
        for content in ["", "4711\n", "dear diary"] {
            std::fs::write(&diary, content).unwrap();
            std::fs::hard_link(&diary, &lock).unwrap();
            is_refused(device.lock(), &lock, "2 names");
            assert_eq!(std::fs::read_to_string(&diary).unwrap(), content);
            std::fs::remove_file(&lock).unwrap();
        }
        for content in ["dear diary", "4711", "4711\n4712\n", "12345678901234567890"] {
            std::fs::write(&lock, content).unwrap();
            is_refused(device.lock(), &lock, "something else");
            assert_eq!(std::fs::read_to_string(&lock).unwrap(), content);
            std::fs::remove_file(&lock).unwrap();
        }
    });
}

#[test]
fn the_writer_is_known_while_there_is_one() {
    on_every_device(|device| {
        assert_eq!(device.writer().unwrap(), None, "nobody ever wrote");
        let lock = device.lock().unwrap();
        assert_eq!(device.writer().unwrap(), Some(std::process::id()));
        drop(lock);
        assert_eq!(device.writer().unwrap(), None);
        // One that was killed leaves its id, and no lock.
        std::fs::write(device.path().join("LOCK"), "4711\n").unwrap();
        assert_eq!(device.writer().unwrap(), None);
        drop(device.lock().unwrap());
    });
}

#[test]
fn a_pool_without_threads_reads_place_by_place() {
    let scratch = TempDir::new().unwrap();
    for granted in 0..3 {
        let device = FileDevice::open(scratch.path(), FileOptions::new().engine(Engine::Threads)).unwrap();
        let file = file_of(&device, &format!("f{granted}"), 64);
        let requests: Vec<ReadRequest> =
            (0..64).map(|i| ReadRequest { offset: i * BLOCK, bytes: BLOCK_BYTES as u32 }).collect();
        let mut seen = Vec::new();
        crate::device::thread::refusal::after(granted, || {
            let mut done = |i: usize, bytes: &[u8]| {
                assert!(bytes == block(i as u64));
                seen.push(i);
                Ok(())
            };
            file.read_many(&requests, 8, &mut done).unwrap();
        });
        seen.sort_unstable();
        assert_eq!(seen, (0..64).collect::<Vec<_>>());
    }
}
