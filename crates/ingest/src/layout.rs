//! How one input divides into fields, settled when it is opened: format, delimiter, and where the wanted fields are.

use crate::boundary::Boundary;
use crate::cell::ColumnType;
use crate::decoder::PARQUET_MAGIC;
use crate::path_tree::PathTree;
use crate::{Delimiter, Error, Format, Options, Payload, Result};
use std::path::Path;

/// The fields of FASTA, in the order in which its parser finds them, as those below.
const FASTA_FIELDS: &[&str] = &["id", "description", "sequence"];
const FASTQ_FIELDS: &[&str] = &["id", "description", "sequence", "quality"];
const RAW_FIELDS: &[&str] = &["key", "value"];

/// How to parse the chunks of one input.
#[derive(Debug)]
pub(crate) enum Layout {
    Lines,
    Delimited {
        delimiter: Delimiter,
        columns: Columns,
    },
    Csv {
        delimiter: u8,
        columns: Columns,
        header: Option<Vec<u8>>,
    },
    Json(PathTree),
    Fasta(Columns),
    Fastq(Columns),
    Raw(Columns),
    /// Records in the form of `parquet`; whether each has its row's name, and the types of the columns that are asked for.
    Parquet {
        keeps_rows: bool,
        types: Vec<ColumnType>,
    },
}

impl Layout {
    /// The format, settled.
    pub(crate) fn format(&self) -> Format {
        match self {
            Self::Lines => Format::Lines,
            Self::Delimited { delimiter, .. } => Format::Delimited(*delimiter),
            Self::Csv { delimiter, header, .. } => {
                Format::Csv { delimiter: *delimiter, header: header.is_some() }
            }
            Self::Json(_) => Format::JsonLines,
            Self::Fasta(_) => Format::Fasta,
            Self::Fastq(_) => Format::Fastq,
            Self::Raw(_) => Format::Raw,
            Self::Parquet { .. } => Format::Parquet,
        }
    }

    /// The header record as it stands in the input.
    pub(crate) fn header(&self) -> Option<&[u8]> {
        match self {
            Self::Csv { header, .. } => header.as_deref(),
            _ => None,
        }
    }

    /// The layout of a text format; `header` is its first record and the names of the columns, where the format has them.
    pub(crate) fn text(
        format: Format,
        header: Option<(Vec<u8>, Vec<String>)>,
        options: &Options,
        path: &Path,
    ) -> Result<Self> {
        let (header, names) = header.unzip();
        let names = names.as_deref();
        if format == Format::Raw && options.payload == Payload::Row {
            return Err(no_rows(path));
        }
        let no_key = |choices: String| Err(Error::KeyNeeded { path: path.to_path_buf(), choices });
        match format {
            Format::Csv { .. } if options.lacks_key() => match names {
                Some(names) => no_key(format!("columns are: {}", names.join(", "))),
                None => no_key("columns are numbers from 1".into()),
            },
            Format::Delimited(_) if options.lacks_key() => no_key("fields are numbers from 1".into()),
            Format::JsonLines if options.lacks_key() => {
                no_key("fields are paths such as user.id or items[0].sku".into())
            }
            Format::Csv { delimiter, .. } => {
                let columns = Columns::new(names, options, path)?;
                Ok(Self::Csv { delimiter, columns, header })
            }
            Format::Delimited(delimiter) => {
                Ok(Self::Delimited { delimiter, columns: Columns::new(None, options, path)? })
            }
            Format::JsonLines => Ok(Self::Json(PathTree::new(options.fields())?)),
            Format::Fasta => Ok(Self::Fasta(Columns::named(FASTA_FIELDS, options, path)?)),
            Format::Fastq => Ok(Self::Fastq(Columns::named(FASTQ_FIELDS, options, path)?)),
            Format::Raw => Ok(Self::Raw(Columns::named(RAW_FIELDS, options, path)?)),
            Format::Auto | Format::Lines | Format::Parquet => match options.fields().next() {
                None => Ok(Self::Lines),
                Some(field) => Err(Error::InvalidOption {
                    name: "field",
                    value: field.into(),
                    why: format!(
                        "{} is read as lines, which have no fields; choose a format that has them (--format whitespace, delimited, csv \
                         or jsonl)",
                        path.display()
                    ),
                }),
            },
        }
    }
}

/// What is wrong with asking for the rows of a format whose rows are no text.
pub(crate) fn no_rows(path: &Path) -> Error {
    Error::InvalidOption {
        name: "payload",
        value: "row".to_owned(),
        why: format!(
            "rows of {} are no text that could go with a key; name the fields instead",
            path.display()
        ),
    }
}

/// Which format an input has that was asked for as `options.format`.
pub(crate) fn detect(options: &Options, path: &Path, head: &[u8]) -> Format {
    if options.format != Format::Auto {
        return options.format;
    }
    if head.starts_with(PARQUET_MAGIC) {
        return Format::Parquet;
    }
    if options.nul_ends_lines {
        return unnamed(options);
    }
    let name = path.file_name().map(|name| name.to_string_lossy().to_ascii_lowercase()).unwrap_or_default();
    let name = [".gz", ".zst", ".zstd", ".xz", ".bz2", ".lz4"]
        .iter()
        .find_map(|end| name.strip_suffix(end))
        .unwrap_or(&name);
    match name.rsplit_once('.').map(|(_, extension)| extension) {
        Some("csv") => Format::Csv { delimiter: b',', header: options.header },
        Some("tsv") => Format::Csv { delimiter: b'\t', header: options.header },
        Some("jsonl" | "ndjson" | "json") => Format::JsonLines,
        Some("parquet") => Format::Parquet,
        Some("fasta" | "fa" | "fna" | "faa" | "ffn" | "frn") => Format::Fasta,
        Some("fastq" | "fq") => Format::Fastq,
        _ => unnamed(options),
    }
}

/// The format of an input whose name does not tell.
fn unnamed(options: &Options) -> Format {
    if options.names_fields() && options.fields().all(|name| column_number(name).is_some()) {
        Format::Delimited(Delimiter::Whitespace)
    } else {
        Format::Lines
    }
}

/// What ends a record of `format`, where `line_end` ends lines.
pub(crate) fn boundary(format: Format, line_end: u8) -> Boundary {
    match format {
        Format::Csv { delimiter, .. } => Boundary::Unquoted(delimiter),
        Format::Fasta => Boundary::Header,
        Format::Fastq => Boundary::FourthLine,
        Format::Raw => Boundary::Lengths,
        _ => Boundary::Byte(line_end),
    }
}

/// The wanted columns: which column goes to which slot.
#[derive(Debug)]
pub(crate) struct Columns {
    /// (column from 0, slot), by column.
    pub(crate) wanted: Vec<(usize, usize)>,
}

impl Columns {
    /// Those of a format whose fields have names of its own.
    fn named(names: &[&str], options: &Options, path: &Path) -> Result<Self> {
        let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
        Self::new(Some(&names), options, path)
    }

    fn new(header: Option<&[String]>, options: &Options, path: &Path) -> Result<Self> {
        let mut wanted = Vec::new();
        for (slot, name) in options.fields().enumerate() {
            let column = match header {
                Some(names) => column_named(names, name, path)?,
                None => column_number(name).ok_or_else(|| Error::NoSuchColumn {
                    name: name.into(),
                    path: path.to_path_buf(),
                    columns: vec!["numbers from 1".into()],
                })?,
            };
            wanted.push((column, slot));
        }
        wanted.sort_unstable();
        Ok(Self { wanted })
    }
}

/// The column from 0 of this name, which no other has.
pub(crate) fn column_named(names: &[String], name: &str, path: &Path) -> Result<usize> {
    let mut columns = names.iter().enumerate().filter(|(_, other)| *other == name).map(|(column, _)| column);
    let path = path.to_path_buf();
    let Some(column) = columns.next() else {
        return Err(Error::NoSuchColumn { name: name.into(), path, columns: names.to_vec() });
    };
    match columns.next() {
        None => Ok(column),
        Some(other) => Err(Error::ColumnTwice { name: name.into(), path, columns: [column + 1, other + 1] }),
    }
}

/// The column from 0 that a number from 1 names.
fn column_number(name: &str) -> Option<usize> {
    name.parse::<usize>().ok()?.checked_sub(1)
}
