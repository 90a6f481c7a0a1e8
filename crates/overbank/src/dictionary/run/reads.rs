//! Reads pages of several runs at once, those that are near each other in one request: where questions are dense, a run is read through.
//!
//! ```text
//!   wanted    run a: page 3, 3, 4, 6       12     run b: 7 … 8       in the order of runs, and of pages in each
//!   requests         └──── one ────┘       └ one  └ one, its length known from the index
//! ```

use super::super::page::Page;
use super::reader::RunSegment;
use crate::device::{BLOCK_BYTES, FileRead, ReadRequest};
use crate::store::Files;
use crate::{Error, Result};
use std::ops::Range;
use std::sync::Arc;

/// Pages that are near each other are read together up to this length: as in a sweep, where questions are dense.
const JOINED_BLOCKS: u64 = 16;
/// Blocks that nobody asked for are read along where that saves a request: a random read at full depth takes about as long as four
/// blocks of a sequential one, as the lookups of frequency sketches were measured.
const GAP_BLOCKS: u64 = 3;

/// How much of what is asked may be in flight.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct PageReads {
    /// The most requests.
    pub(crate) depth: usize,
    /// The most bytes; a page that is longer is read alone.
    pub(crate) in_flight_bytes: usize,
}

/// Where pages are put together, and unpacked.
#[derive(Default)]
struct Scratch {
    joined: Vec<u8>,
    unpacked: Vec<u8>,
}

/// A request, and which of the wanted pages it answers.
struct Request {
    blocks: Range<u64>,
    wanted: Range<usize>,
}

/// Reads the pages whose blocks [`RunSegment::find`] named, and calls `done` with the place in `wanted` and the page, in any order. Those
/// of one run follow each other in `wanted`, and ascend or repeat; where no block is named, nothing is read or answered.
///
/// # Cost
/// Each page once, and three blocks at most between two of them. RAM: what is in flight, and one page.
///
/// # Errors
/// `Corrupt`; what the device says, or `done` fails with. The first error ends the batch.
pub(crate) fn read_pages(
    files: &Files,
    wanted: &[(&RunSegment, Range<u64>)],
    how: PageReads,
    done: &mut dyn FnMut(usize, &Page<'_>) -> Result<()>,
) -> Result<()> {
    let requests = requests_of(wanted);
    // The device takes memory for each request in flight as for the longest, so long ones do not go with short ones. All of those that
    // short pages are joined to are one class, no longer than it has to be.
    let short = requests.iter().map(Request::blocks).filter(|blocks| *blocks <= JOINED_BLOCKS).max();
    let class_of = |request: &Request| lg_class(request.blocks().max(short.unwrap_or(1)));
    let mut classes: Vec<u32> = requests.iter().map(class_of).collect();
    classes.sort_unstable();
    classes.dedup();
    let mut scratch = Scratch::default();
    for class in classes {
        let of_class: Vec<&Request> = requests.iter().filter(|request| class_of(request) == class).collect();
        let reads: Vec<FileRead<'_>> = of_class.iter().map(|request| request.read(wanted)).collect();
        let longest = BLOCK_BYTES << class;
        let depth = how.depth.min(how.in_flight_bytes / longest).max(1);
        files.read_many(&reads, depth, &mut |i, bytes| {
            answer(wanted, of_class[i], bytes, &mut scratch, done)
        })?;
    }
    Ok(())
}

impl Request {
    /// Its length.
    fn blocks(&self) -> u64 {
        self.blocks.end - self.blocks.start
    }

    fn read<'a>(&self, wanted: &[(&'a RunSegment, Range<u64>)]) -> FileRead<'a> {
        let (file, first) = wanted[self.wanted.start].0.file.segment.place_of(self.blocks.start);
        let bytes = self.blocks() as usize * BLOCK_BYTES;
        FileRead { file, request: ReadRequest { offset: first * BLOCK_BYTES as u64, bytes: bytes as u32 } }
    }
}

/// Requests of so many blocks are at most 2 to this power long.
fn lg_class(blocks: u64) -> u32 {
    blocks.next_power_of_two().ilog2()
}

/// Joins wanted pages to requests.
fn requests_of(wanted: &[(&RunSegment, Range<u64>)]) -> Vec<Request> {
    let mut requests: Vec<Request> = Vec::with_capacity(wanted.len());
    for (i, (run, blocks)) in wanted.iter().enumerate() {
        if blocks.is_empty() {
            continue;
        }
        match requests.last_mut() {
            Some(last)
                if last.wanted.end == i
                    && Arc::ptr_eq(&run.file, &wanted[last.wanted.start].0.file)
                    && (wanted[i - 1].1 == *blocks
                        || (last.blocks.end..=last.blocks.end + GAP_BLOCKS).contains(&blocks.start)
                            && blocks.end - last.blocks.start <= JOINED_BLOCKS) =>
            {
                last.blocks.end = blocks.end;
                last.wanted.end = i + 1;
            }
            _ => requests.push(Request { blocks: blocks.clone(), wanted: i..i + 1 }),
        }
    }
    requests
}

/// Answers what a request that has arrived has of the wanted pages.
fn answer(
    wanted: &[(&RunSegment, Range<u64>)],
    request: &Request,
    bytes: &[u8],
    scratch: &mut Scratch,
    done: &mut dyn FnMut(usize, &Page<'_>) -> Result<()>,
) -> Result<()> {
    let mut next = request.wanted.start;
    for equal in wanted[request.wanted.clone()].chunk_by(|one, other| one.1 == other.1) {
        let (run, blocks) = &equal[0];
        let [start, end] =
            [blocks.start, blocks.end].map(|block| (block - request.blocks.start) as usize * BLOCK_BYTES);
        let body = run.file.segment.page_of(blocks.clone(), &bytes[start..end], &mut scratch.joined)?;
        let in_page = |error: Error| run.file.in_page(error, blocks.start);
        let page = run
            .file
            .unpacker
            .unpack(body, &mut scratch.unpacked)
            .and_then(|unpacked| Page::of(unpacked.page));
        let page = page.map_err(in_page)?;
        for i in next..next + equal.len() {
            done(i, &page).map_err(in_page)?;
        }
        next += equal.len();
    }
    Ok(())
}
