//! `overbank filter merge INTO FROM…`: the filters of several stores in one.
//!
//! Fingerprints are parts of hashes, so only filters built under one seed and hash kind can be added.
//!
//! All of it or nothing: a new `INTO` is made beside its place and gets its name when it is whole, one that was there gets one commit.
//! An error or a signal leaves it as it was.

use super::session::{check_memory, filter_bytes};
use super::{NAME, info};
use crate::arguments::MergeArguments;
use crate::commands::open_to_read;
use crate::failure::{CommandResult, Failure, Outcome};
use crate::interrupt::Interrupt;
use crate::key_fields::KeyFields;
use crate::page::{Page, print_json};
use crate::picture::{self, FilterFacts};
use overbank::store::{Store, StoreOptions};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tempfile::TempDir;

/// How long a signal waits at most until it is seen.
const SIGNAL_PERIOD: Duration = Duration::from_millis(50);

pub(super) fn run(arguments: &MergeArguments) -> CommandResult {
    check_memory(arguments.memory)?;
    let sources: Vec<Store> =
        arguments.from.iter().map(|place| open_to_read(place)).collect::<Result<_, _>>()?;
    let key = common_key(arguments, &sources)?;
    let interrupt = Interrupt::install().map_err(|error| {
        Failure::Usage(format!("cannot install the handler of Ctrl-C: {error}; run again"))
    })?;
    let memory_bytes = usize::try_from(arguments.memory).unwrap_or(usize::MAX);
    let options = StoreOptions::new().memory_bytes(memory_bytes);
    let facts = if arguments.into.exists() {
        let watch = Watch::start(interrupt, None);
        merge(Store::open(&arguments.into, options)?, arguments, &sources, key, || watch.end())?
    } else {
        let (first, beside) = (&sources[0], beside(&arguments.into)?);
        let watch = Watch::start(interrupt, Some(beside.path().to_owned()));
        let options = options.hash_kind(first.hash_kind()).seed(first.seed());
        let facts = merge(Store::create(beside.path(), options)?, arguments, &sources, key, || {})?;
        watch.end();
        name(beside, &arguments.into)?;
        facts
    };
    if arguments.json {
        print_json(&picture::filter_json(&facts))?;
    } else {
        let mut page = Page::new();
        page.heading(&format!("Filter {}", arguments.into.display()), "");
        picture::filter_lines(&mut page, &facts);
        page.print()?;
    }
    Ok(Outcome::Found)
}

/// Adds all sources to `into`, which is closed then; `commits` is told right before its commit.
fn merge(
    into: Store,
    arguments: &MergeArguments,
    sources: &[Store],
    key: Option<KeyFields>,
    commits: impl Fn(),
) -> Result<FilterFacts, Failure> {
    for (place, source) in arguments.from.iter().zip(sources) {
        same_hash(&into, &arguments.into, source, place)?;
    }
    if let Some(key) = key {
        key.adopt(&into, &arguments.into)?;
    }
    let mut model = info::facts(&sources[0], &arguments.from[0])?.report.options;
    model.memory_bytes = filter_bytes(arguments.memory);
    let filter = into.cascade(NAME, model)?;
    for (place, source) in arguments.from.iter().zip(sources) {
        let other = info::open(source, place)?;
        let other = other.lock().unwrap_or_else(PoisonError::into_inner);
        filter.lock().unwrap_or_else(PoisonError::into_inner).merge_from(&other)?;
    }
    commits();
    into.commit(&into.position())?;
    let filter = filter.lock().unwrap_or_else(PoisonError::into_inner);
    Ok(FilterFacts::of(&filter)?)
}

/// The fields of the sources' keys, as far as they know them.
fn common_key(arguments: &MergeArguments, sources: &[Store]) -> Result<Option<KeyFields>, Failure> {
    let mut common: Option<(KeyFields, &Path)> = None;
    for (place, source) in arguments.from.iter().zip(sources) {
        let Some(key) = KeyFields::of(source)? else { continue };
        match &common {
            Some((other, its_place)) if !other.may_be(&key) => {
                return Err(Failure::Usage(format!(
                    "{} holds keys made with {}, and {} keys made with {}, which would mean something else; merge stores that \
                     were filled with the same --key",
                    its_place.display(),
                    other.shown(),
                    place.display(),
                    key.shown()
                )));
            }
            Some(_) => {}
            None => common = Some((key, place)),
        }
    }
    Ok(common.map(|(key, _)| key))
}

/// A directory on the file system of `place`, which is removed unless it gets that name.
fn beside(place: &Path) -> Result<TempDir, Failure> {
    tempfile::Builder::new().prefix(".overbank-merge-").tempdir_in(parent(place)).map_err(|error| {
        Failure::Usage(format!("cannot make {}: {error}; name another directory", place.display()))
    })
}

/// Gives what was made beside `place` its name, for good.
fn name(made: TempDir, place: &Path) -> Result<(), Failure> {
    let named = std::fs::rename(made.path(), place).and_then(|()| File::open(parent(place))?.sync_all());
    if let Err(error) = named {
        return Err(Failure::Usage(format!(
            "cannot name the merged store {}: {error}; name another directory",
            place.display()
        )));
    }
    // Nothing has its old name any more.
    let _ = made.keep();
    Ok(())
}

fn parent(place: &Path) -> &Path {
    place.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Ends the process at a signal: a store is then as at its last commit, and an unfinished one is removed.
struct Watch {
    is_over: Arc<Mutex<bool>>,
}

impl Watch {
    fn start(interrupt: Interrupt, unfinished: Option<PathBuf>) -> Self {
        let is_over = Arc::new(Mutex::new(false));
        let watched = Arc::clone(&is_over);
        let watch = move || {
            loop {
                // Held to the end of the process: nothing is named any more.
                let is_over = watched.lock().unwrap_or_else(PoisonError::into_inner);
                if *is_over {
                    return;
                }
                if interrupt.is_raised() {
                    give_up(unfinished.as_deref());
                }
                drop(is_over);
                std::thread::sleep(SIGNAL_PERIOD);
            }
        };
        // Where the system gives no thread, the second signal ends the process.
        let _ = std::thread::Builder::new().name("signals".to_owned()).spawn(watch);
        Self { is_over }
    }

    /// From here on, a signal comes too late.
    fn end(&self) {
        *self.is_over.lock().unwrap_or_else(PoisonError::into_inner) = true;
    }
}

fn give_up(unfinished: Option<&Path>) -> ! {
    // The merge may still make files there; a few rounds outrun it.
    if let Some(directory) = unfinished {
        for _ in 0..64 {
            if std::fs::remove_dir_all(directory).is_ok() || !directory.exists() {
                break;
            }
        }
    }
    let failure = Failure::Interrupted("interrupted; nothing was merged".to_owned());
    failure.say();
    std::process::exit(failure.exit_code().into());
}

fn same_hash(into: &Store, into_place: &Path, source: &Store, place: &Path) -> Result<(), Failure> {
    let of = |store: &Store| (store.hash_kind(), store.seed().fingerprint());
    if of(into) == of(source) {
        return Ok(());
    }
    Err(Failure::Usage(format!(
        "{} was built under another seed or hash than {}, so their fingerprints have nothing in common; build both with the \
         same --seed and --hash",
        place.display(),
        into_place.display()
    )))
}
