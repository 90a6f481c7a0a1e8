//! A saved profile whose bytes are not those of a profile: an error, or a profile that works.

use crate::{Target, Verdict};
use overbank::pipeline::Rows;
use overbank::profile::{KeyedRows, Parse, Profile, ProfileOptions, SHARDS};
use overbank::sketch::{CountMin, DdSketch, HyperLogLog, SpaceSaving};
use overbank::store::{Files, Participant, Prepared, Record, Store, StoreOptions, Structure, registry};
use overbank::{KeyHash, KeyHasher, Result, Seed};
use std::sync::Arc;

/// The target. Input: lg of the HyperLogLog registers, count-min pages, the totals of the manifest, then the heavy keys.
pub const TARGET: Target = Target { name: "profile_state", seeds, run };

const HEAD_BYTES: usize = 2;
const STATE_BYTES: usize = 56;

fn options() -> StoreOptions {
    StoreOptions::new().seed(Seed(3)).threads(0).reserve_bytes(0)
}

fn seeds() -> Vec<Vec<u8>> {
    let store = Store::in_memory(options()).expect("RAM takes a store");
    let mut part = SpaceSaving::new(2, 16, store.hasher()).expect("a small one");
    part.update(store.hasher().hash(b"key"), b"key", 5);
    let part = part.to_bytes();
    let heavy: Vec<u8> =
        (0..SHARDS).flat_map(|_| [&(part.len() as u64).to_le_bytes()[..], &part].concat()).collect();
    let memory_bytes = 8u64 << 20;
    [0u32, 1]
        .map(|measure| {
            let totals = [10u64, 1, 100, memory_bytes, 10, 0].map(u64::to_le_bytes).concat();
            [&[8, 32], &2u32.to_le_bytes()[..], &measure.to_le_bytes(), &totals, &heavy].concat()
        })
        .to_vec()
}

/// Writes what the input says under the name of a profile.
struct Forged {
    data: Vec<u8>,
    hasher: KeyHasher,
    files: Files,
}

impl Participant for Forged {
    fn structure(&self) -> Structure {
        registry::PROFILE.structure()
    }

    fn prepare(&self) -> Result<Prepared> {
        let (head, rest) = self.data.split_at(HEAD_BYTES);
        let (state, heavy) = rest.split_at(STATE_BYTES.min(rest.len()));
        let distinct = HyperLogLog::new(u32::from(head[0]), self.hasher)?;
        let counts = CountMin::<u32>::with_shape(u64::from(head[1]), 8, 4, self.hasher)?;
        let files = [distinct.to_bytes(), counts.to_bytes(), DdSketch::new(0.01)?.to_bytes(), heavy.to_vec()]
            .iter()
            .map(|bytes| self.files.write_blob(bytes))
            .collect::<Result<_>>()?;
        Ok(Prepared::Changed(Record { state: state.to_vec(), files }))
    }

    fn committed(&self) {}

    fn is_changed(&self) -> bool {
        false
    }
}

fn run(data: &[u8]) -> Verdict {
    if data.len() < HEAD_BYTES {
        return Verdict::Refused;
    }
    match load(data) {
        Ok((store, profile)) => {
            exercise(&profile, store.hasher());
            Verdict::Accepted
        }
        Err(_) => Verdict::Refused,
    }
}

fn load(data: &[u8]) -> Result<(Store, Profile)> {
    let store = Store::in_memory(options())?;
    let hasher = store.hasher();
    store
        .attach("profile", Arc::new(Forged { data: data.to_vec(), hasher, files: store.files().clone() }))?;
    store.commit(b"")?;
    store.close("profile")?;
    let profile = store.profile("profile", ProfileOptions::new())?;
    Ok((store, profile))
}

/// Asks everything, and counts one more chunk.
fn exercise(profile: &Profile, hasher: KeyHasher) {
    let report = profile.report(5, &[0.0, 0.5, 1.0]).expect("nothing is on flash");
    assert!(report.heavy.len() <= 5 && report.distinct.lower <= report.distinct.upper);
    let hash = hasher.hash(b"key");
    let mut chunks = vec![hash; 2];
    // Totals near the end of u64 would overflow, and a stream never has as many rows.
    if report.rows.checked_add(2).is_some() && report.bytes < u64::MAX - 8 && report.skipped < u64::MAX {
        let counted: Result<()> = profile.update(1, &OneRow, || Ok(chunks.pop()));
        assert!(counted.is_ok());
        assert_eq!(profile.rows().expect("it is open"), report.rows + 2);
    }
    // Forged parts contradict each other, so the bounds may cross.
    let _ = (profile.estimates(&[hash]).is_ok(), profile.measure(), profile.memory_bytes());
}

/// A chunk is the hash of its one row.
struct OneRow;

#[derive(Default)]
struct Row([KeyHash; 1]);

impl Parse for OneRow {
    type Chunk = KeyHash;
    type Rows = Row;
    type Error = overbank::Error;

    fn parse(&self, chunk: KeyHash, rows: &mut Row) -> Result<()> {
        rows.0 = [chunk];
        Ok(())
    }
}

impl Rows for Row {
    fn hashes(&self) -> &[KeyHash] {
        &self.0
    }
}

impl KeyedRows for Row {
    fn key(&self, _: usize) -> &[u8] {
        b"key"
    }

    fn weights(&self) -> Option<&[u64]> {
        None
    }

    fn values(&self) -> Option<&[f64]> {
        Some(&[1.5])
    }

    fn skipped(&self) -> u64 {
        0
    }

    fn bytes(&self) -> u64 {
        4
    }
}
