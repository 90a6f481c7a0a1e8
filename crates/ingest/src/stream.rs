//! The decompressed bytes of one input.
//!
//! A read that fails ends the stream: what came before is read as it is, and the failure is asked for at the end.

use crate::decoder::{self, Decoder};
use crate::inputs::is_stdin;
use crate::position::{HEAD_BYTES, Identity};
use crate::system::{handle, open_at_once, own_stdin, read_exact_at};
use crate::wait::{Waiter, Wake};
use crate::{Error, Options, Result};
use std::fs::File;
use std::io::{self, ErrorKind, Read, Seek, SeekFrom};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// An input that is open, before it is known what it holds.
pub(crate) struct Opened {
    raw: Raw,
    path: Arc<Path>,
    pub(crate) identity: Identity,
    /// The open file, where the input is a regular one.
    pub(crate) file: Option<File>,
}

impl Opened {
    /// Opens `path` and reads its first bytes. Every byte read is added to `progress`.
    pub(crate) fn open(
        path: &Arc<Path>,
        progress: &Arc<AtomicU64>,
        waiter: &Arc<dyn Waiter>,
    ) -> Result<Self> {
        let open_error = |source| Error::Open { path: path.to_path_buf(), source };
        let (source, file) = if is_stdin(path) {
            (own_stdin().map_err(open_error)?, None)
        } else {
            let file = open_at_once(path).map_err(open_error)?;
            let regular = file.metadata().map_err(open_error)?.is_file();
            let copy = if regular { Some(file.try_clone().map_err(open_error)?) } else { None };
            (file, copy)
        };
        let mut raw = Raw {
            source,
            head: Vec::new(),
            head_at: 0,
            consumed: 0,
            progress: Arc::clone(progress),
            waiter: Arc::clone(waiter),
            until: None,
            is_called: false,
        };
        let is_enough =
            |head: &[u8]| if file.is_some() { head.len() >= HEAD_BYTES } else { decoder::is_told(head) };
        raw.peek(is_enough).map_err(|source| raw.explain(path, source))?;
        let identity = match &file {
            Some(file) => Identity::file(path, file.metadata().map_err(open_error)?.len(), &raw.head),
            None => Identity::pipe(path),
        };
        Ok(Self { raw, path: Arc::clone(path), identity, file })
    }

    /// What `path` looks like, without reading from what is no regular file.
    pub(crate) fn look_at(path: &Arc<Path>, waiter: &Arc<dyn Waiter>) -> Result<Identity> {
        let open_error = |source| Error::Open { path: path.to_path_buf(), source };
        if is_stdin(path) || !path.metadata().map_err(open_error)?.is_file() {
            return Ok(Identity::pipe(path));
        }
        Ok(Self::open(path, &Arc::default(), waiter)?.identity)
    }

    #[cfg_attr(not(feature = "parquet"), allow(dead_code, reason = "Parquet alone is told by its file"))]
    /// The first bytes of `path`; `None` of what is no regular file, which is not read from.
    pub(crate) fn head_of_file(path: &Arc<Path>, waiter: &Arc<dyn Waiter>) -> Result<Option<Vec<u8>>> {
        let open_error = |source| Error::Open { path: path.to_path_buf(), source };
        if is_stdin(path) || !path.metadata().map_err(open_error)?.is_file() {
            return Ok(None);
        }
        Ok(Some(Self::open(path, &Arc::default(), waiter)?.raw.head))
    }

    /// The first bytes as they stand in the file.
    pub(crate) fn head(&self) -> &[u8] {
        &self.raw.head
    }

    /// The decompressed bytes.
    pub(crate) fn decompress(self, options: &Options) -> Result<Stream> {
        let Self { raw, path, file, .. } = self;
        let (head, window_bytes_max) = (raw.head.clone(), options.window_bytes_max);
        let decoder = Decoder::new(raw, &head, &path, options)?;
        let is_live = file.is_none();
        let is_seekable = !is_live && matches!(decoder, Decoder::Plain(_));
        Ok(Stream { path, decoder, is_live, is_seekable, window_bytes_max, has_failed: false, failure: None })
    }
}

/// The decompressed bytes of one input.
pub(crate) struct Stream {
    path: Arc<Path>,
    decoder: Decoder<Raw>,
    is_live: bool,
    /// Whether it is a plain file.
    is_seekable: bool,
    window_bytes_max: usize,
    has_failed: bool,
    failure: Option<Error>,
}

impl Stream {
    /// Whether its bytes may be long in coming, as those of a pipe; a regular file has all of them.
    pub(crate) fn is_live(&self) -> bool {
        self.is_live
    }

    /// What the input is waited for by.
    pub(crate) fn waiter(&self) -> &Arc<dyn Waiter> {
        &self.decoder.source().waiter
    }

    /// Reads some bytes into `into`; 0 means the end. `None` if a pipe has nothing before it is `until`.
    pub(crate) fn read_until(&mut self, into: &mut [u8], until: Option<Instant>) -> Result<Option<usize>> {
        self.decoder.source_mut().until = until;
        let outcome = self.read_or_wait(into);
        self.decoder.source_mut().until = None;
        match outcome {
            Err(Error::Read { source, .. }) if source.kind() == ErrorKind::WouldBlock => Ok(None),
            outcome => outcome.map(Some),
        }
    }

    /// Reads some bytes into `into`; 0 means the end.
    pub(crate) fn read(&mut self, into: &mut [u8]) -> Result<usize> {
        self.read_or_wait(into)
    }

    fn read_or_wait(&mut self, into: &mut [u8]) -> Result<usize> {
        while !self.has_failed {
            match self.decoder.read(into) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    return Err(self.decoder.source().explain(&self.path, error));
                }
                Err(error) => (self.failure, self.has_failed) = (Some(self.explain(error)), true),
                Ok(count) => return Ok(count),
            }
        }
        Ok(0)
    }

    /// Why the stream has ended, if it failed and nobody has asked yet.
    pub(crate) fn take_failure(&mut self) -> Option<Error> {
        self.failure.take()
    }

    /// Whether there is a failure to be asked for.
    pub(crate) fn has_failure(&self) -> bool {
        self.failure.is_some()
    }

    /// Whose bytes these are.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Goes from byte `from` to byte `to`: by seeking in a plain file, else by reading on.
    pub(crate) fn skip(&mut self, from: u64, to: u64) -> Result<()> {
        if self.is_seekable {
            let sought = self.decoder.source_mut().seek(to);
            return sought.map_err(|source| Error::Read { path: self.path.to_path_buf(), at: to, source });
        }
        let mut scratch = vec![0; 64 << 10];
        let mut at = from;
        while at < to {
            let wanted = usize::try_from(to - at).unwrap_or(usize::MAX).min(scratch.len());
            match self.read(&mut scratch[..wanted])? {
                0 if self.has_failure() => return self.take_failure().map_or(Ok(()), Err),
                0 => {
                    return Err(Error::Changed {
                        what: format!("the length of {}", self.path.display()),
                        expected: format!("at least {to} decompressed bytes"),
                        found: format!("{at}"),
                    });
                }
                count => at += count as u64,
            }
        }
        Ok(())
    }

    /// What the input looks like at its end, where that differs from what it was when it was `opened`: a log may
    /// have grown meanwhile.
    ///
    /// # Errors
    /// [`Error::Shrunk`] if it has lost bytes. A file that only claims to have bytes, as some of the system's do,
    /// has not shrunk.
    pub(crate) fn identity_at_end(&self, opened: &Identity) -> Result<Option<Identity>> {
        let raw = self.decoder.source();
        let file = &raw.source;
        let (path, at) = (self.path.to_path_buf(), raw.consumed);
        if !opened.regular || at == opened.size {
            return Ok(None);
        }
        let failed = |source| Error::Read { path: path.clone(), at, source };
        if at > opened.size {
            let mut head = vec![0; HEAD_BYTES.min(usize::try_from(at).unwrap_or(HEAD_BYTES))];
            read_exact_at(file, &mut head, 0).map_err(failed)?;
            return Ok(Some(Identity::file(&self.path, at, &head)));
        }
        match file.metadata().map_err(failed)?.len() {
            found if found < opened.size => Err(Error::Shrunk { path, expected: opened.size, found }),
            _ => Ok(None),
        }
    }

    fn explain(&self, error: io::Error) -> Error {
        let (compression, raw) = (self.decoder.name(), self.decoder.source());
        let (path, at) = (self.path.to_path_buf(), raw.consumed);
        if let Some(bytes) = self.decoder.window_too_large(&error, &raw.head) {
            return Error::WindowTooLarge { path, compression, bytes, limit_bytes: self.window_bytes_max };
        }
        match error.kind() {
            ErrorKind::UnexpectedEof if !compression.is_empty() => Error::CutShort { path, compression, at },
            _ if compression.is_empty() || error.raw_os_error().is_some() => raw.explain(&path, error),
            _ => Error::Damaged { path, what: compression, at, why: error.to_string() },
        }
    }
}

/// The bytes as they come, counted, those peeked at first.
struct Raw {
    source: File,
    head: Vec<u8>,
    head_at: usize,
    consumed: u64,
    progress: Arc<AtomicU64>,
    waiter: Arc<dyn Waiter>,
    /// When a read gives up waiting for a pipe, if it does.
    until: Option<Instant>,
    /// Whether the last wait ended because the reader was called away.
    is_called: bool,
}

impl Raw {
    /// Reads the first bytes ahead, up to a block, until there are enough of them.
    fn peek(&mut self, is_enough: impl Fn(&[u8]) -> bool) -> io::Result<()> {
        self.head.resize(HEAD_BYTES, 0);
        let mut filled = 0;
        while !is_enough(&self.head[..filled]) {
            match wait_and_read(
                &self.source,
                &*self.waiter,
                None,
                &mut self.is_called,
                &mut self.head[filled..],
            )? {
                0 => break,
                read => filled += read,
            }
        }
        self.head.truncate(filled);
        Ok(())
    }

    /// The error of an operation on the source.
    fn explain(&self, path: &Path, source: io::Error) -> Error {
        let path = path.to_path_buf();
        if self.is_called {
            Error::Interrupted { path }
        } else {
            Error::Read { path, at: self.consumed, source }
        }
    }

    fn seek(&mut self, to: u64) -> io::Result<()> {
        self.source.seek(SeekFrom::Start(to))?;
        self.head_at = self.head.len();
        self.progress.fetch_add(to.saturating_sub(self.consumed), Ordering::Relaxed);
        self.consumed = to;
        Ok(())
    }
}

impl Read for Raw {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let peeked = &self.head[self.head_at..];
        let count = if peeked.is_empty() {
            wait_and_read(&self.source, &*self.waiter, self.until, &mut self.is_called, into)?
        } else {
            let count = peeked.len().min(into.len());
            into[..count].copy_from_slice(&peeked[..count]);
            self.head_at += count;
            count
        };
        self.consumed += count as u64;
        self.progress.fetch_add(count as u64, Ordering::Relaxed);
        Ok(count)
    }
}

/// Reads what is there, or waits for it. Fails with [`ErrorKind::WouldBlock`] when it is `until`, or with `is_called` set.
fn wait_and_read(
    mut source: &File,
    waiter: &dyn Waiter,
    until: Option<Instant>,
    is_called: &mut bool,
    into: &mut [u8],
) -> io::Result<usize> {
    loop {
        let wake = waiter.wait(handle(source), until)?;
        *is_called = wake == Wake::Call;
        if wake != Wake::Input {
            return Err(ErrorKind::WouldBlock.into());
        }
        match source.read(into) {
            // The bytes may have gone to another reader of the same pipe.
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
            outcome => return outcome,
        }
    }
}
