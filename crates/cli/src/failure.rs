//! Why a command ends without its answer, and the exit code that says so.

use crate::units;
use std::io;

/// What ends a command early. Every message is one line that names the thing and the remedy.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// A structure or the store refused.
    #[error("{}", told(.0))]
    Overbank(#[from] overbank::Error),
    /// An input could not be read.
    #[error(transparent)]
    Ingest(overbank_ingest::Error),
    /// Standard output went away.
    #[error(
        "standard output was closed before the answer was complete; read it to its end, or use --json with a file"
    )]
    ClosedPipe,
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
    /// 130 after an interrupt, as a shell expects; 2 for every other error.
    pub(crate) fn exit_code(&self) -> u8 {
        match self {
            Failure::Interrupted(_) => 130,
            _ => 2,
        }
    }
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
        _ => return None,
    };
    let bytes = value.trim_end_matches(" bytes").parse().ok().filter(|_| option == "--memory");
    let value = bytes.map_or_else(|| value.to_owned(), units::bytes);
    Some(format!("{option} cannot be {value}: {why}"))
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
