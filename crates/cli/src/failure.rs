//! Why a command ends without its answer, and the exit code that says so.

use std::io;

/// What ends a command early. Every message is one line that names the thing and the remedy.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// A structure or the store refused.
    #[error(transparent)]
    Overbank(#[from] overbank::Error),
    /// An input could not be read.
    #[error(transparent)]
    Ingest(overbank_ingest::Error),
    /// Standard output went away.
    #[error(
        "standard output was closed before the answer was complete; read it to its end, or use --json with a file"
    )]
    ClosedPipe,
    /// Standard output cannot be written.
    #[error("cannot write to standard output: {0}; free some space or choose another place")]
    Output(io::Error),
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

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        if error.kind() == io::ErrorKind::BrokenPipe { Failure::ClosedPipe } else { Failure::Output(error) }
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
