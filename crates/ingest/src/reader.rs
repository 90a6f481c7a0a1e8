//! The sequential stage: opens inputs one after another and cuts them into chunks.

use crate::chunk::{Chunk, Pool};
use crate::layout::{self, Layout};
use crate::parquet::TableInput;
use crate::piece::Place;
use crate::position::{Finished, Identity, Position};
use crate::stream::Opened;
use crate::text::{Cut, TextInput};
use crate::{Error, Format, Options, Result, csv, inputs};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Reads inputs one after another, decompressed, as chunks of whole records.
///
/// One thread reads; any number of threads parse. The chunks, their numbers and positions depend on the inputs and
/// options only.
///
/// # Cost
/// One pass over the bytes besides decompression: a copy from the kernel, and a count of newlines. Memory as
/// [`Options`] says.
pub struct Reader {
    options: Options,
    inputs: Vec<Arc<Path>>,
    next_input: usize,
    current: Option<Current>,
    /// The layout of the input being read, or of the one before.
    layout: Option<Arc<Layout>>,
    position: Position,
    pool: Arc<Pool>,
    progress: Progress,
    failures: Vec<Error>,
    /// Whether it was said that the next input may be long in coming.
    announced: bool,
}

struct Current {
    path: Arc<Path>,
    index: usize,
    layout: Arc<Layout>,
    records: Records,
}

enum Records {
    Text(Box<TextInput>),
    Rows(Box<TableInput>),
}

/// How far a reader is, for other threads to look at.
#[derive(Clone, Debug)]
pub struct Progress {
    bytes_read: Arc<AtomicU64>,
    total_bytes: Option<u64>,
}

impl Progress {
    /// Bytes of the inputs read so far, as they stand on disk: compressed, where they are.
    pub fn bytes_read(&self) -> u64 {
        self.bytes_read.load(Ordering::Relaxed)
    }

    /// The size of all inputs, where all are regular files.
    pub fn total_bytes(&self) -> Option<u64> {
        self.total_bytes
    }
}

#[cfg(feature = "parquet")]
/// The inputs, expanded, if the first of them is Parquet: what a [`crate::ParquetWriter`] takes its rows from. Pipes are not read.
///
/// # Errors
/// As [`Reader::open`].
pub fn parquet_inputs(options: &Options) -> Result<Option<Vec<std::path::PathBuf>>> {
    let inputs = inputs::expand(&options.inputs)?;
    let Some(first) = inputs.first() else { return Ok(None) };
    let is_parquet = match Opened::head_of_file(first, &options.waiter)? {
        Some(head) => layout::detect(options, first, &head) == Format::Parquet,
        None => false,
    };
    Ok(is_parquet.then(|| inputs.iter().map(|path| path.to_path_buf()).collect()))
}

impl Reader {
    /// Expands the inputs and gets ready to read the first.
    ///
    /// # Errors
    /// An option out of range, a pattern without a match, a directory, a file that cannot be opened.
    pub fn open(options: Options) -> Result<Self> {
        options.validate()?;
        let inputs = inputs::expand(&options.inputs)?;
        let progress = Progress { bytes_read: Arc::default(), total_bytes: inputs::total_bytes(&inputs) };
        let position = Position::start(options.fingerprint());
        let pool = Pool::new(options.chunk_bytes);
        Ok(Self {
            options,
            inputs,
            next_input: 0,
            current: None,
            layout: None,
            position,
            pool,
            progress,
            failures: Vec::new(),
            announced: false,
        })
    }

    /// Continues behind `position`: the remaining chunks are those of the reader it was taken from.
    ///
    /// The inputs are opened again. Plain files are sought, compressed ones decompressed up to the place; of stdin,
    /// which cannot be sought, the same number of bytes is read and dropped, so it must be the same stream from its
    /// start. The input being read may have grown; finished ones may not.
    ///
    /// # Errors
    /// As [`Reader::open`]; [`Error::Changed`] if inputs, their sizes or first bytes, format, key, form of keys, weight or
    /// value are other than they were.
    pub fn resume(options: Options, position: &Position) -> Result<Self> {
        let mut reader = Self::open(options)?;
        if position.options != reader.position.options {
            let hex = |fingerprint| format!("{fingerprint:016x}");
            let (what, expected, found) =
                reader.options.changed_since(position.options).unwrap_or_else(|| {
                    let what = "the choice of format, header, line ends, key, form of keys, weight, value or what becomes of rows \
                                without a key";
                    (what, hex(position.options), hex(reader.position.options))
                });
            return Err(Error::Changed { what: what.into(), expected, found });
        }
        if let Some(current) = &position.current {
            let index = usize::try_from(position.finished.count).unwrap_or(usize::MAX);
            let found = reader.inputs.get(index).map(|path| path.to_path_buf());
            if found.as_ref() != Some(&current.path) {
                return Err(Error::Changed {
                    what: format!("input {}", position.finished.count.saturating_add(1)),
                    expected: current.path.display().to_string(),
                    found: found.map_or("missing".into(), |path| path.display().to_string()),
                });
            }
            reader.pass(&position.finished)?;
            reader.next_input = index;
            reader.position = position.clone();
            reader.open_next(Some(current))?;
        }
        reader.position = position.clone();
        Ok(reader)
    }

    /// The next chunk, or `None` at the end of the last input.
    ///
    /// # Errors
    /// An input that cannot be read, is cut short or damaged; a column that is not there; [`Error::Interrupted`].
    pub fn next_chunk(&mut self) -> Result<Option<Chunk>> {
        loop {
            let Some(current) = &mut self.current else {
                if self.next_input == self.inputs.len() {
                    return Ok(None);
                }
                if let Some(chunk) = self.announce() {
                    return Ok(Some(chunk));
                }
                if let Err(failure) = self.open_next(None) {
                    self.leave(failure)?;
                }
                continue;
            };
            let (line_before, place) = (self.position.line, self.position.place.clone());
            let cut = match &mut current.records {
                Records::Text(input) => {
                    let cut = input.next(&self.pool, &self.options).and_then(|cut| input.settle(cut));
                    (self.position.offset, self.position.line) = (input.offset, input.line);
                    self.position.place = input.place().cloned();
                    cut
                }
                Records::Rows(table) => {
                    let records = table.next(&self.pool, &self.options);
                    let read = table.progress(matches!(records, Ok(None)));
                    self.progress.bytes_read.fetch_add(read, Ordering::Relaxed);
                    records.map(|records| {
                        let records = records?;
                        (self.position.offset, self.position.line) = (records.end, records.end);
                        let since = self.options.waiter.now();
                        Some(Cut { body: records.text, consumed: records.consumed, paused: false, since })
                    })
                }
            };
            let Cut { body, consumed, paused, since } = match cut {
                Ok(Some(cut)) => cut,
                Ok(None) => {
                    if let Err(failure) = self.finish_current() {
                        self.leave(failure)?;
                    }
                    continue;
                }
                Err(failure) => {
                    self.leave(failure)?;
                    continue;
                }
            };
            let sequence = self.position.sequence;
            self.position.sequence += 1;
            return Ok(Some(Chunk {
                sequence,
                input: Arc::clone(&current.path),
                input_index: current.index,
                layout: Arc::clone(&current.layout),
                line: line_before + 1,
                body,
                consumed,
                position: self.position.clone(),
                place,
                paused,
                since,
            }));
        }
    }

    /// What the inputs failed by that were not read to their end, in their order; only with [`Options::pass_failed_inputs`].
    pub fn take_failures(&mut self) -> Vec<Error> {
        std::mem::take(&mut self.failures)
    }

    /// Leaves an input that cannot be read further, if the options say so and the next one may do better.
    fn leave(&mut self, failure: Error) -> Result<()> {
        if !self.options.pass_failed_inputs || !failure.is_of_one_input() {
            return Err(failure);
        }
        self.current = None;
        self.failures.push(failure);
        Ok(())
    }

    /// An empty chunk before an input that may be long in coming: the rows of those before it should not wait for it.
    fn announce(&mut self) -> Option<Chunk> {
        let layout = self.layout.as_ref().filter(|_| self.options.pause.is_some())?;
        let is_live = !self.inputs[self.next_input].metadata().is_ok_and(|metadata| metadata.is_file());
        self.announced = is_live && !self.announced;
        let last = self.announced.then(|| self.next_input.checked_sub(1)).flatten()?;
        let sequence = self.position.sequence;
        self.position.sequence += 1;
        Some(Chunk {
            sequence,
            input: Arc::clone(&self.inputs[last]),
            input_index: last,
            layout: Arc::clone(layout),
            line: self.position.line + 1,
            body: self.pool.take(),
            consumed: 0,
            position: self.position.clone(),
            place: None,
            paused: true,
            since: self.options.waiter.now(),
        })
    }

    /// Where the reader stands.
    pub fn position(&self) -> &Position {
        &self.position
    }

    /// The inputs, expanded.
    pub fn inputs(&self) -> impl ExactSizeIterator<Item = &Path> {
        self.inputs.iter().map(AsRef::as_ref)
    }

    /// The header record of the input that is being read, or was read last; inputs without rows have no chunk to tell it.
    pub fn header(&self) -> Option<&[u8]> {
        self.layout.as_ref().and_then(|layout| layout.header())
    }

    /// How far the reader is, for other threads.
    pub fn progress(&self) -> Progress {
        self.progress.clone()
    }

    /// Bytes read so far, as [`Progress::bytes_read`].
    pub fn bytes_read(&self) -> u64 {
        self.progress.bytes_read()
    }

    /// The size of all inputs, where all are regular files.
    pub fn total_bytes(&self) -> Option<u64> {
        self.progress.total_bytes
    }

    /// The current input is read to its end. A file that has grown meanwhile is finished as it is now.
    fn finish_current(&mut self) -> Result<()> {
        if let (Some(current), Some(identity)) = (self.current.take(), &mut self.position.current)
            && let Records::Text(input) = current.records
            && let Some(at_end) = input.identity_at_end(identity)?
        {
            *identity = Arc::new(at_end);
        }
        Ok(())
    }

    /// Checks that the inputs which were finished have not changed since.
    fn pass(&self, finished: &Finished) -> Result<()> {
        let mut found = Finished::default();
        for path in self.inputs.iter().take(usize::try_from(finished.count).unwrap_or(usize::MAX)) {
            let identity = Opened::look_at(path, &self.options.waiter)?;
            self.progress.bytes_read.fetch_add(identity.size, Ordering::Relaxed);
            found.add(&identity);
        }
        finished.check(&found)
    }

    /// Opens the next input; where `resumed` is given, checks that it is this one and goes to the position.
    fn open_next(&mut self, resumed: Option<&Identity>) -> Result<()> {
        let (index, path) = (self.next_input, Arc::clone(&self.inputs[self.next_input]));
        let opened = match Opened::open(&path, &self.progress.bytes_read, &self.options.waiter) {
            Ok(opened) => opened,
            Err(failure @ Error::Interrupted { .. }) => return Err(failure),
            Err(failure) => {
                self.next_input = index + 1;
                self.position.enter(Identity::pipe(&path));
                return Err(failure);
            }
        };
        self.next_input = index + 1;
        let head = opened.head();
        let format = layout::detect(&self.options, &path, head);
        match resumed {
            Some(identity) => {
                let may_grow = format != Format::Parquet;
                identity.check(opened.identity.regular, opened.identity.size, head, may_grow)?;
            }
            None => self.position.enter(opened.identity.clone()),
        }
        self.options.check_escapes(format, &path)?;
        let (layout, records) = match format {
            Format::Parquet if self.options.keep_rejects => {
                return Err(Error::InvalidOption {
                    name: "rejects",
                    value: path.display().to_string(),
                    why: "rows of Parquet are no text that could be written there; leave the file of rejects away, or write the \
                          input as CSV or JSON lines first"
                        .to_owned(),
                });
            }
            Format::Parquet => {
                let Some(file) = opened.file else {
                    return Err(Error::NotAFile { path: path.to_path_buf(), what: "Parquet" });
                };
                let table = TableInput::open(file, &path, index, self.position.offset, &self.options)?;
                let types = table.column_types(self.options.columns.len());
                (
                    Layout::Parquet { keeps_rows: self.options.keep_rows || self.options.bare_rows, types },
                    Records::Rows(Box::new(table)),
                )
            }
            _ => self.open_text(opened, format, &path, resumed.is_some())?,
        };
        let layout = Arc::new(layout);
        self.layout = Some(Arc::clone(&layout));
        self.current = Some(Current { path, index, layout, records });
        Ok(())
    }

    fn open_text(
        &mut self,
        opened: Opened,
        format: Format,
        path: &Path,
        resumed: bool,
    ) -> Result<(Layout, Records)> {
        let stream = opened.decompress(&self.options)?;
        let mut input = TextInput::new(stream, layout::boundary(format, self.options.line_end()))?;
        let header = match format {
            Format::Csv { delimiter, header: true } => {
                match input.take_record(self.options.record_limit())? {
                    Some(record) => {
                        let names = csv::header(&record, delimiter);
                        Some((record, names))
                    }
                    // Nothing at all has no columns to miss.
                    None if input.is_empty() => return Ok((Layout::Lines, Records::Text(Box::new(input)))),
                    None => return Err(input.header_too_long(self.options.record_limit())),
                }
            }
            _ => None,
        };
        let layout = Layout::text(format, header, &self.options, path)?;
        if resumed {
            input.skip_to(self.position.offset, self.position.line)?;
        }
        let place = self.position.place.take();
        (self.position.offset, self.position.line) = (input.offset, input.line);
        self.position.place = None;
        if let (Format::Fasta, Some(overlap)) = (format, self.options.sequence_overlap) {
            let place = place.unwrap_or_else(|| Arc::new(Place::start()));
            input.cut_pieces(overlap, Arc::clone(&place));
            self.position.place = Some(place);
        }
        Ok((layout, Records::Text(Box::new(input))))
    }
}
