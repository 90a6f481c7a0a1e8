//! A page's header, in Thrift's compact protocol: what the page claims to be, before anything is taken for it.
//!
//! ```text
//! field: (id delta u4 │ type u4), or (0 │ type) and the id as a zigzag varint; a type of 0 ends the struct
//! PageHeader: 1 type │ 2 uncompressed size │ 3 compressed size │ 4 crc │ 5 data │ 7 dictionary │ 8 data of version 2
//!     data, dictionary: 1 values │ 2 encoding │ 3, 4 encodings of definition and repetition levels
//!     version 2: 1 values │ 4 encoding │ 5, 6 bytes of definition and repetition levels │ 7 is compressed
//! ```
//! Everything else is skipped over, however long. Source: the Thrift compact protocol, and `parquet.thrift` of the format.

use std::io::{self, Read};

/// How deep a header's structs may nest; the format's go three deep.
const DEPTH_MAX: usize = 16;

/// What a page claims to be.
#[derive(Debug, Default)]
pub(super) struct PageHeader {
    pub(super) kind: u64,
    pub(super) uncompressed: u64,
    pub(super) compressed: u64,
    /// The checksum of the page as it stands in the file.
    pub(super) crc: Option<u32>,
    pub(super) values: u64,
    pub(super) encoding: u64,
    /// How the levels of a first version's page are encoded: of definitions and of repetitions.
    pub(super) level_encodings: [u64; 2],
    pub(super) definition_bytes: u64,
    pub(super) repetition_bytes: u64,
    pub(super) is_plain: bool,
    /// How long the header itself is.
    pub(super) header_bytes: u64,
}

/// The kinds of pages.
pub(super) const DATA: u64 = 0;
pub(super) const DICTIONARY: u64 = 2;
pub(super) const DATA_V2: u64 = 3;

/// Reads the header at the start of `read`.
pub(super) fn read(read: impl Read) -> io::Result<PageHeader> {
    let mut reader = Thrift { read, count: 0 };
    let mut page = PageHeader::default();
    let mut id = 0;
    while let Some(kind) = reader.field(&mut id)? {
        match (id, kind) {
            (1, 3..=6) => page.kind = reader.size()?,
            (2, 3..=6) => page.uncompressed = reader.size()?,
            (3, 3..=6) => page.compressed = reader.size()?,
            (4, 3..=6) => page.crc = Some(zigzag(reader.varint()?) as u32),
            (5 | 7 | 8, 12) => reader.own(&mut page, id)?,
            _ => reader.skip(kind, 0)?,
        }
    }
    page.header_bytes = reader.count;
    Ok(page)
}

struct Thrift<R> {
    read: R,
    count: u64,
}

impl<R: Read> Thrift<R> {
    /// What a page of one kind has to say: the header's field `of`.
    fn own(&mut self, page: &mut PageHeader, of: i64) -> io::Result<()> {
        let mut id = 0;
        while let Some(kind) = self.field(&mut id)? {
            match (of, id, kind) {
                (_, 1, 3..=6) => page.values = self.size()?,
                (5 | 7, 2, 3..=6) | (8, 4, 3..=6) => page.encoding = self.size()?,
                (5, 3 | 4, 3..=6) => page.level_encodings[id as usize - 3] = self.size()?,
                (8, 5, 3..=6) => page.definition_bytes = self.size()?,
                (8, 6, 3..=6) => page.repetition_bytes = self.size()?,
                (8, 7, 1 | 2) => page.is_plain = kind == 2,
                _ => self.skip(kind, 1)?,
            }
        }
        Ok(())
    }

    /// The next field's type; `None` at the end of the struct.
    fn field(&mut self, id: &mut i64) -> io::Result<Option<u8>> {
        let byte = self.byte()?;
        if byte == 0 {
            return Ok(None);
        }
        *id = match byte >> 4 {
            0 => zigzag(self.varint()?),
            delta => id.wrapping_add(i64::from(delta)),
        };
        Ok(Some(byte & 0xf))
    }

    fn skip(&mut self, kind: u8, depth: usize) -> io::Result<()> {
        if depth == DEPTH_MAX {
            return Err(io::ErrorKind::InvalidData.into());
        }
        match kind {
            // Booleans are in the type.
            1 | 2 => Ok(()),
            3 => self.pass(1),
            4..=6 => self.varint().map(drop),
            7 => self.pass(8),
            8 => {
                let len = self.varint()?;
                self.pass(len)
            }
            9 | 10 => {
                let byte = self.byte()?;
                let count = if byte >> 4 == 15 { self.varint()? } else { u64::from(byte >> 4) };
                // In a list each boolean is a byte.
                let kind = if byte & 0xf <= 2 { 3 } else { byte & 0xf };
                (0..count).try_for_each(|_| self.skip(kind, depth + 1))
            }
            12 => {
                let mut id = 0;
                while let Some(kind) = self.field(&mut id)? {
                    self.skip(kind, depth + 1)?;
                }
                Ok(())
            }
            // Maps do not occur in page headers.
            _ => Err(io::ErrorKind::InvalidData.into()),
        }
    }

    /// A number that is not negative.
    fn size(&mut self) -> io::Result<u64> {
        u64::try_from(zigzag(self.varint()?)).map_err(|_| invalid("a page header has a negative size"))
    }

    fn varint(&mut self) -> io::Result<u64> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            number |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Ok(number);
            }
        }
        Err(io::ErrorKind::InvalidData.into())
    }

    fn byte(&mut self) -> io::Result<u8> {
        let mut byte = [0];
        self.read.read_exact(&mut byte)?;
        self.count += 1;
        Ok(byte[0])
    }

    fn pass(&mut self, count: u64) -> io::Result<()> {
        match io::copy(&mut self.read.by_ref().take(count), &mut io::sink())? {
            passed if passed == count => {
                self.count += count;
                Ok(())
            }
            _ => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }
}

fn zigzag(number: u64) -> i64 {
    (number >> 1) as i64 ^ -((number & 1) as i64)
}

/// What is wrong with stored bytes.
pub(super) fn invalid(why: impl Into<String>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sizes, a checksum, and behind them a data page's own header with statistics: a struct with a long string and a list.
    const WHOLE: &[u8] = &[
        0x15, 0, 0x15, 0x80, 0x01, 0x15, 20, 0x15, 1, 0x1c, 0x15, 6, 0x15, 16, 0x3c, 0x18, 5, b'a', b'b',
        b'c', b'd', b'e', 0x19, 0x23, 1, 2, 0x11, 0, 0, 0,
    ];

    #[test]
    fn what_is_needed_is_found_and_the_rest_passed_over() {
        let page = read(&[WHOLE, b"page"].concat()[..]).expect("a header");
        assert_eq!((page.kind, page.uncompressed, page.compressed), (DATA, 64, 10));
        assert_eq!((page.values, page.encoding, page.crc), (3, 8, Some(u32::MAX)));
        assert_eq!(page.header_bytes, WHOLE.len() as u64);
        for length in 0..WHOLE.len() {
            assert!(read(&WHOLE[..length]).is_err(), "{length} bytes");
        }
    }

    #[test]
    fn nonsense_ends() {
        for byte in 0..=255 {
            let _ = read(io::repeat(byte).take(1 << 16));
        }
        assert!(read(&[0x1c; 1000][..]).is_err(), "structs in structs");
    }
}
