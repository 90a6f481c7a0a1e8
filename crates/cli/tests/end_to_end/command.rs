//! One run of the command: how it is started, and what it must leave behind.

use serde_json::Value;
use std::ffi::OsStr;
use std::io::Write;
use std::process::{Child, Command, Output, Stdio};

/// A run of the command that is being put together: `overbank("profile --json").with(&path).run()`.
pub(crate) struct Run {
    command: Command,
    input: Vec<u8>,
}

/// Starts with `words`, split at blanks.
pub(crate) fn overbank(words: &str) -> Run {
    let mut command = Command::new(env!("CARGO_BIN_EXE_overbank"));
    command
        .args(words.split_whitespace())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    Run { command, input: Vec::new() }
}

impl Run {
    /// Adds one argument.
    pub(crate) fn with(mut self, argument: impl AsRef<OsStr>) -> Self {
        self.command.arg(argument);
        self
    }

    /// Adds more arguments, split at blanks.
    pub(crate) fn args(mut self, words: &str) -> Self {
        self.command.args(words.split_whitespace());
        self
    }

    /// Feeds standard input.
    pub(crate) fn fed(mut self, input: impl Into<Vec<u8>>) -> Self {
        self.input = input.into();
        self
    }

    /// Sets an environment variable.
    pub(crate) fn variable(mut self, name: &str, value: &str) -> Self {
        self.command.env(name, value);
        self
    }

    /// Sends standard output elsewhere.
    pub(crate) fn output_to(mut self, output: impl Into<Stdio>) -> Self {
        self.command.stdout(output);
        self
    }

    /// Starts the process and leaves it running, its standard input at its end.
    pub(crate) fn start(mut self) -> Child {
        self.command.stdin(Stdio::null());
        self.command.spawn().expect("the command starts")
    }

    /// Starts the process and leaves it running, with pipes at its ends that the caller holds.
    pub(crate) fn piped(mut self) -> Child {
        self.command.spawn().expect("the command starts")
    }

    /// Runs to the end.
    pub(crate) fn run(mut self) -> Ran {
        let mut child = self.command.spawn().expect("the command starts");
        let mut stdin = child.stdin.take().expect("standard input is a pipe");
        let feeder = std::thread::spawn(move || {
            // A command that fails early does not read to the end.
            let _ = stdin.write_all(&self.input);
        });
        let ran = Ran::from(child.wait_with_output().expect("the command can be waited for"));
        feeder.join().expect("feeding does not panic");
        ran
    }
}

/// What a run left behind.
#[derive(Debug)]
pub(crate) struct Ran {
    /// The exit code; `None` after a signal.
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl From<Output> for Ran {
    fn from(output: Output) -> Self {
        Self {
            code: output.status.code(),
            out: String::from_utf8(output.stdout).expect("standard output is UTF-8"),
            err: String::from_utf8(output.stderr).expect("standard error is UTF-8"),
        }
    }
}

impl Ran {
    /// The text of a run that succeeded and said nothing on standard error.
    pub(crate) fn text(self) -> String {
        assert_eq!((self.code, self.err.as_str()), (Some(0), ""), "{}", self.out);
        self.out
    }

    /// The one JSON value of a run that succeeded.
    pub(crate) fn json(self) -> Value {
        serde_json::from_str(&self.text()).expect("standard output is one JSON value")
    }

    /// Checks the form of every error: exit code 2, nothing on standard output, one line that names each of `words`.
    pub(crate) fn fails_naming(&self, words: &[&str]) {
        self.ends_naming(2, words);
        assert_eq!(self.out, "", "an error prints no answer: {}", self.err);
    }

    /// Checks that nobody was told that the reader of standard output left: who sent it away knows.
    pub(crate) fn ends_in_silence(&self) {
        assert_eq!((self.code, self.err.as_str(), self.out.as_str()), (Some(141), "", ""));
    }

    /// Checks the exit code and the one line of standard error.
    pub(crate) fn ends_naming(&self, code: i32, words: &[&str]) {
        assert_eq!(self.code, Some(code), "{self:?}");
        assert!(self.err.starts_with("overbank: ") && self.err.ends_with('\n'), "{}", self.err);
        assert_eq!(self.err.lines().count(), 1, "{}", self.err);
        for word in words {
            assert!(self.err.contains(word), "{word:?} is not in {}", self.err);
        }
    }
}
