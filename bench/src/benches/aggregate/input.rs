//! What is grouped: keys that the parent process writes once, and that each sample's process reads before its clock starts.
//!
//! ```text
//!   keys       the bytes of all records, one after another; of k-mers the sequence, whose windows are the records
//!   lengths    a byte a record; none for k-mers
//!   lines      the records as lines                      for `sort`
//!   parquet    the records as one column, plain          for DuckDB, Polars, DataFusion
//!   fasta      the sequence                              for KMC and jellyfish
//! ```

use super::workload::{BREAK, KMER, Law, Workload};
use crate::Result;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Records that are given to an engine at once.
pub(super) const BATCH: usize = 4096;

/// The records in memory.
pub(super) struct Input {
    keys: Vec<u8>,
    /// Of windows there is none.
    lengths: Option<Vec<u8>>,
    records: usize,
}

impl Input {
    /// Reads what was written to `folder`.
    pub(super) fn load(folder: &Path) -> Result<Self> {
        let keys = std::fs::read(folder.join("keys"))?;
        let lengths = folder.join("lengths");
        let lengths = if lengths.exists() { Some(std::fs::read(lengths)?) } else { None };
        let records = match &lengths {
            Some(lengths) => lengths.len(),
            None => keys.split(|&base| base == BREAK).map(|piece| piece.len().saturating_sub(KMER - 1)).sum(),
        };
        Ok(Self { keys, lengths, records })
    }

    pub(super) fn records(&self) -> usize {
        self.records
    }

    /// The records in so many parts of about the same size, for a thread each.
    pub(super) fn parts(&self, parts: usize) -> Vec<Part<'_>> {
        let Some(lengths) = &self.lengths else { return self.window_parts(parts) };
        let mut keys = &self.keys[..];
        let pieces = lengths.chunks(lengths.len().div_ceil(parts).max(1));
        let part = |lengths: &'_ [u8]| lengths.iter().map(|&length| usize::from(length)).sum::<usize>();
        pieces
            .map(|lengths| {
                let (of_part, rest) = keys.split_at(part(lengths));
                keys = rest;
                Part { keys: of_part, lengths: Some(lengths), run: 0 }
            })
            .collect()
    }

    /// Each part begins with the end of the one before, for the windows over the border.
    fn window_parts(&self, parts: usize) -> Vec<Part<'_>> {
        let bytes = self.keys.len().div_ceil(parts).max(KMER);
        let begins = (0..self.keys.len()).step_by(bytes);
        begins
            .map(|begin| {
                let end = (begin + bytes + KMER - 1).min(self.keys.len());
                Part { keys: &self.keys[begin..end], lengths: None, run: 0 }
            })
            .collect()
    }
}

/// Records that are still to come.
pub(super) struct Part<'i> {
    keys: &'i [u8],
    lengths: Option<&'i [u8]>,
    /// Of windows: how many bytes before `keys[run]` are of its piece.
    run: usize,
}

impl<'i> Part<'i> {
    /// Replaces `batch` by the next records; `false` if there is none.
    pub(super) fn next_batch(&mut self, batch: &mut Vec<&'i [u8]>, most: usize) -> bool {
        batch.clear();
        match self.lengths {
            Some(lengths) => {
                let (now, later) = lengths.split_at(lengths.len().min(most));
                for &length in now {
                    let (key, rest) = self.keys.split_at(usize::from(length));
                    batch.push(key);
                    self.keys = rest;
                }
                self.lengths = Some(later);
            }
            None => self.next_windows(batch, most),
        }
        !batch.is_empty()
    }

    fn next_windows(&mut self, batch: &mut Vec<&'i [u8]>, most: usize) {
        while batch.len() < most && self.run < self.keys.len() {
            if self.keys[self.run] == BREAK {
                self.keys = &self.keys[self.run + 1..];
                self.run = 0;
                continue;
            }
            self.run += 1;
            if self.run == KMER {
                batch.push(&self.keys[..KMER]);
                self.keys = &self.keys[1..];
                self.run -= 1;
            }
        }
    }
}

/// The folder of a workload in the run's scratch folder.
pub(super) fn folder(scratch: &Path, workload: Workload) -> PathBuf {
    let Workload { name, records, groups, .. } = workload;
    scratch.join(format!("{name}_{}_{records}_{groups}", workload.law.longest()))
}

/// Writes what engines read of a workload. `testdata` and `data` are where the real ones are.
pub(super) fn write(workload: Workload, folder: &Path, testdata: &Path, data: &Path) -> Result<()> {
    std::fs::create_dir_all(folder)?;
    let mut keys = BufWriter::with_capacity(1 << 20, File::create(folder.join("keys"))?);
    if workload.law == Law::Kmers {
        workload.write_sequence(testdata, &mut keys)?;
    } else {
        let mut lengths = BufWriter::with_capacity(1 << 20, File::create(folder.join("lengths"))?);
        workload.each_record(data, &mut |key| {
            keys.write_all(key)?;
            lengths.write_all(&[u8::try_from(key.len())?])?;
            Ok(())
        })?;
        lengths.flush()?;
    }
    Ok(keys.flush()?)
}

/// Writes the records as lines.
pub(super) fn write_lines(folder: &Path) -> Result<()> {
    let input = Input::load(folder)?;
    let mut out = BufWriter::with_capacity(1 << 20, File::create(folder.join("lines"))?);
    each_batch(&input, &mut |batch| {
        for key in batch {
            out.write_all(key)?;
            out.write_all(b"\n")?;
        }
        Ok(())
    })?;
    Ok(out.flush()?)
}

/// Writes the sequence in the format that genome tools read.
pub(super) fn write_fasta(folder: &Path) -> Result<()> {
    let input = Input::load(folder)?;
    let mut out = BufWriter::with_capacity(1 << 20, File::create(folder.join("fasta"))?);
    for piece in input.keys.split(|&base| base == BREAK).filter(|piece| !piece.is_empty()) {
        out.write_all(b">copy\n")?;
        for line in piece.chunks(70) {
            out.write_all(line)?;
            out.write_all(b"\n")?;
        }
    }
    Ok(out.flush()?)
}

/// Writes the records as a column of strings: not compressed and without a dictionary, so that reading costs as little as it can.
pub(super) fn write_parquet(folder: &Path) -> Result<()> {
    use parquet::basic::Compression;
    use parquet::data_type::{ByteArray, ByteArrayType};
    use parquet::file::{properties::WriterProperties, writer::SerializedFileWriter};
    use parquet::schema::parser::parse_message_type;
    const ROW_GROUP_BATCHES: usize = 256;

    let input = Input::load(folder)?;
    let schema = Arc::new(parse_message_type("message records { REQUIRED BYTE_ARRAY key (UTF8); }")?);
    let properties = WriterProperties::builder()
        .set_compression(Compression::UNCOMPRESSED)
        .set_dictionary_enabled(false)
        .build();
    let file = File::create(folder.join("parquet"))?;
    let mut writer = SerializedFileWriter::new(file, schema, Arc::new(properties))?;
    let mut values: Vec<ByteArray> = Vec::new();
    let mut flush = |values: &mut Vec<ByteArray>| -> Result<()> {
        let mut group = writer.next_row_group()?;
        let mut column = group.next_column()?.ok_or("the schema has one column")?;
        column.typed::<ByteArrayType>().write_batch(values, None, None)?;
        column.close()?;
        group.close()?;
        values.clear();
        Ok(())
    };
    each_batch(&input, &mut |batch| {
        values.extend(batch.iter().map(|key| ByteArray::from(key.to_vec())));
        if values.len() >= ROW_GROUP_BATCHES * BATCH { flush(&mut values) } else { Ok(()) }
    })?;
    if !values.is_empty() {
        flush(&mut values)?;
    }
    writer.close()?;
    Ok(())
}

fn each_batch(input: &Input, visit: &mut dyn FnMut(&[&[u8]]) -> Result<()>) -> Result<()> {
    let mut batch = Vec::new();
    for mut part in input.parts(1) {
        while part.next_batch(&mut batch, BATCH) {
            visit(&batch)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn records(input: &Input, parts: usize) -> Vec<Vec<u8>> {
        let (mut records, mut batch) = (Vec::new(), Vec::new());
        for mut part in input.parts(parts) {
            while part.next_batch(&mut batch, 7) {
                records.extend(batch.iter().map(|key| key.to_vec()));
            }
        }
        records
    }

    #[test]
    fn parts_have_all_records_whatever_their_number() {
        let sequence: Vec<u8> = (0..1000u32)
            .map(|i| if i % 97 == 60 { BREAK } else { b"ACGT"[i as usize * 7 % 11 % 4] })
            .collect();
        let windows = Input {
            records: sequence
                .split(|&base| base == BREAK)
                .map(|piece| piece.len().saturating_sub(KMER - 1))
                .sum(),
            keys: sequence.clone(),
            lengths: None,
        };
        let expected: Vec<Vec<u8>> =
            sequence.windows(KMER).filter(|window| !window.contains(&BREAK)).map(<[u8]>::to_vec).collect();
        let words = Input { keys: b"abbccc".to_vec(), lengths: Some(vec![1, 2, 0, 3]), records: 4 };
        for parts in [1, 2, 3, 5] {
            assert_eq!(records(&windows, parts), expected, "{parts} parts");
            assert_eq!(records(&words, parts), [&b"a"[..], b"bb", b"", b"ccc"], "{parts} parts");
        }
        assert_eq!(windows.records(), expected.len());
    }
}
