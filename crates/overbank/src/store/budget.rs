//! One memory budget for everything that a store has open.
//!
//! Invariants:
//! 1. The reservations together never exceed the budget.
//! 2. What is reserved anew was there to be had in one block: a limit of the address space shows here, as an error.
//! 3. A reservation gives back what it holds when it drops, on every path.
//!
//! | | CPU | RAM |
//! |---|---|---|
//! | `reserve`, `resize`, drop | one mutex | a few words |

use crate::device::require_memory;
use crate::lock::lock;
use crate::{Error, Result};
use std::sync::{Arc, Mutex};

/// A number of bytes that reservations draw on. Clones share it.
///
/// ```
/// use overbank::store::Budget;
/// let budget = Budget::new(1 << 20);
/// let buffer = budget.reserve("buffer", 8 << 20, 64 << 10)?;
/// assert_eq!(buffer.bytes(), 1 << 20, "less than wanted, more than the least");
/// assert!(budget.reserve("index", 4096, 4096).is_err());
/// drop(buffer);
/// assert_eq!(budget.available_bytes(), 1 << 20);
/// # Ok::<(), overbank::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Budget {
    ledger: Arc<Ledger>,
}

#[derive(Debug)]
struct Ledger {
    budget_bytes: usize,
    reserved_bytes: Mutex<usize>,
}

impl Budget {
    /// A budget of `budget_bytes`.
    pub fn new(budget_bytes: usize) -> Self {
        Budget { ledger: Arc::new(Ledger { budget_bytes, reserved_bytes: Mutex::new(0) }) }
    }

    /// The whole budget, in bytes.
    pub fn budget_bytes(&self) -> usize {
        self.ledger.budget_bytes
    }

    /// What nobody has reserved, in bytes.
    pub fn available_bytes(&self) -> usize {
        self.ledger.budget_bytes - *lock(&self.ledger.reserved_bytes)
    }

    /// Reserves `wanted_bytes`, or what is left down to `least_bytes`, for `what` (named in the error).
    ///
    /// # Errors
    /// `BudgetExceeded` if less than `least_bytes` are free; `OutOfMemory` if the system does not give what is granted.
    pub fn reserve(&self, what: &str, wanted_bytes: usize, least_bytes: usize) -> Result<Reservation> {
        let mut reservation = Reservation { budget: self.clone(), what: what.to_owned(), bytes: 0 };
        reservation.resize(wanted_bytes, least_bytes)?;
        Ok(reservation)
    }
}

/// A share of a [`Budget`]; dropping it gives it back.
#[derive(Debug)]
pub struct Reservation {
    budget: Budget,
    what: String,
    bytes: usize,
}

impl Reservation {
    /// What it holds, in bytes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Changes it to `wanted_bytes`, or to what is free down to `least_bytes`; returns the new size in bytes.
    ///
    /// # Errors
    /// `BudgetExceeded` if not even `least_bytes` fit, `OutOfMemory` if the system does not give what is added; it then holds
    /// what it held before.
    pub fn resize(&mut self, wanted_bytes: usize, least_bytes: usize) -> Result<usize> {
        let ledger = &self.budget.ledger;
        let mut reserved = lock(&ledger.reserved_bytes);
        let others = *reserved - self.bytes;
        let available_bytes = ledger.budget_bytes - others;
        if least_bytes > available_bytes {
            return Err(Error::BudgetExceeded {
                what: self.what.clone(),
                wanted_bytes: least_bytes,
                available_bytes,
                budget_bytes: ledger.budget_bytes,
            });
        }
        let bytes = wanted_bytes.max(least_bytes).min(available_bytes);
        require_memory(&self.what, bytes.saturating_sub(self.bytes))?;
        self.bytes = bytes;
        *reserved = others + self.bytes;
        Ok(self.bytes)
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        let mut reserved = lock(&self.budget.ledger.reserved_bytes);
        *reserved -= self.bytes;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reservations_together_never_exceed_the_budget() {
        let budget = Budget::new(100);
        let mut a = budget.reserve("a", 60, 10).unwrap();
        let b = budget.reserve("b", 60, 10).unwrap();
        assert_eq!((a.bytes(), b.bytes(), budget.available_bytes()), (60, 40, 0));
        let refused = a.resize(70, 61).unwrap_err();
        assert!(matches!(refused, Error::BudgetExceeded { wanted_bytes: 61, available_bytes: 60, .. }));
        assert_eq!(a.bytes(), 60);
        assert_eq!(a.resize(5, 1).unwrap(), 5);
        drop(b);
        assert_eq!(budget.available_bytes(), 95);
    }

    #[test]
    fn threads_share_it() {
        let budget = Budget::new(1000);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..1000 {
                        let r = budget.reserve("t", 250, 250).unwrap();
                        assert!(r.bytes() == 250);
                    }
                });
            }
        });
        assert_eq!(budget.available_bytes(), 1000);
    }
}
