//! `overbank monitor`: which packets, what is counted of them, and how it is shown.

use super::input::{MachineArguments, OnError};
use clap::{ArgGroup, Args, ValueEnum, ValueHint};
use overbank_ingest::capture::FlowKind;
use std::path::PathBuf;
use std::time::Duration;

/// The options of `overbank monitor`.
#[derive(Args, Debug)]
#[command(group = ArgGroup::new("source").required(true).args(["pcap", "iface", "xdp"]))]
#[command(after_help = "\
A flow's size is never above `at most`, and not below `at least` with 95 % confidence; distinct flows and spreaders are within
their bounds with 95 % confidence each. Which flows are listed is what the threads announced: once an epoch is over, the report
says above which size none is missing. Sizes of flows, distinct flows and packet sizes do not depend on the number of threads.

The memory decides how large the sketches are, whatever the number of threads, and what they hold of it is checked before
the first packet: 64 MiB have 3 rows of 16,384 counters for flows, 16,384 registers for distinct ones, and room for 16 threads.

In the full-screen view q ends the run, as the end of a capture does; Ctrl-C is exit code 130. Both print the last report.

Examples:
  overbank monitor --pcap trace.pcap.zst
  overbank monitor --pcap 'trace-*.pcapng' --key five-tuple --by bytes --epoch 10s --json
  tcpdump -w - | overbank monitor --pcap - --epoch 1m
  overbank monitor --pcap trace.pcap --rate x10 --key src
  sudo overbank monitor --iface eth0 --key src-dst --store epochs
  sudo overbank monitor --xdp eth0 --key five-tuple --epoch 1m --json
  overbank monitor --pcap trace.pcap --epoch 1m --store epochs; overbank top epochs --epoch last")]
pub(crate) struct MonitorArguments {
    /// Captures, pcap or pcapng, plain or compressed: files, quoted globs, or - for standard input
    #[arg(long, value_name = "FILE", num_args = 1.., value_hint = ValueHint::FilePath)]
    pub(crate) pcap: Vec<PathBuf>,

    /// Listen to this interface, until Ctrl-C or q, by packet sockets, which need root or the right CAP_NET_RAW; epochs are of 10 s unless
    /// --epoch says otherwise, by the clock
    #[arg(long, value_name = "NAME")]
    pub(crate) iface: Option<String>,

    /// Have the kernel count what this interface receives, by XDP: in its driver if that can, else before the rest of the kernel; needs
    /// root and Linux 5.9. Flows' sizes, changes and distinct flows; no spreaders, entropy or packet sizes, and no --store. --key is
    /// five-tuple, src-dst, src or dst
    #[arg(long, value_name = "NAME", conflicts_with_all = ["store", "tunnels", "threads"])]
    pub(crate) xdp: Option<String>,

    /// How fast captures are read: by their own times (line), so many times as fast (x10, x0.5) [default: as fast as it goes]
    #[arg(long, value_name = "line|xN", requires = "pcap", value_parser = parse_rate)]
    pub(crate) rate: Option<f64>,

    /// What makes a flow: five-tuple, or some of src, dst, sport, dport and proto with hyphens between them, such as src-dst, src, dst
    #[arg(short, long, value_name = "FIELDS", default_value = "src-dst", value_parser = parse_kind)]
    pub(crate) key: FlowKind,

    /// What a flow's size and the entropy are counted in
    #[arg(long, value_enum, default_value_t)]
    pub(crate) by: Measure,

    /// Packets in tunnels (IP in IP, GRE, VXLAN, Geneve, GTP-U) are of the flow within
    #[arg(long)]
    pub(crate) tunnels: bool,

    /// Begin anew after so long, by the times of packets: 500ms, 10s, 5m, 1h; epochs begin at whole multiples of it, and those
    /// without a packet are left out [default: all is one, or 10s with --iface and --xdp]
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    pub(crate) epoch: Option<Duration>,

    /// Report of the epoch as far as it has come, too, each time so long has passed by the clock
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    pub(crate) report: Option<Duration>,

    /// How many flows, changes and sources to show
    #[arg(short = 'n', long, value_name = "N", default_value_t = 10)]
    pub(crate) top: usize,

    /// What to do when a capture turns out damaged, cut short or none, once its packets up to there are counted: stop, or go on with
    /// the next one; the exit code is 2 either way
    #[arg(long, value_enum, value_name = "WHAT", default_value_t)]
    pub(crate) on_error: OnError,

    /// Keep each epoch in this directory once it is over, for top, estimate, distinct, quantile, info and verify; those that are there
    /// stay
    #[arg(short, long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) store: Option<PathBuf>,

    /// How many epochs the store keeps, the newest; up to 1000, each takes some 10 KiB for each MiB of the memory
    #[arg(long, value_name = "N", default_value_t = 100, requires = "store", value_parser = parse_epochs)]
    pub(crate) keep: usize,

    /// Print lines, and not the full-screen view, on a terminal too
    #[arg(long)]
    pub(crate) plain: bool,

    /// Print JSON, a line a report
    #[arg(long)]
    pub(crate) json: bool,

    #[command(flatten)]
    pub(crate) machine: MachineArguments,
}

/// What sizes are counted in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Measure {
    /// Each packet counts 1
    #[default]
    Packets,
    /// Each packet counts its bytes on the wire
    Bytes,
}

impl Measure {
    /// Its name, as users type it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Packets => "packets",
            Self::Bytes => "bytes",
        }
    }
}

/// Which epochs of a store are asked.
#[derive(Args, Debug)]
pub(crate) struct EpochArguments {
    /// Of a store that `overbank monitor` made: ask this epoch alone, by its number, or last [default: all together]
    #[arg(long, value_name = "N|last", value_parser = parse_epoch)]
    pub(crate) epoch: Option<EpochName>,
}

/// An epoch of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EpochName {
    /// That of this number.
    Number(u64),
    /// The newest.
    Last,
}

fn parse_epoch(text: &str) -> Result<EpochName, String> {
    match text {
        "last" => Ok(EpochName::Last),
        _ => text
            .parse()
            .map(EpochName::Number)
            .map_err(|_| "it must be an epoch's number, or last".to_owned()),
    }
}

fn parse_epochs(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(epochs @ 1..=1000) => Ok(epochs),
        _ => Err("it must be a number of epochs from 1 to 1000".to_owned()),
    }
}

fn parse_kind(text: &str) -> Result<FlowKind, String> {
    text.parse().map_err(|error| match error {
        overbank_ingest::Error::InvalidOption { why, .. } => why,
        error => error.to_string(),
    })
}

/// How many times as fast as the capture was.
fn parse_rate(text: &str) -> Result<f64, String> {
    let times = match text {
        "line" => Ok(1.0),
        _ => text.strip_prefix('x').unwrap_or_default().parse::<f64>(),
    };
    match times {
        Ok(times) if (1e-3..=1e6).contains(&times) => Ok(times),
        _ => Err("it must be line, or x and a number from 0.001 to 1e6, such as x10".to_owned()),
    }
}

fn parse_time(text: &str) -> Result<Duration, String> {
    let digits_end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(digits_end);
    let seconds = match unit {
        "ms" => 1e-3,
        "s" => 1.0,
        "m" => 60.0,
        "h" => 3600.0,
        "d" => 86_400.0,
        _ => f64::NAN,
    };
    match number.parse::<f64>() {
        Ok(number) if (1e-3..=3.2e7).contains(&(number * seconds)) => {
            Ok(Duration::from_secs_f64(number * seconds))
        }
        _ => Err("it must be a time from 1ms to 370d, such as 500ms, 10s, 5m, 1h".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_and_times_say_what_they_may_be() {
        assert_eq!([parse_rate("line"), parse_rate("x10"), parse_rate("x0.5")], [Ok(1.0), Ok(10.0), Ok(0.5)]);
        for bad in ["", "10", "x", "x0", "x-1", "xnan", "xinf", "fast"] {
            assert!(parse_rate(bad).unwrap_err().contains("x10"), "{bad}");
        }
        assert_eq!(parse_time("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(parse_time("1.5h"), Ok(Duration::from_secs(5400)));
        for bad in ["", "10", "0s", "-1s", "1e3s", "10sec", "400d", "s", "1..5s"] {
            assert!(parse_time(bad).unwrap_err().contains("500ms"), "{bad}");
        }
    }

    #[test]
    fn a_key_that_is_none_is_told_what_is_one() {
        assert!(parse_kind("src-src").unwrap_err().contains("five-tuple"));
        assert_eq!(parse_kind("dst").unwrap(), FlowKind::DESTINATION);
    }
}
