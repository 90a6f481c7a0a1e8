//! The names of figures, fixed so that they can be followed over time, and the JSON line of one figure.
//!
//! ```text
//! {"bench":"sort","case":"sort","engine":"overbank","metric":"ops_per_s","value":52100000.0,
//!  "unit":"1/s","params":{"workload":"uniform","keys":16777216,"rounds":7,"min":…,"max":…}}
//! ```

use serde_json::{Map, Value, json};

/// What a figure was measured on: workload, sizes, rounds, machine.
pub type Params = Map<String, Value>;

/// One measured number.
#[derive(Clone, Debug, PartialEq)]
pub struct Figure {
    /// The bench's registered name.
    pub bench: &'static str,
    /// What was done.
    pub case: Case,
    /// Who did it: `overbank` is ours, `paper` the paper's own design, else the rival's name.
    pub engine: &'static str,
    /// What was measured.
    pub metric: Metric,
    /// The median, in the metric's unit.
    pub value: f64,
    /// Everything needed to repeat it.
    pub params: Params,
}

impl Figure {
    /// The figure as one line of JSON, without the line end.
    pub fn to_json(&self) -> String {
        json!({
            "bench": self.bench,
            "case": self.case.name(),
            "engine": self.engine,
            "metric": self.metric.name(),
            "value": self.value,
            "unit": self.metric.unit(),
            "params": self.params,
        })
        .to_string()
    }
}

/// Declares an enum of fixed names, its list, and the way between them.
macro_rules! names {
    ($(#[$doc:meta])* $enum:ident { $($variant:ident = $name:literal),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
        #[allow(missing_docs, reason = "the names say it")]
        pub enum $enum { $($variant),+ }

        impl $enum {
            /// Every value, in the order of declaration.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// The name in the JSON lines.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name),+ }
            }

            /// The value of that name.
            pub fn from_name(name: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|value| value.name() == name)
            }
        }
    };
}

names! {
    /// What an engine does in a contest: always a verb.
    Case {
        Apply = "apply",
        Balance = "balance",
        Build = "build",
        Cache = "cache",
        Commit = "commit",
        Decode = "decode",
        Dedup = "dedup",
        Encode = "encode",
        Estimate = "estimate",
        EstimateBulk = "estimate_bulk",
        Get = "get",
        GetBatched = "get_batched",
        Group = "group",
        Hash = "hash",
        Insert = "insert",
        Load = "load",
        LookupNegative = "lookup_negative",
        LookupPositive = "lookup_positive",
        Merge = "merge",
        Pack = "pack",
        Partition = "partition",
        Profile = "profile",
        QueryOnline = "query_online",
        Rank = "rank",
        Read = "read",
        Recover = "recover",
        Remove = "remove",
        Resize = "resize",
        Scan = "scan",
        Select = "select",
        Sort = "sort",
        Sync = "sync",
        Unpack = "unpack",
        Update = "update",
        Verify = "verify",
        Write = "write",
    }
}

names! {
    /// What is measured. The unit follows: see [`Metric::unit`].
    Metric {
        OpsPerS = "ops_per_s",
        CpuNsPerOp = "cpu_ns_per_op",
        PeakRssBytes = "peak_rss_bytes",
        CgroupPeakBytes = "cgroup_peak_bytes",
        OverBudgetBytes = "over_budget_bytes",
        FlashBytes = "flash_bytes",
        BitsPerKey = "bits_per_key",
        BytesPerKey = "bytes_per_key",
        BlocksPerOp = "blocks_per_op",
        ReadBytesPerOp = "read_bytes_per_op",
        WrittenBytesPerOp = "written_bytes_per_op",
        FrontBitsPerKey = "front_bits_per_key",
        P50Ns = "p50_ns",
        P99Ns = "p99_ns",
        P999Ns = "p999_ns",
        MaxNs = "max_ns",
        ErrorAvg = "error_avg",
        ErrorMax = "error_max",
        F1 = "f1",
        Recall = "recall",
        Precision = "precision",
        Are = "are",
        Aae = "aae",
        Fpr = "fpr",
        HitRatio = "hit_ratio",
        Imbalance = "imbalance",
        Queue = "queue",
        Tau = "tau",
        DeviceOpsPerS = "device_ops_per_s",
        DeviceShare = "device_share",
        SeenShare = "seen_share",
        FillShare = "fill_share",
        LongShare = "long_share",
        OverestimateAvg = "overestimate_avg",
        OverestimateMax = "overestimate_max",
        SourceNsPerOp = "source_ns_per_op",
        PredictedNs = "predicted_ns",
        SortNs = "sort_ns",
        DecompressNs = "decompress_ns",
        MergeNs = "merge_ns",
        DivideNs = "divide_ns",
        CompressNs = "compress_ns",
        FindNs = "find_ns",
        KeyNs = "key_ns",
        PlaceNs = "place_ns",
        ResizeNs = "resize_ns",
        RestNs = "rest_ns",
        CentsPerGOps = "cents_per_g_ops",
    }
}

impl Metric {
    /// The unit of its values.
    pub const fn unit(self) -> &'static str {
        match self {
            Self::OpsPerS | Self::DeviceOpsPerS => "1/s",
            Self::CentsPerGOps => "cents",
            Self::SourceNsPerOp
            | Self::PredictedNs
            | Self::SortNs
            | Self::DecompressNs
            | Self::MergeNs
            | Self::DivideNs
            | Self::CompressNs
            | Self::FindNs
            | Self::KeyNs
            | Self::PlaceNs
            | Self::ResizeNs
            | Self::RestNs
            | Self::CpuNsPerOp
            | Self::P50Ns
            | Self::P99Ns
            | Self::P999Ns
            | Self::MaxNs => "ns",
            Self::PeakRssBytes | Self::CgroupPeakBytes | Self::OverBudgetBytes | Self::FlashBytes => "bytes",
            Self::BitsPerKey | Self::FrontBitsPerKey => "bits/key",
            Self::BytesPerKey => "bytes/key",
            Self::BlocksPerOp => "blocks/op",
            Self::ReadBytesPerOp | Self::WrittenBytesPerOp => "bytes/op",
            Self::ErrorAvg
            | Self::ErrorMax
            | Self::F1
            | Self::Recall
            | Self::Precision
            | Self::Are
            | Self::Fpr
            | Self::HitRatio
            | Self::Imbalance
            | Self::DeviceShare
            | Self::SeenShare
            | Self::FillShare
            | Self::LongShare => "ratio",
            Self::Queue => "messages",
            Self::Aae | Self::Tau | Self::OverestimateAvg | Self::OverestimateMax => "occurrences",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_leads_back_to_its_value_and_none_is_used_twice() {
        for (i, &case) in Case::ALL.iter().enumerate() {
            assert_eq!(Case::from_name(case.name()), Some(case));
            assert!(Case::ALL[..i].iter().all(|other| other.name() != case.name()));
        }
        for (i, &metric) in Metric::ALL.iter().enumerate() {
            assert_eq!(Metric::from_name(metric.name()), Some(metric));
            assert!(Metric::ALL[..i].iter().all(|other| other.name() != metric.name()));
        }
        assert_eq!(Metric::from_name("op_per_s"), None);
    }

    #[test]
    fn a_json_line_has_the_seven_fields_and_no_line_end() {
        let figure = Figure {
            bench: "hash",
            case: Case::Hash,
            engine: "overbank",
            metric: Metric::OpsPerS,
            value: 2.5,
            params: Params::from_iter([("keys".to_owned(), json!(7))]),
        };
        let line = figure.to_json();
        assert!(!line.contains('\n'));
        let back: Value = serde_json::from_str(&line).expect("our own JSON parses");
        let mut fields: Vec<_> = back.as_object().expect("an object").keys().cloned().collect();
        fields.sort();
        assert_eq!(fields, ["bench", "case", "engine", "metric", "params", "unit", "value"]);
        assert_eq!(back["unit"], "1/s");
        assert_eq!(back["params"]["keys"], 7);
    }
}
