//! The memory of a dictionary and of groups from outside: a process that loads, asks and merges them runs in a memory cgroup of their budget
//! and 8 MiB, at any number of threads. The group counts all that the process touches: code, stacks, what the allocator holds, page cache.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on ends where it stands")]

use overbank::Seed;
use overbank::aggregate::{Count, Groups, GroupsOptions};
use overbank::dictionary::{DictionaryOptions, Duplicates};
use overbank::store::{Store, StoreOptions};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::sync::atomic::{AtomicU32, Ordering};

const MIB: usize = 1 << 20;
/// What a process may hold beside the budget: code, stacks, the kernel's own for them.
const ALLOWANCE_BYTES: usize = 8 * MIB;
/// Tells the process in the group that it is the one, and what to do: the number of threads and the budget's MiB.
const CHILD: &str = "OVERBANK_MEMORY_CHILD";
/// Four budgets of items.
const LOADED_BUDGETS: u64 = 4;
const VALUE_BYTES: usize = 1_000;
/// Items of a call.
const BATCH: u64 = 64;

/// A memory cgroup, gone when dropped.
struct Group(PathBuf);

impl Group {
    /// A group that may hold `bytes`, page cache included; or why there can be none.
    fn new(bytes: usize) -> Result<Self, String> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("overbank-library-{}-{number}", std::process::id());
        let (place, limit) =
            [("/sys/fs/cgroup/memory", "memory.limit_in_bytes"), ("/sys/fs/cgroup", "memory.max")]
                .into_iter()
                .map(|(root, limit)| (Path::new(root).join(&name), limit))
                .find(|(place, _)| place.parent().is_some_and(|root| root.join("cgroup.procs").exists()))
                .ok_or("no memory cgroup is mounted")?;
        fs::create_dir(&place).map_err(|error| format!("{}: {error}", place.display()))?;
        let group = Self(place);
        let limit = group.0.join(limit);
        fs::write(&limit, bytes.to_string()).map_err(|error| format!("{}: {error}", limit.display()))?;
        // No swap, where the kernel lets us say so: else the limit would only move the memory to disk.
        let _ = fs::write(group.0.join("memory.swappiness"), "0");
        let _ = fs::write(group.0.join("memory.swap.max"), "0");
        Ok(group)
    }

    /// Runs this program's test `name` in the group, told `what`. glibc is to hold no more than is in use: an arena a thread is not the
    /// library's.
    fn run(&self, name: &str, what: &str) -> ExitStatus {
        Command::new("sh")
            .env("MALLOC_ARENA_MAX", "1")
            .env("MALLOC_MMAP_THRESHOLD_", "262144")
            .env("MALLOC_TRIM_THRESHOLD_", "262144")
            .env(CHILD, what)
            .args(["-c", r#"echo $$ > "$0" && exec "$@""#])
            .arg(self.0.join("cgroup.procs"))
            .arg(std::env::current_exe().unwrap())
            .args(["--exact", name, "--quiet"])
            .status()
            .unwrap()
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // An empty group is removed by its directory; one that is left over does no harm.
        let _ = fs::remove_dir(&self.0);
    }
}

/// What the process in the group is told, if this is it.
fn told() -> Option<(u64, usize)> {
    let what = std::env::var(CHILD).ok()?;
    let (threads, mib) = what.split_once(' ')?;
    Some((threads.parse().ok()?, mib.parse().ok()?))
}

#[test]
fn a_dictionary_stays_within_its_budget_and_the_allowance() {
    for (threads, mib) in [(1, 16), (8, 16), (16, 16), (16, 64)] {
        let group = match Group::new(mib * MIB + ALLOWANCE_BYTES) {
            Ok(group) => group,
            Err(why) => {
                println!("skipped: no memory cgroup can be made here: {why}");
                return;
            }
        };
        let status = group.run("work_in_the_group", &format!("{threads} {mib}"));
        assert!(status.success(), "{threads} threads within {mib} MiB and 8: {status}");
    }
}

#[test]
fn groups_stay_within_their_budget_and_the_allowance() {
    for threads in [1, 2, 8] {
        let mib = 64;
        let Ok(group) = Group::new(mib * MIB + ALLOWANCE_BYTES) else { return };
        let status = group.run("group_in_the_group", &format!("{threads} {mib}"));
        assert!(status.success(), "{threads} threads within {mib} MiB and 8: {status}");
    }
}

/// The judge can say no.
#[test]
fn a_process_that_holds_more_is_ended() {
    let Ok(group) = Group::new(16 * MIB + ALLOWANCE_BYTES) else { return };
    let status = group.run("hold_too_much", "1 16");
    assert!(!status.success(), "{status}");
}

/// What runs in the group of the control; by itself it does nothing.
#[test]
fn hold_too_much() {
    let Some((_, mib)) = told() else { return };
    let bytes = std::hint::black_box(vec![1u8; mib * MIB + 2 * ALLOWANCE_BYTES]);
    assert_eq!(bytes.iter().map(|&byte| usize::from(byte)).sum::<usize>(), bytes.len());
}

/// What runs in the group; by itself it does nothing.
#[test]
fn work_in_the_group() {
    let Some((threads, mib)) = told() else { return };
    let place = tempfile::tempdir().unwrap();
    let options = StoreOptions::new().memory_bytes(mib * MIB).threads(2).seed(Seed(5));
    let store = Store::create(place.path(), options).unwrap();
    let dictionary = store.dictionary("d", DictionaryOptions::new().memory_bytes(mib * MIB)).unwrap();
    let share = (LOADED_BUDGETS * (mib * MIB / VALUE_BYTES) as u64 / threads).next_multiple_of(BATCH);
    let on_threads = |work: &(dyn Fn(u64) + Sync)| {
        std::thread::scope(|scope| (0..threads).for_each(|thread| drop(scope.spawn(move || work(thread)))));
    };
    let keys = |from: u64| (from..from + BATCH).map(u64::to_be_bytes).collect::<Vec<[u8; 8]>>();
    let each_batch = |thread: u64| (thread * share..(thread + 1) * share).step_by(BATCH as usize);
    let load = dictionary.load(Duplicates::Last).unwrap();
    on_threads(&|thread| {
        let value = vec![thread as u8; VALUE_BYTES];
        let values = vec![&value[..]; BATCH as usize];
        each_batch(thread).for_each(|from| dictionary.insert_many(&keys(from), &values).unwrap());
    });
    load.finish().unwrap();
    store.commit(b"").unwrap();
    on_threads(&|thread| {
        for from in each_batch(thread) {
            let mut found = 0;
            let is_right =
                |value: Option<&[u8]>| value.is_some_and(|value| value == [thread as u8; VALUE_BYTES]);
            dictionary.get_many_with(&keys(from), |_, value| found += u64::from(is_right(value))).unwrap();
            assert_eq!(found, BATCH);
        }
    });
    // A tenth of them again, beside lookups: short runs, and merges of them.
    on_threads(&|thread| {
        let values = vec![[thread as u8; VALUE_BYTES]; BATCH as usize];
        for from in each_batch(thread).step_by(10) {
            dictionary.insert_many(&keys(from), &values).unwrap();
            dictionary.get_many_with(&keys(from), |_, value| assert!(value.is_some())).unwrap();
        }
    });
    store.commit(b"").unwrap();
    dictionary.compact().unwrap();
    dictionary.verify().unwrap();
    assert_eq!(dictionary.report().items, share * threads);
}

/// Ten million different keys, all of which go twice to groups that memory holds a half of.
const KEYS: u64 = 10_000_000;

/// What runs in the group of the groups; by itself it does nothing.
#[test]
fn group_in_the_group() {
    let Some((threads, mib)) = told() else { return };
    let place = tempfile::tempdir().unwrap();
    let options = StoreOptions::new().memory_bytes(mib * MIB).threads(2).seed(Seed(5));
    let store = Store::create(place.path(), options).unwrap();
    let groups = Groups::spilling(Count, GroupsOptions::new().memory_bytes(mib * MIB), &store).unwrap();
    // Each key is ten digits of 36, of which no two numbers have the same.
    let key = |number: u64| {
        let mut rest = number * 365_615_843;
        [0; 10].map(|_: u8| {
            let digit = b"abcdefghijklmnopqrstuvwxyz0123456789"[(rest % 36) as usize];
            rest /= 36;
            digit
        })
    };
    let number = |key: &[u8]| {
        let digit = |&byte: &u8| u64::from(if byte >= b'a' { byte - b'a' } else { byte - b'0' + 26 });
        key.iter().rev().fold(0, |number, byte| number * 36 + digit(byte)) / 365_615_843
    };
    std::thread::scope(|scope| {
        for thread in 0..threads {
            let groups = &groups;
            scope.spawn(move || {
                let mut batch = Vec::with_capacity(BATCH as usize);
                for first in (thread * BATCH..2 * KEYS).step_by((threads * BATCH) as usize) {
                    batch.clear();
                    batch.extend((first..(first + BATCH).min(2 * KEYS)).map(|row| key(row % KEYS)));
                    groups.insert_many(&batch, &[]).unwrap();
                }
            });
        }
    });
    let (mut scan, mut seen, mut found) = (groups.scan().unwrap(), vec![0u64; KEYS as usize / 64 + 1], 0);
    while let Some(group) = scan.next_group().unwrap() {
        let number = number(&group.key);
        assert!(number < KEYS && group.words == [2], "{group:?}");
        seen[number as usize / 64] ^= 1 << (number % 64);
        found += 1;
    }
    let all: u32 = seen.iter().map(|word| word.count_ones()).sum();
    assert_eq!((found, u64::from(all)), (KEYS, KEYS));
    assert_eq!(groups.get(&key(7)).unwrap().unwrap().words, [2]);
}
