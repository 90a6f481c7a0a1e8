//! Why a command ends without its answer, and the exit code that says so.

use crate::escape::escaped;
use crate::units;
use std::fmt::Display;
use std::io::{self, Write as _};

/// What ends a command early. Every message is one line that names the thing and the remedy.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// A structure or the store refused.
    #[error("{}", told(.0))]
    Overbank(#[from] overbank::Error),
    /// An input could not be read.
    #[error(transparent)]
    Ingest(overbank_ingest::Error),
    /// Who read standard output wants no more of it, as `head` does.
    #[error("standard output was closed before the answer was complete")]
    ClosedPipe,
    /// There is no standard output.
    #[error(
        "standard output is closed, so the answer would be lost; give it a file, a pipe, or /dev/null if it is not wanted"
    )]
    NoOutput,
    /// There is no standard input.
    #[error(
        "standard input is closed, so there is nothing to read; name a file, or give it a file or a pipe, or /dev/null if it is to be empty"
    )]
    NoInput,
    /// The output cannot be written.
    #[error("cannot write to {place}: {source}; {}", remedy(source))]
    Output {
        /// Standard output, or the file.
        place: String,
        /// What the operating system said.
        source: io::Error,
    },
    /// The options contradict each other or the store.
    #[error("{0}")]
    Usage(String),
    /// Ctrl-C, or a termination signal. What was committed is kept.
    #[error("{0}")]
    Interrupted(String),
}

impl Failure {
    /// As a shell expects it, 130 after an interrupt, and 141 when nobody reads on; 2 for every other error.
    pub(crate) fn exit_code(&self) -> u8 {
        match self {
            Failure::Interrupted(_) => 130,
            Failure::ClosedPipe => 141,
            _ => 2,
        }
    }

    /// Says it on standard error, unless the reader who left knows it.
    pub(crate) fn say(&self) {
        if !matches!(self, Failure::ClosedPipe) {
            say(self);
        }
    }
}

/// A line on standard error. Names of files may hold control characters, which no terminal is to obey.
pub(crate) fn say(message: impl Display) {
    let message = message.to_string();
    // Nobody is left to tell when standard error is closed too.
    let _ = writeln!(io::stderr(), "overbank: {}", escaped(message.as_bytes()));
}

impl From<overbank_ingest::Error> for Failure {
    /// A pass that is called away ends its stream; only what comes before the pass fails by it, and has changed nothing.
    fn from(error: overbank_ingest::Error) -> Self {
        match error {
            overbank_ingest::Error::Interrupted { .. } => {
                Failure::Interrupted(format!("{error}; run the same command again"))
            }
            error => Failure::Ingest(error),
        }
    }
}

impl Failure {
    /// What is said of an output that cannot be written.
    pub(crate) fn output(place: &str, source: io::Error) -> Self {
        match source.kind() {
            io::ErrorKind::BrokenPipe if place == STANDARD_OUTPUT => Failure::ClosedPipe,
            _ => Failure::Output { place: place.to_owned(), source },
        }
    }
}

/// How messages call standard output.
pub(crate) const STANDARD_OUTPUT: &str = "standard output";

/// An error while standard output is written.
impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Failure::output(STANDARD_OUTPUT, error)
    }
}

/// What helps against an error of a write.
pub(crate) fn remedy(error: &io::Error) -> &'static str {
    use io::ErrorKind::{
        FileTooLarge, IsADirectory, NotFound, PermissionDenied, QuotaExceeded, ReadOnlyFilesystem,
        StorageFull,
    };
    match error.kind() {
        StorageFull | QuotaExceeded => "free some space or choose another place",
        FileTooLarge => "raise the limit of file sizes (ulimit -f), or choose a file system for larger files",
        PermissionDenied | ReadOnlyFilesystem | IsADirectory | NotFound => {
            "choose a place that can be written"
        }
        _ => "the system's log may tell why; choose another place",
    }
}

/// An error of the library, with what helps where the operating system refused a write, and options as the command names them.
fn told(error: &overbank::Error) -> String {
    match error {
        // Of decimals, or of integers as such.
        overbank::Error::InvalidOption { name: "a sum", value, .. } if value.starts_with("about") => {
            format!("a sum is {value}, which has more than 38 digits; sum floats instead: --types x:float")
        }
        overbank::Error::InvalidOption { name: "a sum", value, .. } => format!(
            "a sum is {value}, which does not fit; --overflow wide gives sums of integers 38 digits, --overflow saturate \
             the nearest number that fits"
        ),
        overbank::Error::InvalidOption { name, value, why } => {
            as_given(name, value, why).unwrap_or_else(|| error.to_string())
        }
        overbank::Error::Io { op: "write" | "create" | "sync" | "set the length of", source, .. } => {
            format!("{error}; {}", remedy(source))
        }
        _ => error.to_string(),
    }
}

/// The refusal of an option of the library, with the name and the units that the command gives it.
fn as_given(name: &str, value: &str, why: &str) -> Option<String> {
    let option = match name {
        "false_positive_rate" => "--error",
        "epsilon" => "--epsilon",
        "delta" => "--delta",
        "cell_bits" => "--cell-bits",
        "memory" | "memory_bytes" => "--memory",
        "keys" => "--keys",
        "bytes" => "--flash",
        _ => return None,
    };
    let bytes = value.trim_end_matches(" bytes").parse().ok().filter(|_| option == "--memory");
    let value = bytes.map_or_else(|| short(value), units::bytes);
    Some(format!("{option} cannot be {value}: {why}"))
}

/// A number as people give it: those with many zeros by their power of ten.
fn short(value: &str) -> String {
    match value.parse::<f64>() {
        Ok(number) if number != 0.0 && number.abs() < 1e-4 => format!("{number:e}"),
        _ => value.to_owned(),
    }
}

/// How a command that ran to its end went.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Outcome {
    /// Exit code 0.
    Found,
    /// Exit code 1: asked for something that is not there.
    Absent,
}

/// The result of a command.
pub(crate) type CommandResult = Result<Outcome, Failure>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sum_that_does_not_fit_names_the_option() {
        let options = overbank::Error::InvalidOption {
            name: "a sum",
            value: (1u64 << 63).to_string(),
            why: String::new(),
        };
        let said = Failure::from(options).to_string();
        assert!(said.contains("9223372036854775808") && said.contains("--overflow wide"), "{said}");
        let options = overbank::Error::InvalidOption {
            name: "a sum",
            value: "about 2e38".to_owned(),
            why: String::new(),
        };
        let said = Failure::from(options).to_string();
        assert!(said.contains("2e38") && said.contains("float") && !said.contains("wide"), "{said}");
    }

    #[test]
    fn the_remedy_is_that_of_the_errors_number() {
        let told = |errno: rustix::io::Errno| Failure::output("out", errno.into()).to_string();
        assert!(told(rustix::io::Errno::NOSPC).contains("free some space"));
        assert!(told(rustix::io::Errno::DQUOT).contains("free some space"));
        assert!(told(rustix::io::Errno::FBIG).contains("ulimit -f"));
        let failed = told(rustix::io::Errno::IO);
        assert!(failed.contains("cannot write to out") && failed.contains("another place"), "{failed}");
        assert!(!failed.contains("free some space"), "{failed}");
        assert!(
            Failure::output(STANDARD_OUTPUT, rustix::io::Errno::PIPE.into())
                .to_string()
                .contains("was closed")
        );
    }
}
