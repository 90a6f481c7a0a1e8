//! A row with a value behind it, as its format has it.
//!
//! | row | value |
//! |---|---|
//! | a line, fields between blanks or tabs | behind a tab, with `\t`, `\n`, `\r` and `\\` for those bytes |
//! | fields between other bytes | behind that byte, likewise; a value that holds it is refused |
//! | CSV | a further field, quoted where it must be |
//! | JSON lines | a further member: a string, null where there is no value; of bytes that are not UTF-8 also `…_hex` |

use crate::commands::keys::hex;
use crate::page::key_text;
use crate::plain;
use overbank_ingest::{Delimiter, Format};

/// Characters of a key or row in a message.
const SHOWN: usize = 60;

/// How rows and values are put together.
#[derive(Clone, Debug)]
pub(super) struct Joint {
    form: Form,
    /// The name of the column or member.
    name: String,
    line_end: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// With this byte between fields.
    Plain(u8),
    Csv(u8),
    Json,
}

impl Joint {
    /// For rows of `format`, which a byte ends; what keeps such rows from getting a value.
    pub(super) fn of(format: Format, name: &str, line_end: u8) -> Result<Self, String> {
        let form = match format {
            Format::Lines | Format::Delimited(Delimiter::Whitespace) => Form::Plain(b'\t'),
            Format::Delimited(Delimiter::Byte(byte)) => Form::Plain(byte),
            Format::Csv { delimiter, .. } => Form::Csv(delimiter),
            Format::JsonLines => Form::Json,
            other => {
                return Err(format!(
                    "{other:?} has no rows of text that a value could stand behind; convert it first"
                ));
            }
        };
        Ok(Self { form, name: name.to_owned(), line_end })
    }

    /// Whether rows of both can stand in one output.
    pub(super) fn fits(&self, other: &Self) -> bool {
        self.form == other.form
    }

    /// Appends the header row with the new column's name.
    pub(super) fn push_header(&self, header: &[u8], out: &mut Vec<u8>) {
        let (body, end) = self.halves(header);
        out.extend_from_slice(body);
        if let Form::Csv(delimiter) = self.form {
            out.push(delimiter);
            push_quoted(self.name.as_bytes(), delimiter, out);
        }
        self.push_end(end, out);
    }

    /// Appends a row with its value, or says why that cannot be.
    pub(super) fn push(&self, row: &[u8], value: Option<&[u8]>, out: &mut Vec<u8>) -> Result<(), String> {
        let (body, end) = self.halves(row);
        match self.form {
            Form::Plain(delimiter) => {
                out.extend_from_slice(body);
                out.push(delimiter);
                let start = out.len();
                plain::push_escaped(value.unwrap_or_default(), out);
                if delimiter != b'\t' && out[start..].contains(&delimiter) {
                    return Err(format!(
                        "the value {} holds the delimiter {:?}; give --format csv with that delimiter, which quotes it",
                        key_text(&out[start..], SHOWN),
                        char::from(delimiter)
                    ));
                }
            }
            Form::Csv(delimiter) => {
                out.extend_from_slice(body);
                out.push(delimiter);
                push_quoted(value.unwrap_or_default(), delimiter, out);
            }
            Form::Json => self.push_member(body, value, out)?,
        }
        self.push_end(end, out);
        Ok(())
    }

    fn push_member(&self, body: &[u8], value: Option<&[u8]>, out: &mut Vec<u8>) -> Result<(), String> {
        let whole = body.trim_ascii_end();
        let Some(open) = whole.strip_suffix(b"}") else {
            return Err(format!(
                "the row {} is no object, so no member can be added to it",
                key_text(body, SHOWN)
            ));
        };
        out.extend_from_slice(open);
        if !open.trim_ascii_end().ends_with(b"{") {
            out.push(b',');
        }
        let text = value.map(String::from_utf8_lossy);
        push_json(&self.name, out);
        out.push(b':');
        match &text {
            None => out.extend_from_slice(b"null"),
            Some(text) => push_json(text, out),
        }
        if let Some(bytes) = value.filter(|bytes| std::str::from_utf8(bytes).is_err()) {
            out.push(b',');
            push_json(&format!("{}_hex", self.name), out);
            out.push(b':');
            push_json(&hex(bytes), out);
        }
        out.push(b'}');
        Ok(())
    }

    /// A row and its line end.
    fn halves<'r>(&self, row: &'r [u8]) -> (&'r [u8], &'r [u8]) {
        let Some(body) = row.strip_suffix(&[self.line_end]) else { return (row, b"") };
        let has_return = self.line_end == b'\n' && body.ends_with(b"\r");
        row.split_at(body.len() - usize::from(has_return))
    }

    /// The line end of a row, one that had none included.
    fn push_end(&self, end: &[u8], out: &mut Vec<u8>) {
        if end.is_empty() { out.push(self.line_end) } else { out.extend_from_slice(end) }
    }
}

fn push_json(text: &str, out: &mut Vec<u8>) {
    out.extend_from_slice(serde_json::Value::from(text).to_string().as_bytes());
}

fn push_quoted(text: &[u8], delimiter: u8, out: &mut Vec<u8>) {
    if !text.iter().any(|byte| matches!(byte, b'"' | b'\r' | b'\n') || *byte == delimiter) {
        return out.extend_from_slice(text);
    }
    out.push(b'"');
    for &byte in text {
        out.push(byte);
        if byte == b'"' {
            out.push(byte);
        }
    }
    out.push(b'"');
}

#[cfg(test)]
mod tests {
    use super::*;

    fn joined(format: Format, row: &[u8], value: Option<&[u8]>) -> Result<String, String> {
        let mut out = Vec::new();
        let joint = Joint::of(format, "v", b'\n')?;
        joint.push(row, value, &mut out)?;
        Ok(String::from_utf8(out).unwrap())
    }

    const CSV: Format = Format::Csv { delimiter: b';', header: true };

    #[test]
    fn a_value_stands_behind_its_row() {
        let lines = |row: &[u8], value| joined(Format::Lines, row, value).unwrap();
        assert_eq!(lines(b"a b\n", Some(b"x\ty\\\n")), "a b\tx\\ty\\\\\\n\n");
        assert_eq!(lines(b"a\r\n", None), "a\t\r\n");
        assert_eq!(lines(b"a", Some(b"1")), "a\t1\n");
        let semicolons = |value| joined(Format::Delimited(Delimiter::Byte(b';')), b"a;b\n", Some(value));
        assert_eq!(semicolons(b"x").unwrap(), "a;b;x\n");
        assert!(semicolons(b"x;y").unwrap_err().contains("delimiter ';'"));
        assert_eq!(joined(CSV, b"a;\"b\n\"\n", Some(b"x;\"y\"")).unwrap(), "a;\"b\n\";\"x;\"\"y\"\"\"\n");
        assert_eq!(joined(CSV, b"a\n", None).unwrap(), "a;\n");
    }

    #[test]
    fn objects_get_a_member() {
        let json = |row: &[u8], value| joined(Format::JsonLines, row, value);
        assert_eq!(json(b"{\"k\": 1} \r\n", Some(b"a\"b")).unwrap(), "{\"k\": 1,\"v\":\"a\\\"b\"}\r\n");
        assert_eq!(json(b"{ }", None).unwrap(), "{ \"v\":null}\n");
        assert_eq!(json(b"{}\n", Some(b"\xff")).unwrap(), "{\"v\":\"\u{fffd}\",\"v_hex\":\"ff\"}\n");
        assert!(json(b"[1]\n", None).unwrap_err().contains("no object"));
    }

    #[test]
    fn a_header_names_the_column_and_others_are_refused() {
        let mut out = Vec::new();
        Joint::of(CSV, "a;b", b'\n').unwrap().push_header(b"k;w\r\n", &mut out);
        assert_eq!(out, b"k;w;\"a;b\"\r\n");
        for format in [Format::Parquet, Format::Fasta, Format::Fastq, Format::Raw] {
            assert!(Joint::of(format, "v", b'\n').unwrap_err().contains("convert it first"));
        }
    }
}
