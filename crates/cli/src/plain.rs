//! Answers as lines for other programs: no decoration, whole numbers, one row a line whatever is in a key.
//!
//! ```text
//!   tsv   12<TAB>12<TAB>12<TAB>a\tb        no header; a backslash before t, n, r and \ stands for tab, line feed, return, backslash
//!   csv   12,12,12,"a, ""b"""              RFC 4180 with a header; rows end in a line feed
//! ```
//!
//! Keys are bytes, and stay so: what is not UTF-8 goes out as it came in.

use crate::arguments::Form;
use crate::failure::Failure;
use std::io::{self, BufWriter, Write};

/// One field of a row.
pub(crate) enum Field<'a> {
    /// A count.
    Count(u64),
    /// A measured number, with all its digits.
    Number(f64),
    /// What is not known.
    Nothing,
    /// A key or a word.
    Text(&'a [u8]),
}

impl Field<'_> {
    /// A count that is an upper bound, or taken from one: `u64::MAX` is none.
    pub(crate) fn bound(count: u64) -> Self {
        if count == u64::MAX { Field::Nothing } else { Field::Count(count) }
    }
}

/// Writes `rows` to standard output, in a form of lines.
pub(crate) fn print<'a, const N: usize>(
    form: Form,
    names: &[&str; N],
    rows: impl IntoIterator<Item = [Field<'a>; N]>,
) -> Result<(), Failure> {
    let out = BufWriter::new(io::stdout().lock());
    let mut plain = Plain::begin(form, out, names)?;
    for row in rows {
        plain.row(&row)?;
    }
    Ok(plain.out.flush()?)
}

/// Rows that go to `out`.
pub(crate) struct Plain<W> {
    out: W,
    is_csv: bool,
}

impl<W: Write> Plain<W> {
    /// Begins with the names of the fields, where the form has them.
    pub(crate) fn begin(form: Form, mut out: W, names: &[&str]) -> io::Result<Self> {
        let is_csv = form == Form::Csv;
        if is_csv {
            writeln!(out, "{}", names.join(","))?;
        }
        Ok(Self { out, is_csv })
    }

    /// Writes a row.
    pub(crate) fn row(&mut self, fields: &[Field<'_>]) -> io::Result<()> {
        for (i, field) in fields.iter().enumerate() {
            if i > 0 {
                self.out.write_all(if self.is_csv { b"," } else { b"\t" })?;
            }
            match field {
                Field::Count(count) => write!(self.out, "{count}")?,
                Field::Number(number) => write!(self.out, "{number:?}")?,
                Field::Nothing => {}
                Field::Text(text) if self.is_csv => write_quoted(&mut self.out, text)?,
                Field::Text(text) => write_escaped(&mut self.out, text)?,
            }
        }
        self.out.write_all(b"\n")
    }

    /// Where they go, for lines of other forms.
    pub(crate) fn get_mut(&mut self) -> &mut W {
        &mut self.out
    }
}

fn write_quoted(out: &mut impl Write, text: &[u8]) -> io::Result<()> {
    if !text.iter().any(|byte| matches!(byte, b',' | b'"' | b'\r' | b'\n')) {
        return out.write_all(text);
    }
    out.write_all(b"\"")?;
    for (i, part) in text.split(|&byte| byte == b'"').enumerate() {
        if i > 0 {
            out.write_all(b"\"\"")?;
        }
        out.write_all(part)?;
    }
    out.write_all(b"\"")
}

/// Appends a text with its tabs, line ends and backslashes escaped.
pub(crate) fn push_escaped(text: &[u8], out: &mut Vec<u8>) {
    write_escaped(out, text).expect("memory takes what is written to it");
}

fn write_escaped(out: &mut impl Write, text: &[u8]) -> io::Result<()> {
    for part in text.split_inclusive(|byte| matches!(byte, b'\t' | b'\n' | b'\r' | b'\\')) {
        let (plain, escape) = match part {
            [plain @ .., b'\t'] => (plain, &b"\\t"[..]),
            [plain @ .., b'\n'] => (plain, &b"\\n"[..]),
            [plain @ .., b'\r'] => (plain, &b"\\r"[..]),
            [plain @ .., b'\\'] => (plain, &b"\\\\"[..]),
            plain => (plain, &b""[..]),
        };
        out.write_all(plain)?;
        out.write_all(escape)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn rows(form: Form, keys: &[Vec<u8>]) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut plain = Plain::begin(form, &mut bytes, &["count", "key"]).unwrap();
        for key in keys {
            plain.row(&[Field::Count(u64::MAX), Field::Text(key)]).unwrap();
        }
        bytes
    }

    #[test]
    fn numbers_are_whole() {
        let mut bytes = Vec::new();
        let mut plain = Plain::begin(Form::Tsv, &mut bytes, &["a"]).unwrap();
        plain
            .row(&[Field::Count(1_234_567), Field::Number(0.1), Field::Nothing, Field::Number(1.7e308)])
            .unwrap();
        assert_eq!(bytes, b"1234567\t0.1\t\t1.7e308\n");
    }

    proptest! {
        #[test]
        fn a_line_is_a_row_and_keys_come_back(
            keys in prop::collection::vec(prop::collection::vec(
                prop_oneof![any::<u8>(), prop::sample::select(&b"\t\n\r\\\",tnr"[..])], 0..12), 0..8),
        ) {
            let tsv = rows(Form::Tsv, &keys);
            prop_assert_eq!(tsv.split(|&byte| byte == b'\n').count(), keys.len() + 1);
            for (line, key) in tsv.split(|&byte| byte == b'\n').zip(&keys) {
                let text = line.strip_prefix(b"18446744073709551615\t").unwrap();
                let mut back = Vec::new();
                let mut bytes = text.iter();
                while let Some(&byte) = bytes.next() {
                    back.push(match byte {
                        b'\\' => match bytes.next().unwrap() { b't' => b'\t', b'n' => b'\n', b'r' => b'\r', other => *other },
                        byte => byte,
                    });
                }
                prop_assert_eq!(&back, key);
            }

            let csv = rows(Form::Csv, &keys);
            let mut reader = csv::Reader::from_reader(&csv[..]);
            prop_assert_eq!(reader.byte_headers().unwrap(), &vec!["count", "key"]);
            let back: Vec<Vec<u8>> = reader.byte_records().map(|record| record.unwrap()[1].to_vec()).collect();
            prop_assert_eq!(back, keys);
        }
    }
}
