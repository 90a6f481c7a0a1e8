//! What a Parquet page claims before it is decoded: the sizes in its header, held against the file.
//!
//! The `parquet` crate reserves what a page's header asks for, up to 2 GiB, before it looks at the page. So the header
//! is read here first, in Thrift's compact protocol, for two of its fields; everything else is skipped over.
//!
//! ```text
//! field: (id delta u4 │ type u4), or (0 │ type) and the id as a zigzag varint; a type of 0 ends the struct
//! PageHeader: 1 type i32 │ 2 uncompressed size i32 │ 3 compressed size i32 │ …
//! ```
//! Source: the Thrift compact protocol, and `parquet.thrift` of the format.

use ::parquet::column::page::{Page, PageMetadata, PageReader};
use ::parquet::errors::{ParquetError, Result as ParquetResult};
use std::io::{self, Read};

/// Any page may be as large as this: far beyond the 1 MiB that writers aim at.
const PAGE_BYTES_FREE: u64 = 64 << 20;
/// How much less than its contents a larger page may take: what LZ4 reaches at best, and twelve times what Snappy does.
const COMPRESSION_MAX: u64 = 256;
/// How deep a header's structs may nest; the format's go three deep.
const DEPTH_MAX: usize = 16;

/// Reads the page header at the start of `read` and refuses a page that claims to hold more than it can.
///
/// `left_bytes` is what the file has from there on.
pub(crate) fn check(read: impl Read, left_bytes: u64) -> io::Result<()> {
    let mut header = Header { read, uncompressed: 0, compressed: 0 };
    // A header that makes no sense is left to the decoder, which says better what is wrong.
    if header.page_header().is_err() {
        return Ok(());
    }
    let limit = PAGE_BYTES_FREE.max(header.compressed.min(left_bytes).saturating_mul(COMPRESSION_MAX));
    if header.uncompressed > limit {
        return Err(io::Error::other(format!(
            "a page of {} bytes claims to hold {}, more than {limit}",
            header.compressed, header.uncompressed
        )));
    }
    Ok(())
}

struct Header<R> {
    read: R,
    uncompressed: u64,
    compressed: u64,
}

impl<R: Read> Header<R> {
    fn page_header(&mut self) -> io::Result<()> {
        let mut id = 0;
        while let Some(kind) = self.field(&mut id)? {
            match (id, kind) {
                // The largest claim counts, should a field come twice.
                (2, 3..=6) => self.uncompressed = self.uncompressed.max(self.size()?),
                (3, 3..=6) => self.compressed = self.size()?,
                _ => self.skip(kind, 0)?,
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

    /// A size; one that is negative is none that could be reserved.
    fn size(&mut self) -> io::Result<u64> {
        Ok(u64::try_from(zigzag(self.varint()?)).unwrap_or(0))
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
        Ok(byte[0])
    }

    fn pass(&mut self, count: u64) -> io::Result<()> {
        match io::copy(&mut self.read.by_ref().take(count), &mut io::sink())? {
            passed if passed == count => Ok(()),
            _ => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }
}

fn zigzag(number: u64) -> i64 {
    (number >> 1) as i64 ^ -((number & 1) as i64)
}

/// Pages, each of which has no more values than its bytes and its row group can hold.
pub(crate) struct PlausiblePages<P> {
    pub(crate) pages: P,
    pub(crate) rows: u64,
}

impl<P: PageReader> PlausiblePages<P> {
    fn check(&self, page: &Page) -> ParquetResult<()> {
        let (values, limit) = match page {
            // A value takes a byte at least; dictionaries of booleans do not exist.
            Page::DictionaryPage { buf, num_values, .. } => (*num_values, buf.len() as u64),
            // No column in lists is read, so a row is a value.
            Page::DataPage { num_values, .. } | Page::DataPageV2 { num_values, .. } => {
                (*num_values, self.rows)
            }
        };
        if u64::from(values) > limit {
            return Err(ParquetError::General(format!(
                "a page claims to hold {values} values, more than {limit}"
            )));
        }
        Ok(())
    }
}

impl<P: PageReader> Iterator for PlausiblePages<P> {
    type Item = ParquetResult<Page>;

    fn next(&mut self) -> Option<Self::Item> {
        self.get_next_page().transpose()
    }
}

impl<P: PageReader> PageReader for PlausiblePages<P> {
    fn get_next_page(&mut self) -> ParquetResult<Option<Page>> {
        let page = self.pages.get_next_page()?;
        page.as_ref().map_or(Ok(()), |page| self.check(page))?;
        Ok(page)
    }

    fn peek_next_page(&mut self) -> ParquetResult<Option<PageMetadata>> {
        self.pages.peek_next_page()
    }

    fn skip_next_page(&mut self) -> ParquetResult<()> {
        self.pages.skip_next_page()
    }

    fn supports_deferred_dictionary(&self) -> bool {
        self.pages.supports_deferred_dictionary()
    }

    fn take_deferred_dictionary(&mut self) -> ParquetResult<Option<Page>> {
        let page = self.pages.take_deferred_dictionary()?;
        page.as_ref().map_or(Ok(()), |page| self.check(page))?;
        Ok(page)
    }

    fn at_record_boundary(&mut self) -> ParquetResult<bool> {
        self.pages.at_record_boundary()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A header with these sizes, and behind them a struct with a long string and a list, as statistics are.
    fn header(uncompressed: u64, compressed: u64) -> Vec<u8> {
        let mut bytes = vec![0x15, 0x00];
        for size in [uncompressed, compressed] {
            bytes.push(0x15);
            let mut rest = size << 1;
            while rest > 0x7f {
                bytes.push(rest as u8 | 0x80);
                rest >>= 7;
            }
            bytes.push(rest as u8);
        }
        bytes.extend([0x2c, 0x18, 5, b'a', b'b', b'c', b'd', b'e', 0x19, 0x23, 1, 2, 0x11, 0x00, 0x00]);
        bytes
    }

    #[test]
    fn a_page_may_claim_what_its_bytes_can_hold() {
        const BIG: u64 = PAGE_BYTES_FREE + 1;
        assert!(check(&header(BIG - 1, 0)[..], 100).is_ok());
        assert!(check(&header(BIG, 100)[..], u64::MAX).is_err());
        assert!(check(&header(BIG, BIG / COMPRESSION_MAX + 1)[..], u64::MAX).is_ok());
        assert!(check(&header(BIG, BIG)[..], 100).is_err(), "the compressed size is a claim too");
    }

    #[test]
    fn a_second_claim_in_the_long_form_counts() {
        let whole = header(1, 1);
        let (fields, stop) = whole.split_at(whole.len() - 1);
        let second = [fields, &[0x05, 0x04, 0xfe, 0xff, 0xff, 0xff, 0x0f], stop].concat();
        assert!(check(&whole[..], 100).is_ok());
        assert!(check(&second[..], 100).is_err());
    }

    #[test]
    fn nonsense_ends() {
        for byte in 0..=255 {
            let _ = check(io::repeat(byte).take(1 << 16), 100);
        }
        assert!(check(&[0x1c; 1000][..], 100).is_ok(), "structs in structs");
    }
}
