//! Runs that stop at the points which the process announces, to be let go on or ended there: no test waits for a time to pass.

use crate::command::{Ran, Run};
use crate::stream::Random;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, ExitStatus};

/// A process that waits at each point.
pub(crate) struct Announced {
    pub(crate) child: Child,
    /// `None` if the process ended before it announced anything.
    points: Option<BufReader<UnixStream>>,
    /// Whether it waits at a point now.
    waits: bool,
    _place: tempfile::TempDir,
}

pub(crate) fn pid(child: &Child) -> Pid {
    i32::try_from(child.id()).ok().and_then(Pid::from_raw).expect("a process id")
}

pub(crate) fn signal(child: &Child, signal: Signal) {
    kill_process(pid(child), signal).expect("the child has not been waited for");
}

impl Announced {
    /// Starts `run`, with `start` as a rule, and waits for its first point or its end.
    pub(crate) fn start(run: Run, start: impl FnOnce(Run) -> Child) -> Self {
        let place = tempfile::tempdir().expect("a temporary directory");
        let socket = place.path().join("points");
        let listener = UnixListener::bind(&socket).expect("a socket");
        let child = start(run.variable("OVERBANK_ANNOUNCE", socket.to_str().expect("UTF-8")));
        let end = pidfd_open(pid(&child), PidfdFlags::empty()).expect("the child has not been waited for");
        let mut ready = [PollFd::new(&listener, PollFlags::IN), PollFd::new(&end, PollFlags::IN)];
        while poll(&mut ready, None) == Err(rustix::io::Errno::INTR) {}
        let has_point = ready[0].revents().contains(PollFlags::IN);
        let points = has_point.then(|| BufReader::new(listener.accept().expect("a connection").0));
        Self { child, points, waits: false, _place: place }
    }

    /// The next point, where it waits; `None` at its end.
    pub(crate) fn point(&mut self) -> Option<String> {
        self.go_on();
        let mut line = String::new();
        let read = self.points.as_mut()?.read_line(&mut line).unwrap_or(0);
        self.waits = read > 0;
        self.waits.then(|| line.trim_end().to_owned())
    }

    /// Lets it go on from the point where it waits, if it does.
    pub(crate) fn go_on(&mut self) {
        if let Some(points) = self.points.as_mut().filter(|_| std::mem::take(&mut self.waits)) {
            // It may have been killed.
            let _ = points.get_mut().write_all(b".");
        }
    }

    /// Lets it go on until it waits at a point named so; whether there is one.
    pub(crate) fn reach(&mut self, name: &str) -> bool {
        while let Some(point) = self.point() {
            if point == name {
                return true;
            }
        }
        false
    }

    /// Lets it go on to its end; how many points there were.
    pub(crate) fn pass_all(&mut self) -> u64 {
        let mut points = 0;
        while self.point().is_some() {
            points += 1;
        }
        points
    }

    /// Kills it where it stands.
    pub(crate) fn kill(mut self) -> ExitStatus {
        signal(&self.child, Signal::KILL);
        self.child.wait().expect("the child can be waited for")
    }

    /// Waits for its end.
    pub(crate) fn end(mut self) -> Ran {
        self.pass_all();
        Ran::from(self.child.wait_with_output().expect("the child can be waited for"))
    }
}

/// How many points a run has.
pub(crate) fn points(run: Run) -> u64 {
    let mut run = Announced::start(run, Run::start);
    let points = run.pass_all();
    assert!(run.child.wait().expect("the child can be waited for").success());
    points
}

/// Starts `run` and kills it at its `passed`th point, or in one of two cases just after it may go on: then the kill falls somewhere
/// between this point and the next. Whether it was killed, not ended before.
pub(crate) fn killed(run: Run, passed: u64, random: &mut Random) -> bool {
    let mut run = Announced::start(run, Run::start);
    for _ in 0..passed {
        if run.point().is_none() {
            break;
        }
    }
    if random.below(2) == 1 {
        run.go_on();
        for _ in 0..random.below(100_000) {
            std::hint::spin_loop();
        }
    }
    let status = run.kill();
    assert!(status.success() || status.signal() == Some(Signal::KILL.as_raw()), "{status}");
    !status.success()
}
