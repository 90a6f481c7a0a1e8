//! Keys and values as an answer: lines, or length-prefixed records.
//!
//! | | read back by `dict build` with | survives |
//! |---|---|---|
//! | tsv | `--format delimited --key 1 --value 2 --escaped` | every byte |
//! | csv | `--format csv --key key --value value` | every byte |
//! | raw | `--format raw` | every byte |
//! | json | `--format jsonl --key key --value value` | UTF-8; other bytes stand in `key_hex` and `value_hex` |
//! | values | nothing: there are no keys | |

use crate::arguments::{DictionaryForm, Form};
use crate::commands::keys::hex;
use crate::plain::{Field, Plain};
use std::io::{self, Write};

/// Pairs that go to `out`.
pub(super) struct Pairs<W> {
    out: Plain<W>,
    form: DictionaryForm,
}

impl<W: Write> Pairs<W> {
    /// Begins with the names of the columns, where the form has them.
    pub(super) fn begin(form: DictionaryForm, out: W) -> io::Result<Self> {
        let lines = if form == DictionaryForm::Csv { Form::Csv } else { Form::Tsv };
        Ok(Self { out: Plain::begin(lines, out, &["key", "value"])?, form })
    }

    /// Writes a key and its value; one that has none only in forms that can tell.
    pub(super) fn pair(&mut self, key: &[u8], value: Option<&[u8]>) -> io::Result<()> {
        match (self.form, value) {
            (DictionaryForm::Tsv | DictionaryForm::Csv, Some(value)) => {
                self.out.row(&[Field::Text(key), Field::Text(value)])
            }
            (DictionaryForm::Tsv, None) => self.out.row(&[Field::Text(key)]),
            (DictionaryForm::Json, value) => write_json(self.out.get_mut(), key, value),
            (DictionaryForm::Raw, Some(value)) => write_raw(self.out.get_mut(), key, value),
            (DictionaryForm::Values, Some(value)) => {
                let out = self.out.get_mut();
                out.write_all(value)?;
                out.write_all(b"\n")
            }
            (DictionaryForm::Csv | DictionaryForm::Raw | DictionaryForm::Values, None) => Ok(()),
        }
    }

    /// Where they go.
    pub(super) fn get_mut(&mut self) -> &mut W {
        self.out.get_mut()
    }
}

fn write_json(out: &mut impl Write, key: &[u8], value: Option<&[u8]>) -> io::Result<()> {
    out.write_all(b"{\"key\":")?;
    serde_json::to_writer(&mut *out, &String::from_utf8_lossy(key))?;
    out.write_all(b",\"value\":")?;
    serde_json::to_writer(&mut *out, &value.map(String::from_utf8_lossy))?;
    for (name, bytes) in [("key_hex", Some(key)), ("value_hex", value)] {
        if let Some(bytes) = bytes.filter(|bytes| std::str::from_utf8(bytes).is_err()) {
            write!(out, ",\"{name}\":\"{}\"", hex(bytes))?;
        }
    }
    out.write_all(b"}\n")
}

fn write_raw(out: &mut impl Write, key: &[u8], value: &[u8]) -> io::Result<()> {
    for bytes in [key, value] {
        // A dictionary's items are far shorter.
        let length = u32::try_from(bytes.len()).map_err(|_| io::ErrorKind::FileTooLarge)?;
        out.write_all(&length.to_le_bytes())?;
        out.write_all(bytes)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn printed(form: DictionaryForm) -> Vec<u8> {
        let mut pairs = Pairs::begin(form, Vec::new()).unwrap();
        pairs.pair(b"a", Some(b"1\t2\n")).unwrap();
        pairs.pair(b"\xff\\", Some(b"")).unwrap();
        pairs.pair(b"b,", None).unwrap();
        std::mem::take(pairs.get_mut())
    }

    #[test]
    fn each_form_is_as_it_says() {
        assert_eq!(printed(DictionaryForm::Tsv), b"a\t1\\t2\\n\n\xff\\\\\t\nb,\n");
        assert_eq!(printed(DictionaryForm::Csv), b"key,value\na,\"1\t2\n\"\n\xff\\,\n");
        assert_eq!(printed(DictionaryForm::Raw), b"\x01\0\0\0a\x04\0\0\x001\t2\n\x02\0\0\0\xff\\\0\0\0\0");
        assert_eq!(printed(DictionaryForm::Values), b"1\t2\n\n\n");
        let json = "{\"key\":\"a\",\"value\":\"1\\t2\\n\"}\n{\"key\":\"\u{fffd}\\\\\",\"value\":\"\",\"key_hex\":\"ff5c\"}\n{\"key\":\"b,\",\"value\":null}\n";
        assert_eq!(String::from_utf8(printed(DictionaryForm::Json)).unwrap(), json);
    }
}
