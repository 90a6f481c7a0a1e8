//! The options of the commands of a dictionary.

use super::filter::AskedKeys;
use super::input::{Fields, InputArguments, MachineArguments, parse_fields, parse_seconds};
use super::{OutputArguments, StoreArguments};
use crate::units::{parse_bytes, parse_count};
use clap::{Args, Subcommand, ValueEnum, ValueHint};
use std::ops::RangeInclusive;
use std::path::PathBuf;

#[derive(Subcommand, Debug)]
pub(crate) enum DictionaryCommand {
    /// Put the keys and values of files into a new dictionary
    Build(Box<BuildDictionaryArguments>),
    /// Put more keys and values in; of a key that is there, the new value replaces the old one or is merged into it
    Update(Box<UpdateArguments>),
    /// Take the keys of files out, with their values
    Delete(Box<RemoveArguments>),
    /// Print the values of keys
    Get(GetArguments),
    /// Print all keys and values, in the order of their hashes
    Scan(ScanArguments),
    /// Add to each row of files the value of its key, in order
    Join(Box<JoinArguments>),
    /// Number keys: each has a place of its own among all keys, from 0 without a gap
    Rank(RankArguments),
    /// Show what a dictionary holds: items, levels, fill, bytes, bits a key by component
    Info(StoreArguments),
    /// Read everything and check it: checksums, order, indexes, counts
    Verify(StoreArguments),
    /// Share a dictionary out over new ones, each with an equal part of the hashes
    Split(SplitArguments),
    /// Put dictionaries into a new one; of a key that several have, the last one's value stays
    Concat(ConcatArguments),
    /// Show what a dictionary will cost before you start: flash, index, writes
    Plan(DictionaryPlanArguments),
}

impl DictionaryCommand {
    /// Whether it writes to standard output.
    pub(crate) fn prints(&self) -> bool {
        match self {
            Self::Scan(arguments) => arguments.output.is_none(),
            Self::Join(arguments) => arguments.output.is_none(),
            _ => true,
        }
    }
}

/// Which bytes of a row are the value of its key.
#[derive(Args, Debug)]
pub(crate) struct PairArguments {
    #[command(flatten)]
    pub(crate) input: InputArguments,

    /// The value: a field, named as --key names one; several make one value with tabs between, where \t and \\ stand for a tab and a
    /// backslash in a field; an object or an array of JSON is its text [default: the sequence of FASTA, the value of raw records,
    /// else nothing, which makes a set of keys]
    #[arg(long, value_name = "FIELD", value_parser = parse_fields, conflicts_with = "value_row")]
    value: Vec<Fields>,

    /// The whole row is the value, as it stands, without its line end
    #[arg(long)]
    pub(crate) value_row: bool,

    /// In delimited fields \t, \n, \r and \\ stand for those bytes, as `dict scan` and `dict get` print them as TSV
    #[arg(long)]
    pub(crate) escaped: bool,
}

impl PairArguments {
    /// The fields of the value.
    pub(crate) fn values(&self) -> Vec<String> {
        self.value.iter().flat_map(|fields| fields.0.iter().cloned()).collect()
    }
}

/// How a dictionary is written, and how often its run is committed.
#[derive(Args, Debug)]
pub(crate) struct ChangeArguments {
    /// Go on where an interrupted run of the same command stopped
    #[arg(long)]
    pub(crate) resume: bool,

    /// Seconds between commits, if something new came; each writes what is in RAM
    #[arg(long, value_name = "SECONDS", default_value_t = 60.0, value_parser = parse_seconds)]
    pub(crate) commit_every: f64,

    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,

    #[command(flatten)]
    pub(crate) machine: MachineArguments,
}

/// What the files of a dictionary are like.
#[derive(Args, Debug)]
pub(crate) struct ShapeArguments {
    /// How pages are compressed: lz4 costs little time, zstd takes the least space, with a dictionary of its own trained on the
    /// first items
    #[arg(long, value_enum, value_name = "HOW", default_value_t)]
    pub(crate) compression: CompressionName,

    /// Bytes of a page, which a lookup reads: 4096, or 16384 for items of some KiB and for better compression
    #[arg(long, value_name = "BYTES", default_value_t = 4096, value_parser = parse_page)]
    pub(crate) page: u32,

    /// Also number the keys, for `dict rank`: 2.5 bits of RAM a key
    #[arg(long)]
    pub(crate) ranks: bool,
}

#[derive(Args, Debug)]
#[command(after_help = "\
Keys and values are any bytes. Where they have tabs or line ends in them: --as csv and --as raw of `dict scan` are read back as
they were, by --format csv and raw; so is its TSV by --format delimited --escaped; and JSON lines if all is UTF-8.

An interrupted run, by Ctrl-C or otherwise, leaves a dictionary that can be asked; the same command with --resume goes on.

Examples:
  overbank dict build users users.csv --key id --value name
  overbank dict build pages 'crawl/*.jsonl.zst' --key url --value title,body --compression zstd --memory 1GiB
  overbank dict build genes genes.fasta.gz
  overbank dict build words text.tsv --format delimited --key 1 --value 2 --merge sum
  overbank dict build ids list.txt --ranks")]
pub(crate) struct BuildDictionaryArguments {
    /// The new store
    #[arg(value_name = "OUT", value_hint = ValueHint::DirPath)]
    pub(crate) store: PathBuf,

    #[command(flatten)]
    pub(crate) rows: PairArguments,

    /// What becomes of a key that comes again
    #[arg(long, value_enum, value_name = "WHICH", default_value_t, conflicts_with = "merge")]
    pub(crate) duplicates: DuplicatesName,

    /// Merge the values of a key that comes again, now and in every update
    #[arg(long, value_enum, value_name = "HOW")]
    pub(crate) merge: Option<MergeName>,

    #[command(flatten)]
    pub(crate) shape: ShapeArguments,

    #[command(flatten)]
    pub(crate) change: ChangeArguments,
}

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  overbank dict update users today.csv --key id --value name
  overbank dict update words more.tsv --format delimited --key 1 --value 2")]
pub(crate) struct UpdateArguments {
    /// A store that `dict build` made
    #[arg(value_name = "STORE", value_hint = ValueHint::DirPath)]
    pub(crate) store: PathBuf,

    #[command(flatten)]
    pub(crate) rows: PairArguments,

    /// Which value stays of a key that is there, or comes again: last is the newest, first is the oldest
    #[arg(long, value_enum, value_name = "WHICH", value_parser = parse_kept, conflicts_with = "replace")]
    pub(crate) duplicates: Option<DuplicatesName>,

    /// Replace values although the dictionary was built with --merge
    #[arg(long)]
    pub(crate) replace: bool,

    /// Leave an interrupted run at that, and start with this input
    #[arg(long, conflicts_with = "resume")]
    pub(crate) append: bool,

    #[command(flatten)]
    pub(crate) change: ChangeArguments,
}

#[derive(Args, Debug)]
#[command(after_help = "\
Example:
  overbank dict delete users left.txt")]
pub(crate) struct RemoveArguments {
    /// A store that `dict build` made
    #[arg(value_name = "STORE", value_hint = ValueHint::DirPath)]
    pub(crate) store: PathBuf,

    #[command(flatten)]
    pub(crate) input: InputArguments,

    /// In delimited fields \t, \n, \r and \\ stand for those bytes
    #[arg(long)]
    pub(crate) escaped: bool,

    /// Leave an interrupted run at that, and start with this input
    #[arg(long, conflicts_with = "resume")]
    pub(crate) append: bool,

    #[command(flatten)]
    pub(crate) change: ChangeArguments,
}

/// How an answer of keys and values is written.
#[derive(Args, Debug)]
pub(crate) struct FormArguments {
    /// How keys and values are written
    #[arg(long = "as", value_name = "FORM", value_enum, default_value_t)]
    pub(crate) form: DictionaryForm,
}

/// The memory of a command that asks.
#[derive(Args, Debug)]
pub(crate) struct AskArguments {
    /// The memory that everything together may use; the program itself takes up to 8 MiB beside it
    #[arg(short, long, value_name = "SIZE", default_value = "64MiB", value_parser = parse_bytes)]
    pub(crate) memory: u64,
}

#[derive(Args, Debug)]
#[command(after_help = "\
Exit code 1 says that a key is not there.

Examples:
  overbank dict get users 1723
  overbank dict get users --keys wanted.txt --as json --absent")]
pub(crate) struct GetArguments {
    /// A store that `dict build` made
    #[arg(value_name = "STORE", value_hint = ValueHint::DirPath)]
    pub(crate) store: PathBuf,

    #[command(flatten)]
    pub(crate) asked: AskedKeys,

    #[command(flatten)]
    pub(crate) form: FormArguments,

    /// Also print the keys that are not there: in JSON with the value null, in TSV without the tab of a value
    #[arg(long)]
    pub(crate) absent: bool,

    #[command(flatten)]
    pub(crate) ask: AskArguments,
}

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  overbank dict scan users > users.tsv
  overbank dict scan users --as raw --output users.raw
  overbank dict scan users --part 3/16 --as json")]
pub(crate) struct ScanArguments {
    /// A store that `dict build` made
    #[arg(value_name = "STORE", value_hint = ValueHint::DirPath)]
    pub(crate) store: PathBuf,

    #[command(flatten)]
    pub(crate) form: FormArguments,

    /// Only keys whose hashes begin with 64 bits in this range, both ends included, as 16 hexadecimal digits
    #[arg(long, value_name = "FIRST-LAST", value_parser = parse_range, conflicts_with = "part")]
    pub(crate) range: Option<HashRange>,

    /// Only part I of N equal parts of all hashes, about as many keys each
    #[arg(long, value_name = "I/N", value_parser = parse_part)]
    pub(crate) part: Option<HashRange>,

    /// Write to FILE, which is replaced once all is there, instead of standard output
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) output: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) ask: AskArguments,
}

#[derive(Args, Debug)]
#[command(after_help = "\
Each row comes out as it came in, in its place, and the value behind it: in CSV as a further column, in JSON lines as a further
member, in lines and delimited fields behind a tab or the delimiter, with \\t, \\n, \\r and \\\\ for those bytes. Rows wait while their
keys are looked up together, but those of a pipe no longer than 0.1 s or ten times the last answer.

Examples:
  overbank dict join users orders.csv --key user_id --name user > orders+users.csv
  tail -f log | overbank dict join hosts --format whitespace --key 1 --absent drop")]
pub(crate) struct JoinArguments {
    /// A store that `dict build` made
    #[arg(value_name = "STORE", value_hint = ValueHint::DirPath)]
    pub(crate) store: PathBuf,

    #[command(flatten)]
    pub(crate) input: InputArguments,

    /// What becomes of rows whose key is not there, or that have none
    #[arg(long, value_enum, value_name = "WHAT", default_value_t)]
    pub(crate) absent: AbsentName,

    /// How the new column or member is called
    #[arg(long, value_name = "NAME", default_value = "value")]
    pub(crate) name: String,

    /// Write to FILE, which is replaced once all rows are there, instead of standard output
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) output: Option<PathBuf>,

    /// Where rows wait that do not fit the memory; files there vanish with the command [default: $TMPDIR or /var/tmp]
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) spool: Option<PathBuf>,

    /// Say at the end, on standard error, how many rows there were, as one JSON object
    #[arg(long)]
    pub(crate) json: bool,

    #[command(flatten)]
    pub(crate) machine: MachineArguments,
}

#[derive(Args, Debug)]
#[command(after_help = "\
Exit code 1 says that a key is not there. The dictionary must have been built with --ranks.

Example:
  overbank dict rank ids alice bob")]
pub(crate) struct RankArguments {
    /// A store that `dict build --ranks` made
    #[arg(value_name = "STORE", value_hint = ValueHint::DirPath)]
    pub(crate) store: PathBuf,

    #[command(flatten)]
    pub(crate) asked: AskedKeys,

    #[command(flatten)]
    pub(crate) output: OutputArguments,

    #[command(flatten)]
    pub(crate) ask: AskArguments,
}

#[derive(Args, Debug)]
#[command(after_help = "\
The new stores have the seed of the old one, so `dict concat` puts them together again. Each appears when it is whole.

Example:
  overbank dict split users users-1 users-2 users-3")]
pub(crate) struct SplitArguments {
    /// A store that `dict build` made; it stays as it is
    #[arg(value_name = "STORE", value_hint = ValueHint::DirPath)]
    pub(crate) store: PathBuf,

    /// The new stores
    #[arg(value_name = "OUT", required = true, value_hint = ValueHint::DirPath)]
    pub(crate) outs: Vec<PathBuf>,

    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,

    #[command(flatten)]
    pub(crate) ask: AskArguments,
}

#[derive(Args, Debug)]
#[command(after_help = "\
The stores must have been made with the same --seed, --hash and --merge, as those of one split are.

Example:
  overbank dict concat users users-1 users-2 users-3")]
pub(crate) struct ConcatArguments {
    /// The new store; it appears when it is whole
    #[arg(value_name = "OUT", value_hint = ValueHint::DirPath)]
    pub(crate) out: PathBuf,

    /// The stores that are put together; they stay as they are
    #[arg(value_name = "STORE", required = true, value_hint = ValueHint::DirPath)]
    pub(crate) stores: Vec<PathBuf>,

    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,

    #[command(flatten)]
    pub(crate) ask: AskArguments,
}

#[derive(Args, Debug)]
#[command(after_help = "\
Example:
  overbank dict plan --items 1e9 --key-bytes 40 --value-bytes 200 --memory 1GiB")]
pub(crate) struct DictionaryPlanArguments {
    /// How many different keys there will be, such as 1e9
    #[arg(long, value_name = "N", value_parser = parse_count)]
    pub(crate) items: u64,

    /// Bytes of a key, on average
    #[arg(long, value_name = "BYTES", value_parser = parse_length)]
    pub(crate) key_bytes: f64,

    /// Bytes of a value, on average
    #[arg(long, value_name = "BYTES", default_value = "0", value_parser = parse_length)]
    pub(crate) value_bytes: f64,

    #[command(flatten)]
    pub(crate) shape: ShapeArguments,

    /// The memory that everything together may use
    #[arg(short, long, value_name = "SIZE", default_value = "64MiB", value_parser = parse_bytes)]
    pub(crate) memory: u64,

    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// The compressions by the names a user types.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum CompressionName {
    /// Pages as they are
    #[default]
    None,
    /// LZ4
    Lz4,
    /// Zstandard
    Zstd,
}

/// What becomes of a key that comes again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum DuplicatesName {
    /// Its last value stays
    #[default]
    Last,
    /// Its first value stays
    First,
    /// The command fails, and nothing is kept; such a build is not gone on with by --resume
    Error,
}

/// How values of one key become one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum MergeName {
    /// The sum of whole numbers, written in decimal digits
    Sum,
    /// The greatest of them
    Max,
    /// The least of them
    Min,
    /// The sum of numbers of 8 bytes, little-endian, as raw records may have them
    SumBinary,
    /// The greatest of them
    MaxBinary,
    /// The least of them
    MinBinary,
    /// One behind the other
    Append,
}

/// How keys and values are printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum DictionaryForm {
    /// A line a key: key, tab, value; \t, \n, \r and \\ stand for those bytes
    #[default]
    Tsv,
    /// RFC 4180 with a header, and a line feed behind each row
    Csv,
    /// A JSON object a line, as docs/schema describes it
    Json,
    /// Length-prefixed: key length, key, value length, value; lengths are 4 bytes, little-endian
    Raw,
    /// The values alone, as they are, with a line feed behind each
    Values,
}

/// What becomes of rows whose key has no value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum AbsentName {
    /// The value is empty; in JSON null
    #[default]
    Empty,
    /// They are left out, and counted
    Drop,
    /// The first one is an error
    Fail,
}

/// A range of the first 64 bits of hashes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HashRange(pub(crate) RangeInclusive<u64>);

impl HashRange {
    /// Part `part` of `parts` equal ones, from 0.
    pub(crate) fn part(part: u64, parts: u64) -> Self {
        let border = |part: u64| (u128::from(part) << 64) / u128::from(parts);
        Self(border(part) as u64..=(border(part + 1) - 1) as u64)
    }
}

fn parse_range(text: &str) -> Result<HashRange, String> {
    let hex = |digits: &str| match digits.len() {
        1..=16 => u64::from_str_radix(digits, 16).ok(),
        _ => None,
    };
    match text.split_once('-').map(|(first, last)| (hex(first), hex(last))) {
        Some((Some(first), Some(last))) if first <= last => Ok(HashRange(first..=last)),
        _ => Err(
            "it must be two hexadecimal numbers, such as 0-7fffffffffffffff, the first not above the last"
                .to_owned(),
        ),
    }
}

fn parse_part(text: &str) -> Result<HashRange, String> {
    let number = |digits: &str| digits.parse::<u32>().ok().filter(|number| *number > 0);
    match text.split_once('/').map(|(part, parts)| (number(part), number(parts))) {
        Some((Some(part), Some(parts))) if part <= parts => {
            Ok(HashRange::part(u64::from(part) - 1, u64::from(parts)))
        }
        _ => Err("it must be like 1/16, 2/16 … 16/16".to_owned()),
    }
}

fn parse_page(text: &str) -> Result<u32, String> {
    match text.parse() {
        Ok(bytes @ (4096 | 16384)) => Ok(bytes),
        _ => Err("it must be 4096 or 16384".to_owned()),
    }
}

fn parse_length(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(bytes) if (0.0..=1e9).contains(&bytes) => Ok(bytes),
        _ => Err("it must be a number of bytes from 0 to 1e9".to_owned()),
    }
}

/// The policies that need not know whether the dictionary is empty.
fn parse_kept(text: &str) -> Result<DuplicatesName, String> {
    match text {
        "last" => Ok(DuplicatesName::Last),
        "first" => Ok(DuplicatesName::First),
        _ => Err("it must be last or first".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_ranges_without_a_gap() {
        for parts in [1, 2, 3, 7, 16, 1000] {
            let mut next = Some(0);
            for part in 1..=parts {
                let HashRange(range) = parse_part(&format!("{part}/{parts}")).unwrap();
                assert_eq!(Some(*range.start()), next);
                next = range.end().checked_add(1);
            }
            assert_eq!(next, None);
        }
        for bad in ["", "0/3", "4/3", "1/0", "1", "a/b", "-1/3"] {
            assert!(parse_part(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn ranges_are_hexadecimal() {
        assert_eq!(parse_range("0-7fffffffffffffff").unwrap().0, 0..=u64::MAX / 2);
        assert_eq!(parse_range("a-A").unwrap().0, 10..=10);
        for bad in ["", "1", "2-1", "0-10000000000000000", "x-y", "-", "1-"] {
            assert!(parse_range(bad).is_err(), "{bad}");
        }
    }
}
