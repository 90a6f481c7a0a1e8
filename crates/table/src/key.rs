//! Keys of several columns as one string of bytes.
//!
//! ```text
//!   column      bytes
//!   whole       80 + n for 0 ≤ n ≤ 110                                  1 byte
//!               EF + bytes − 1 │ the number, highest byte first         2 to 17 bytes
//!               of n < 0 all bits of the code of −1 − n are turned
//!   float       its bits, turned so that they sort as it does           4 or 8 bytes
//!   bytes       00 ends them; 00 in them is 01 01, 01 is 01 02
//!   last bytes  as they are; 00 before those that begin with 00
//!   NULL        whole FF │ float FF FF │ bytes 01 03 │ last bytes 00
//! ```
//!
//! 1. Different rows have different keys, equal ones the same: each column's code tells where it ends but the last one's, which ends with
//!    the key. NULL is a value like others, equal to itself, as GROUP BY has it.
//! 2. −0.0 is 0.0, and all NaNs are one.
//! 3. A key of one column of text is the text, so that it hashes as the same text does elsewhere; only NULL and what begins with a zero
//!    byte have one more.

use crate::cell::{Cell, Cells, Form};
use crate::{Error, Result};

/// The greatest number that is its own code.
const INLINE_MAX: u128 = 110;
/// The code of zero.
const ZERO: u8 = 0x80;
/// The code of a number of one byte more than are inline.
const ONE_BYTE: u8 = 0xEF;
const NULL_WHOLE: u8 = 0xFF;
/// The first bytes of no float: of a NaN that is none of ours.
const NULL_FLOAT: [u8; 2] = [0xFF, 0xFF];
const END: u8 = 0;
const ESCAPE: u8 = 1;
const NULL_BYTES: [u8; 2] = [ESCAPE, 3];

/// Appends the key of a row.
pub(crate) fn append(forms: &[Form], columns: &[Cells<'_>], row: usize, out: &mut Vec<u8>) {
    for (i, (form, cells)) in forms.iter().zip(columns).enumerate() {
        let is_null = cells.is_null(row);
        match form {
            Form::Whole if is_null => out.push(NULL_WHOLE),
            Form::Whole => append_whole(cells.whole(row), out),
            Form::Float32 | Form::Float64 if is_null => out.extend(NULL_FLOAT),
            Form::Float32 => {
                let bits = canonical(cells.float(row)) as f32;
                out.extend(turned_32(bits.to_bits()).to_be_bytes());
            }
            Form::Float64 => out.extend(turned_64(canonical(cells.float(row)).to_bits()).to_be_bytes()),
            Form::Bytes if i + 1 == forms.len() => {
                if is_null {
                    out.push(END);
                    continue;
                }
                let bytes = cells.bytes(row);
                if bytes.first() == Some(&END) {
                    out.push(END);
                }
                out.extend_from_slice(bytes);
            }
            Form::Bytes if is_null => out.extend(NULL_BYTES),
            Form::Bytes => {
                for &byte in cells.bytes(row) {
                    match byte {
                        END | ESCAPE => out.extend([ESCAPE, byte + 1]),
                        _ => out.push(byte),
                    }
                }
                out.push(END);
            }
        }
    }
}

/// The values that a key is made of.
///
/// # Errors
/// `Foreign` for bytes that are no key of these forms.
pub(crate) fn read(forms: &[Form], key: &[u8]) -> Result<Vec<Cell>> {
    let mut rest = key;
    let mut cells = Vec::with_capacity(forms.len());
    for (i, form) in forms.iter().enumerate() {
        let is_last = i + 1 == forms.len();
        let cell = match form {
            Form::Whole => read_whole(&mut rest),
            Form::Float32 => read_float(&mut rest, |bits: [u8; 4]| {
                f32::from_bits(returned_32(u32::from_be_bytes(bits))).into()
            }),
            Form::Float64 => {
                read_float(&mut rest, |bits: [u8; 8]| f64::from_bits(returned_64(u64::from_be_bytes(bits))))
            }
            Form::Bytes if is_last => {
                let bytes = std::mem::take(&mut rest);
                Some(match bytes {
                    [END] => Cell::Null,
                    [END, plain @ ..] => Cell::Bytes(plain.to_vec()),
                    plain => Cell::Bytes(plain.to_vec()),
                })
            }
            Form::Bytes => read_bytes(&mut rest),
        };
        cells.push(cell.ok_or(Error::Foreign { what: "key" })?);
    }
    if rest.is_empty() { Ok(cells) } else { Err(Error::Foreign { what: "key" }) }
}

fn append_whole(value: i128, out: &mut Vec<u8>) {
    let (magnitude, turn) = if value < 0 { (!value as u128, 0xFF) } else { (value as u128, 0) };
    if magnitude <= INLINE_MAX {
        return out.push((ZERO + magnitude as u8) ^ turn);
    }
    let bytes = magnitude.to_be_bytes();
    let used = &bytes[magnitude.leading_zeros() as usize / 8..];
    out.push((ONE_BYTE + (used.len() - 1) as u8) ^ turn);
    out.extend(used.iter().map(|byte| byte ^ turn));
}

fn read_whole(rest: &mut &[u8]) -> Option<Cell> {
    let (&first, behind) = rest.split_first()?;
    *rest = behind;
    if first == NULL_WHOLE {
        return Some(Cell::Null);
    }
    let turn = if first < ZERO { 0xFF } else { 0 };
    let code = first ^ turn;
    let magnitude = if code < ONE_BYTE {
        u128::from(code - ZERO)
    } else {
        let (digits, behind) = rest.split_at_checked(usize::from(code - ONE_BYTE) + 1)?;
        *rest = behind;
        digits
            .iter()
            .try_fold(0u128, |value, byte| Some(value.checked_mul(256)? + u128::from(byte ^ turn)))?
    };
    let value = i128::try_from(magnitude).ok()?;
    Some(Cell::Whole(if turn == 0 { value } else { !value }))
}

fn read_float<const N: usize>(rest: &mut &[u8], float: impl Fn([u8; N]) -> f64) -> Option<Cell> {
    if let Some(behind) = rest.strip_prefix(&NULL_FLOAT) {
        *rest = behind;
        return Some(Cell::Null);
    }
    let (bits, behind) = rest.split_first_chunk()?;
    *rest = behind;
    Some(Cell::Float(float(*bits)))
}

fn read_bytes(rest: &mut &[u8]) -> Option<Cell> {
    if let Some(behind) = rest.strip_prefix(&NULL_BYTES) {
        *rest = behind;
        return Some(Cell::Null);
    }
    let mut bytes = Vec::new();
    loop {
        let (&byte, behind) = rest.split_first()?;
        *rest = behind;
        match byte {
            END => return Some(Cell::Bytes(bytes)),
            ESCAPE => {
                let (&escaped, behind) = rest.split_first()?;
                *rest = behind;
                bytes.push(escaped.checked_sub(1).filter(|&byte| byte <= ESCAPE)?);
            }
            _ => bytes.push(byte),
        }
    }
}

fn canonical(value: f64) -> f64 {
    match value {
        _ if value.is_nan() => f64::NAN.copysign(1.0),
        _ if value == 0.0 => 0.0,
        _ => value,
    }
}

/// Bits of a float that sort as it does.
fn turned_64(bits: u64) -> u64 {
    if bits >> 63 == 1 { !bits } else { bits | 1 << 63 }
}

fn returned_64(bits: u64) -> u64 {
    if bits >> 63 == 1 { bits ^ 1 << 63 } else { !bits }
}

fn turned_32(bits: u32) -> u32 {
    if bits >> 31 == 1 { !bits } else { bits | 1 << 31 }
}

fn returned_32(bits: u32) -> u32 {
    if bits >> 31 == 1 { bits ^ 1 << 31 } else { !bits }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::{Array, ArrayRef, Decimal128Array};
    use arrow_array::{BinaryArray, Float32Array, Float64Array, Int64Array};
    use proptest::prelude::*;
    use std::sync::Arc;

    const FORMS: [Form; 4] = [Form::Whole, Form::Float64, Form::Float32, Form::Bytes];

    /// Values that meet where a code could go wrong.
    fn cell(form: Form) -> BoxedStrategy<Cell> {
        let value = match form {
            Form::Whole => prop_oneof![
                (-300i128..300).prop_map(Cell::Whole),
                any::<i64>().prop_map(|value| Cell::Whole(value.into())),
                (-10i128.pow(38) + 1..10i128.pow(38)).prop_map(Cell::Whole),
            ]
            .boxed(),
            Form::Float32 => prop_oneof![
                any::<f32>(),
                prop::sample::select(vec![0.0, -0.0, f32::NAN, -f32::NAN, f32::INFINITY, f32::MAX])
            ]
            .prop_map(|value| Cell::Float(value.into()))
            .boxed(),
            Form::Float64 => prop_oneof![
                any::<f64>(),
                any::<u64>().prop_map(f64::from_bits),
                prop::sample::select(vec![0.0, -0.0, f64::NAN, -f64::NAN, f64::INFINITY, f64::MIN])
            ]
            .prop_map(Cell::Float)
            .boxed(),
            Form::Bytes => {
                prop::collection::vec(prop_oneof![0u8..4, any::<u8>()], 0..5).prop_map(Cell::Bytes).boxed()
            }
        };
        prop_oneof![1 => Just(Cell::Null), 5 => value].boxed()
    }

    fn row() -> impl Strategy<Value = (Vec<Form>, Vec<Cell>, Vec<Cell>)> {
        prop::collection::vec(prop::sample::select(FORMS.to_vec()), 1..4).prop_flat_map(|forms| {
            let cells = |forms: &[Form]| forms.iter().map(|&form| cell(form)).collect::<Vec<_>>();
            (Just(forms.clone()), cells(&forms), cells(&forms))
        })
    }

    fn array_of(form: Form, cell: &Cell) -> ArrayRef {
        match (form, cell) {
            (Form::Whole, Cell::Whole(value)) => Arc::new(Decimal128Array::from(vec![*value])),
            (Form::Whole, _) => Arc::new(Int64Array::from(vec![None])),
            (Form::Float32, Cell::Float(value)) => Arc::new(Float32Array::from(vec![*value as f32])),
            (Form::Float32, _) => Arc::new(Float32Array::from(vec![None])),
            (Form::Float64, Cell::Float(value)) => Arc::new(Float64Array::from(vec![*value])),
            (Form::Float64, _) => Arc::new(Float64Array::from(vec![None])),
            (Form::Bytes, Cell::Bytes(bytes)) => Arc::new(BinaryArray::from(vec![&bytes[..]])),
            (Form::Bytes, _) => Arc::new(BinaryArray::from_opt_vec(vec![None])),
        }
    }

    fn key_of(forms: &[Form], cells: &[Cell]) -> Vec<u8> {
        let arrays: Vec<ArrayRef> =
            forms.iter().zip(cells).map(|(&form, cell)| array_of(form, cell)).collect();
        let columns: Vec<Cells<'_>> =
            arrays.iter().map(|array| Cells::of(array.as_ref() as &dyn Array).unwrap()).collect();
        let mut key = Vec::new();
        append(forms, &columns, 0, &mut key);
        key
    }

    /// What SQL groups by: one text a value.
    fn told(cells: &[Cell]) -> String {
        let told = |cell: &Cell| match cell {
            Cell::Float(value) if value.is_nan() => "NaN".to_owned(),
            Cell::Float(value) if *value == 0.0 => "0".to_owned(),
            cell => format!("{cell:?}"),
        };
        cells.iter().map(told).collect::<Vec<_>>().join("|")
    }

    proptest! {
        #[test]
        fn keys_are_equal_where_rows_are_and_give_them_back((forms, a, b) in row()) {
            let (key_a, key_b) = (key_of(&forms, &a), key_of(&forms, &b));
            prop_assert_eq!(key_a == key_b, told(&a) == told(&b));
            prop_assert_eq!(told(&read(&forms, &key_a).unwrap()), told(&a));
        }

        #[test]
        fn numbers_sort_as_their_keys(a in cell(Form::Whole), b in cell(Form::Whole), c in any::<f64>(), d in any::<f64>()) {
            if let (Cell::Whole(x), Cell::Whole(y)) = (&a, &b) {
                let keys = [&a, &b].map(|cell| key_of(&[Form::Whole], std::slice::from_ref(cell)));
                prop_assert_eq!(keys[0].cmp(&keys[1]), x.cmp(y));
            }
            let keys = [c, d].map(|value| key_of(&[Form::Float64], &[Cell::Float(value)]));
            prop_assert_eq!(keys[0].cmp(&keys[1]), canonical(c).total_cmp(&canonical(d)));
        }

        #[test]
        fn foreign_bytes_are_an_error_or_a_row(
            forms in prop::collection::vec(prop::sample::select(FORMS.to_vec()), 1..4),
            bytes in prop::collection::vec(any::<u8>(), 0..40),
        ) {
            if let Ok(cells) = read(&forms, &bytes) {
                prop_assert_eq!(cells.len(), forms.len());
            }
        }
    }

    #[test]
    fn a_text_is_its_own_key_and_small_numbers_are_short() {
        assert_eq!(key_of(&[Form::Bytes], &[Cell::Bytes(b"pear".to_vec())]), b"pear");
        assert_eq!(key_of(&[Form::Bytes], &[Cell::Bytes(Vec::new())]), b"");
        assert_eq!(key_of(&[Form::Bytes], &[Cell::Null]), [0]);
        assert_eq!(key_of(&[Form::Bytes], &[Cell::Bytes(vec![0])]), [0, 0]);
        assert_eq!(
            key_of(&[Form::Whole, Form::Bytes], &[Cell::Whole(110), Cell::Bytes(b"x".to_vec())]),
            [0xEE, b'x']
        );
        assert_eq!(key_of(&[Form::Whole], &[Cell::Whole(-1)]), [0x7F]);
        assert_eq!(key_of(&[Form::Whole], &[Cell::Whole(300)]), [0xF0, 1, 44]);
        assert_eq!(key_of(&[Form::Whole], &[Cell::Whole(-10i128.pow(38) + 1)]).len(), 17);
    }
}
