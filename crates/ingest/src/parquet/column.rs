//! One column of one row group, cell by cell: its pages, their levels and values.

use super::codec::{self, PageBytes, Part, buffered};
use super::header::{self, DATA, DATA_V2, DICTIONARY, PageHeader, invalid};
use super::memory::{Memory, Permit};
use super::rle::Hybrid;
use super::values::{Dictionary, Values};
use super::{Fault, Width};
use ::parquet::basic::{Compression, Type};
use ::parquet::file::metadata::ColumnChunkMetaData;
use std::fs::File;
use std::io::{BufReader, Cursor, Read};
use std::sync::Arc;

/// Bytes read at a time for a page's header; most have no statistics and take 20 to 60.
const HEADER_BYTES: usize = 256;
/// An encoding that nothing writes any more.
const BIT_PACKED: u64 = 4;

/// What a column has at one place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cell {
    /// 0 starts a row; more goes on with a list.
    pub(super) repetition: i16,
    /// The column's greatest where there is a value.
    pub(super) definition: i16,
    pub(super) value: CellValue,
}

/// Whether there is a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CellValue {
    Null,
    Read,
    /// It is longer than was allowed, and was passed over.
    TooLong,
}

/// A column of a row group, being read.
pub(super) struct Column {
    file: Arc<File>,
    memory: Memory,
    codec: Compression,
    width: Width,
    definition_max: i16,
    repetition_max: i16,
    /// Where the next page starts, and where the last one ends.
    at: u64,
    end: u64,
    /// Cells that no page had yet.
    cells_left: u64,
    dictionary: Option<Dictionary>,
    page: Option<Page>,
}

struct Page {
    cells_left: u64,
    repetitions: Option<Levels>,
    definitions: Option<Levels>,
    values: Values,
    bytes: PageBytes,
    has_checksum: bool,
}

/// Levels, which stand before the values and are read along with them.
struct Levels {
    hybrid: Hybrid,
    bytes: Cursor<Vec<u8>>,
    _permit: Permit,
}

impl Levels {
    fn read(read: &mut impl Read, bytes: u64, max: i16, memory: &Memory) -> Result<Self, Fault> {
        let permit = memory.take("page", bytes)?;
        let mut levels = vec![0; bytes as usize];
        read.read_exact(&mut levels)?;
        let hybrid = Hybrid::new(bits(max))?;
        Ok(Self { hybrid, bytes: Cursor::new(levels), _permit: permit })
    }

    #[inline]
    fn next(levels: &mut Option<Self>, max: i16) -> Result<i16, Fault> {
        let Some(levels) = levels else { return Ok(max) };
        let level = levels.hybrid.next(&mut levels.bytes)?;
        match i16::try_from(level) {
            Ok(level) if level <= max => Ok(level),
            _ => Err(invalid(format!("level {level} in a column of {max}")).into()),
        }
    }
}

impl Column {
    /// The column of `chunk`, from its first cell on; the file is `size` bytes long.
    pub(super) fn open(
        file: &Arc<File>,
        size: u64,
        chunk: &ColumnChunkMetaData,
        memory: &Memory,
    ) -> Result<Self, Fault> {
        let descriptor = chunk.column_descr();
        let data = chunk.data_page_offset();
        let dictionary = chunk.dictionary_page_offset().filter(|&at| at > 0 && at < data);
        let place = |number: i64| u64::try_from(number).map_err(|_| invalid("a column at a negative place"));
        let (at, bytes) = (place(dictionary.unwrap_or(data))?, place(chunk.compressed_size())?);
        let end = at.checked_add(bytes).filter(|&end| end <= size);
        let end = end.ok_or_else(|| invalid(format!("a column of {bytes} bytes at {at} of {size}")))?;
        if chunk.file_path().is_some() {
            return Err(Fault::Unsupported("columns in other files".into()));
        }
        Ok(Self {
            file: Arc::clone(file),
            memory: memory.clone(),
            codec: chunk.compression(),
            width: Width::of(descriptor.physical_type(), descriptor.type_length()),
            definition_max: descriptor.max_def_level(),
            repetition_max: descriptor.max_rep_level(),
            at,
            end,
            cells_left: place(chunk.num_values())?,
            dictionary: None,
            page: None,
        })
    }

    /// The next cell, with its value in `value`; `None` at the end.
    #[inline]
    pub(super) fn next(&mut self, value: &mut Vec<u8>, limit: usize) -> Result<Option<Cell>, Fault> {
        if self.page.as_ref().is_none_or(|page| page.cells_left == 0) && !self.open_page(0)? {
            return Ok(None);
        }
        let Some(page) = &mut self.page else { return Ok(None) };
        page.cells_left -= 1;
        let repetition = match self.repetition_max {
            0 => 0,
            max => Levels::next(&mut page.repetitions, max)?,
        };
        let definition = Levels::next(&mut page.definitions, self.definition_max)?;
        let value = if definition < self.definition_max {
            CellValue::Null
        } else {
            let dictionary = self.dictionary.as_ref();
            match page.values.next(self.width, &mut page.bytes, dictionary, value, limit)? {
                true => CellValue::Read,
                false => CellValue::TooLong,
            }
        };
        if page.cells_left == 0 && page.has_checksum {
            // The checksum is at the end of all bytes.
            let rest = page.bytes.left();
            page.bytes.pass(rest)?;
            let _ = page.bytes.read(&mut [0])?;
        }
        Ok(Some(Cell { repetition, definition, value }))
    }

    /// Passes over `rows` rows of a column that is in no list: pages as a whole, where it can.
    pub(super) fn skip(&mut self, mut rows: u64) -> Result<(), Fault> {
        let mut value = Vec::new();
        while rows > 0 {
            let here = self.page.as_ref().map_or(0, |page| page.cells_left).min(rows);
            for _ in 0..here {
                self.next(&mut value, 0)?;
            }
            rows -= here;
            let before = self.cells_left;
            if rows > 0 && !self.open_page(rows)? {
                return Err(invalid("a column ends early").into());
            }
            if self.page.is_none() {
                rows -= before - self.cells_left;
            }
        }
        Ok(())
    }

    /// Opens the next page with cells, or passes over one that has at most `pass` of them; false at the column's end.
    #[cold]
    fn open_page(&mut self, pass: u64) -> Result<bool, Fault> {
        self.page = None;
        while self.cells_left > 0 {
            let head = Part::new(&self.file, self.at, self.end - self.at, None);
            let header = header::read(BufReader::with_capacity(HEADER_BYTES, head))?;
            let start = self.at + header.header_bytes;
            self.at = start
                .checked_add(header.compressed)
                .filter(|&end| end <= self.end)
                .ok_or_else(|| invalid("a page goes beyond its column"))?;
            match header.kind {
                DICTIONARY if self.dictionary.is_some() => {
                    return Err(invalid("a column has two dictionaries").into());
                }
                DICTIONARY => self.dictionary = Some(self.read_dictionary(start, &header)?),
                DATA | DATA_V2 => {
                    if header.values > self.cells_left {
                        let why = format!(
                            "a page claims {} values, where {} are left",
                            header.values, self.cells_left
                        );
                        return Err(invalid(why).into());
                    }
                    self.cells_left -= header.values;
                    if pass > 0 && header.values <= pass {
                        return Ok(true);
                    }
                    if header.values > 0 {
                        self.page = Some(self.read_page(start, &header)?);
                        return Ok(true);
                    }
                }
                _ => {}
            }
        }
        Ok(false)
    }

    fn read_dictionary(&self, start: u64, header: &PageHeader) -> Result<Dictionary, Fault> {
        if !matches!(header.encoding, 0 | 2) {
            return Err(Fault::Unsupported(format!("encoding {} of a dictionary", header.encoding)));
        }
        let part = buffered(Part::new(&self.file, start, header.compressed, header.crc));
        let page = codec::open(self.codec, part, header.compressed, header.uncompressed, &self.memory)
            .map_err(
                // What is short here is short for the dictionary.
                |fault| fault.of("dictionary"),
            )?;
        Dictionary::read(page, header.values, self.width, &self.memory)
    }

    fn read_page(&self, start: u64, header: &PageHeader) -> Result<Page, Fault> {
        let (repetition_max, definition_max) = (self.repetition_max, self.definition_max);
        let mut part = buffered(Part::new(&self.file, start, header.compressed, header.crc));
        let memory = &self.memory;
        let (mut repetitions, mut definitions) = (None, None);
        let mut bytes;
        if header.kind == DATA_V2 {
            let level_bytes = header.repetition_bytes.saturating_add(header.definition_bytes);
            let short = || invalid("a page is shorter than its levels");
            let compressed = header.compressed.checked_sub(level_bytes).ok_or_else(short)?;
            let uncompressed = header.uncompressed.checked_sub(level_bytes).ok_or_else(short)?;
            for (levels, bytes, max) in [
                (&mut repetitions, header.repetition_bytes, repetition_max),
                (&mut definitions, header.definition_bytes, definition_max),
            ] {
                let read = Levels::read(&mut part, bytes, max, memory)?;
                *levels = (max > 0).then_some(read);
            }
            let codec = match header.is_plain || compressed == 0 {
                true => Compression::UNCOMPRESSED,
                false => self.codec,
            };
            bytes = codec::open(codec, part, compressed, uncompressed, memory)?;
        } else {
            bytes = codec::open(self.codec, part, header.compressed, header.uncompressed, memory)?;
            let [definition_encoding, repetition_encoding] = header.level_encodings;
            for (levels, encoding, max) in [
                (&mut repetitions, repetition_encoding, repetition_max),
                (&mut definitions, definition_encoding, definition_max),
            ] {
                if max > 0 {
                    if encoding == BIT_PACKED {
                        return Err(Fault::Unsupported("levels in the BIT_PACKED form of 2013".into()));
                    }
                    let mut length = [0; 4];
                    bytes.read_exact(&mut length)?;
                    let length = u64::from(u32::from_le_bytes(length));
                    if length > bytes.left() {
                        return Err(invalid("a page is shorter than its levels").into());
                    }
                    *levels = Some(Levels::read(&mut bytes, length, max, memory)?);
                }
            }
        }
        let values = Values::open(header.encoding, self.width, &mut bytes, header.values, memory)?;
        let has_checksum = header.crc.is_some();
        Ok(Page { cells_left: header.values, repetitions, definitions, values, bytes, has_checksum })
    }
}

impl Width {
    fn of(kind: Type, length: i32) -> Self {
        match kind {
            Type::BOOLEAN => Self::Bit,
            Type::INT32 | Type::FLOAT => Self::Fixed(4),
            Type::INT64 | Type::DOUBLE => Self::Fixed(8),
            Type::INT96 => Self::Fixed(12),
            Type::BYTE_ARRAY => Self::Any,
            Type::FIXED_LEN_BYTE_ARRAY => Self::Fixed(usize::try_from(length).unwrap_or(0)),
        }
    }
}

/// How many bits a level up to `max` takes.
fn bits(max: i16) -> u32 {
    u32::from(max.unsigned_abs()).checked_ilog2().map_or(0, |bits| bits + 1)
}
