//! Live inputs on a clock that the test drives: whatever the rhythm in which bytes come, rows are given out in time, and none is
//! lost.
#![allow(clippy::unwrap_used)]

mod naive;

use naive::check::hasher;
use overbank_ingest::{Batch, Error, Options, Parser, Reader, Waiter, Wake};
use proptest::prelude::*;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::BorrowedFd;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

const PAUSE: Duration = Duration::from_millis(100);
const TICK: Duration = Duration::from_millis(25);

/// A producer at the other end of a pipe, and the clock by which it writes: time goes on where the reader waits, nowhere else.
#[derive(Debug)]
struct Producer {
    start: Instant,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    now: Duration,
    /// What is written when; behind the last, the pipe is closed.
    script: VecDeque<(Duration, Vec<u8>)>,
    pipe: Option<File>,
    /// When the reader is called away.
    call_at: Option<Duration>,
}

impl Producer {
    fn now(&self) -> Duration {
        self.state.lock().unwrap().now
    }

    /// The consumer works for so long.
    fn work(&self, time: Duration) {
        self.state.lock().unwrap().now += time;
    }
}

impl Waiter for Producer {
    fn now(&self) -> Instant {
        self.start + Producer::now(self)
    }

    fn wait(&self, input: BorrowedFd<'_>, until: Option<Instant>) -> io::Result<Wake> {
        let mut state = self.state.lock().unwrap();
        let until = until.map(|until| until.duration_since(self.start));
        loop {
            if state.call_at.is_some_and(|call_at| call_at <= state.now) {
                return Ok(Wake::Call);
            }
            let mut looked_at = [PollFd::from_borrowed_fd(input, PollFlags::IN)];
            if poll(&mut looked_at, Some(&Timespec::default()))? > 0 {
                return Ok(Wake::Input);
            }
            let next = match state.script.front() {
                Some((at, _)) => Some(*at),
                // The end comes with the last bytes.
                None if state.call_at.is_none() => {
                    state.pipe = None;
                    continue;
                }
                None => state.call_at,
            };
            let next = [next, state.call_at].into_iter().flatten().min().unwrap();
            if let Some(until) = until.filter(|until| *until < next) {
                state.now = state.now.max(until);
                return Ok(Wake::Time);
            }
            state.now = state.now.max(next);
            if state.script.front().is_some_and(|(at, _)| *at <= next) {
                let (_, bytes) = state.script.pop_front().unwrap();
                state.pipe.as_ref().unwrap().write_all(&bytes)?;
            }
        }
    }
}

/// Options to read what `script` writes, and the clock.
fn played(
    place: &Path,
    script: Vec<(Duration, Vec<u8>)>,
    call_at: Option<Duration>,
) -> (Options, Arc<Producer>) {
    let path = place.join("pipe");
    assert!(std::process::Command::new("mkfifo").arg(&path).status().unwrap().success());
    // A pipe that is opened for writing waits for a reader, and one for both does not.
    let both = File::options().read(true).write(true).open(&path).unwrap();
    let pipe = File::options().write(true).open(&path).unwrap();
    let state = State { now: Duration::ZERO, script: script.into(), pipe: Some(pipe), call_at };
    let producer = Arc::new(Producer { start: Instant::now(), state: Mutex::new(state) });
    drop(both);
    let mut options = Options::new([path]);
    options.pause = Some(PAUSE);
    options.waiter = Arc::clone(&producer) as Arc<dyn Waiter>;
    (options, producer)
}

#[derive(Clone, Copy, Debug)]
enum Compression {
    Plain,
    Gzip,
    Zstd,
}

/// Each piece as a writer sends it that flushes behind every one.
fn flushed(pieces: &[Vec<u8>], compression: Compression) -> Vec<Vec<u8>> {
    let end = |mut pieces: Vec<Vec<u8>>, tail: Vec<u8>| {
        pieces.push(tail);
        pieces
    };
    match compression {
        Compression::Plain => pieces.to_vec(),
        Compression::Gzip => {
            let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
            let flush = |piece: &Vec<u8>| {
                encoder.write_all(piece).unwrap();
                encoder.flush().unwrap();
                std::mem::take(encoder.get_mut())
            };
            let sent = pieces.iter().map(flush).collect();
            end(sent, encoder.finish().unwrap())
        }
        Compression::Zstd => {
            let mut encoder = zstd::Encoder::new(Vec::new(), 1).unwrap();
            let flush = |piece: &Vec<u8>| {
                encoder.write_all(piece).unwrap();
                encoder.flush().unwrap();
                std::mem::take(encoder.get_mut())
            };
            let sent = pieces.iter().map(flush).collect();
            end(sent, encoder.finish().unwrap())
        }
    }
}

/// Gaps between what is written: steady from 1 to 10,000 a second, bursts, and pauses.
fn gap_us() -> impl Strategy<Value = u64> {
    prop_oneof![4 => 100u64..3000, 4 => 3000u64..130_000, 1 => 130_000u64..3_000_000, 2 => Just(0)]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]
    #[test]
    fn rows_are_given_out_in_time_whatever_the_rhythm(
        steady_us in prop_oneof![Just(None), (100u64..1_000_000).prop_map(Some)],
        pieces in prop::collection::vec((gap_us(), "[ab\n]{1,12}"), 1..150),
        work_us in prop::collection::vec(0u64..60_000, 1..8),
        chunk_bytes in 8usize..400,
        chunk_lines in 1usize..9,
        compression in prop_oneof![
            Just(Compression::Plain), Just(Compression::Gzip), Just(Compression::Zstd)
        ],
    ) {
        let place = tempfile::tempdir().unwrap();
        let texts: Vec<Vec<u8>> = pieces.iter().map(|(_, text)| text.clone().into_bytes()).collect();
        let mut at = Duration::ZERO;
        let times: Vec<Duration> = pieces.iter().map(|(gap, _)| {
            at += Duration::from_micros(steady_us.unwrap_or(*gap));
            at
        }).collect();
        // When each row's end was written.
        let mut ends: VecDeque<Duration> = VecDeque::new();
        for (text, time) in texts.iter().zip(&times) {
            ends.extend(text.iter().filter(|byte| **byte == b'\n').map(|_| *time));
        }
        let sent = flushed(&texts, compression);
        let last = *times.last().unwrap();
        let script = times.iter().copied().chain([last]).zip(sent).collect();
        let (mut options, producer) = played(place.path(), script, None);
        (options.chunk_bytes, options.chunk_lines, options.keep_rows) = (chunk_bytes, chunk_lines, true);
        let mut reader = Reader::open(options.clone()).unwrap();
        let (parser, mut batch) = (Parser::new(&options, hasher()), Batch::new());
        let (mut text, mut work, mut given_at) = (Vec::new(), work_us.iter().cycle(), Duration::ZERO);
        let mut left_behind = false;
        while let Some(chunk) = reader.next_chunk().unwrap() {
            let now = producer.now();
            let since = chunk.since().duration_since(producer.start);
            // The reader is asked again at `given_at`; what it left behind in a full chunk comes with the next.
            prop_assert!(left_behind || now <= given_at.max(last) + Duration::from_secs(1), "a chunk at least every second");
            let rows = chunk.text().iter().filter(|byte| **byte == b'\n').count();
            for _ in 0..rows {
                let end = ends.pop_front().unwrap();
                prop_assert!(left_behind || now <= end.max(given_at) + TICK, "written at {end:?}, out at {now:?}");
                prop_assert!(left_behind || since <= end.max(given_at), "written at {end:?}, since {since:?}");
            }
            left_behind = ends.front().is_some_and(|end| *end <= now);
            text.extend_from_slice(chunk.text());
            parser.parse(chunk, &mut batch).unwrap();
            producer.work(Duration::from_micros(*work.next().unwrap()));
            given_at = producer.now();
        }
        prop_assert_eq!(text, texts.concat());
    }
}

#[test]
fn a_call_ends_the_wait_for_any_input() {
    let second = Duration::from_secs(1);
    for (what, written) in [
        ("nothing", &b""[..]),
        ("the start of a compression", b"\x1f"),
        ("a row without its end", b"half"),
        ("half a gzip header", b"\x1f\x8b\x08\x00"),
        ("a row longer than any", &[0; 4000]),
    ] {
        let place = tempfile::tempdir().unwrap();
        let script = if written.is_empty() { vec![] } else { vec![(Duration::ZERO, written.to_vec())] };
        let (mut options, producer) = played(place.path(), script, Some(10 * second));
        (options.chunk_bytes, options.record_bytes_max) = (100, 1000);
        let mut reader = Reader::open(options).unwrap();
        let error = loop {
            match reader.next_chunk() {
                Ok(chunk) => assert!(chunk.unwrap().is_empty(), "{what}"),
                Err(error) => break error,
            }
        };
        assert!(matches!(error, Error::Interrupted { .. }), "{what}: {error}");
        assert_eq!(producer.now(), 10 * second, "{what}");
    }
}

#[test]
fn whole_rows_come_before_a_call_is_obeyed() {
    let place = tempfile::tempdir().unwrap();
    let script = vec![(Duration::ZERO, b"a\nb\nhal".to_vec())];
    let (options, _) = played(place.path(), script, Some(Duration::from_millis(1)));
    let mut reader = Reader::open(options).unwrap();
    assert_eq!(reader.next_chunk().unwrap().unwrap().text(), b"a\nb\n");
    assert!(matches!(reader.next_chunk().unwrap_err(), Error::Interrupted { .. }));
}

#[test]
fn rows_before_a_slow_input_are_told_not_to_wait_for_it() {
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("file");
    std::fs::write(&file, "a\n").unwrap();
    let (mut options, _) = played(place.path(), vec![(Duration::from_secs(9), b"b\n".to_vec())], None);
    options.inputs.insert(0, file);
    let mut reader = Reader::open(options).unwrap();
    let mut next =
        || reader.next_chunk().unwrap().map(|chunk| (chunk.text().to_vec(), chunk.is_before_pause()));
    assert_eq!(next(), Some((b"a\n".to_vec(), false)));
    assert_eq!(next(), Some((Vec::new(), true)), "at once");
    assert_eq!(next().map(|(text, _)| text), Some(b"b\n".to_vec()));
}
