//! Sketches built in four processes and merged: as good as one sketch of all the keys, and equal to it byte for byte.
//!
//!     cargo run --example merged_sketches DIRECTORY
//!
//! The parts only have to agree on the seed and on the shapes. A part is some kilobytes, whatever it counted, and travels as bytes:
//! in a file, as here, over a network, or through a database.

use overbank::sketch::{CountMin, DdSketch, HyperLogLog};
use overbank::{HashKind, KeyHasher, Result, Seed, Store, StoreOptions};
use std::path::Path;
use std::process::Command;

/// The parts' hashes must be those of the store that takes them in. Random, it would be handed to each process.
const SEED: Seed = Seed(0x5eed);
const PROCESSES: u64 = 4;

/// One of each: how many distinct users, how often each came, and how long requests took.
struct Sketches {
    users: HyperLogLog,
    visits: CountMin<u32>,
    milliseconds: DdSketch,
}

impl Sketches {
    fn new() -> Result<Self> {
        let hasher = KeyHasher::new(HashKind::SipHash13, SEED);
        Ok(Self {
            users: HyperLogLog::new(12, hasher)?,
            visits: CountMin::with_error(1e-3, 0.01, hasher)?,
            milliseconds: DdSketch::new(0.01)?,
        })
    }

    /// Counts the requests of one process: 50,000 of users 0 to 19,999, each process other ones.
    fn count(&mut self, process: u64) {
        let hasher = KeyHasher::new(HashKind::SipHash13, SEED);
        for request in (process..200_000).step_by(PROCESSES as usize) {
            let user = hasher.hash(format!("user-{}", request * request % 20_000).as_bytes());
            self.users.update(user);
            self.visits.update(user, 1);
            self.milliseconds.update((request % 1000) as f64, 1);
        }
    }
}

fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().collect();
    match &arguments[1..] {
        [place] => merge(Path::new(place)),
        [place, process] => build(Path::new(place), process.parse()?),
        _ => Err("usage: merged_sketches DIRECTORY".into()),
    }
}

/// A process: counts, and leaves its sketches as bytes.
fn build(place: &Path, process: u64) -> std::result::Result<(), Box<dyn std::error::Error>> {
    let mut sketches = Sketches::new()?;
    sketches.count(process);
    std::fs::write(place.join(format!("users-{process}")), sketches.users.to_bytes())?;
    std::fs::write(place.join(format!("visits-{process}")), sketches.visits.to_bytes())?;
    std::fs::write(place.join(format!("milliseconds-{process}")), sketches.milliseconds.to_bytes())?;
    Ok(())
}

/// Starts the processes, takes their sketches into a store, and asks.
fn merge(place: &Path) -> std::result::Result<(), Box<dyn std::error::Error>> {
    let start =
        |process: u64| Command::new(std::env::current_exe()?).arg(place).arg(process.to_string()).spawn();
    let children: Vec<_> = (0..PROCESSES).map(start).collect::<std::io::Result<_>>()?;
    for mut child in children {
        assert!(child.wait()?.success(), "a process failed");
    }

    // Sketches in a store: opened by name, shared by threads, committed together.
    let options = StoreOptions::new().seed(SEED).hash_kind(HashKind::SipHash13);
    let store = Store::create(place.join("store"), options)?;
    let users = store.sketch("users", || Ok(Sketches::new()?.users))?;
    let visits = store.sketch("visits", || Ok(Sketches::new()?.visits))?;
    let milliseconds = store.sketch("milliseconds", || Ok(Sketches::new()?.milliseconds))?;
    for process in 0..PROCESSES {
        let read = |name: &str| std::fs::read(place.join(format!("{name}-{process}")));
        // Bytes from elsewhere are checked; other shapes, seeds and kinds are refused.
        users.merge(&HyperLogLog::from_bytes(&read("users")?)?)?;
        visits.merge(&CountMin::from_bytes(&read("visits")?)?)?;
        milliseconds.merge(&DdSketch::from_bytes(&read("milliseconds")?)?)?;
    }
    store.commit(b"")?;

    let mut whole = Sketches::new()?;
    (0..PROCESSES).for_each(|process| whole.count(process));
    println!("as one sketch of everything: {}", users.snapshot()? == whole.users);
    users.with(|users| {
        let (lower, upper) = (users.lower_bound(2.0), users.upper_bound(2.0));
        println!("distinct users: {:.0}, between {lower:.0} and {upper:.0}", users.estimate());
    })?;
    let user = store.hasher().hash(b"user-0");
    visits.with(|visits| println!("user-0 came at most {} times", visits.upper_bound(user)))?;
    let median = milliseconds.with(|milliseconds| milliseconds.quantile(0.5))?;
    println!("half of the requests took at most {:.0} ms", median.unwrap_or(0.0));
    Ok(())
}
