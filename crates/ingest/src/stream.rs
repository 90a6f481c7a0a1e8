//! The decompressed bytes of one input: plain, gzip of any number of members, zstd of any number of frames.
//!
//! The compression is told by the first bytes, never by the name.

use crate::inputs::is_stdin;
use crate::position::{HEAD_BYTES, Identity};
use crate::{Error, Options, Result};
use flate2::bufread::MultiGzDecoder;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use std::fs::File;
use std::io::{self, BufReader, ErrorKind, Read, Seek, SeekFrom};
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Compressed bytes per read, as `gzip` and `zstd` take them; larger gains nothing.
const COMPRESSED_BYTES: usize = 128 << 10;
const GZIP_MAGIC: &[u8] = &[0x1f, 0x8b];
const ZSTD_MAGIC: &[u8] = &[0x28, 0xb5, 0x2f, 0xfd];
/// The last three of the four bytes that start a frame which zstd skips.
const SKIPPABLE_FRAME: &[u8] = &[0x2a, 0x4d, 0x18];
pub(crate) const PARQUET_MAGIC: &[u8] = b"PAR1";

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
    pub(crate) fn open(path: &Arc<Path>, progress: &Arc<AtomicU64>) -> Result<Self> {
        let open_error = |source| Error::Open { path: path.to_path_buf(), source };
        let (source, file) = if is_stdin(path) {
            (Source(own_stdin().map_err(open_error)?), None)
        } else {
            let file = File::open(path).map_err(open_error)?;
            let regular = file.metadata().map_err(open_error)?.is_file();
            let copy = if regular { Some(file.try_clone().map_err(open_error)?) } else { None };
            (Source(file), copy)
        };
        let mut raw = Raw {
            source,
            head: Vec::new(),
            head_at: 0,
            consumed: 0,
            progress: Arc::clone(progress),
            patience: None,
        };
        let is_enough = |head: &[u8]| if file.is_some() { head.len() >= HEAD_BYTES } else { is_told(head) };
        raw.peek(is_enough).map_err(|source| Error::Read { path: path.to_path_buf(), at: 0, source })?;
        let identity = match &file {
            Some(file) => Identity::file(path, file.metadata().map_err(open_error)?.len(), &raw.head),
            None => Identity::pipe(path),
        };
        Ok(Self { raw, path: Arc::clone(path), identity, file })
    }

    /// What `path` looks like, without reading from what is no regular file.
    pub(crate) fn look_at(path: &Arc<Path>) -> Result<Identity> {
        let open_error = |source| Error::Open { path: path.to_path_buf(), source };
        if is_stdin(path) || !path.metadata().map_err(open_error)?.is_file() {
            return Ok(Identity::pipe(path));
        }
        Ok(Self::open(path, &Arc::default())?.identity)
    }

    /// The first bytes of `path`; `None` of what is no regular file, which is not read from.
    pub(crate) fn head_of_file(path: &Arc<Path>) -> Result<Option<Vec<u8>>> {
        let open_error = |source| Error::Open { path: path.to_path_buf(), source };
        if is_stdin(path) || !path.metadata().map_err(open_error)?.is_file() {
            return Ok(None);
        }
        Ok(Some(Self::open(path, &Arc::default())?.raw.head))
    }

    /// The first bytes as they stand in the file.
    pub(crate) fn head(&self) -> &[u8] {
        &self.raw.head
    }

    /// The decompressed bytes.
    pub(crate) fn decompress(self, options: &Options) -> Result<Stream> {
        let Self { raw, path, file, .. } = self;
        let head = raw.head.as_slice();
        let skippable_frame = head.get(1..4) == Some(SKIPPABLE_FRAME) && head[0] & 0xf0 == 0x50;
        let decoder = if head.starts_with(GZIP_MAGIC) {
            Decoder::Gzip(Box::new(MultiGzDecoder::new(BufReader::with_capacity(COMPRESSED_BYTES, raw))))
        } else if head.starts_with(ZSTD_MAGIC) || skippable_frame {
            let failed = |source| Error::Read { path: path.to_path_buf(), at: 0, source };
            let input = BufReader::with_capacity(COMPRESSED_BYTES, raw);
            let mut decoder = zstd::Decoder::with_buffer(input).map_err(failed)?;
            let lg_window = options.zstd_window_bytes_max.max(1 << 10).ilog2().min(31);
            decoder.window_log_max(lg_window).map_err(failed)?;
            Decoder::Zstd(Box::new(decoder))
        } else {
            Decoder::Plain { raw, seekable: file.is_some() }
        };
        Ok(Stream { path, decoder })
    }
}

/// The decompressed bytes of one input.
pub(crate) struct Stream {
    path: Arc<Path>,
    decoder: Decoder,
}

enum Decoder {
    Plain { raw: Raw, seekable: bool },
    Gzip(Box<MultiGzDecoder<BufReader<Raw>>>),
    Zstd(Box<zstd::Decoder<'static, BufReader<Raw>>>),
}

impl Stream {
    /// Reads some bytes into `into`; 0 means the end. `None` if a pipe has nothing for as long as `patience`.
    pub(crate) fn read_within(
        &mut self,
        into: &mut [u8],
        patience: Option<Duration>,
    ) -> Result<Option<usize>> {
        self.raw_mut().patience = patience;
        let outcome = self.read_or_wait(into);
        self.raw_mut().patience = None;
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
        loop {
            let outcome = match &mut self.decoder {
                Decoder::Plain { raw, .. } => raw.read(into),
                Decoder::Gzip(decoder) => decoder.read(into),
                Decoder::Zstd(decoder) => decoder.read(into),
            };
            match outcome {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(self.explain(error)),
                Ok(count) => return Ok(count),
            }
        }
    }

    /// Goes from byte `from` to byte `to`: by seeking in a plain file, else by reading on.
    pub(crate) fn skip(&mut self, from: u64, to: u64) -> Result<()> {
        if let Decoder::Plain { raw, seekable: true } = &mut self.decoder {
            let sought = raw.seek(to);
            return sought.map_err(|source| Error::Read { path: self.path.to_path_buf(), at: to, source });
        }
        let mut scratch = vec![0; 64 << 10];
        let mut at = from;
        while at < to {
            let wanted = usize::try_from(to - at).unwrap_or(usize::MAX).min(scratch.len());
            match self.read(&mut scratch[..wanted])? {
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
        let (_, raw) = self.raw();
        let Source(file) = &raw.source;
        let (path, at) = (self.path.to_path_buf(), raw.consumed);
        if !opened.regular || at == opened.size {
            return Ok(None);
        }
        let failed = |source| Error::Read { path: path.clone(), at, source };
        if at > opened.size {
            let mut head = vec![0; HEAD_BYTES.min(usize::try_from(at).unwrap_or(HEAD_BYTES))];
            file.read_exact_at(&mut head, 0).map_err(failed)?;
            return Ok(Some(Identity::file(&self.path, at, &head)));
        }
        match file.metadata().map_err(failed)?.len() {
            found if found < opened.size => Err(Error::Shrunk { path, expected: opened.size, found }),
            _ => Ok(None),
        }
    }

    /// The compression's name and the bytes that it reads.
    fn raw(&self) -> (&'static str, &Raw) {
        match &self.decoder {
            Decoder::Plain { raw, .. } => ("", raw),
            Decoder::Gzip(decoder) => ("gzip", decoder.get_ref().get_ref()),
            Decoder::Zstd(decoder) => ("zstd", decoder.get_ref().get_ref()),
        }
    }

    fn raw_mut(&mut self) -> &mut Raw {
        match &mut self.decoder {
            Decoder::Plain { raw, .. } => raw,
            Decoder::Gzip(decoder) => decoder.get_mut().get_mut(),
            Decoder::Zstd(decoder) => decoder.get_mut().get_mut(),
        }
    }

    fn explain(&self, error: io::Error) -> Error {
        let (compression, raw) = self.raw();
        let (path, at) = (self.path.to_path_buf(), raw.consumed);
        match error.kind() {
            ErrorKind::UnexpectedEof if !compression.is_empty() => Error::CutShort { path, compression, at },
            kind if kind == ErrorKind::WouldBlock
                || compression.is_empty()
                || error.raw_os_error().is_some() =>
            {
                Error::Read { path, at, source: error }
            }
            _ => Error::Damaged { path, what: compression, at, why: error.to_string() },
        }
    }
}

/// The bytes as they come, counted, those peeked at first.
struct Raw {
    source: Source,
    head: Vec<u8>,
    head_at: usize,
    consumed: u64,
    progress: Arc<AtomicU64>,
    /// How long a read waits for a pipe, if not for ever.
    patience: Option<Duration>,
}

/// An open file, pipe or terminal.
struct Source(File);

/// Standard input without the buffer that the standard library puts before it: what lies there would not be seen coming.
fn own_stdin() -> io::Result<File> {
    Ok(File::from(io::stdin().as_fd().try_clone_to_owned()?))
}

/// Whether the first bytes of a stream tell what it holds, as far as a pipe can hold it.
fn is_told(head: &[u8]) -> bool {
    let may_be_skippable =
        matches!(head, [first, rest @ ..] if first & 0xf0 == 0x50 && SKIPPABLE_FRAME.starts_with(rest));
    let may_be = |magic: &&[u8]| magic.len() > head.len() && magic.starts_with(head);
    let is_open = [GZIP_MAGIC, ZSTD_MAGIC, PARQUET_MAGIC].iter().any(may_be);
    !is_open && (!may_be_skippable || head.len() > SKIPPABLE_FRAME.len())
}

impl Raw {
    /// Reads the first bytes ahead, up to a block, until there are enough of them.
    fn peek(&mut self, is_enough: impl Fn(&[u8]) -> bool) -> io::Result<()> {
        self.head.resize(HEAD_BYTES, 0);
        let mut filled = 0;
        while !is_enough(&self.head[..filled]) {
            match self.source.read(&mut self.head[filled..]) {
                Ok(0) => break,
                Ok(read) => filled += read,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        self.head.truncate(filled);
        Ok(())
    }

    fn seek(&mut self, to: u64) -> io::Result<()> {
        self.source.0.seek(SeekFrom::Start(to))?;
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
            if let Some(patience) = self.patience {
                self.source.wait(patience)?;
            }
            self.source.read(into)?
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

impl Read for Source {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.0.read(into)
    }
}

impl Source {
    /// Waits until a read would not; fails with [`ErrorKind::WouldBlock`] after `patience`, or when a signal comes.
    fn wait(&self, patience: Duration) -> io::Result<()> {
        let timeout = Timespec::try_from(patience).map_err(|_| ErrorKind::InvalidInput)?;
        match poll(&mut [PollFd::new(&self.0, PollFlags::IN)], Some(&timeout)) {
            Ok(0) | Err(Errno::INTR) => Err(ErrorKind::WouldBlock.into()),
            // What is wrong with the source, reading it will tell.
            _ => Ok(()),
        }
    }
}
