//! The obvious readers: the whole input in memory, split by the simplest means.
#![allow(dead_code)]

use std::io::Write;

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Row {
    pub(crate) key: Vec<u8>,
    pub(crate) weight: Option<u64>,
    pub(crate) value: Option<f64>,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Outcome {
    pub(crate) rows: Vec<Row>,
    pub(crate) bad_lines: Vec<u64>,
}

impl Outcome {
    pub(crate) fn followed_by(&self, rest: &Outcome) -> Outcome {
        let mut all = self.clone();
        all.rows.extend_from_slice(&rest.rows);
        all.bad_lines.extend_from_slice(&rest.bad_lines);
        all
    }

    /// A row of `fields`, where those wanted are there and the numbers are numbers.
    pub(crate) fn push(
        &mut self,
        line: u64,
        fields: &[Option<Vec<u8>>],
        keys: &[usize],
        weight: Option<usize>,
        value: Option<usize>,
    ) {
        let get = |index: usize| fields.get(index).cloned().flatten();
        let row = (|| {
            let keys = keys.iter().map(|&key| get(key)).collect::<Option<Vec<_>>>()?;
            let text = |index| String::from_utf8(get(index)?).ok();
            let weight = match weight {
                Some(index) => Some(text(index)?.trim().parse::<u64>().ok()?),
                None => None,
            };
            let value = match value {
                Some(index) => Some(text(index)?.trim().parse::<f64>().ok().filter(|v| v.is_finite())?),
                None => None,
            };
            let escape = |field: &Vec<u8>| {
                let text: String = field.iter().map(|&byte| byte as char).collect();
                let text = text.replace('\\', "\\\\").replace('\t', "\\t");
                text.chars().map(|c| c as u8).collect::<Vec<_>>()
            };
            let key = match keys.as_slice() {
                [key] => key.clone(),
                keys => keys.iter().map(escape).collect::<Vec<_>>().join(&b'\t'),
            };
            Some(Row { key, weight, value })
        })();
        match row {
            Some(row) => self.rows.push(row),
            None => self.bad_lines.push(line),
        }
    }
}

/// (line number, line with its end, line without it).
fn split(text: &[u8]) -> impl Iterator<Item = (u64, &[u8], &[u8])> {
    text.split_inclusive(|&byte| byte == b'\n').zip(1..).map(|(whole, line)| {
        let bare = whole.strip_suffix(b"\n").unwrap_or(whole);
        (line, whole, bare.strip_suffix(b"\r").unwrap_or(bare))
    })
}

pub(crate) fn lines(text: &[u8]) -> Outcome {
    lines_up_to(text, usize::MAX)
}

pub(crate) fn lines_up_to(text: &[u8], limit: usize) -> Outcome {
    let mut out = Outcome::default();
    for (line, whole, bare) in split(text) {
        match whole.len() <= limit {
            true => out.rows.push(Row { key: bare.to_vec(), weight: None, value: None }),
            false => out.bad_lines.push(line),
        }
    }
    out
}

pub(crate) fn delimited(
    text: &[u8],
    delimiter: Option<u8>,
    keys: &[usize],
    weight: Option<usize>,
    value: Option<usize>,
) -> Outcome {
    let mut out = Outcome::default();
    for (line, _, bare) in split(text) {
        let fields: Vec<Option<Vec<u8>>> = match delimiter {
            Some(delimiter) => bare.split(|&byte| byte == delimiter).map(|f| Some(f.to_vec())).collect(),
            None => {
                let fields = bare.split(|&byte| byte == b' ' || byte == b'\t');
                fields.filter(|field| !field.is_empty()).map(|field| Some(field.to_vec())).collect()
            }
        };
        out.push(line, &fields, keys, weight, value);
    }
    out
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Compression {
    Plain,
    /// Of two members.
    Gzip,
    /// Of two frames.
    Zstd,
}

pub(crate) fn compress(text: &[u8], compression: Compression) -> Vec<u8> {
    let halves = text.split_at(text.len() / 2);
    let parts = [halves.0, halves.1];
    match compression {
        Compression::Plain => text.to_vec(),
        Compression::Gzip => parts.iter().flat_map(|part| gzip(part)).collect(),
        Compression::Zstd => parts.iter().flat_map(|part| zstd::encode_all(*part, 1).unwrap()).collect(),
    }
}

pub(crate) fn gzip(text: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(text).unwrap();
    encoder.finish().unwrap()
}
