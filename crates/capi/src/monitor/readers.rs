//! One face for the readers of all sketches.

use super::{Name, overbank_flow, overbank_monitor_state};
use crate::error::overbank_status::*;
use crate::error::{Answer, fail};
use crate::sketch::Sketch;
use crate::sketch_query::overbank_count;
use keyhash::KeyHash;
use overbank::monitor::{
    DistinctFlows, ElasticReader, FlowSizes, FlowSums, LogLogFlows, PartsReader, Quantiles, Reader,
    SignedSizes, WorkerStats,
};
use overbank::sketch::count_sketch::SignedBounds;
use overbank::sketch::{CountBounds, HashId};

/// A reader, and what names its packets' hash.
pub(crate) struct Asked<R> {
    pub(super) reader: R,
    pub(super) hash_id: HashId,
}

/// A reader of any sketch. `None`: an epoch is not kept any more, or has not begun.
pub(crate) trait ReaderFace: Send + Sync {
    fn state(&self) -> overbank_monitor_state;
    fn worker_stats(&self) -> Vec<WorkerStats>;

    fn size(&self, _first: u64, _last: u64, _hash: KeyHash, _confidence: f64) -> Answer<Option<CountBounds>> {
        fail(
            OVERBANK_WRONG_KIND,
            "this monitor does not tell sizes of flows; take its sketch by overbank_reader_sketch",
        )
    }

    fn flows(
        &self,
        _first: u64,
        _last: u64,
        _count: usize,
        _confidence: f64,
    ) -> Answer<Option<Vec<overbank_flow>>> {
        fail(
            OVERBANK_WRONG_KIND,
            "this monitor keeps no flows by name; take its sketch by overbank_reader_sketch",
        )
    }

    fn sketch(&self, first: u64, last: u64) -> Answer<Option<Sketch>>;
}

macro_rules! state {
    () => {
        fn state(&self) -> overbank_monitor_state {
            let reader = &self.reader;
            loop {
                let epoch = reader.epoch();
                // Where that is not kept any more, another one has begun.
                if let Some(total_weight) = reader.total_weight(epoch) {
                    let (tau, workers) = (reader.tau().into(), reader.workers() as u32);
                    return overbank_monitor_state { epoch, total_weight, tau, workers };
                }
            }
        }

        fn worker_stats(&self) -> Vec<WorkerStats> {
            self.reader.worker_stats()
        }
    };
}

impl<const D: usize> ReaderFace for Asked<Reader<FlowSizes<Name, D>>> {
    state!();

    fn size(&self, first: u64, last: u64, hash: KeyHash, confidence: f64) -> Answer<Option<CountBounds>> {
        Ok(self.reader.size_in(first, last, hash, confidence))
    }

    fn flows(
        &self,
        first: u64,
        last: u64,
        count: usize,
        confidence: f64,
    ) -> Answer<Option<Vec<overbank_flow>>> {
        if first != last {
            let why = format!("flows by count-min are of one epoch, not of {first} to {last}; ask for each");
            return fail(OVERBANK_INVALID, why);
        }
        let Some(top) = self.reader.top(first, count) else { return Ok(None) };
        let sized = top.into_iter().map(|(flow, _)| {
            // Columns are made of the fold alone.
            let size = self.reader.size_in(first, last, KeyHash::new(0, flow.fold), confidence)?;
            Some(overbank_flow::new(flow.key, size.into()))
        });
        Ok(sized.collect())
    }

    fn sketch(&self, first: u64, last: u64) -> Answer<Option<Sketch>> {
        Ok(self.reader.sizes(first, last, self.hash_id).map(Sketch::CountMin))
    }
}

impl<const D: usize> ReaderFace for Asked<Reader<SignedSizes<Name, D>>> {
    state!();

    fn flows(
        &self,
        first: u64,
        last: u64,
        count: usize,
        confidence: f64,
    ) -> Answer<Option<Vec<overbank_flow>>> {
        let Some(top) = self.reader.top_signed(first, last, count, confidence) else { return Ok(None) };
        // Packets weigh 0 or more, and so does what they come to.
        let unsigned = |weight: i64| u64::try_from(weight).unwrap_or(0);
        let count = |of: SignedBounds| overbank_count {
            lower: unsigned(of.lower),
            estimate: unsigned(of.estimate),
            upper: if of.upper == i64::MAX { u64::MAX } else { unsigned(of.upper) },
        };
        Ok(Some(top.into_iter().map(|(flow, size)| overbank_flow::new(flow.key, count(size))).collect()))
    }

    fn sketch(&self, first: u64, last: u64) -> Answer<Option<Sketch>> {
        Ok(self.reader.signed_sizes(first, last).map(Sketch::CountSketch))
    }
}

impl<const D: usize> ReaderFace for Asked<Reader<FlowSums<Name, D>>> {
    state!();

    fn flows(
        &self,
        first: u64,
        last: u64,
        count: usize,
        confidence: f64,
    ) -> Answer<Option<Vec<overbank_flow>>> {
        let top = self.reader.top_flows(first, last, count, confidence);
        Ok(top.map(|top| {
            top.into_iter().map(|(flow, size)| overbank_flow::new(flow.key, size.into())).collect()
        }))
    }

    fn sketch(&self, first: u64, last: u64) -> Answer<Option<Sketch>> {
        Ok(self.reader.sums(first, last).map(Sketch::UnivMon))
    }
}

impl ReaderFace for Asked<Reader<DistinctFlows>> {
    state!();

    fn sketch(&self, first: u64, last: u64) -> Answer<Option<Sketch>> {
        Ok(self.reader.distinct(first, last).map(Sketch::HyperLogLog))
    }
}

impl ReaderFace for Asked<Reader<LogLogFlows>> {
    state!();

    fn sketch(&self, first: u64, last: u64) -> Answer<Option<Sketch>> {
        Ok(self.reader.distinct(first, last).map(Sketch::LogLog))
    }
}

impl ReaderFace for Asked<Reader<Quantiles>> {
    state!();

    fn sketch(&self, first: u64, last: u64) -> Answer<Option<Sketch>> {
        Ok(self.reader.values(first, last).map(Sketch::DdSketch))
    }
}

impl<const D: usize> ReaderFace for Asked<PartsReader<Name, D>> {
    state!();

    fn size(&self, first: u64, last: u64, hash: KeyHash, confidence: f64) -> Answer<Option<CountBounds>> {
        Ok(self.reader.size_in(first, last, hash, confidence))
    }

    fn flows(
        &self,
        first: u64,
        last: u64,
        count: usize,
        confidence: f64,
    ) -> Answer<Option<Vec<overbank_flow>>> {
        let Some(top) = self.reader.top(first, last, count) else { return Ok(None) };
        let sized = top.into_iter().map(|(flow, estimate)| {
            let size = self.reader.part_bounds(first, last, estimate, confidence)?;
            Some(overbank_flow::new(flow.key, size.into()))
        });
        Ok(sized.collect())
    }

    fn sketch(&self, first: u64, last: u64) -> Answer<Option<Sketch>> {
        Ok(self.reader.flow_sketch(first, last, 0)?.map(Sketch::Coco))
    }
}

impl ReaderFace for Asked<ElasticReader<Name>> {
    state!();

    fn size(&self, first: u64, last: u64, hash: KeyHash, confidence: f64) -> Answer<Option<CountBounds>> {
        Ok(self.reader.size_in(first, last, hash, confidence))
    }

    fn flows(
        &self,
        first: u64,
        last: u64,
        count: usize,
        confidence: f64,
    ) -> Answer<Option<Vec<overbank_flow>>> {
        let Some(top) = self.reader.top(first, last, count) else { return Ok(None) };
        let sized = top.into_iter().map(|(flow, _)| {
            let size = self.reader.size_in(first, last, flow.hash, confidence)?;
            Some(overbank_flow::new(flow.key, size.into()))
        });
        Ok(sized.collect())
    }

    fn sketch(&self, first: u64, last: u64) -> Answer<Option<Sketch>> {
        Ok(self.reader.flow_sketch(first, last)?.map(Sketch::Elastic))
    }
}
