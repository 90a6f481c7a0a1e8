//! The options of `group`, and of the commands that are short for it.

use super::input::{InputArguments, MachineArguments, parse_seconds};
use crate::units::parse_count;
use clap::{Args, ValueEnum, ValueHint};
use overbank_ingest::ColumnType;
use overbank_ingest::key_text::TimeUnit;
use overbank_table::{Call, SumOverflow};
use std::path::PathBuf;

/// The most letters of a k-mer, and words of an n-gram.
const LENGTH_MAX: u64 = 1000;

#[derive(Args, Debug)]
#[command(mut_arg("key", |arg| arg
    .long("by")
    .visible_alias("key")
    .help("The fields whose values make a group: field numbers, CSV or Parquet columns, JSON paths; one with a comma in it is put in \
           double quotes. NULL is a group like others [default: all rows are one group]")))]
#[command(after_help = "\
Functions: count, count(x), sum(x), mean(x), min(x), max(x), var(x), stddev(x), first(x), last(x), any(x), list(x,10), topk(x,5),
distinct(x), median(x), p99(x), quantile(x,0.999), bitmap(x); `sum(x) as total` gives a result another name. All are exact but distinct
(1.6 % off), quantiles (1 %) and topk, and are the same for any number of threads. As in SQL, NULLs take part in count alone.

topk(x,5) lists values with their counts, the most frequent first: [{\"value\":\"a\",\"count\":7,\"error\":0}] in JSON and as the text of a
field of CSV, a list of structs in Parquet. Counts are exact while a group has no more than 1024 different values; beyond, error
says how far a count may be off, either way.

An empty field of CSV or of delimited fields is NULL, and so is null, or what an object lacks, in JSON. Parquet has types; of other
inputs, fields that numbers are computed of get theirs from the first rows, and all others are text, unless --types says what they
are: int, uint, float, float32, bool, text, binary, date, timestamp, timestamptz, decimal(p,s). A row with a value that is not of its
field's type is left out and counted, as malformed rows are.

Examples:
  overbank group --by country,product --agg 'count,sum(price)' sales.csv --top 10
  overbank group --by user.id --agg 'count,p99(ms),max(at)' --types ms:float,at:timestamp 'logs/*.jsonl.zst' -o users.parquet
  overbank group --by 1 --format whitespace --agg count access.log --sort count:desc -o - | head")]
pub(crate) struct GroupArguments {
    #[command(flatten)]
    pub(crate) input: InputArguments,

    /// What is computed of each group, with commas between
    #[arg(short, long, value_name = "FUNCTIONS", default_value = "count", value_parser = parse_calls)]
    pub(crate) agg: Calls,

    /// The types of fields, such as x:int,price:decimal(12,2)
    #[arg(long, value_name = "FIELD:TYPE", value_parser = parse_types)]
    types: Vec<Types>,

    /// What becomes of a sum of integers that does not fit 64 bits
    #[arg(long, value_enum, value_name = "WHAT", default_value_t)]
    pub(crate) overflow: OverflowName,

    #[command(flatten)]
    pub(crate) grouped: GroupedArguments,
}

impl GroupArguments {
    /// The type of a field, if one is given.
    pub(crate) fn type_of(&self, field: &str) -> Option<ColumnType> {
        let mut all = self.types.iter().flat_map(|types| &types.0);
        all.find(|(name, _)| name == field).map(|(_, kind)| *kind)
    }

    /// The fields whose types are given.
    pub(crate) fn typed_fields(&self) -> impl Iterator<Item = &str> {
        self.types.iter().flat_map(|types| &types.0).map(|(name, _)| name.as_str())
    }
}

/// How groups are written, and in which order.
#[derive(Args, Debug)]
pub(crate) struct GroupedArguments {
    /// Write to FILE, which is replaced once all is there, instead of standard output
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    output: Option<PathBuf>,

    /// How groups are written [default: as the name of the output ends, else csv]
    #[arg(long = "as", value_enum, value_name = "FORM")]
    form: Option<GroupForm>,

    /// Write groups in the order of a result, the least first, or with :desc the greatest; NULLs last [default: that of the hashes
    /// of their keys, which is none to people]
    #[arg(long, value_name = "RESULT[:desc]", value_parser = parse_order)]
    pub(crate) sort: Option<OrderName>,

    /// Write the N groups alone that are first in that order, or for which a result is greatest [default result: the first function]
    #[arg(long, value_name = "N[:RESULT]", value_parser = parse_top)]
    pub(crate) top: Option<Top>,

    /// Keep the groups in this directory, so that an interrupted run can go on, and more files can be added
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) store: Option<PathBuf>,

    /// Go on where an interrupted run of the same command stopped
    #[arg(long, requires = "store")]
    pub(crate) resume: bool,

    /// Add these files to the groups that the store has
    #[arg(long, requires = "store", conflicts_with = "resume")]
    pub(crate) append: bool,

    /// Seconds between commits to the store, if something new came
    #[arg(long, value_name = "SECONDS", default_value_t = 60.0, requires = "store", value_parser = parse_seconds)]
    pub(crate) commit_every: f64,

    /// Where groups go that the memory has no room for, without --store; files there vanish with the command [default: $TMPDIR or
    /// /var/tmp]
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath, conflicts_with = "store")]
    pub(crate) spool: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) machine: MachineArguments,
}

impl GroupedArguments {
    /// The file that groups are written to; standard output if there is none.
    pub(crate) fn file(&self) -> Option<&PathBuf> {
        self.output.as_ref().filter(|path| path.as_os_str() != "-")
    }

    /// How they are written.
    pub(crate) fn form(&self) -> GroupForm {
        self.form.unwrap_or_else(|| {
            let ending = self.file().and_then(|path| path.extension()).and_then(|ending| ending.to_str());
            match ending.map(str::to_ascii_lowercase).as_deref() {
                Some("parquet") => GroupForm::Parquet,
                Some("json" | "jsonl" | "ndjson") => GroupForm::Json,
                Some("tsv") => GroupForm::Tsv,
                _ => GroupForm::Csv,
            }
        })
    }
}

#[derive(Args, Debug)]
#[command(after_help = "\
It is short for `overbank group --agg count` of the words of each row: the result has the columns word and count.

Examples:
  overbank wordcount book.txt --lowercase --letters --top 20
  overbank wordcount 'posts/*.jsonl.zst' --key text -o words.parquet")]
pub(crate) struct WordcountArguments {
    #[command(flatten)]
    pub(crate) input: InputArguments,

    #[command(flatten)]
    pub(crate) words: WordArguments,

    #[command(flatten)]
    pub(crate) grouped: GroupedArguments,
}

#[derive(Args, Debug)]
#[command(after_help = "\
The result has the columns ngram and count; words of an n-gram have one blank between them, and no n-gram goes over a row's end.

Examples:
  overbank ngrams -n 2 book.txt --lowercase --letters --top 20
  overbank ngrams -n 3 --characters hosts.txt -o trigrams.csv")]
pub(crate) struct NgramsArguments {
    /// How many words, or characters, follow each other
    #[arg(short = 'n', long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=LENGTH_MAX))]
    pub(crate) length: u64,

    /// N-grams are of characters, not of words
    #[arg(long, conflicts_with = "letters")]
    pub(crate) characters: bool,

    #[command(flatten)]
    pub(crate) input: InputArguments,

    #[command(flatten)]
    pub(crate) words: WordArguments,

    #[command(flatten)]
    pub(crate) grouped: GroupedArguments,
}

/// What a word is.
#[derive(Args, Debug)]
pub(crate) struct WordArguments {
    /// Words are runs of letters and digits, not of all that is no blank
    #[arg(long)]
    pub(crate) letters: bool,

    /// Words are taken in lower case
    #[arg(long)]
    pub(crate) lowercase: bool,
}

#[derive(Args, Debug)]
#[command(mut_arg("key", |arg| arg.short(None)))]
#[command(after_help = "\
The result has the columns kmer and count. Letters are taken in upper case; what has others than A, C, G and T among its k letters is
none. Inputs are FASTA or FASTQ by their names or --format; of others, each row is a sequence. A sequence of FASTA may be of any length;
other rows are refused where --memory is too little for them.

Examples:
  overbank kmers -k 25 --canonical genome.fasta.gz --memory 1GiB -o counts.parquet
  overbank kmers -k 12 'reads/*.fq.zst' --top 100")]
pub(crate) struct KmersArguments {
    /// Letters of a k-mer
    #[arg(short = 'k', long = "length", value_name = "K", value_parser = clap::value_parser!(u64).range(1..=LENGTH_MAX))]
    pub(crate) length: u64,

    /// A k-mer and its reverse complement are one, by the name of that which is first in the alphabet
    #[arg(long)]
    pub(crate) canonical: bool,

    #[command(flatten)]
    pub(crate) input: InputArguments,

    #[command(flatten)]
    pub(crate) grouped: GroupedArguments,
}

/// The forms of groups by the names a user types.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum GroupForm {
    /// RFC 4180 with a header; NULL is an empty field, an empty text is ""
    Csv,
    /// As csv with tabs between fields
    Tsv,
    /// A JSON object a line
    Json,
    /// Parquet, with types
    Parquet,
    /// A page for people
    Table,
}

/// What becomes of sums beyond 64 bits, by the names a user types.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum OverflowName {
    /// The command ends with an error
    #[default]
    Error,
    /// It is the nearest number of 64 bits
    Saturate,
    /// All sums of integers are decimals of 38 digits
    Wide,
}

impl From<OverflowName> for SumOverflow {
    fn from(name: OverflowName) -> Self {
        match name {
            OverflowName::Error => SumOverflow::Error,
            OverflowName::Saturate => SumOverflow::Saturate,
            OverflowName::Wide => SumOverflow::Wide,
        }
    }
}

/// Functions of `--agg`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Calls(pub(crate) Vec<Call>);

fn parse_calls(text: &str) -> Result<Calls, String> {
    Call::parse_list(text).map(Calls).map_err(|error| match error {
        overbank_table::Error::Call { why, .. } => why,
        other => other.to_string(),
    })
}

/// Fields and their types.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Types(Vec<(String, ColumnType)>);

/// Fields with their types, as a store remembers them.
pub(crate) fn types_of_text(text: &str) -> Result<Vec<(String, ColumnType)>, String> {
    if text.is_empty() { Ok(Vec::new()) } else { parse_types(text).map(|types| types.0) }
}

/// Fields with their types as `--types` takes them.
pub(crate) fn text_of_types<'f>(types: impl Iterator<Item = (&'f str, ColumnType)>) -> String {
    let typed = types.map(|(name, kind)| format!("\"{}\":{}", name.replace('"', "\"\""), type_text(kind)));
    typed.collect::<Vec<_>>().join(",")
}

fn type_text(kind: ColumnType) -> String {
    let unit = |unit| match unit {
        TimeUnit::Milliseconds => "ms",
        TimeUnit::Microseconds => "us",
        TimeUnit::Nanoseconds => "ns",
    };
    match kind {
        ColumnType::Text => "text".to_owned(),
        ColumnType::Bytes => "binary".to_owned(),
        ColumnType::Integer => "int".to_owned(),
        ColumnType::Unsigned => "uint".to_owned(),
        ColumnType::Float32 => "float32".to_owned(),
        ColumnType::Float => "float".to_owned(),
        ColumnType::Boolean => "bool".to_owned(),
        ColumnType::Decimal { precision, scale } => format!("decimal({precision},{scale})"),
        ColumnType::Date => "date".to_owned(),
        ColumnType::Timestamp { unit: own, is_utc: false } => format!("timestamp({})", unit(own)),
        ColumnType::Timestamp { unit: own, is_utc: true } => format!("timestamptz({})", unit(own)),
    }
}

fn parse_types(text: &str) -> Result<Types, String> {
    let mut depth = 0;
    let mut is_quoted = false;
    let parts = text.split(|sign| {
        match sign {
            '"' => is_quoted = !is_quoted,
            '(' if !is_quoted => depth += 1,
            ')' if !is_quoted => depth -= 1,
            _ => {}
        }
        sign == ',' && depth == 0 && !is_quoted
    });
    let typed = parts.map(|part| {
        let (name, kind) = part
            .rsplit_once(':')
            .ok_or_else(|| format!("{part:?} is no field with a type, such as x:int"))?;
        let name = name.trim();
        let name = match name.strip_prefix('"').and_then(|name| name.strip_suffix('"')) {
            Some(quoted) => quoted.replace("\"\"", "\""),
            None => name.to_owned(),
        };
        Ok((name, parse_type(kind.trim())?))
    });
    typed.collect::<Result<_, String>>().map(Types)
}

fn parse_type(text: &str) -> Result<ColumnType, String> {
    let lower = text.to_ascii_lowercase();
    let (name, arguments) = match lower.split_once('(') {
        Some((name, rest)) => (name.trim(), rest.strip_suffix(')').ok_or("a bracket is never closed")?),
        None => (lower.as_str(), ""),
    };
    let unit = || match arguments {
        "ms" => Ok(TimeUnit::Milliseconds),
        "us" | "" => Ok(TimeUnit::Microseconds),
        "ns" => Ok(TimeUnit::Nanoseconds),
        other => Err(format!("timestamps are of ms, us or ns, not {other}")),
    };
    Ok(match name {
        "timestamp" => ColumnType::Timestamp { unit: unit()?, is_utc: false },
        "timestamptz" => ColumnType::Timestamp { unit: unit()?, is_utc: true },
        "decimal" | "numeric" => parse_decimal(arguments)?,
        _ if !arguments.is_empty() => return Err(format!("{name} takes nothing in brackets")),
        "int" | "integer" | "int64" | "bigint" => ColumnType::Integer,
        "uint" | "uint64" | "unsigned" => ColumnType::Unsigned,
        "float" | "double" | "float64" => ColumnType::Float,
        "float32" | "real" => ColumnType::Float32,
        "bool" | "boolean" => ColumnType::Boolean,
        "text" | "string" | "varchar" | "utf8" => ColumnType::Text,
        "binary" | "bytes" | "blob" => ColumnType::Bytes,
        "date" => ColumnType::Date,
        _ => {
            return Err(format!(
                "there is no type {text}; types are int, uint, float, float32, bool, text, binary, date, timestamp, timestamptz and \
                 decimal(p,s)"
            ));
        }
    })
}

fn parse_decimal(arguments: &str) -> Result<ColumnType, String> {
    let (precision, scale) = arguments.split_once(',').unwrap_or((arguments, "0"));
    match (precision.trim().parse(), scale.trim().parse()) {
        (Ok(precision @ 1..=38), Ok(scale)) if scale <= precision => {
            Ok(ColumnType::Decimal { precision, scale })
        }
        _ => Err(format!(
            "decimal({arguments}) is none; give 1 to 38 digits and how many of them are behind the point: decimal(12,2)"
        )),
    }
}

/// A result, and which of it is first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OrderName {
    pub(crate) result: String,
    pub(crate) is_descending: bool,
}

fn parse_order(text: &str) -> Result<OrderName, String> {
    let (result, is_descending) = match text.rsplit_once(':') {
        Some((result, "desc")) => (result, true),
        Some((result, "asc")) => (result, false),
        _ => (text, false),
    };
    if result.is_empty() {
        return Err("a result is missing".to_owned());
    }
    Ok(OrderName { result: result.to_owned(), is_descending })
}

/// How many groups, and by which result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Top {
    pub(crate) groups: u64,
    pub(crate) result: Option<String>,
}

fn parse_top(text: &str) -> Result<Top, String> {
    let (groups, result) =
        text.split_once(':').map_or((text, None), |(groups, result)| (groups, Some(result.to_owned())));
    Ok(Top { groups: parse_count(groups)?, result })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_are_read_as_sql_writes_them() {
        let types = |text| parse_types(text).map(|types| types.0);
        let price = ColumnType::Decimal { precision: 12, scale: 2 };
        let at = ColumnType::Timestamp { unit: TimeUnit::Nanoseconds, is_utc: true };
        assert_eq!(
            types("x:int,price:DECIMAL(12, 2),\"a,b:c\":text,at:timestamptz(ns)"),
            Ok(vec![
                ("x".into(), ColumnType::Integer),
                ("price".into(), price),
                ("a,b:c".into(), ColumnType::Text),
                ("at".into(), at)
            ])
        );
        assert_eq!(
            types("x:decimal(3)"),
            Ok(vec![("x".into(), ColumnType::Decimal { precision: 3, scale: 0 })])
        );
        for (bad, why) in [
            ("x", "such as x:int"),
            ("x:number", "types are int, uint"),
            ("x:decimal(39,2)", "1 to 38 digits"),
            ("x:decimal(2,3)", "1 to 38 digits"),
            ("x:int(3)", "nothing in brackets"),
            ("x:timestamp(s)", "ms, us or ns"),
            ("x:decimal(3", "never closed"),
        ] {
            let error = types(bad).unwrap_err();
            assert!(error.contains(why), "{bad}: {error}");
        }
    }

    #[test]
    fn types_that_a_store_remembers_are_read_back() {
        let kinds =
            "int,uint,float,float32,bool,text,binary,date,timestamp(ms),timestamptz(ns),decimal(38,7)";
        let mut depth = 0;
        let kinds = kinds.split(|sign| {
            depth += i32::from(sign == '(') - i32::from(sign == ')');
            sign == ',' && depth == 0
        });
        let types: Vec<_> = kinds.map(|kind| (format!("a \",{kind}"), parse_type(kind).unwrap())).collect();
        let text = text_of_types(types.iter().map(|(name, kind)| (name.as_str(), *kind)));
        assert_eq!(types_of_text(&text), Ok(types));
        assert_eq!(types_of_text(""), Ok(Vec::new()));
    }

    #[test]
    fn orders_and_tops_name_results() {
        let order = |result: &str, is_descending| Ok(OrderName { result: result.to_owned(), is_descending });
        assert_eq!(parse_order("sum(x):desc"), order("sum(x)", true));
        assert_eq!(parse_order("a:b"), order("a:b", false));
        assert_eq!(parse_order("a:asc"), order("a", false));
        assert_eq!(parse_top("1e3:max(x)"), Ok(Top { groups: 1000, result: Some("max(x)".to_owned()) }));
        assert!(parse_top("0").is_err() && parse_order(":desc").is_err());
    }
}
