//! Every kind of summary there is: its number for ever, the version that is written now, and what people call it.
//!
//! A number stands in the manifest of every store that has such a summary, so it is never used for another kind, not even after
//! its kind is gone. Those of sketches of RAM, 1 to 15, stand in the header of their bytes, too. Numbers from 64 on are the faces';
//! from 900 on, tests'.

use super::Structure;

/// A kind of summary.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Kind {
    /// Its number.
    pub id: u16,
    /// The version of its state and files that this build writes.
    pub version: u16,
    /// What it is called, in messages too: "a NAME".
    pub name: &'static str,
}

impl Kind {
    /// What a record of it says.
    pub const fn structure(self) -> Structure {
        Structure { id: self.id, version: self.version }
    }
}

/// How often keys came, in RAM.
pub const COUNT_MIN: Kind = Kind { id: 1, version: 2, name: "count-min sketch" };
/// How many distinct keys came.
pub const HYPERLOGLOG: Kind = Kind { id: 2, version: 1, name: "HyperLogLog sketch" };
/// Which keys came most often.
pub const SPACE_SAVING: Kind = Kind { id: 3, version: 2, name: "space-saving sketch" };
/// Quantiles of values.
pub const DDSKETCH: Kind = Kind { id: 4, version: 2, name: "DDSketch" };
/// Membership in RAM.
pub const QUOTIENT_FILTER: Kind = Kind { id: 5, version: 1, name: "quotient filter" };
/// How often keys came, where occurrences may be taken back.
pub const COUNT_SKETCH: Kind = Kind { id: 7, version: 1, name: "count sketch" };
/// How often any part of the keys came.
pub const COCO: Kind = Kind { id: 8, version: 1, name: "CocoSketch" };
/// How many distinct keys came, by another estimate.
pub const LOG_LOG: Kind = Kind { id: 9, version: 1, name: "LogLog sketch" };
/// Which sources came with the most distinct items.
pub const LOCHER: Kind = Kind { id: 10, version: 1, name: "Locher sketch" };
/// Which keys came most often, and how counts are distributed.
pub const ELASTIC: Kind = Kind { id: 11, version: 1, name: "Elastic sketch" };
/// Sums of functions of the keys' counts.
pub const UNIV_MON: Kind = Kind { id: 12, version: 1, name: "UnivMon sketch" };
/// The whole picture of a stream.
pub const PROFILE: Kind = Kind { id: 16, version: 2, name: "profile" };
/// Counts of keys on flash.
pub const FREQUENCY: Kind = Kind { id: 17, version: 4, name: "frequency sketch" };
/// A file of sorted fingerprints. No summary by itself: its files are of a filter.
pub const FINGERPRINT_SEGMENT: Kind = Kind { id: 18, version: 1, name: "file of fingerprints" };
/// Membership beyond RAM.
pub const FILTER: Kind = Kind { id: 19, version: 2, name: "filter" };
/// A file of updates that the pages of a frequency sketch do not hold yet. No summary by itself.
pub const FREQUENCY_LOG: Kind = Kind { id: 20, version: 1, name: "log of a frequency sketch" };
/// Keys and their values.
pub const DICTIONARY: Kind = Kind { id: 21, version: 1, name: "dictionary" };
/// A file of keys and values. No summary by itself: its files are of a dictionary.
pub const DICTIONARY_SEGMENT: Kind = Kind { id: 22, version: 2, name: "file of keys and values" };
/// Keys and what their rows come to.
pub const GROUPS: Kind = Kind { id: 23, version: 1, name: "groups" };
/// A file of keys and states. No summary by itself: its files are of groups.
pub const GROUPS_SEGMENT: Kind = Kind { id: 24, version: 1, name: "file of groups" };
/// Rows that a stopped run of the command could not print.
pub const OWED_OUTPUT: Kind = Kind { id: 64, version: 1, name: "owed output" };
/// Which fields of a row are the key, the weight and the value of a store.
pub const STREAM_KEY: Kind = Kind { id: 65, version: 2, name: "stream key" };

/// All of them, by number.
pub const ALL: &[Kind] = &[
    COUNT_MIN,
    HYPERLOGLOG,
    SPACE_SAVING,
    DDSKETCH,
    QUOTIENT_FILTER,
    COUNT_SKETCH,
    COCO,
    LOG_LOG,
    LOCHER,
    ELASTIC,
    UNIV_MON,
    PROFILE,
    FREQUENCY,
    FINGERPRINT_SEGMENT,
    FILTER,
    FREQUENCY_LOG,
    DICTIONARY,
    DICTIONARY_SEGMENT,
    GROUPS,
    GROUPS_SEGMENT,
    OWED_OUTPUT,
    STREAM_KEY,
];

/// What a kind is called, by its number; none for the kinds of other builds.
pub fn name_of(id: u16) -> Option<&'static str> {
    ALL.iter().find(|kind| kind.id == id).map(|kind| kind.name)
}

/// The name of the frequency sketch that a profile of this name has on flash; a profile that finds it there takes it for its own.
pub(crate) fn counts_of(profile: &str) -> String {
    format!("{profile}/counts")
}

/// The name of a pane of a window of this name.
pub(crate) fn pane_of(window: &str, pane: usize) -> String {
    format!("{window}/{pane}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_names_are_each_kinds_own() {
        for (at, one) in ALL.iter().enumerate() {
            assert!(ALL[..at].iter().all(|other| other.id < one.id && other.name != one.name), "{one:?}");
            assert!(one.id != 0 && one.id < 900 && one.version > 0, "{one:?}");
            assert_eq!(name_of(one.id), Some(one.name));
        }
        assert_eq!(name_of(4242), None);
    }
}
