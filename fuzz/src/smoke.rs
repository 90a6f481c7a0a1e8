//! The stable runner: feeds a target its seeds and then mutants of them, and catches what panics.

use crate::{Mutator, Target, Verdict};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

/// How many inputs of each verdict a run saw.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Tally {
    /// Well-formed ones, seeds included.
    pub accepted: u64,
    /// Refused ones.
    pub refused: u64,
}

/// An input that made a target panic.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Crash {
    /// The target.
    pub target: &'static str,
    /// The shortest such input that cutting could find.
    pub input: Vec<u8>,
    /// What the panic said.
    pub message: String,
}

/// Runs all seeds, then mutants until `mutants` were run or `limit` is over.
///
/// # Errors
/// The first crash.
pub fn smoke(target: &Target, mutants: u64, limit: Duration, seed: u64) -> Result<Tally, Box<Crash>> {
    let started = Instant::now();
    let seeds = (target.seeds)();
    let mut tally = Tally::default();
    for input in &seeds {
        tally.count(attempt(target, input)?);
    }
    let mut mutator = Mutator::new(seed);
    for done in 0..mutants {
        // Looking at the clock costs more than a small target does.
        if done % 64 == 0 && started.elapsed() > limit {
            break;
        }
        tally.count(attempt(target, &mutator.mutant(&seeds))?);
    }
    Ok(tally)
}

impl Tally {
    fn count(&mut self, verdict: Verdict) {
        match verdict {
            Verdict::Accepted => self.accepted += 1,
            Verdict::Refused => self.refused += 1,
        }
    }
}

fn attempt(target: &Target, input: &[u8]) -> Result<Verdict, Box<Crash>> {
    run(target, input).map_err(|message| {
        let input = shrink(target, input);
        Box::new(Crash { target: target.name, input, message })
    })
}

fn run(target: &Target, input: &[u8]) -> Result<Verdict, String> {
    catch_unwind(AssertUnwindSafe(|| (target.run)(input))).map_err(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("a panic without words").to_owned()
    })
}

/// Cuts pieces off while the input still crashes: halves first, then ever smaller ones.
fn shrink(target: &Target, input: &[u8]) -> Vec<u8> {
    let mut best = input.to_vec();
    let mut piece = best.len() / 2;
    while piece > 0 {
        let mut at = 0;
        while at + piece <= best.len() {
            let mut shorter = best.clone();
            shorter.drain(at..at + piece);
            match run(target, &shorter) {
                Err(_) => best = shorter,
                Ok(_) => at += piece,
            }
        }
        piece /= 2;
    }
    best
}
