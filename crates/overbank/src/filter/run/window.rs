//! Merges windows of entries: counts of equal fingerprints add up, and what comes to 0 goes.
//!
//! ```text
//!   a, b ─▶ interleave, without a jump to guess ─▶ fingerprints, places of twins
//!                                                       │ + 1 a twin, + the deltas of a and b
//!                                                       ▼
//!                                                  deltas of the result; where one is −1, the fingerprint is left out
//! ```
//!
//! Insertions less removals are what [`subtract`] makes of the two.
//!
//! | n fingerprints, e exceptions and twins, m parts | CPU |
//! |---|---|
//! | [`merge`] | n lg m steps of a few cycles, or a radix sort of n; e lg n |
//! | [`subtract`] of d removals | a copy of n, and d lg (n / d) |

use super::entries::{Entries, Part, clamp, join_repetitions};
use crate::batch::{Sorter, gallop};

/// From so many parts on, of which a flush has a hundred, a radix sort costs less than lg m passes over them.
const SORTED_PARTS: usize = 12;

/// Buffers of a merge, kept from window to window.
#[derive(Default, Debug)]
pub(super) struct Scratch {
    halves: Vec<Entries>,
    twins: Vec<u32>,
    changes: Vec<(u32, i64)>,
    sorter: Sorter<u64>,
    sorted: Vec<u64>,
    spare: Vec<u64>,
}

/// Appends the merge of `parts`, all above what `out` holds.
pub(super) fn merge(parts: &[Part<'_>], scratch: &mut Scratch, out: &mut Entries) {
    match parts {
        [] => {}
        [one] => out.append(*one),
        [a, b] => merge_two(*a, *b, scratch, out),
        _ if parts.len() >= SORTED_PARTS => sort_together(parts, scratch, out),
        _ => {
            // Halves by length, so that a long part is not copied again and again for the sake of short ones.
            let total: usize = parts.iter().map(|part| part.fingerprints.len()).sum();
            let mut before = 0;
            let middle = parts.iter().position(|part| {
                before += part.fingerprints.len();
                2 * before >= total
            });
            let (left, right) = parts.split_at((middle.unwrap_or(0) + 1).min(parts.len() - 1));
            let halves = [left, right].map(|half| {
                let mut merged = scratch.halves.pop().unwrap_or_default();
                merged.clear();
                merge(half, scratch, &mut merged);
                merged
            });
            merge_two(halves[0].all(), halves[1].all(), scratch, out);
            scratch.halves.extend(halves);
        }
    }
}

/// Appends `insertions` less `removals`, all above what `out` holds. What comes to 0 is left out; what comes to less, a removal that
/// finds nothing here to take, stays with a count below 0.
///
/// Removals are few beside insertions: each is looked for, and what lies between two of them is copied.
pub(super) fn subtract(insertions: Part<'_>, removals: Part<'_>, out: &mut Entries) {
    let mut at = 0;
    for (removed, count) in removals.iter() {
        let rest = &insertions.fingerprints[at..];
        let below = gallop(rest, |&fingerprint| fingerprint < removed);
        let is_there = rest.get(below) == Some(&removed);
        out.append(insertions.slice(at, at + below));
        let found = insertions.slice(at + below, at + below + usize::from(is_there));
        at += below + found.fingerprints.len();
        let inserted = found.iter().next().map_or(0, |entry| entry.1);
        if inserted != count {
            out.push(removed, inserted - count);
        }
    }
    out.append(insertions.slice(at, insertions.fingerprints.len()));
}

fn merge_two(a: Part<'_>, b: Part<'_>, scratch: &mut Scratch, out: &mut Entries) {
    let (start, start_delta) = (out.len(), out.deltas.len());
    out.fingerprints.resize(start + a.fingerprints.len() + b.fingerprints.len(), 0);
    let Scratch { twins, .. } = scratch;
    let merged = interleave(a.fingerprints, b.fingerprints, &mut out.fingerprints[start..], twins);
    out.fingerprints.truncate(start + merged);
    add_up(&[a, b], (start, start_delta), scratch, out);
}

/// Merges by sorting: on the left of a word, where the sorter looks first, and from the least fingerprint on.
fn sort_together(parts: &[Part<'_>], scratch: &mut Scratch, out: &mut Entries) {
    let (start, start_delta) = (out.len(), out.deltas.len());
    let least = parts.iter().filter_map(|part| part.fingerprints.first()).min().copied().unwrap_or(0);
    let most = parts.iter().filter_map(|part| part.fingerprints.last()).max().copied().unwrap_or(0);
    let shift = (most - least).leading_zeros().min(63);
    let Scratch { twins, sorter, sorted, spare, .. } = scratch;
    sorted.clear();
    for part in parts {
        sorted.extend(part.fingerprints.iter().map(|&fingerprint| (fingerprint - least) << shift));
    }
    sorter.sort(sorted, spare);
    sorted.iter_mut().for_each(|word| *word = (*word >> shift) + least);
    twins.clear();
    if !sorted.is_empty() {
        join_repetitions(&mut out.fingerprints, sorted, false, twins);
    }
    twins.iter_mut().for_each(|place| *place -= start as u32);
    add_up(parts, (start, start_delta), scratch, out);
}

/// Makes the deltas of what was merged from `parts` to behind `start`, where the places of twins are known.
fn add_up(
    parts: &[Part<'_>],
    (start, start_delta): (usize, usize),
    scratch: &mut Scratch,
    out: &mut Entries,
) {
    let Scratch { twins, changes, .. } = scratch;
    if twins.is_empty() && parts.iter().all(|part| part.deltas.is_empty()) {
        return;
    }
    changes.clear();
    changes.extend(twins.iter().map(|&place| (place, 1)));
    for part in parts {
        add_changes(*part, &out.fingerprints[start..], changes);
    }
    // A few ascending lists: the stable sort finds and merges them.
    changes.sort_by_key(|change| change.0);
    for change in changes.chunk_by(|one, next| one.0 == next.0) {
        let delta = change.iter().map(|change| change.1).sum::<i64>();
        if delta != 0 {
            out.deltas.push((start as u32 + change[0].0, clamp(1 + delta) - 1));
        }
    }
    out.retain(start, start_delta, |count| count != 0);
}

/// Where the deltas of `part` lie in `merged`.
fn add_changes(part: Part<'_>, merged: &[u64], changes: &mut Vec<(u32, i64)>) {
    let mut from = 0;
    for &(i, delta) in part.deltas {
        let fingerprint = part.fingerprints[(i - part.first) as usize];
        from += gallop(&merged[from..], |&other| other < fingerprint);
        changes.push((from as u32, delta));
    }
}

/// Merges two ascending slices into the front of `into`, what is in both once, and returns how many there are. `twins` gets the places
/// of those in both.
fn interleave(a: &[u64], b: &[u64], into: &mut [u64], twins: &mut Vec<u32>) -> usize {
    twins.clear();
    twins.resize(a.len().min(b.len()) + 1, 0);
    let places = &mut twins[..];
    let (mut i, mut j, mut place, mut twin) = (0usize, 0usize, 0usize, 0usize);
    while i < a.len() && j < b.len() {
        // At least this many steps end neither input. Which one comes next is a value and not a jump: on hashes a jump is guessed wrong
        // half the time.
        let steps = (a.len() - i).min(b.len() - j);
        for out in &mut into[place..place + steps] {
            let (x, y) = (a[i], b[j]);
            *out = x.min(y);
            places[twin] = place as u32;
            twin = twin.wrapping_add(usize::from(x == y));
            i = i.wrapping_add(usize::from(x <= y));
            j = j.wrapping_add(usize::from(y <= x));
            place = place.wrapping_add(1);
        }
    }
    twins.truncate(twin);
    for rest in [&a[i..], &b[j..]] {
        into[place..place + rest.len()].copy_from_slice(rest);
        place += rest.len();
    }
    place
}
