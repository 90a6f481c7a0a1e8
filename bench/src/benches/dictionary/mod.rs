//! Dictionaries on flash beside those of the paper's evaluation (sections 4.1 to 4.6) and the stores that people use.
//!
//! ```text
//!   overbank                     crates/overbank/src/dictionary: a load, then get and get_many
//!   ect                          the paper's own: external sort, entropy-coded tries, one read       plain/
//!   eph_sort, eph_partition      external perfect hashing in its two variants                        plain/
//!   rocksdb, rocksdb_leveled     bulk load and one compaction; leveled compaction beside the load    bench/rivals, built on request:
//!   lmdb, redb, fjall                                                                                bash bench/rivals/setup.sh
//! ```
//!
//! All get the same items in the same order, which is no order of keys, from a generator (`bench/items`): `urls`, keys of 111 bytes with
//! values of 1000, and `small`, 12 and 4. Each sample runs in a fresh process in a memory cgroup, page cache counted; of its limit,
//! engines are told to share `memory_mib` among buffers and caches.
//!
//! | bench | of the paper | what |
//! |---|---|---|
//! | `dictionary` | figures 7, 8, 12, tables 3, 5 | loads: until everything is on disk, synced, and ready to be asked; over items, and over memory |
//! | `dictionary_update` | figure 9 | batches of a quarter, five after one another: merged, and everything loaded anew each time |
//! | `dictionary_query` | table 4 | look-ups by 1 and 16 threads and in batches, beside the reads of the device at that depth (`device`) |
//! | `dictionary_index` | figures 3, 6, 10, 11, section 4.3 | in RAM: bits a key, time of a look-up, over g and hmax |
//!
//! CPU is of all threads, user and system. `bits_per_key` is the RAM of what finds a key. Rivals whose time is up stop, and their
//! figures say `time_boxed`.
//!
//! One engine at a time: `overbank-bench dictionary_query --engines rocksdb,device --rounds 1`, some minutes at full size. It then writes
//! at most 11 GB at a time, and leaves nothing.

mod asking;
mod device;
mod engine;
mod expected;
mod index;
mod load;
mod ours;
mod plain;
mod query;
mod rival;
mod update;

use crate::{Bench, Run};
use items::Items;
use std::time::Duration;

/// The registered bench of loads.
pub(super) const BENCH: Bench = Bench {
    name: "dictionary",
    about: "loads of a dictionary on flash, beside the paper's, RocksDB, LMDB, redb and fjall",
    engines: ENGINES,
    run: load::run,
};

/// The registered bench of batch updates.
pub(super) const UPDATES: Bench = Bench {
    name: "dictionary_update",
    about: "a dictionary on flash grows by batches of a quarter, or is loaded anew",
    engines: ENGINES,
    run: update::run,
};

/// The registered bench of look-ups.
pub(super) const QUERIES: Bench = Bench {
    name: "dictionary_query",
    about: "look-ups in a dictionary on flash, by threads and in batches, beside the device",
    engines: ENGINES,
    run: query::run,
};

/// The registered bench of indexes.
pub(super) const INDEXES: Bench = Bench {
    name: "dictionary_index",
    about: "where a key stands among others: bits a key and look-ups in RAM, over g and hmax",
    engines: &["overbank", "overbank_paper", "ect", "eph", "expected", "entropy"],
    run: index::run,
};

const ENGINES: &[&str] = &[
    "overbank",
    "ect",
    "eph_sort",
    "eph_partition",
    "rocksdb",
    "rocksdb_leveled",
    "lmdb",
    "redb",
    "fjall",
    "device",
];

/// One point of the evaluation.
#[derive(Clone, Copy, Debug)]
struct Shape {
    items: Items,
    /// How many are loaded.
    count: u64,
    /// What engines share among buffers and caches.
    memory_bytes: usize,
    /// The cgroup's limit.
    ram_bytes: u64,
    /// How long a rival may take.
    patience: Duration,
}

/// The workloads at their sizes: the paper's shapes in a sixth and a fiftieth of its items.
fn shapes(run: &Run<'_>) -> [Shape; 2] {
    let shape = |items, count: [u64; 3], ram_mib: [u64; 3], memory_mib: [usize; 3]| Shape {
        items,
        count: run.pick(count),
        memory_bytes: run.pick(memory_mib) << 20,
        ram_bytes: run.pick(ram_mib) << 20,
        patience: run.pick([1, 1, 180].map(Duration::from_secs)),
    };
    [
        shape(Items::Urls, [2_000, 40_000, 4_000_000], [256, 256, 1024], [16, 32, 640]),
        shape(Items::Small, [20_000, 250_000, 20_000_000], [256, 256, 1024], [16, 32, 640]),
    ]
}
