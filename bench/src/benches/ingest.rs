//! Reading: a file in the page cache to hashed keys, one thread, by format. A row is an operation.
//!
//! The rivals do the same with what one would take first: a loop of memchr over the whole file for lines, the `csv`
//! crate, and `serde_json` into a struct; all hash the same keys, so the digests must agree. The rows are made up, and
//! look like a web server's log.

use crate::{Bench, Case, Clock, Random, Result, Run, Zipf, digest_u64s};
use keyhash::{HashKind, KeyHash, KeyHasher, Seed};
use overbank_ingest::{Batch, Delimiter, Format, Options, Parser, Reader};
use parquet::data_type::{ByteArray, ByteArrayType, Int64Type};
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use std::fmt::Write as _;
use std::fs::File;
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The registered bench.
pub(super) const BENCH: Bench = Bench {
    name: "ingest",
    about: "rows read, parsed and hashed a second, one thread, by format",
    engines: &["overbank", "memchr", "csv", "serde_json"],
    run,
};

const KEY: &str = "url";

fn run(run: &mut Run<'_>) -> Result<()> {
    let rows = rows(run.pick([2_000, 500_000, 4_000_000]));
    let folder = tempfile::tempdir()?;
    for (name, format, field) in [
        ("lines", Format::Lines, None),
        ("fields", Format::Delimited(Delimiter::Whitespace), Some("2")),
        ("csv", Format::Csv { delimiter: b',', header: true }, Some(KEY)),
        ("jsonl", Format::JsonLines, Some(KEY)),
        ("gzip", Format::Lines, None),
        ("zstd", Format::Lines, None),
        ("parquet", Format::Parquet, Some(KEY)),
    ] {
        let path = folder.path().join(name);
        let path = path.as_path();
        write(path, name, &rows)?;
        let mut options = Options::new([path]);
        options.format = format;
        options.keys = field.into_iter().map(str::to_owned).collect();
        let contest = run
            .contest(Case::Load)
            .param("format", name)
            .param("bytes", std::fs::metadata(path)?.len())
            .param("rows", rows.len())
            .ops(rows.len())
            .exact("overbank", move |clock: &mut Clock| load(clock, |into| overbank(&options, into)));
        let contest = match name {
            "lines" => {
                contest.exact("memchr", move |clock: &mut Clock| load(clock, |into| with_memchr(path, into)))
            }
            "csv" => contest.exact("csv", move |clock: &mut Clock| load(clock, |into| with_csv(path, into))),
            "jsonl" => contest.exact("serde_json", move |clock: &mut Clock| {
                load(clock, |into| with_serde_json(path, into))
            }),
            _ => contest,
        };
        contest.finish()?;
    }
    Ok(())
}

/// The digest of the hashes that `read` hands over as it goes.
fn load(clock: &mut Clock, read: impl FnOnce(&mut dyn FnMut(&[KeyHash])) -> Result<()>) -> Result<u64> {
    // A fold that costs next to nothing beside the reading.
    let (mut sum, mut rows) = (0u64, 0u64);
    clock.time(|| {
        read(&mut |hashes| {
            rows += hashes.len() as u64;
            sum = hashes.iter().fold(sum, |sum, hash| sum.rotate_left(1) ^ hash.fold());
        })
    })?;
    Ok(digest_u64s([rows, sum]))
}

fn hasher() -> KeyHasher {
    KeyHasher::new(HashKind::Xxh3, Seed(7))
}

fn overbank(options: &Options, into: &mut dyn FnMut(&[KeyHash])) -> Result<()> {
    let mut reader = Reader::open(options.clone())?;
    let parser = Parser::new(options, hasher());
    let mut batch = Batch::new();
    while let Some(chunk) = reader.next_chunk()? {
        parser.parse(chunk, &mut batch)?;
        into(batch.hashes());
    }
    Ok(())
}

/// The ceiling: the file in one piece, no line number, no position, no carriage return.
fn with_memchr(path: &Path, into: &mut dyn FnMut(&[KeyHash])) -> Result<()> {
    let mut text = Vec::new();
    File::open(path)?.read_to_end(&mut text)?;
    let hasher = hasher();
    let (mut start, mut hashes) = (0, Vec::new());
    for newline in memchr::memchr_iter(b'\n', &text) {
        hashes.push(hasher.hash(&text[start..newline]));
        start = newline + 1;
    }
    into(&hashes);
    Ok(())
}

fn with_csv(path: &Path, into: &mut dyn FnMut(&[KeyHash])) -> Result<()> {
    let mut reader = csv::Reader::from_path(path)?;
    let column = reader.byte_headers()?.iter().position(|name| name == KEY.as_bytes());
    let column = column.ok_or("the header lacks the key")?;
    let (hasher, mut record) = (hasher(), csv::ByteRecord::new());
    while reader.read_byte_record(&mut record)? {
        into(&[hasher.hash(record.get(column).ok_or("a short row")?)]);
    }
    Ok(())
}

fn with_serde_json(path: &Path, into: &mut dyn FnMut(&[KeyHash])) -> Result<()> {
    #[derive(serde::Deserialize)]
    struct Row<'a> {
        url: &'a str,
    }
    let mut text = Vec::new();
    File::open(path)?.read_to_end(&mut text)?;
    let (mut start, hasher) = (0, hasher());
    for newline in memchr::memchr_iter(b'\n', &text) {
        let row: Row<'_> = serde_json::from_slice(&text[start..newline])?;
        into(&[hasher.hash(row.url.as_bytes())]);
        start = newline + 1;
    }
    Ok(())
}

struct Row {
    url: String,
    ms: u64,
}

fn rows(count: usize) -> Vec<Row> {
    let (mut random, zipf) = (Random::new(5), Zipf::new(1 << 18, 1.1));
    let sections = ["news", "shop/item", "user/profile", "static/img"];
    let mut row = || {
        let page = zipf.sample(&mut random);
        let section = sections[page as usize % sections.len()];
        Row { url: format!("https://example.org/{section}/{page:x}"), ms: random.below(2000) }
    };
    (0..count).map(|_| row()).collect()
}

fn write(path: &Path, name: &str, rows: &[Row]) -> Result<()> {
    if name == "parquet" {
        return write_parquet(path, rows);
    }
    let mut text = String::new();
    if name == "csv" {
        text.push_str("time,url,ms,agent\n");
    }
    for Row { url, ms } in rows {
        match name {
            "fields" => writeln!(text, "10.0.0.1 {url} 200 {ms}")?,
            "csv" => writeln!(text, "2026-01-02T10:00:00,{url},{ms},\"Mozilla/5.0 (X11; Linux, x86_64)\"")?,
            "jsonl" => writeln!(
                text,
                "{{\"time\":\"2026-01-02T10:00:00\",\"url\":\"{url}\",\"ms\":{ms},\"tags\":[\"a\",\"b\",3]}}"
            )?,
            _ => writeln!(text, "{url}")?,
        }
    }
    let file = File::create(path)?;
    match name {
        "gzip" => {
            let mut encoder = flate2::write::GzEncoder::new(file, flate2::Compression::default());
            encoder.write_all(text.as_bytes())?;
            encoder.finish()?;
        }
        "zstd" => zstd::stream::copy_encode(text.as_bytes(), file, 3)?,
        _ => std::fs::write(PathBuf::from(path), text)?,
    }
    Ok(())
}

/// Two columns in row groups of half a million rows, Snappy, dictionaries: what most writers do by default.
fn write_parquet(path: &Path, rows: &[Row]) -> Result<()> {
    let schema = "message rows { required binary url (UTF8); required int64 ms; }";
    let schema = Arc::new(parquet::schema::parser::parse_message_type(schema)?);
    let properties = WriterProperties::builder().set_compression(parquet::basic::Compression::SNAPPY).build();
    let mut writer = SerializedFileWriter::new(File::create(path)?, schema, Arc::new(properties))?;
    for rows in rows.chunks(500_000) {
        let mut group = writer.next_row_group()?;
        let urls: Vec<ByteArray> = rows.iter().map(|row| ByteArray::from(row.url.as_str())).collect();
        let mut column = group.next_column()?.ok_or("a column is missing")?;
        column.typed::<ByteArrayType>().write_batch(&urls, None, None)?;
        column.close()?;
        let ms: Vec<i64> = rows.iter().map(|row| row.ms as i64).collect();
        let mut column = group.next_column()?.ok_or("a column is missing")?;
        column.typed::<Int64Type>().write_batch(&ms, None, None)?;
        column.close()?;
        group.close()?;
    }
    writer.close()?;
    Ok(())
}
