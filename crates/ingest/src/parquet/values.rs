//! The values of a page, one after another, each as its bytes: those of a string, or a number's little-endian ones.
//!
//! | encoding | memory |
//! |---|---|
//! | PLAIN, dictionary indices, DELTA_BINARY_PACKED, RLE | none |
//! | DELTA_LENGTH_BYTE_ARRAY | 4 bytes a value of the page |
//! | DELTA_BYTE_ARRAY | 8 bytes a value of the page, and the value before |
//! | BYTE_STREAM_SPLIT | the page |

use super::codec::PageBytes;
use super::delta::Deltas;
use super::header::invalid;
use super::memory::{Memory, Permit};
use super::rle::Hybrid;
use super::{Fault, Width};
use std::io::{self, Read};

/// A decoder of the values behind a page's levels.
pub(super) enum Values {
    Plain,
    /// Truth values, eight a byte: the byte at hand, and how many of it are left.
    Bits(u8, u8),
    Runs(Hybrid),
    Indices(Hybrid),
    Deltas(Deltas),
    Lengths {
        lengths: std::vec::IntoIter<u32>,
        _permit: Permit,
    },
    Fronts(Fronts),
    Split {
        bytes: Vec<u8>,
        at: usize,
        _permit: Permit,
    },
}

/// Values that start as the one before them.
pub(super) struct Fronts {
    shared: std::vec::IntoIter<u32>,
    own: std::vec::IntoIter<u32>,
    last: Vec<u8>,
    permit: Permit,
}

impl Values {
    /// The decoder for `encoding`, a number of the format's.
    pub(super) fn open(
        encoding: u64,
        width: Width,
        page: &mut PageBytes,
        values: u64,
        memory: &Memory,
    ) -> Result<Self, Fault> {
        Ok(match encoding {
            0 if width == Width::Bit => Self::Bits(0, 0),
            0 => Self::Plain,
            2 | 8 if page.left() == 0 => Self::Indices(Hybrid::new(0)?),
            2 | 8 => {
                let mut bits = [0];
                page.read_exact(&mut bits)?;
                Self::Indices(Hybrid::new(bits[0].into())?)
            }
            3 if width == Width::Bit => {
                let mut length = [0; 4];
                page.read_exact(&mut length)?;
                Self::Runs(Hybrid::new(1)?)
            }
            5 if matches!(width, Width::Fixed(4 | 8)) => Self::Deltas(Deltas::open(page)?),
            6 if width == Width::Any => {
                let mut permit = memory.take("page", 0)?;
                Self::Lengths { lengths: lengths(page, values, &mut permit)?.into_iter(), _permit: permit }
            }
            7 if !matches!(width, Width::Bit) => {
                let mut permit = memory.take("page", 0)?;
                let shared = lengths(page, values, &mut permit)?.into_iter();
                let own = lengths(page, values, &mut permit)?.into_iter();
                Self::Fronts(Fronts { shared, own, last: Vec::new(), permit })
            }
            9 if matches!(width, Width::Fixed(_)) => {
                let permit = memory.take("page", page.left())?;
                let mut bytes = vec![0; page.left() as usize];
                page.read_exact(&mut bytes)?;
                Self::Split { bytes, at: 0, _permit: permit }
            }
            other => return Err(Fault::Unsupported(format!("encoding {other} of such values"))),
        })
    }

    /// Replaces what is in `value` by the next value; false if it is longer than `limit`, and was passed over.
    #[inline]
    pub(super) fn next(
        &mut self,
        width: Width,
        page: &mut PageBytes,
        dictionary: Option<&Dictionary>,
        value: &mut Vec<u8>,
        limit: usize,
    ) -> Result<bool, Fault> {
        value.clear();
        match self {
            Self::Plain => {
                let length = match width {
                    Width::Any => {
                        let mut length = [0; 4];
                        page.read_exact(&mut length)?;
                        u32::from_le_bytes(length) as usize
                    }
                    Width::Fixed(length) => length,
                    Width::Bit => 1,
                };
                return take(page, length, value, limit);
            }
            Self::Bits(byte, left) => {
                if *left == 0 {
                    let mut next = [0];
                    page.read_exact(&mut next)?;
                    (*byte, *left) = (next[0], 8);
                }
                value.push(*byte & 1);
                (*byte, *left) = (*byte >> 1, *left - 1);
            }
            Self::Runs(hybrid) => value.push(u8::from(hybrid.next(page)? != 0)),
            Self::Indices(hybrid) => {
                let index = hybrid.next(page)? as usize;
                let bytes = dictionary.and_then(|dictionary| dictionary.get(index));
                let bytes =
                    bytes.ok_or_else(|| invalid(format!("value {index} is not in the dictionary")))?;
                if bytes.len() > limit {
                    return Ok(false);
                }
                value.extend_from_slice(bytes);
            }
            Self::Deltas(deltas) => {
                let number = deltas.next(page)?.to_le_bytes();
                let Width::Fixed(length @ (4 | 8)) = width else { return Ok(false) };
                value.extend_from_slice(&number[..length]);
            }
            Self::Lengths { lengths, .. } => {
                let length =
                    lengths.next().ok_or_else(|| io::Error::from(io::ErrorKind::UnexpectedEof))? as usize;
                return take(page, length, value, limit);
            }
            Self::Fronts(fronts) => {
                fronts.next(page)?;
                if fronts.last.len() > limit {
                    return Ok(false);
                }
                value.extend_from_slice(&fronts.last);
            }
            Self::Split { bytes, at, .. } => {
                let Width::Fixed(length) = width else { return Ok(false) };
                let values = bytes.len().checked_div(length).unwrap_or(0);
                if *at == values {
                    return Err(Fault::from(io::Error::from(io::ErrorKind::UnexpectedEof)));
                }
                value.extend((0..length).map(|byte| bytes[byte * values + *at]));
                *at += 1;
            }
        }
        Ok(true)
    }
}

impl Fronts {
    fn next(&mut self, page: &mut PageBytes) -> Result<(), Fault> {
        let (Some(shared), Some(own)) = (self.shared.next(), self.own.next()) else {
            return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
        };
        let (shared, own) = (shared as usize, own as usize);
        if shared > self.last.len() || own as u64 > page.left() {
            return Err(invalid("a value takes more of the one before than there is").into());
        }
        let length = shared + own;
        if length > self.last.capacity() {
            let capacity = length.next_power_of_two();
            self.permit.grow("value", (capacity - self.last.capacity()) as u64)?;
            self.last.reserve_exact(capacity - self.last.len());
        }
        self.last.resize(length, 0);
        Ok(page.read_exact(&mut self.last[shared..])?)
    }
}

/// Reads `length` bytes, or passes over them if they are more than `limit`.
#[inline]
fn take(page: &mut PageBytes, length: usize, value: &mut Vec<u8>, limit: usize) -> Result<bool, Fault> {
    if length > limit {
        page.pass(length as u64)?;
        return Ok(false);
    }
    value.resize(length, 0);
    page.read_exact(value)?;
    Ok(true)
}

/// As many lengths as the page has values.
fn lengths(page: &mut PageBytes, values: u64, permit: &mut Permit) -> Result<Vec<u32>, Fault> {
    let mut deltas = Deltas::open(page)?;
    let count = deltas.left();
    if count > values {
        return Err(invalid(format!("a page of {values} values claims {count} lengths")).into());
    }
    permit.grow("page", 4 * count)?;
    let mut lengths = Vec::with_capacity(count as usize);
    for _ in 0..count {
        let length = deltas.next(page)?;
        lengths.push(u32::try_from(length).map_err(|_| invalid(format!("a value of {length} bytes")))?);
    }
    deltas.finish(page)?;
    Ok(lengths)
}

/// The values that a column's pages name by their number.
#[derive(Debug)]
pub(super) struct Dictionary {
    bytes: Vec<u8>,
    /// Where each value ends, unless all have one length.
    ends: Vec<u32>,
    length: usize,
    _permit: Permit,
}

impl Dictionary {
    /// Reads a dictionary of `count` values.
    pub(super) fn read(
        mut page: PageBytes,
        count: u64,
        width: Width,
        memory: &Memory,
    ) -> Result<Self, Fault> {
        let page_bytes = page.left();
        let least_bytes = match width {
            Width::Any => 4,
            Width::Fixed(length) => length as u64,
            Width::Bit => return Err(Fault::Unsupported("a dictionary of truth values".into())),
        };
        if count.saturating_mul(least_bytes) > page_bytes {
            let why = format!("a dictionary of {page_bytes} bytes claims to hold {count} values");
            return Err(invalid(why).into());
        }
        let value_bytes = match width {
            Width::Any => page_bytes - 4 * count,
            _ => least_bytes * count,
        };
        let ends_count = if width == Width::Any { count } else { 0 };
        let permit = memory.take("dictionary", value_bytes + 4 * ends_count)?;
        let mut bytes = Vec::with_capacity(value_bytes as usize);
        let mut ends = Vec::with_capacity(ends_count as usize);
        let mut length = least_bytes as usize;
        if width == Width::Any {
            length = 0;
            for _ in 0..count {
                let mut prefix = [0; 4];
                page.read_exact(&mut prefix)?;
                let start = bytes.len();
                let end = start + u32::from_le_bytes(prefix) as usize;
                if end as u64 > value_bytes {
                    return Err(invalid("a dictionary holds more than it claims").into());
                }
                bytes.resize(end, 0);
                page.read_exact(&mut bytes[start..])?;
                ends.push(end as u32);
            }
        } else {
            bytes.resize(value_bytes as usize, 0);
            page.read_exact(&mut bytes)?;
        }
        Ok(Self { bytes, ends, length, _permit: permit })
    }

    #[inline]
    fn get(&self, index: usize) -> Option<&[u8]> {
        if self.length > 0 {
            return self.bytes.get(index * self.length..(index + 1) * self.length);
        }
        let start = if index == 0 { 0 } else { *self.ends.get(index - 1)? };
        self.bytes.get(start as usize..*self.ends.get(index)? as usize)
    }
}
