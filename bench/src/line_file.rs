//! Files of lines for benches that run whole commands: the text of `make data`, or made-up lines of a named shape.

use crate::{Random, Result, Run, Size, Zipf};
use std::fs::File;
use std::io::{BufRead as _, BufReader, BufWriter, Read as _, Write as _};
use std::path::{Path, PathBuf};

/// A file of lines, each of them a key.
#[derive(Debug)]
pub struct LineFile {
    /// Its name among the workloads.
    pub name: &'static str,
    /// Where it is.
    pub path: PathBuf,
    /// How many lines it has.
    pub lines: usize,
    /// How many bytes it has.
    pub bytes: u64,
}

impl LineFile {
    /// Measures the file at `path`.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn at(name: &'static str, path: PathBuf) -> Result<Self> {
        let bytes = std::fs::metadata(&path)?.len();
        Ok(Self { name, lines: count_lines(&path)?, path, bytes })
    }

    /// The words and the lines of `make data`, whole or their first bytes, written to `folder`; nothing where they are missing,
    /// which the run says.
    ///
    /// # Errors
    /// When a file cannot be read or written.
    pub fn texts(run: &mut Run<'_>, folder: &Path) -> Result<Vec<Self>> {
        const QUICK_BYTES: u64 = 24 << 20;
        if run.size() == Size::Smoke {
            return Ok(Vec::new());
        }
        let data = run.data();
        let mut texts = Vec::new();
        for (name, part, file) in [
            ("doc_words", "doc_words_part", "doc_words.txt"),
            ("doc_lines", "doc_lines_part", "doc_lines.txt"),
        ] {
            let whole = data.join(file);
            if !whole.exists() {
                run.say(&format!("{name} is left out: `make data` fetches 300 MB of real text"));
                continue;
            }
            if run.size() == Size::Full {
                texts.push(Self::at(name, whole)?);
                continue;
            }
            let path = folder.join(part);
            std::io::copy(&mut File::open(&whole)?.take(QUICK_BYTES), &mut File::create(&path)?)?;
            texts.push(Self::at(part, path)?);
        }
        Ok(texts)
    }

    /// Words drawn by Zipf's law with exponent 1.05 from a million: most lines repeat one of few.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn zipf_words(run: &Run<'_>, folder: &Path) -> Result<Self> {
        let (mut random, zipf) = (Random::new(11), Zipf::new(1 << 20, 1.05));
        let words = run.pick([20_000, 3_000_000, 40_000_000]);
        Self::written("zipf_words", folder, words, |out| writeln!(out, "word{:x}", zipf.sample(&mut random)))
    }

    /// Addresses of pages, each line drawn from half as many pages as there are lines: 43 % of the lines are distinct keys, and
    /// none is heavy.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn mostly_distinct(run: &Run<'_>, folder: &Path) -> Result<Self> {
        let mut random = Random::new(12);
        let lines = run.pick([20_000, 3_000_000, 40_000_000]);
        Self::written("mostly_distinct", folder, lines, |out| {
            writeln!(out, "https://example.org/item/{:08}", random.below(lines as u64 / 2))
        })
    }

    fn written(
        name: &'static str,
        folder: &Path,
        lines: usize,
        mut line: impl FnMut(&mut BufWriter<File>) -> std::io::Result<()>,
    ) -> Result<Self> {
        let path = folder.join(name);
        let mut out = BufWriter::with_capacity(1 << 20, File::create(&path)?);
        for _ in 0..lines {
            line(&mut out)?;
        }
        out.flush()?;
        Self::at(name, path)
    }
}

fn count_lines(path: &Path) -> Result<usize> {
    let mut reader = BufReader::with_capacity(1 << 20, File::open(path)?);
    let mut lines = 0;
    loop {
        let buffer = reader.fill_buf()?;
        if buffer.is_empty() {
            return Ok(lines);
        }
        lines += memchr::memchr_iter(b'\n', buffer).count();
        let bytes = buffer.len();
        reader.consume(bytes);
    }
}
