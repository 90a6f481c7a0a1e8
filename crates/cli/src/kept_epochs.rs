//! What a store of `overbank monitor` says of the epochs in it.
//!
//! ```text
//! magic "OBmon" 5 B │ version u8 │ complete u8 │ measure u8 │ unit u64 │ next number u64 │ kind: length u8, text │ epochs …
//! epoch: number u64 │ start u64 │ end u64 │ packets u64 │ bytes u64 │ counted u64 │ counted bytes u64 │ heavy threshold u64 │ ended u8
//! ```
//!
//! A heavy threshold that is not known is all ones. The sketches of epoch 7 are the summaries `epoch-7/flows`, `/names`, `/distinct`,
//! `/packets` and `/spreaders`.

use crate::arguments::Measure;
use crate::failure::Failure;
use crate::report::{Ended, Span};
use crate::run_state::{foreign, opened};
use overbank_ingest::capture::FlowKind;

const MAGIC: &[u8; 5] = b"OBmon";
const VERSION: u8 = 2;
const WORDS: usize = 8;
const UNKNOWN: u64 = u64::MAX;
/// What a store has room to say of.
pub(crate) const EPOCHS_MAX: usize = 1000;
const _: () = assert!(64 + EPOCHS_MAX * (8 * WORDS + 1) <= overbank::store::POSITION_BYTES_MAX);

/// The parts of an epoch, by the names of their summaries.
pub(crate) const FLOWS: &str = "flows";
pub(crate) const NAMES: &str = "names";
pub(crate) const DISTINCT: &str = "distinct";
pub(crate) const PACKETS: &str = "packets";
pub(crate) const SPREADERS: &str = "spreaders";
pub(crate) const PARTS: [&str; 5] = [FLOWS, NAMES, DISTINCT, PACKETS, SPREADERS];

/// The epochs of a store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct KeptEpochs {
    pub(crate) kind: FlowKind,
    pub(crate) by: Measure,
    /// The size of the sketches: a 4096th of their memory.
    pub(crate) unit: u64,
    /// The number of the next epoch.
    pub(crate) next: u64,
    pub(crate) epochs: Vec<KeptEpoch>,
}

/// One of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct KeptEpoch {
    pub(crate) number: u64,
    pub(crate) span: Span,
    pub(crate) packets: u64,
    pub(crate) bytes: u64,
    /// Packets that have a flow, and their bytes.
    pub(crate) counted: u64,
    pub(crate) counted_bytes: u64,
    /// No larger flow is missing among the names.
    pub(crate) heavy_threshold: Option<u64>,
    pub(crate) ended: Ended,
}

/// Why an epoch ended, by its number.
const ENDS: [Ended; 4] = [Ended::ByTime, Ended::ByInput, Ended::ByUser, Ended::NotYet];
const MEASURES: [Measure; 2] = [Measure::Packets, Measure::Bytes];

impl KeptEpoch {
    /// The name of a part's summary.
    pub(crate) fn part(&self, part: &str) -> String {
        format!("epoch-{}/{part}", self.number)
    }

    /// What flows are counted in, of all that have one.
    pub(crate) fn weight(&self, by: Measure) -> u64 {
        match by {
            Measure::Packets => self.counted,
            Measure::Bytes => self.counted_bytes,
        }
    }
}

impl KeptEpochs {
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        let by = MEASURES.iter().position(|by| *by == self.by).unwrap_or_default();
        // Every commit is of whole epochs.
        bytes.extend([VERSION, 1, by as u8]);
        bytes.extend(self.unit.to_le_bytes());
        bytes.extend(self.next.to_le_bytes());
        let kind = self.kind.to_string();
        bytes.push(kind.len() as u8);
        bytes.extend(kind.as_bytes());
        for epoch in &self.epochs {
            let KeptEpoch { number, span, packets, bytes: wire, counted, counted_bytes, ended, .. } = *epoch;
            let threshold = epoch.heavy_threshold.unwrap_or(UNKNOWN);
            for word in [number, span.start_ns, span.end_ns, packets, wire, counted, counted_bytes, threshold]
            {
                bytes.extend(word.to_le_bytes());
            }
            bytes.push(ENDS.iter().position(|end| *end == ended).unwrap_or_default() as u8);
        }
        bytes
    }

    /// Reads what [`KeptEpochs::to_bytes`] wrote; the store has verified its checksum.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Result<Self, Failure> {
        let (_, _, rest) = opened(bytes, MAGIC, VERSION)?;
        read(rest).ok_or_else(foreign)
    }
}

fn read(bytes: &[u8]) -> Option<KeptEpochs> {
    let (&by, bytes) = bytes.split_first()?;
    let (&unit, bytes) = bytes.split_first_chunk()?;
    let (&next, bytes) = bytes.split_first_chunk()?;
    let (&length, bytes) = bytes.split_first()?;
    let (kind, bytes) = bytes.split_at_checked(length.into())?;
    let epoch = |bytes: &[u8; 8 * WORDS + 1]| {
        let mut words = bytes.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word));
        let mut word = || words.next();
        Some(KeptEpoch {
            number: word()?,
            span: Span { start_ns: word()?, end_ns: word()? },
            packets: word()?,
            bytes: word()?,
            counted: word()?,
            counted_bytes: word()?,
            heavy_threshold: Some(word()?).filter(|&threshold| threshold != UNKNOWN),
            ended: *ENDS.get(usize::from(bytes[8 * WORDS]))?,
        })
    };
    let (epochs, rest) = bytes.as_chunks();
    Some(KeptEpochs {
        kind: std::str::from_utf8(kind).ok()?.parse().ok()?,
        by: *MEASURES.get(usize::from(by))?,
        unit: u64::from_le_bytes(unit),
        next: u64::from_le_bytes(next),
        epochs: epochs.iter().map(epoch).collect::<Option<_>>().filter(|_| rest.is_empty())?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(epochs: u64) -> KeptEpochs {
        let epoch = |number: u64| KeptEpoch {
            number,
            span: Span { start_ns: number, end_ns: u64::MAX },
            packets: 1,
            bytes: 2,
            counted: 3,
            counted_bytes: 4,
            heavy_threshold: number.is_multiple_of(2).then_some(number),
            ended: ENDS[number as usize % 4],
        };
        let epochs = (0..epochs).map(epoch).collect();
        KeptEpochs { kind: FlowKind::FIVE_TUPLE, by: Measure::Bytes, unit: 1 << 21, next: u64::MAX, epochs }
    }

    #[test]
    fn what_is_written_is_read_back() {
        for epochs in [0, 1, EPOCHS_MAX as u64] {
            let bytes = kept(epochs).to_bytes();
            assert!(bytes.len() <= overbank::store::POSITION_BYTES_MAX);
            assert_eq!(KeptEpochs::from_bytes(&bytes).expect("its own bytes"), kept(epochs));
        }
    }

    #[test]
    fn other_bytes_are_refused() {
        let bytes = kept(2).to_bytes();
        for length in
            (0..bytes.len()).filter(|length| bytes.len() - length != 65 && bytes.len() - length != 130)
        {
            assert!(KeptEpochs::from_bytes(&bytes[..length]).is_err(), "{length}");
        }
        for (at, value) in [(0, b'X'), (5, 9), (7, 2), (24, 200), (bytes.len() - 1, 4)] {
            let mut bytes = bytes.clone();
            bytes[at] = value;
            assert!(KeptEpochs::from_bytes(&bytes).is_err(), "{at}");
        }
    }
}
