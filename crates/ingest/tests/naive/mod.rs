//! The obvious readers: the whole input in memory, split by the simplest means.
#![allow(dead_code, clippy::unwrap_used)]

pub(crate) mod check;
pub(crate) mod packets;

use std::io::Write;

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Row {
    pub(crate) key: Vec<u8>,
    pub(crate) weight: Option<u64>,
    pub(crate) value: Option<f64>,
    pub(crate) payload: Option<Vec<u8>>,
}

impl Row {
    pub(crate) fn of(key: &[u8]) -> Self {
        Self { key: key.to_vec(), weight: None, value: None, payload: None }
    }

    pub(crate) fn with(key: &[u8], payload: &[u8]) -> Self {
        Self { payload: Some(payload.to_vec()), ..Self::of(key) }
    }
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
            Some(Row { key: joined(&keys), weight, value, payload: None })
        })();
        match row {
            Some(row) => self.rows.push(row),
            None => self.bad_lines.push(line),
        }
    }
}

/// Fields as one key or payload.
pub(crate) fn joined(fields: &[Vec<u8>]) -> Vec<u8> {
    let escape = |field: &Vec<u8>| {
        let text: String = field.iter().map(|&byte| byte as char).collect();
        let text = text.replace('\\', "\\\\").replace('\t', "\\t");
        text.chars().map(|c| c as u8).collect::<Vec<_>>()
    };
    match fields {
        [field] => field.clone(),
        fields => fields.iter().map(escape).collect::<Vec<_>>().join(&b'\t'),
    }
}

/// (line number, line with its end, line without it).
pub(crate) fn split(text: &[u8]) -> impl Iterator<Item = (u64, &[u8], &[u8])> {
    text.split_inclusive(|&byte| byte == b'\n').zip(1..).map(|(whole, line)| {
        let bare = whole.strip_suffix(b"\n").unwrap_or(whole);
        (line, whole, bare.strip_suffix(b"\r").unwrap_or(bare))
    })
}

pub(crate) fn lines(text: &[u8]) -> Outcome {
    lines_up_to(text, usize::MAX).0
}

/// The lines before the first that is longer than `limit`, and that one's number and length.
pub(crate) fn lines_up_to(text: &[u8], limit: usize) -> (Outcome, Option<(u64, u64)>) {
    let mut out = Outcome::default();
    for (line, whole, bare) in split(text) {
        if whole.len() > limit {
            return (out, Some((line, whole.len() as u64)));
        }
        out.rows.push(Row::of(bare));
    }
    (out, None)
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

/// CSV with a header; keys and numbers are column numbers from 0. There are no carriage returns in `text`.
pub(crate) fn csv(text: &[u8], keys: &[usize], weight: Option<usize>) -> Outcome {
    let records = |text: &[u8]| {
        let mut reader = csv::ReaderBuilder::new();
        reader.flexible(true).terminator(csv::Terminator::Any(b'\n'));
        reader.from_reader(text).into_byte_records().map(|record| record.unwrap()).collect::<Vec<_>>()
    };
    let rows = records(text);
    // A quote that is never closed swallows a further record.
    let further = records(&[text, b"\nx\n"].concat());
    let closed = if further.len() == rows.len() + 1 { rows.len() } else { rows.len() - 1 };
    let mut out = Outcome::default();
    for (index, record) in rows.iter().enumerate() {
        let mut at = record.position().unwrap().byte() as usize;
        while text[at] == b'\n' {
            at += 1;
        }
        let line = text[..at].iter().filter(|&&byte| byte == b'\n').count() as u64 + 1;
        let fields: Vec<_> = record.iter().map(|field| Some(field.to_vec())).collect();
        match index < closed {
            true => out.push(line, &fields, keys, weight, None),
            false => out.bad_lines.push(line),
        }
    }
    out
}

/// JSON lines; fields are JSON pointers. Numbers are whole.
pub(crate) fn json(text: &[u8], keys: &[&str], weight: Option<&str>) -> Outcome {
    let mut out = Outcome::default();
    for (line, _, bare) in split(text) {
        if bare.trim_ascii().is_empty() {
            continue;
        }
        let Ok(value) = serde_json::from_slice::<serde_json::Value>(bare) else {
            out.bad_lines.push(line);
            continue;
        };
        let field = |pointer: &&str| match value.pointer(pointer)? {
            serde_json::Value::String(text) => Some(text.clone().into_bytes()),
            scalar @ (serde_json::Value::Bool(_) | serde_json::Value::Number(_)) => {
                Some(scalar.to_string().into_bytes())
            }
            _ => None,
        };
        let fields: Vec<_> = keys.iter().chain(&weight).map(field).collect();
        let slots: Vec<usize> = (0..keys.len()).collect();
        out.push(line, &fields, &slots, weight.map(|_| keys.len()), None);
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
    /// Of two streams.
    Xz,
    /// Of two streams.
    Bzip2,
    /// Of a frame of linked blocks with checksums, a skipped one, and one of independent blocks.
    Lz4,
}

pub(crate) fn compress(text: &[u8], compression: Compression) -> Vec<u8> {
    let halves = text.split_at(text.len() / 2);
    let parts = [halves.0, halves.1];
    match compression {
        Compression::Plain => text.to_vec(),
        Compression::Gzip => parts.iter().flat_map(|part| gzip(part)).collect(),
        Compression::Zstd => parts.iter().flat_map(|part| zstd::encode_all(*part, 1).unwrap()).collect(),
        Compression::Xz => parts.iter().flat_map(|part| xz(part, 1 << 16)).collect(),
        Compression::Bzip2 => parts.iter().flat_map(|part| bzip2(part)).collect(),
        Compression::Lz4 => {
            let skipped = [0x51, 0x2a, 0x4d, 0x18, 3, 0, 0, 0, b'a', b'\n', b'b'];
            [lz4(parts[0], true).as_slice(), &skipped, &lz4(parts[1], false)].concat()
        }
    }
}

pub(crate) fn xz(text: &[u8], dictionary_bytes: u32) -> Vec<u8> {
    let mut options = lzma_rust2::XzOptions::with_preset(1);
    options.lzma_options.dict_size = dictionary_bytes;
    let mut encoder = lzma_rust2::XzWriter::new(Vec::new(), options).unwrap();
    encoder.write_all(text).unwrap();
    encoder.finish().unwrap()
}

pub(crate) fn bzip2(text: &[u8]) -> Vec<u8> {
    let mut encoder = bzip2::write::BzEncoder::new(Vec::new(), bzip2::Compression::fast());
    encoder.write_all(text).unwrap();
    encoder.finish().unwrap()
}

pub(crate) fn lz4(text: &[u8], is_linked: bool) -> Vec<u8> {
    use lz4_flex::frame::{BlockMode, BlockSize, FrameEncoder, FrameInfo};
    let mut info = FrameInfo::new().block_size(BlockSize::Max64KB).block_checksums(is_linked);
    if is_linked {
        info =
            info.block_mode(BlockMode::Linked).content_checksum(true).content_size(Some(text.len() as u64));
    }
    let mut encoder = FrameEncoder::with_frame_info(info, Vec::new());
    encoder.write_all(text).unwrap();
    encoder.finish().unwrap()
}

pub(crate) fn gzip(text: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(text).unwrap();
    encoder.finish().unwrap()
}
