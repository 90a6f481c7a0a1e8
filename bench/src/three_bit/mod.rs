//! The quotient filter as its paper has it: three bits a slot beside the remainder, packed, for the contests with ours.
//!
//! ```text
//!   entry            │ quotient, q bits │ remainder, r bits │
//!   slot             occupied, continuation, shifted, then the remainder          r + 3 bits, back to back
//!   slots 0 … 2^q, and spill slots past the last quotient, where the paper's would wrap round
//! ```
//!
//! 1. `occupied` belongs to the slot's number, the other two to the remainder that lies in it.
//! 2. A slot whose three bits are clear is free. A run lies at its quotient, or as near behind it as order allows.
//! 3. Equal entries lie side by side, as often as they were inserted.
//!
//! | cost of | CPU |
//! |---|---|
//! | look-up | back to the cluster's start, and forth over its runs |
//! | insert | the same, and a shift of what follows in the cluster |
//!
//! Source: Bender et al., "Don't Thrash: How to Cache Your Hash on Flash" (HotStorage 2011), section 2.

mod packed;
mod scan;
#[cfg(test)]
mod tests;

pub use packed::{get_slot, or_slot};
pub use scan::{Placement, Scan};

use std::convert::Infallible;

/// Metadata bits of a slot.
pub const METADATA_BITS: u32 = 3;

/// Some remainder has this slot as its quotient.
pub const OCCUPIED: u64 = 1;

/// The remainder in this slot is not the first of its run.
pub const CONTINUATION: u64 = 2;

/// The remainder in this slot has another slot as its quotient.
pub const SHIFTED: u64 = 4;

/// Slots past the last quotient. At a load of 0.9 the last cluster reaches so far once in more than 10^9 filters.
pub const SPILL_SLOTS: u64 = 8192;

/// Any slot free for a remainder.
const FREE: u64 = 0;

/// Slots by number, wherever they are.
pub trait Slots {
    /// Why a slot cannot be had.
    type Error;

    /// The slot: metadata in the lowest three bits, the remainder above.
    fn slot(&mut self, at: u64) -> Result<u64, Self::Error>;
}

/// Shows the remainders of one quotient in their order, until `see` answers that it has seen enough.
pub fn for_run<S: Slots>(
    slots: &mut S,
    quotient: u64,
    mut see: impl FnMut(u64) -> bool,
) -> Result<(), S::Error> {
    if slots.slot(quotient)? & OCCUPIED == 0 {
        return Ok(());
    }
    let mut at = run_start(slots, quotient)?;
    let mut slot = slots.slot(at)?;
    while see(slot >> METADATA_BITS) {
        at += 1;
        slot = slots.slot(at)?;
        if slot & CONTINUATION == 0 {
            break;
        }
    }
    Ok(())
}

/// Whether the run of `quotient` has the remainder.
pub fn contains<S: Slots>(slots: &mut S, quotient: u64, remainder: u64) -> Result<bool, S::Error> {
    let mut found = false;
    for_run(slots, quotient, |other| {
        found = other == remainder;
        other < remainder
    })?;
    Ok(found)
}

/// Where the run of `quotient`, which is occupied, starts or would start.
fn run_start<S: Slots>(slots: &mut S, quotient: u64) -> Result<u64, S::Error> {
    let mut of = quotient;
    while slots.slot(of)? & SHIFTED != 0 {
        of -= 1;
    }
    // `of` is the cluster's start, and the quotient of the run that starts at `at`.
    let mut at = of;
    while of != quotient {
        at += 1;
        while slots.slot(at)? & CONTINUATION != 0 {
            at += 1;
        }
        of += 1;
        while slots.slot(of)? & OCCUPIED == 0 {
            of += 1;
        }
    }
    Ok(at)
}

/// A filter in RAM.
#[derive(Clone, Debug)]
pub struct ThreeBitFilter {
    bytes: Vec<u8>,
    quotient_bits: u32,
    remainder_bits: u32,
    len: u64,
}

impl ThreeBitFilter {
    /// An empty filter of `2^quotient_bits` slots.
    ///
    /// # Panics
    /// When quotient and remainder have more than 64 bits together, or the remainder more than 54.
    pub fn new(quotient_bits: u32, remainder_bits: u32) -> Self {
        assert!(quotient_bits + remainder_bits <= 64 && remainder_bits <= 57 - METADATA_BITS);
        let bytes = packed::bytes_for(remainder_bits + METADATA_BITS, (1 << quotient_bits) + SPILL_SLOTS);
        Self { bytes: vec![0; bytes], quotient_bits, remainder_bits, len: 0 }
    }

    /// How many bytes [`Self::new`] takes.
    pub const fn bytes_of(quotient_bits: u32, remainder_bits: u32) -> usize {
        packed::bytes_for(remainder_bits + METADATA_BITS, (1 << quotient_bits) + SPILL_SLOTS)
    }

    /// Entries in it, equal ones counted each.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Bytes of its slots.
    pub fn memory_bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Takes everything out.
    pub fn clear(&mut self) {
        self.bytes.fill(0);
        self.len = 0;
    }

    /// Puts an entry of `quotient_bits + remainder_bits` bits in, again if it is there.
    ///
    /// # Panics
    /// When the last cluster reaches past the spill slots; the load is the caller's to bound.
    pub fn insert(&mut self, entry: u64) {
        let (quotient, remainder) = self.split(entry);
        self.len += 1;
        let home = self.get(quotient);
        if home == FREE {
            self.set(quotient, remainder << METADATA_BITS | OCCUPIED);
            return;
        }
        self.set(quotient, home | OCCUPIED);
        let Ok(start) = run_start(self, quotient);
        let (mut at, mut flags) = (start, FREE);
        if home & OCCUPIED != 0 {
            at = self.place_in_run(start, remainder);
            if at == start {
                // The former first of the run follows the new one.
                self.set(start, self.get(start) | CONTINUATION);
            } else {
                flags |= CONTINUATION;
            }
        }
        if at != quotient {
            flags |= SHIFTED;
        }
        self.shift_in(at, remainder << METADATA_BITS | flags);
    }

    /// Where in the run that starts there a remainder belongs.
    fn place_in_run(&self, start: u64, remainder: u64) -> u64 {
        let mut at = start;
        while self.get(at) >> METADATA_BITS < remainder {
            at += 1;
            if self.get(at) & CONTINUATION == 0 {
                break;
            }
        }
        at
    }

    /// Puts a remainder with its two bits into `at`, and what follows one slot further each, up to a free slot.
    fn shift_in(&mut self, mut at: u64, mut carried: u64) {
        loop {
            let old = self.get(at);
            self.set(at, carried | old & OCCUPIED);
            if old == FREE {
                break;
            }
            carried = old & !OCCUPIED | SHIFTED;
            at += 1;
        }
        let last = (1 << self.quotient_bits) + SPILL_SLOTS - 1;
        assert!(at < last, "a cluster reaches past the spill slots: the load is too high");
    }

    /// Whether an entry is in it.
    pub fn contains(&self, entry: u64) -> bool {
        let (quotient, remainder) = self.split(entry);
        let Ok(found) = contains(&mut &*self, quotient, remainder);
        found
    }

    /// All entries, in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = u64> + '_ {
        let mut scan = Scan::new(self.remainder_bits);
        let slots = (1 << self.quotient_bits) + SPILL_SLOTS;
        (0..slots).filter_map(move |at| scan.entry(self.get(at)))
    }

    fn split(&self, entry: u64) -> (u64, u64) {
        (entry >> self.remainder_bits, entry & ((1 << self.remainder_bits) - 1))
    }

    #[inline(always)]
    fn get(&self, at: u64) -> u64 {
        get_slot(&self.bytes, 0, self.remainder_bits + METADATA_BITS, at)
    }

    #[inline(always)]
    fn set(&mut self, at: u64, slot: u64) {
        packed::set_slot(&mut self.bytes, self.remainder_bits + METADATA_BITS, at, slot);
    }
}

impl Slots for ThreeBitFilter {
    type Error = Infallible;

    #[inline(always)]
    fn slot(&mut self, at: u64) -> Result<u64, Infallible> {
        Ok(self.get(at))
    }
}

impl Slots for &ThreeBitFilter {
    type Error = Infallible;

    #[inline(always)]
    fn slot(&mut self, at: u64) -> Result<u64, Infallible> {
        Ok(self.get(at))
    }
}
