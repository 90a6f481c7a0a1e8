//! How long rows wait, on a clock that the test drives: it goes on where the reader waits for its input, and a little wherever the
//! sieve looks at it.

use super::*;
use crate::arguments::{Arguments, Command};
use crate::commands::filter::outlet::Escape;
use crate::commands::filter::output::Output;
use crate::commands::filter::rows::{Pace, Sieve};
use crate::commands::filter::scratch::Scratch;
use crate::commands::filter::session::{Session, Wanted};
use crate::commands::filter::sink::Place;
use crate::run_state::Job;
use clap::Parser as _;
use overbank_ingest::Wake;
use proptest::prelude::*;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::collections::{HashSet, VecDeque};
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::BorrowedFd;
use std::path::Path;
use std::sync::Mutex;

/// A producer at one end of a pipe, and what is seen at the other end of the command.
#[derive(Debug)]
struct World {
    start: Instant,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    now: Duration,
    script: VecDeque<(Duration, Vec<u8>)>,
    pipe: Option<File>,
    output: File,
    /// When the output was how long.
    seen: Vec<(Duration, u64)>,
}

impl World {
    /// Looks how long the output is.
    fn see(state: &mut State) {
        let length = state.output.metadata().expect("the output").len();
        if state.seen.last().is_none_or(|last| last.1 < length) {
            let now = state.now;
            state.seen.push((now, length));
        }
    }
}

impl Waiter for World {
    fn now(&self) -> Instant {
        self.start + self.state.lock().expect("no panic").now
    }

    fn wait(&self, input: BorrowedFd<'_>, until: Option<Instant>) -> io::Result<Wake> {
        let mut state = self.state.lock().expect("no panic");
        let until = until.map(|until| until.saturating_duration_since(self.start));
        // The one thread is here, so everything that it was given has been dealt with.
        Self::see(&mut state);
        loop {
            if poll(&mut [PollFd::from_borrowed_fd(input, PollFlags::IN)], Some(&Timespec::default()))? > 0 {
                return Ok(Wake::Input);
            }
            let next = state.script.front().map(|(at, _)| *at);
            if let Some(until) = until.filter(|until| next.is_some_and(|next| *until < next)) {
                state.now = state.now.max(until);
                return Ok(Wake::Time);
            }
            let Some((at, rows)) = state.script.pop_front() else {
                state.pipe = None;
                continue;
            };
            state.now = state.now.max(at);
            state.pipe.as_ref().expect("it is open").write_all(&rows)?;
            // What was written meanwhile lies in the pipe too.
            while state.script.front().is_some_and(|(at, _)| *at <= state.now) {
                let (_, rows) = state.script.pop_front().expect("it is there");
                state.pipe.as_ref().expect("it is open").write_all(&rows)?;
            }
        }
    }
}

/// The clock of a sieve whose every look at it takes a while: so an answer takes one look, and a chunk three more.
#[derive(Debug)]
struct Slow(Arc<World>, Duration);

impl Waiter for Slow {
    fn now(&self) -> Instant {
        self.0.state.lock().expect("no panic").now += self.1;
        self.0.now()
    }

    fn wait(&self, input: BorrowedFd<'_>, until: Option<Instant>) -> io::Result<Wake> {
        self.0.wait(input, until)
    }
}

/// Runs `dedup` with `words` over what `script` writes; what came out, and when the output was how long.
fn played(
    place: &Path,
    words: &str,
    script: &[(Duration, Vec<u8>)],
    look: Duration,
) -> (String, Vec<(Duration, u64)>) {
    let pipe = place.join("pipe");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().expect("mkfifo").success());
    // A pipe that is opened for writing waits for a reader, and one for both does not.
    let both = File::options().read(true).write(true).open(&pipe).expect("the pipe");
    let writer = File::options().write(true).open(&pipe).expect("the pipe");
    drop(both);
    let path = place.join("out");
    let output = File::create(&path).expect("the output");
    let state = State {
        now: Duration::ZERO,
        script: script.iter().cloned().collect(),
        pipe: Some(writer),
        output: output.try_clone().expect("the output"),
        seen: Vec::new(),
    };
    let world = Arc::new(World { start: Instant::now(), state: Mutex::new(state) });

    let words = format!("overbank dedup -q --memory 32MiB --keys 1e4 --error 1e-12 --seed 1 -j 1 {words}");
    let mut words: Vec<_> = words.split_whitespace().map(std::ffi::OsString::from).collect();
    words.push(pipe.into());
    let Command::Dedup(arguments) = Arguments::try_parse_from(words).expect("arguments").command else {
        panic!("another command");
    };
    let (interrupt, machine) = (Interrupt::default(), &arguments.machine);
    let mut pass = Pass::new(&arguments.input, machine, Printed::Rows, &interrupt).expect("a pass");
    pass.options.waiter = Arc::clone(&world) as Arc<dyn Waiter>;
    let wanted = Wanted {
        store: None,
        filter: &arguments.filter,
        input: &arguments.input,
        machine,
        window: arguments.window.map(Into::into),
        resume: false,
        append: false,
        job: Job::FirstRows,
    };
    let scratch = Scratch::new(Some(place));
    let session = Session::open(&wanted, 1, &scratch).expect("a session");
    let file = Place { file: Some(&path), commits: true, resumes: false };
    let output = Output::open(file, None, Escape::default(), b'\n', None).expect("an output");
    let clock = Arc::new(Slow(Arc::clone(&world), look));
    let pace = Pace { commit_every: Duration::MAX, clock };
    let mut sieve = Sieve::new(&session, &scratch, machine.memory, !arguments.invert, false, output, pace)
        .expect("a sieve");
    let passed = pass.run(session.store.hasher(), None, &interrupt, &mut sieve).expect("a pass");
    assert!(passed.complete);
    let mut state = world.state.lock().expect("no panic");
    World::see(&mut state);
    (std::fs::read_to_string(path).expect("the output"), std::mem::take(&mut state.seen))
}

/// Gaps between rows: steady, bursts, pauses; from 10,000 a second to one in two seconds.
fn gaps_us() -> impl Strategy<Value = Vec<u64>> {
    let steady = (100u64..1_500_000, 2usize..200).prop_map(|(gap, rows)| vec![gap; rows]);
    let gap = prop_oneof![3 => 100u64..2000, 3 => 5000u64..140_000, 1 => 140_000u64..2_000_000, 3 => Just(0)];
    prop_oneof![steady, prop::collection::vec(gap, 2..200)]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]
    #[test]
    fn no_row_waits_longer_than_promised_whatever_the_rhythm(
        gaps_us in gaps_us(),
        kinds in prop::collection::vec(0u32..150, 200),
        look_us in prop_oneof![0u64..2000, 15_000u64..40_000],
        window in prop_oneof![Just(""), Just("--window 40")],
    ) {
        let place = tempfile::tempdir().expect("a temporary directory");
        let mut at = Duration::ZERO;
        let script: Vec<(Duration, Vec<u8>)> = gaps_us.iter().zip(&kinds).map(|(gap, kind)| {
            at += Duration::from_micros(*gap);
            (at, format!("row {kind}\n").into_bytes())
        }).collect();
        let look = Duration::from_micros(look_us);
        let (out, seen) = played(place.path(), window, &script, look);

        // All rows at once are the same stream without a rhythm.
        let whole: Vec<u8> = script.iter().flat_map(|(_, row)| row.clone()).collect();
        let other = tempfile::tempdir().expect("a temporary directory");
        let (expected, _) = played(other.path(), window, &[(Duration::ZERO, whole)], Duration::ZERO);
        prop_assert_eq!(&out, &expected);
        if !window.is_empty() {
            return Ok(());
        }
        let mut kept = HashSet::new();
        let mut end = 0;
        // Beside the wait: what the chunk before it takes, its own, and the next look at the output.
        let promise = Duration::from_millis(100).max(10 * look) + 8 * look;
        for (came, row) in script.iter().filter(|(_, row)| kept.insert(row.clone())) {
            end += row.len() as u64;
            let (out_at, _) = seen.iter().find(|(_, length)| *length >= end).expect("it came out");
            prop_assert!(*out_at <= *came + promise, "came at {came:?}, out at {out_at:?}, {look:?} a look");
        }
    }
}
