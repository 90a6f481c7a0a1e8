//! The index of a segment's pages: bits a key and how full pages are, for items of several sizes and quanta of several lengths; and what
//! a find costs, one by one and in batches, at several numbers of pages. Against fences of the same pages, and the least bits that any
//! index of full pages takes.

use crate::{Bench, Case, Clock, Metric, Params, Random, Result, Run, digest_u64s};
use overbank::segment::{BODY_BYTES, LooseIndex, Quanta};

/// The registered bench.
pub(super) const BENCH: Bench = Bench {
    name: "block_index",
    about: "block indexes: bits a key, how full pages are, ns a find",
    engines: &["overbank", "fences", "lower_bound"],
    run,
};

/// How many hashes ahead of a find the index is on its way to the cache, as the dictionary does it.
const HASHES_AHEAD: usize = 16;
/// Bytes of an item, least and greatest: records of 16 B, of 100 B, and of about 1 KiB (3.6 a block).
const ITEMS: [(usize, usize); 3] = [(16, 16), (100, 100), (900, 1367)];
/// Quanta of a block: 2 to these powers.
const LG_QUANTA: [u32; 4] = [2, 3, 4, 5];
/// The quanta of the timed indexes.
const LG_TIMED: u32 = 3;
/// Finds of a sample.
const FINDS: [usize; 3] = [1_000, 1 << 20, 1 << 21];

fn run(run: &mut Run<'_>) -> Result<()> {
    let blocks = run.pick([200, 100_000, 1_300_000]);
    for item in ITEMS {
        for lg_quanta in LG_QUANTA {
            shape(run, blocks, item, lg_quanta)?;
        }
    }
    for blocks in run.pick([&[200][..], &[100_000, 1_300_000], &[100_000, 1_300_000, 64_000_000]]) {
        finds(run, *blocks)?;
    }
    Ok(())
}

/// Bits and fill of one kind of items.
fn shape(run: &mut Run<'_>, blocks: u64, item: (usize, usize), lg_quanta: u32) -> Result<()> {
    let packed = pack(blocks, item, lg_quanta)?;
    let index = LooseIndex::quantised(packed.quanta, packed.pages.iter().copied())?;
    let fences = LooseIndex::fences(packed.pages.iter().map(|&(first, last, _)| (first, last)));
    let per_block = packed.items as f64 / packed.blocks as f64;
    let params = Params::from_iter([
        ("blocks".to_owned(), packed.blocks.into()),
        ("item_bytes".to_owned(), item.0.midpoint(item.1).into()),
        ("lg_quanta".to_owned(), lg_quanta.into()),
    ]);
    let mut figure = |engine, metric, value| run.figure(Case::Build, engine, metric, value, params.clone());
    let bits = |index: &LooseIndex| index.memory_bytes() as f64 * 8.0 / packed.items as f64;
    figure("overbank", Metric::BitsPerKey, bits(&index))?;
    figure("overbank", Metric::FlashBytes, index.encoded_bytes() as f64)?;
    figure("overbank", Metric::FillShare, packed.bytes as f64 / (packed.blocks * BODY_BYTES as u64) as f64)?;
    figure("overbank", Metric::LongShare, packed.in_long as f64 / packed.items as f64)?;
    figure("fences", Metric::BitsPerKey, bits(&fences))?;
    // Of pages of exactly so many items each: the probability that hashes fall so is 1 / sqrt(2 pi k) a page.
    let least = (std::f64::consts::TAU * per_block).log2() / 2.0 / per_block;
    figure("lower_bound", Metric::BitsPerKey, least)
}

/// What a find costs. Items are of 1 KiB, which are the least evenly spread.
fn finds(run: &mut Run<'_>, blocks: u64) -> Result<()> {
    let packed = pack(blocks, ITEMS[2], LG_TIMED)?;
    // Longer pages are taken for single blocks, so that both indexes have the same.
    let single = || packed.pages.iter().map(|&(first, last, _)| (first, last));
    let index = LooseIndex::quantised(packed.quanta, single().map(|(first, last)| (first, last, 1)))?;
    let fences = LooseIndex::fences(single());
    let mut random = Random::new(7);
    let count = run.pick(FINDS);
    // Those of first items: fences, unlike a quantised index, may say anything of a hash between two pages.
    let pages = packed.pages.len() as u64;
    let hashes: Vec<u64> = (0..count).map(|_| packed.pages[random.below(pages) as usize].0).collect();
    let (index, fences, hashes) = (&index, &fences, &hashes[..]);
    let one_by_one = |index: &LooseIndex, clock: &mut Clock| -> Result<u64> {
        Ok(clock.time(|| {
            // Each find waits for the one before, as a lookup that goes on to read its block does.
            let mut last = 0;
            let next = |&hash: &u64| {
                last = index.find(hash.wrapping_add(last >> 63)).end;
                last
            };
            digest_u64s(hashes.iter().map(next))
        }))
    };
    let batched = |index: &LooseIndex, clock: &mut Clock| -> Result<u64> {
        let mut found = vec![0; hashes.len()];
        clock.time(|| {
            for (i, &hash) in hashes.iter().enumerate() {
                if let Some(&ahead) = hashes.get(i + HASHES_AHEAD) {
                    index.prefetch(ahead);
                }
                found[i] = index.find(hash).end;
            }
        });
        Ok(digest_u64s(found))
    };
    run.contest(Case::Get)
        .param("pages", pages)
        .ops(count)
        .exact("overbank", |clock: &mut Clock| one_by_one(index, clock))
        .exact("fences", |clock: &mut Clock| one_by_one(fences, clock))
        .finish()?;
    run.contest(Case::GetBatched)
        .param("pages", pages)
        .ops(count)
        .exact("overbank", |clock: &mut Clock| batched(index, clock))
        .exact("fences", |clock: &mut Clock| batched(fences, clock))
        .finish()
}

/// Pages of items with random hashes.
struct Packed {
    quanta: Quanta,
    /// First hash, last hash, blocks.
    pages: Vec<(u64, u64, u64)>,
    items: u64,
    bytes: u64,
    blocks: u64,
    /// Items in pages of several blocks.
    in_long: u64,
}

/// Packs items for about so many blocks: whole quanta to a page, as many as fit a block; what one quantum has too much makes a longer page.
fn pack(blocks: u64, item: (usize, usize), lg_quanta: u32) -> Result<Packed> {
    let mut random = Random::new(blocks ^ u64::from(lg_quanta) << 40);
    // A writer knows the bytes that come, and not how full its blocks will be.
    let quanta = Quanta::new(0..=u64::MAX, blocks << lg_quanta)?;
    let mean_bytes = item.0.midpoint(item.1) as f64;
    let gap = u64::MAX as f64 / (blocks as f64 * BODY_BYTES as f64 / mean_bytes);
    let mut packed = Packed { quanta, pages: Vec::new(), items: 0, bytes: 0, blocks: 0, in_long: 0 };
    let (mut page, mut quantum) = (Part::default(), Part::default());
    let mut hash = 0.0;
    loop {
        // Gaps between sorted random hashes are exponential.
        hash += -(1.0 - random.unit()).ln() * gap;
        if hash >= u64::MAX as f64 {
            break;
        }
        let bytes = item.0 as u64 + random.below((item.1 - item.0) as u64 + 1);
        if quantum.items > 0 && quanta.of(hash as u64) > quanta.of(quantum.last) {
            packed.add(&mut page, std::mem::take(&mut quantum));
        }
        quantum.push(hash as u64, bytes);
    }
    packed.add(&mut page, quantum);
    packed.end(page);
    Ok(packed)
}

/// Items in a row.
#[derive(Clone, Copy, Default)]
struct Part {
    first: u64,
    last: u64,
    items: u64,
    bytes: u64,
}

impl Part {
    fn push(&mut self, hash: u64, bytes: u64) {
        if self.items == 0 {
            self.first = hash;
        }
        self.last = hash;
        self.items += 1;
        self.bytes += bytes;
    }
}

impl Packed {
    /// Adds a quantum to the page, or, where it does not fit, begins another with it.
    fn add(&mut self, page: &mut Part, quantum: Part) {
        if page.items > 0 && page.bytes + quantum.bytes <= BODY_BYTES as u64 {
            page.last = quantum.last;
            page.items += quantum.items;
            page.bytes += quantum.bytes;
        } else {
            self.end(std::mem::replace(page, quantum));
        }
    }

    fn end(&mut self, page: Part) {
        if page.items == 0 {
            return;
        }
        let blocks = page.bytes.div_ceil(BODY_BYTES as u64);
        self.pages.push((page.first, page.last, blocks));
        self.items += page.items;
        self.bytes += page.bytes;
        self.blocks += blocks;
        self.in_long += if blocks > 1 { page.items } else { 0 };
    }
}
