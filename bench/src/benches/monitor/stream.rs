//! Streams of packets, and what is true of them at any time.
//!
//! ```text
//!   flow = rank of a Zipf law     key = mix(rank), hashed once      item: another number for each packet
//!                                                                   (a spreader's destination, a value's level)
//! ```

use crate::digest::mix;
use crate::{Random, Result, Zipf};
use keyhash::{HashKind, KeyHash, KeyHasher, Seed};
use std::collections::{HashMap, HashSet};
use std::io::Read as _;
use std::path::Path;
use std::sync::LazyLock;

/// What hashes all keys.
pub(super) const HASHER: KeyHasher = KeyHasher::new(HashKind::Xxh3, Seed(7));

/// Destinations that a source may have.
const ITEMS: u64 = 1 << 16;
/// Values that a reading may have.
const LEVELS: u64 = 1 << 12;
/// The quantiles that are asked for.
const QUANTILES: [f64; 9] = [0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99];
/// A heavy flow has more than this share of the packets: as the published code has it.
pub(super) const HEAVY_SHARE: f64 = 0.0002;
/// A spreader has more destinations than this share of the packets, likewise.
const SPREADER_SHARE: f64 = 0.00001;
/// The skews that follow one another in the workload that changes (figure 12).
const CHANGING: [f64; 5] = [0.3, 3.0, 1.5, 0.9, 2.4];

/// A packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Record {
    /// Its flow: below [`Stream::flows`].
    pub(super) flow: u32,
    pub(super) key: u64,
    pub(super) hash: KeyHash,
    pub(super) item: u64,
}

impl Record {
    /// Its destination's number.
    pub(super) fn destination(&self) -> u64 {
        self.item % ITEMS
    }

    /// Its value, over six decades.
    #[inline]
    pub(super) fn value(&self) -> f64 {
        VALUES[(self.item % LEVELS) as usize]
    }
}

/// The value of each level.
static VALUES: LazyLock<Vec<f64>> = LazyLock::new(|| {
    let value = |level| 10f64.powf(6.0 * (f64::from(level) + 0.5) / LEVELS as f64);
    (0..LEVELS as u32).map(value).collect()
});

/// Packets, in order.
#[derive(Debug)]
pub(super) struct Stream {
    pub(super) name: String,
    packets: Vec<u32>,
    flows: Vec<(u64, KeyHash)>,
}

impl Stream {
    /// Flows of so many, by Zipf's law.
    pub(super) fn zipf(skew: f64, flows: u32, packets: usize) -> Self {
        let name = format!("zipf({skew})");
        Self::new(name, flows, draw(skew, flows, packets, 1))
    }

    /// As many packets of each of five skews in turn; of each another flow is the most frequent.
    pub(super) fn changing(flows: u32, packets: usize) -> Self {
        let part = |(number, skew): (usize, f64)| {
            let turned = move |flow: u32| (flow + number as u32 * (flows / 5)) % flows;
            draw(skew, flows, packets / CHANGING.len(), number as u64).into_iter().map(turned)
        };
        Self::new("changing".into(), flows, CHANGING.into_iter().enumerate().flat_map(part).collect())
    }

    /// The requests of the real trace that ships with the project.
    pub(super) fn twitter(testdata: &Path, packets: usize) -> Result<Self> {
        let file = std::fs::File::open(testdata.join("twitter52_1m_keys.u64le.zst"))?;
        let mut bytes = Vec::new();
        zstd::Decoder::new(file)?.read_to_end(&mut bytes)?;
        let (keys, _) = bytes.as_chunks::<8>();
        let (mut flows, mut known, mut drawn) = (Vec::new(), HashMap::new(), Vec::new());
        for key in keys.iter().take(packets).map(|&key| u64::from_le_bytes(key)) {
            let next = flows.len() as u32;
            drawn.push(*known.entry(key).or_insert_with(|| {
                flows.push((key, HASHER.hash_u64(key)));
                next
            }));
        }
        Ok(Self { name: "twitter52".into(), packets: drawn, flows })
    }

    fn new(name: String, flows: u32, packets: Vec<u32>) -> Self {
        let flow = |flow: u32| (mix(flow.into()), HASHER.hash_u64(mix(flow.into())));
        Self { name, packets, flows: (0..flows).map(flow).collect() }
    }

    pub(super) fn len(&self) -> usize {
        self.packets.len()
    }

    /// How many flows there are at most.
    pub(super) fn flows(&self) -> usize {
        self.flows.len()
    }

    /// Packet number `at`.
    pub(super) fn record(&self, at: usize) -> Record {
        let flow = self.packets[at];
        let (key, hash) = self.flows[flow as usize];
        Record { flow, key, hash, item: mix(at as u64) }
    }

    /// All packets, for what is timed.
    pub(super) fn records(&self) -> Vec<Record> {
        (0..self.len()).map(|at| self.record(at)).collect()
    }
}

fn draw(skew: f64, flows: u32, packets: usize, seed: u64) -> Vec<u32> {
    let (zipf, mut random) = (Zipf::new(flows.into(), skew), Random::new(mix(seed)));
    (0..packets).map(|_| (zipf.sample(&mut random) - 1) as u32).collect()
}

/// What a sketch is asked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Question {
    /// How many packets heavy flows have, and which flows are heavy.
    Sizes,
    /// How many flows there are.
    Flows,
    /// How many destinations sources have, and which sources have many.
    Spreads,
    /// Quantiles of a value.
    Quantiles,
}

impl Question {
    /// Whether the answer has names: precision and recall are of them.
    pub(super) fn names_keys(self) -> bool {
        matches!(self, Self::Sizes | Self::Spreads)
    }
}

/// One number that is asked for: of a flow or a source, or at a quantile.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Asked {
    pub(super) key: u64,
    pub(super) hash: KeyHash,
    pub(super) quantile: f64,
    pub(super) truth: f64,
}

/// All that is asked for at one time.
#[derive(Clone, PartialEq, Debug, Default)]
pub(super) struct Query {
    /// All that are truly heavy, or the numbers that are asked for.
    pub(super) asked: Vec<Asked>,
    /// What is heavy is above it.
    pub(super) threshold: f64,
}

/// What is true so far.
#[derive(Debug)]
pub(super) struct Exact<'s> {
    stream: &'s Stream,
    question: Question,
    packets: u64,
    /// By flow: packets, or destinations; or by level.
    counts: Vec<u64>,
    distinct: u64,
    pairs: HashSet<u64>,
}

impl<'s> Exact<'s> {
    pub(super) fn new(stream: &'s Stream, question: Question) -> Self {
        let counts = if question == Question::Quantiles { LEVELS as usize } else { stream.flows() };
        Self { stream, question, packets: 0, counts: vec![0; counts], distinct: 0, pairs: HashSet::new() }
    }

    pub(super) fn see(&mut self, record: &Record) {
        self.packets += 1;
        let at = match self.question {
            Question::Quantiles => (record.item % LEVELS) as usize,
            _ => record.flow as usize,
        };
        if self.question == Question::Spreads
            && !self.pairs.insert(u64::from(record.flow) * ITEMS + record.destination())
        {
            return;
        }
        self.distinct += u64::from(self.counts[at] == 0);
        self.counts[at] += 1;
    }

    pub(super) fn packets(&self) -> u64 {
        self.packets
    }

    /// What is to be asked now.
    pub(super) fn query(&self) -> Query {
        let number = |quantile, truth| Asked { key: 0, hash: KeyHash(0), quantile, truth };
        match self.question {
            Question::Flows => Query { asked: vec![number(0.0, self.distinct as f64)], threshold: 0.0 },
            Question::Quantiles => {
                let asked = QUANTILES.map(|quantile| number(quantile, self.quantile(quantile))).into();
                Query { asked, threshold: 0.0 }
            }
            Question::Sizes => self.above(HEAVY_SHARE * self.packets as f64),
            Question::Spreads => self.above(SPREADER_SHARE * self.packets as f64),
        }
    }

    fn above(&self, threshold: f64) -> Query {
        let heavy = self.counts.iter().zip(&self.stream.flows).filter(|flow| *flow.0 as f64 > threshold);
        let asked =
            heavy.map(|(&count, &(key, hash))| Asked { key, hash, quantile: 0.0, truth: count as f64 });
        Query { asked: asked.collect(), threshold }
    }

    /// The value of rank `floor(q (n - 1))`.
    fn quantile(&self, quantile: f64) -> f64 {
        let rank = (quantile * (self.packets.max(1) - 1) as f64) as u64;
        let mut below = 0;
        let level = self.counts.iter().position(|&count| {
            below += count;
            below > rank
        });
        level.map_or(0.0, |level| VALUES[level])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_truth_is_that_of_sorted_lists() {
        let stream = Stream::zipf(1.1, 500, 6_000);
        let records = stream.records();
        let exact = |question| {
            let mut exact = Exact::new(&stream, question);
            records.iter().for_each(|record| exact.see(record));
            exact
        };
        let sizes = exact(Question::Sizes);
        let query = sizes.query();
        assert!((query.threshold - 1.2).abs() < 1e-9);
        for asked in &query.asked {
            assert_eq!(asked.truth, records.iter().filter(|record| record.key == asked.key).count() as f64);
        }
        let all: HashMap<u64, usize> = records.iter().fold(HashMap::new(), |mut all, record| {
            *all.entry(record.key).or_default() += 1;
            all
        });
        assert_eq!(query.asked.len(), all.values().filter(|&&count| count > 1).count());
        assert_eq!(exact(Question::Flows).query().asked[0].truth, all.len() as f64);
        let mut values: Vec<f64> = records.iter().map(Record::value).collect();
        values.sort_by(f64::total_cmp);
        for asked in exact(Question::Quantiles).query().asked {
            assert_eq!(asked.truth, values[(asked.quantile * (values.len() - 1) as f64) as usize]);
        }
        let spreads = exact(Question::Spreads).query();
        let destinations: HashSet<u64> = records
            .iter()
            .filter(|record| record.key == spreads.asked[0].key)
            .map(Record::destination)
            .collect();
        assert_eq!(spreads.asked[0].truth, destinations.len() as f64);
    }

    #[test]
    fn a_stream_that_changes_has_another_heaviest_flow_in_each_part() {
        let stream = Stream::changing(1_000, 50_000);
        assert_eq!(stream.len(), 50_000);
        let heaviest = |part: usize| {
            let mut exact = Exact::new(&stream, Question::Sizes);
            (part * 10_000..(part + 1) * 10_000).for_each(|at| exact.see(&stream.record(at)));
            exact.query().asked.into_iter().max_by(|a, b| a.truth.total_cmp(&b.truth)).map(|flow| flow.key)
        };
        let mut heaviest: Vec<_> = (1..5).map(heaviest).collect();
        heaviest.dedup();
        assert_eq!(heaviest.len(), 4);
    }

    #[test]
    fn the_real_trace_is_read_in_its_order() {
        let testdata = Path::new(env!("CARGO_MANIFEST_DIR")).join("../testdata");
        let stream = Stream::twitter(&testdata, 5_000).expect("the trace ships with the project");
        let keys: HashSet<u64> = stream.records().iter().map(|record| record.key).collect();
        assert_eq!((stream.len(), stream.flows()), (5_000, keys.len()));
        assert!(stream.records().iter().all(|record| record.hash == HASHER.hash_u64(record.key)));
    }
}
