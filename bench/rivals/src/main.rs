//! Other key-value stores behind one command line: what the dictionary benches call for a rival's sample.
//!
//! ```text
//!   overbank-rivals list
//!   overbank-rivals ENGINE settings memory_bytes=M
//!   overbank-rivals ENGINE load FOLDER items=urls first=0 end=4000000 memory_bytes=M patience_ms=P
//!   overbank-rivals ENGINE get FOLDER items=urls end=4000000 memory_bytes=M patience_ms=P lookups=L threads=T batch=B seed=S
//! ```
//!
//! `load` opens the store in FOLDER, or makes one, and inserts items `first` to `end` in the order of their numbers, until everything
//! is on disk and synced and the store is as its settings say that it should be read. `get` looks up random items of those below
//! `end`, `batch` a call where the store takes many, and compares each value with what it must be. Both stop when their patience is
//! at its end, and say how far they came.
//!
//! The last line of the output is one sample as JSON, as the bench reads it from its own child processes.

mod arguments;
mod engine;
mod fjall;
mod lmdb;
mod measure;
mod redb;
mod rocksdb;

use arguments::Arguments;
use engine::{Batch, Engine, Look};
use items::Asked;
use measure::Measure;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// The result of a step; a program's error is any error.
type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// All of them.
const ENGINES: &[Engine] = &[rocksdb::BULK, rocksdb::LEVELED, lmdb::ENGINE, redb::ENGINE, fjall::ENGINE];

/// Look-ups between two looks at the time.
const LOOKUPS_AT_ONCE: u64 = 64;

fn main() -> ExitCode {
    match run(std::env::args().skip(1)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(2)
        }
    }
}

fn run(mut words: impl Iterator<Item = String>) -> Result<()> {
    let name = words.next().ok_or("which engine? `list` names them")?;
    if name == "list" {
        ENGINES.iter().for_each(|engine| println!("{}", engine.name));
        return Ok(());
    }
    let engine = ENGINES
        .iter()
        .find(|engine| engine.name == name)
        .ok_or_else(|| format!("there is no engine {name:?}"))?;
    let step = words.next().ok_or("which step: settings, load or get?")?;
    let arguments = Arguments::parse(words)?;
    match step.as_str() {
        "settings" => println!("{}", (engine.settings)(arguments.memory_bytes()?)),
        "load" => load(engine, &arguments)?,
        "get" => get(engine, &arguments)?,
        _ => return Err(format!("there is no step {step:?}").into()),
    }
    Ok(())
}

fn load(engine: &Engine, arguments: &Arguments) -> Result<()> {
    let (items, memory_bytes) = (arguments.items()?, arguments.memory_bytes()?);
    let (first, end) = (arguments.number("first")?, arguments.number("end")?);
    let folder = arguments.folder()?;
    std::fs::create_dir_all(folder)?;
    let mut store = (engine.open)(folder, memory_bytes)?;
    let measure = Measure::start();
    let until = Instant::now() + Duration::from_millis(arguments.number("patience_ms")?);
    let mut batch = Batch::new(items, store.batch_bytes());
    let mut next = first;
    while next < end && Instant::now() < until {
        next = batch.fill(next, end);
        store.insert(&mut batch)?;
    }
    drop(batch);
    store.finish()?;
    let mut sample = measure.finish(next - first);
    if let Some(bytes) = store.index_bytes() {
        sample.note("bits_per_key", bytes as f64 * 8.0 / next.max(1) as f64);
    }
    drop(store);
    sample.note("flash_bytes", measure::folder_bytes(folder)? as f64);
    println!("{}", sample.to_json());
    Ok(())
}

fn get(engine: &Engine, arguments: &Arguments) -> Result<()> {
    let (items, end) = (arguments.items()?, arguments.number("end")?);
    let (threads, lookups) = (arguments.number("threads")?.max(1), arguments.number("lookups")?);
    let (batch, seed) = (arguments.number("batch")?.max(1), arguments.number("seed")?);
    let store = (engine.open)(arguments.folder()?, arguments.memory_bytes()?)?;
    let measure = Measure::start();
    let until = Instant::now() + Duration::from_millis(arguments.number("patience_ms")?);
    // What one thread does; returns how many it looked up.
    let work = |thread: u64| -> Result<u64> {
        let mut reader = store.reader()?;
        let mut look = Look::new(items, batch);
        let mut asked = Asked::new(end, seed << 8 | thread);
        let (mut done, share) = (0, lookups.div_ceil(threads));
        while done < share {
            if done % LOOKUPS_AT_ONCE.next_multiple_of(batch) == 0 && Instant::now() >= until {
                break;
            }
            look.fill(&mut asked);
            reader(&mut look)?;
            done += batch;
        }
        Ok(done)
    };
    let done: u64 = std::thread::scope(|scope| -> Result<u64> {
        let threads: Vec<_> = (0..threads)
            .map(|thread| {
                let work = &work;
                scope.spawn(move || work(thread))
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().map_err(|_| "a reader panicked")?).sum()
    })?;
    println!("{}", measure.finish(done).to_json());
    Ok(())
}
