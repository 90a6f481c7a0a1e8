//! The command line: one struct a command, with the help that a user reads.

mod dictionary;
mod filter;
mod group;
mod input;
mod monitor;
mod output;
mod stream;

use clap::{Args, Parser, Subcommand, ValueHint};
pub(crate) use dictionary::{
    AbsentName, AskArguments, BuildDictionaryArguments, ChangeArguments, CompressionName, ConcatArguments,
    DictionaryCommand, DictionaryForm, DictionaryPlanArguments, DuplicatesName, GetArguments, HashRange,
    JoinArguments, MergeName, PairArguments, RankArguments, RemoveArguments, ScanArguments, ShapeArguments,
    SplitArguments, UpdateArguments,
};
pub(crate) use filter::{
    AskedKeys, BuildArguments, DedupArguments, FilterArguments, FilterCommand, FilterInfoArguments,
    FilterPlanArguments, KeyArguments, MergeArguments, PANES, SeenArguments, WindowLength,
};
pub(crate) use group::{
    GroupArguments, GroupForm, GroupedArguments, KmersArguments, NgramsArguments, WordArguments,
    WordcountArguments, text_of_types, types_of_text,
};
pub(crate) use input::{HashName, InputArguments, MachineArguments, MissingName};
pub(crate) use monitor::{EpochArguments, EpochName, Measure, MonitorArguments};
pub(crate) use output::{Form, OutputArguments};
use std::path::PathBuf;
pub(crate) use stream::StreamArguments;

/// Compact summaries of streams that outgrow RAM and one core.
///
/// Overbank reads a stream once, inside a memory budget that really holds, and answers: how many rows and distinct
/// keys, which keys are heavy, how often a key came, whether it was seen before, which quantiles.
#[derive(Parser, Debug)]
#[command(name = "overbank", version, max_term_width = 100, arg_required_else_help = true)]
#[command(after_help = "\
Sizes take KiB, MiB, GiB, KB, MB, GB. Exit codes: 0 done; 1 asked for something that is not there; 2 error; 130 interrupted, also by
SIGTERM or SIGHUP.")]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Subcommand, Debug)]
pub(crate) enum Command {
    /// Read a stream once and print the whole picture: rows, distinct keys, heavy hitters, quantiles
    Profile(Box<ProfileArguments>),
    /// Count how often every key comes, in a sketch on flash that is as exact as you ask
    Count(Box<CountArguments>),
    /// Group rows by fields, and compute sums, means, extremes, quantiles and the like of each group
    Group(Box<GroupArguments>),
    /// Count the words of texts
    Wordcount(Box<WordcountArguments>),
    /// Count what n words, or n characters, follow each other in texts
    Ngrams(Box<NgramsArguments>),
    /// Count the k-mers of sequences
    Kmers(Box<KmersArguments>),
    /// Watch the packets of captures: top flows, distinct flows, changes, spreaders, entropy, packet sizes
    Monitor(Box<MonitorArguments>),
    /// Pass on the first row of every key, and drop the repeats; or the other way round
    Dedup(Box<DedupArguments>),
    /// Show whether keys were seen before
    Seen(SeenArguments),
    /// Build, merge, plan or look at a filter that remembers which keys were seen
    #[command(subcommand)]
    Filter(FilterCommand),
    /// Build, ask, change, print, split or join a dictionary: keys with values, on flash, one read a lookup
    #[command(subcommand)]
    Dict(DictionaryCommand),
    /// Show the heaviest keys of a store, with lower and upper bounds
    Top(TopArguments),
    /// Show how often keys came, with an upper bound, which is certain, and a lower one, which is for heavy keys, and holds
    /// with 95 % confidence for each other key
    Estimate(EstimateArguments),
    /// Show how many distinct keys a store has seen, with bounds
    Distinct(DistinctArguments),
    /// Show quantiles of the value, or of the key lengths, of a store
    Quantile(QuantileArguments),
    /// Put what stores counted, or remember, apart into a new store
    Merge(MergeStoresArguments),
    /// Show what a store holds: its summaries, sizes, seed and last commit
    Info(StoreArguments),
    /// Read every checksum of a store and report damage
    Verify(StoreArguments),
    /// Show what counting will cost before you start: RAM, flash, error, I/O
    Plan(PlanArguments),
    /// Write shell completions to standard output
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
    /// Write the manual pages, one a command
    Man {
        /// The directory to write them to; it is created if need be
        #[arg(value_hint = ValueHint::DirPath)]
        directory: PathBuf,
    },
}

impl Command {
    /// Whether it writes to standard output.
    pub(crate) fn prints(&self) -> bool {
        match self {
            Command::Man { .. } => false,
            Command::Dedup(arguments) => !arguments.remove && arguments.output.is_none(),
            Command::Group(arguments) => arguments.grouped.file().is_none(),
            Command::Wordcount(arguments) => arguments.grouped.file().is_none(),
            Command::Ngrams(arguments) => arguments.grouped.file().is_none(),
            Command::Kmers(arguments) => arguments.grouped.file().is_none(),
            Command::Dict(command) => command.prints(),
            _ => true,
        }
    }
}

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  overbank profile urls.txt.gz
  overbank profile --key 7 --format whitespace access.log
  overbank profile --key user.id --value ms 'logs/*.jsonl.zst' --store today
  overbank profile --store today --flash 8GiB 'logs/*.zst'
  zcat big.gz | overbank profile - --memory 256MiB --json")]
pub(crate) struct ProfileArguments {
    #[command(flatten)]
    pub(crate) stream: StreamArguments,

    /// The numeric field whose quantiles are wanted; without it, quantiles of the key lengths in bytes
    #[arg(long, value_name = "FIELD")]
    pub(crate) value: Option<String>,

    /// The size of the sketch in the store that counts keys that are not heavy: their estimates come nearer to the truth in
    /// proportion to it; the disk needs up to twice as much once the stream outgrows RAM; 0 for none [default: 8 times the
    /// memory if that is 16 MiB or more]
    #[arg(long, value_name = "SIZE", requires = "store", value_parser = crate::units::parse_bytes)]
    pub(crate) flash: Option<u64>,

    /// Print one JSON object instead of tables
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args, Debug)]
#[command(after_help = "\
An estimate is too high by epsilon times the total weight with probability delta at most. The sketch has e / epsilon
columns and ln(1 / delta) rows of 4-byte cells; `overbank plan` shows what that costs. Heavy keys are counted in RAM.

With --output tsv or csv it prints the heavy keys that it keeps, all of them unless -n says how many, the heaviest first:
count, at least, at most, key. While fewer different keys came than RAM holds, these are all keys, as `sort | uniq -c`
has them.

Examples:
  overbank count --store urls urls.txt.gz
  overbank count --key user.id --epsilon 1e-8 --store users 'logs/*.jsonl.zst'
  overbank count --flash 64GiB --memory 1GiB --store kmers reads.txt.zst
  overbank count --store words --format whitespace --key 1 --output tsv text.txt > counts.tsv
  overbank estimate urls https://example.org/")]
pub(crate) struct CountArguments {
    #[command(flatten)]
    pub(crate) stream: StreamArguments,

    #[command(flatten)]
    pub(crate) sketch: SketchArguments,

    /// Raise only the cells that an update must raise: estimates are several times nearer to the truth, but depend a little
    /// on the order of rows and on threads, and lower bounds are wider
    #[arg(long)]
    pub(crate) conservative: bool,

    #[command(flatten)]
    pub(crate) output: OutputArguments,
}

/// The size of a sketch on flash, and what it costs to run.
#[derive(Args, Debug)]
pub(crate) struct SketchArguments {
    /// The error of an estimate as a share of the total weight, such as 1e-8 [default: the size decides]
    #[arg(long, value_name = "SHARE", conflicts_with = "flash")]
    pub(crate) epsilon: Option<f64>,

    /// The share of keys whose estimates may be off by more
    #[arg(long, value_name = "SHARE", default_value_t = 0.01)]
    pub(crate) delta: f64,

    /// The size of the sketch, instead of its error; while it is rewritten the disk needs up to twice as much [default: 8
    /// times the memory]
    #[arg(long, value_name = "SIZE", value_parser = crate::units::parse_bytes)]
    pub(crate) flash: Option<u64>,

    /// Bits of a counter: 4 and 8 grow where they must, so that as many bytes hold more counters and err less, but counting
    /// is slower; 32 count to 4 billion, 64 beyond [default: 32]
    #[arg(long, value_name = "BITS", value_parser = parse_cell_bits)]
    pub(crate) cell_bits: Option<u32>,

    /// How many logs of updates may wait: more make counting faster, fewer make estimates faster, which read one block of
    /// the sketch and about one of each log [default: 16, or what the memory has readers for]
    #[arg(long, value_name = "N")]
    pub(crate) pending: Option<usize>,
}

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  overbank plan --rows 1e9 --epsilon 1e-8
  overbank plan --rows 1e10 --flash 64GiB --memory 1GiB --json")]
pub(crate) struct PlanArguments {
    /// How many rows will come, such as 1e9; keys that come once are the worst case, and what is planned for
    #[arg(long, visible_alias = "keys", value_name = "N", value_parser = crate::units::parse_count)]
    pub(crate) rows: u64,

    #[command(flatten)]
    pub(crate) sketch: SketchArguments,

    /// The memory that everything together may use
    #[arg(short, long, value_name = "SIZE", default_value = "64MiB", value_parser = crate::units::parse_bytes)]
    pub(crate) memory: u64,

    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args, Debug)]
pub(crate) struct TopArguments {
    /// A store that `overbank profile`, `overbank count` or `overbank monitor` made
    #[arg(value_name = "STORE", value_hint = ValueHint::DirPath)]
    pub(crate) store: PathBuf,

    /// How many keys to show
    #[arg(short = 'n', long, value_name = "N", default_value_t = 10)]
    pub(crate) top: usize,

    #[command(flatten)]
    pub(crate) of: EpochArguments,

    #[command(flatten)]
    pub(crate) output: OutputArguments,
}

#[derive(Args, Debug)]
#[command(after_help = "\
The stores must have been made with the same --seed, --hash, --key and --memory, and with the same --flash or --epsilon
if they have a sketch on flash. The new store answers for all their streams together: bounds hold, and the errors of
estimates add up. Stores of dedup and filter build are merged as `overbank filter merge` does it. All of it or nothing:
after an error or a signal there is no new store.

Examples:
  overbank profile --seed 7 --store monday monday.log
  overbank profile --seed 7 --store tuesday tuesday.log
  overbank merge week monday tuesday
  overbank top week")]
pub(crate) struct MergeStoresArguments {
    /// The new store
    #[arg(value_name = "OUT", value_hint = ValueHint::DirPath)]
    pub(crate) out: PathBuf,

    /// The stores that are put together; they stay as they are
    #[arg(value_name = "STORE", required = true, value_hint = ValueHint::DirPath)]
    pub(crate) stores: Vec<PathBuf>,

    /// The memory that everything together may use [default: what counts were made with; 64 MiB for keys seen]
    #[arg(short, long, value_name = "SIZE", value_parser = crate::units::parse_bytes)]
    pub(crate) memory: Option<u64>,

    /// How many of the heaviest keys to show
    #[arg(short = 'n', long, value_name = "N", default_value_t = 10)]
    pub(crate) top: usize,

    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Keys, and of a store of epochs which of them.
#[derive(Args, Debug)]
pub(crate) struct EstimateArguments {
    #[command(flatten)]
    pub(crate) keys: KeyArguments,

    #[command(flatten)]
    pub(crate) of: EpochArguments,
}

#[derive(Args, Debug)]
pub(crate) struct DistinctArguments {
    /// A store that `overbank profile`, `overbank count` or `overbank monitor` made
    #[arg(value_name = "STORE", value_hint = ValueHint::DirPath)]
    pub(crate) store: PathBuf,

    #[command(flatten)]
    pub(crate) of: EpochArguments,

    #[command(flatten)]
    pub(crate) output: OutputArguments,
}

#[derive(Args, Debug)]
pub(crate) struct QuantileArguments {
    /// A store that `overbank profile`, `overbank count` or `overbank monitor` made
    #[arg(value_name = "STORE", value_hint = ValueHint::DirPath)]
    pub(crate) store: PathBuf,

    /// Which quantiles, from 0 to 1
    #[arg(value_name = "QUANTILE", default_values_t = [0.0, 0.25, 0.5, 0.75, 0.9, 0.99, 0.999, 1.0], value_parser = parse_quantile)]
    pub(crate) quantiles: Vec<f64>,

    #[command(flatten)]
    pub(crate) of: EpochArguments,

    #[command(flatten)]
    pub(crate) output: OutputArguments,
}

#[derive(Args, Debug)]
pub(crate) struct StoreArguments {
    /// A store that an earlier command made
    #[arg(value_name = "STORE", value_hint = ValueHint::DirPath)]
    pub(crate) store: PathBuf,

    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

fn parse_cell_bits(text: &str) -> Result<u32, String> {
    match text.parse() {
        Ok(bits @ (4 | 8 | 32 | 64)) => Ok(bits),
        _ => Err("it must be 4, 8, 32 or 64".to_owned()),
    }
}

fn parse_quantile(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(quantile) if (0.0..=1.0).contains(&quantile) => Ok(quantile),
        _ => Err("it must be from 0 to 1, such as 0.99".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        Arguments::command().debug_assert();
    }
}
