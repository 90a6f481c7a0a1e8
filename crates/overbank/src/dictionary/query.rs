//! Looks keys up: in the memtable, in the runs in RAM, and on flash in the newest run that may have them.
//!
//! ```text
//!   key ─▶ memtable ─▶ runs in RAM ─▶ newest run whose front lets it through ─▶ one page read ─▶ a value: done
//!                                     next older one  ◀── an operand, or not there ───┘
//! ```

use super::Dictionary;
use super::frozen::Frozen;
use super::item::Value;
use super::operator::{Combined, MergeOperator, combine};
use super::run::{PageReads, RunSegment, read_pages};
use super::shared::Shared;
use super::table::{ItemRun, ItemVersion};
use crate::device::BLOCK_BYTES;
use crate::lock::lock;
use crate::{KeyHash, Result};
use std::ops::Range;
use std::sync::Arc;

/// Reads in flight.
const DEPTH: usize = 128;
/// What a key takes whose reads are planned, and one that is put into order before.
const QUESTION_BYTES: usize = 256;
const ORDERED_BYTES: usize = size_of::<u64>();
/// A plan has a quarter of what it may take for the order of so many keys.
const ORDER_SHARE: usize = 4;
/// How many questions ahead the indexes are on their way to the cache.
const QUESTIONS_AHEAD: usize = 16;

impl Dictionary {
    /// The value of a key, if it has one.
    ///
    /// # Cost
    /// In RAM some cache misses. On flash one page read of the newest run that has the key; of each other run that is newer than the
    /// oldest, one for 1 key of 100.
    ///
    /// # Errors
    /// `Corrupt`; what the device says.
    pub fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let mut found = None;
        self.get_many_with(&[key], |_, value| found = value.map(<[u8]>::to_vec))?;
        Ok(found)
    }

    /// The value of each key, if it has one.
    ///
    /// # Cost
    /// As [`Dictionary::get`], 128 reads in flight together, one for all keys of a page. Large batches go through the pages in hash order:
    /// so many keys at a time as a 512th of the memory in bytes where nobody else asks. Where these have a key in every fourth page or
    /// more, the pages are read in order, by sixteen.
    ///
    /// # Errors
    /// As [`Dictionary::get`].
    pub fn get_many<K: AsRef<[u8]>>(&self, keys: &[K]) -> Result<Vec<Option<Vec<u8>>>> {
        let mut found = vec![None; keys.len()];
        self.get_many_with(keys, |at, value| found[at] = value.map(<[u8]>::to_vec))?;
        Ok(found)
    }

    /// Tells `answer` the place of each key and its value, in any order, without copies of what was read.
    ///
    /// # Errors
    /// As [`Dictionary::get`].
    pub fn get_many_with<K: AsRef<[u8]>>(
        &self,
        keys: &[K],
        mut answer: impl FnMut(usize, Option<&[u8]>),
    ) -> Result<()> {
        let shared = self.shared();
        shared.gate.usable()?;
        shared.plan(keys, &mut |mut questions| {
            let view = shared.look(&mut questions);
            view.answer(shared, questions, &mut answer)
        })
    }

    /// Whether each key has a value.
    ///
    /// # Errors
    /// As [`Dictionary::get`].
    pub fn contains_many<K: AsRef<[u8]>>(&self, keys: &[K]) -> Result<Vec<bool>> {
        let mut are_in = vec![false; keys.len()];
        self.get_many_with(keys, |at, value| are_in[at] = value.is_some())?;
        Ok(are_in)
    }
}

/// A key that is looked for.
#[derive(Debug)]
pub(super) struct Question<'k> {
    at: usize,
    hash: KeyHash,
    key: &'k [u8],
    answer: Answer,
    /// The run on flash that is asked next, from the newest.
    run: usize,
}

/// What is known of a key so far, from newer runs than those that were not asked.
#[derive(Debug)]
enum Answer {
    Nothing,
    /// Older items change it: a value unless there is one, or an operand.
    Open(Box<(Value<'static>, Vec<u8>)>),
    Known(Option<Vec<u8>>),
}

/// All runs of a moment, the newest first.
#[derive(Debug)]
pub(super) struct View {
    pub(super) version: Arc<ItemVersion>,
}

impl Answer {
    /// What an older item adds; `None` if the older item is the answer, whole.
    fn meet(self, older: Value<'_>, operator: Option<MergeOperator>) -> Option<Answer> {
        let (kind, newer) = match self {
            Answer::Nothing => {
                return match older {
                    Value::Put(_) => None,
                    Value::Deleted => Some(Answer::Known(None)),
                    Value::IfAbsent(bytes) => Some(Answer::open(Value::IfAbsent(&[]), bytes.to_vec())),
                    Value::Operand(bytes) => Some(Answer::open(Value::Operand(&[]), bytes.to_vec())),
                };
            }
            Answer::Open(open) => *open,
            known @ Answer::Known(_) => return Some(known),
        };
        let mut scratch = Vec::new();
        let known = |bytes| Some(Answer::Known(Some(bytes)));
        match combine(operator, older, kind.with_bytes(&newer), &mut scratch) {
            Combined::Older if matches!(older, Value::Put(_)) => None,
            // Unless there is one: the older item of the two that say so.
            Combined::Older => Some(Answer::open(kind, older.bytes().to_vec())),
            Combined::Newer | Combined::NewerAsPut => known(newer),
            Combined::Put => known(scratch),
            Combined::Operand => Some(Answer::open(Value::Operand(&[]), scratch)),
        }
    }

    /// What it is where nothing is older.
    fn last(self) -> Option<Vec<u8>> {
        match self {
            Answer::Nothing => None,
            Answer::Open(open) => Some(open.1),
            Answer::Known(value) => value,
        }
    }

    fn open(kind: Value<'static>, bytes: Vec<u8>) -> Answer {
        Answer::Open(Box::new((kind, bytes)))
    }
}

impl Question<'_> {
    /// Takes in what the next older run has; whether that is the answer, whole.
    fn meet(&mut self, older: Value<'_>, operator: Option<MergeOperator>) -> bool {
        match std::mem::replace(&mut self.answer, Answer::Nothing).meet(older, operator) {
            Some(answer) => {
                self.answer = answer;
                false
            }
            None => true,
        }
    }

    /// As [`Question::meet`], of an item that does not stay.
    fn meet_copied(&mut self, older: Value<'_>, operator: Option<MergeOperator>) {
        if self.meet(older, operator) {
            self.answer = Answer::Known(Some(older.bytes().to_vec()));
        }
    }

    fn is_known(&self) -> bool {
        matches!(self.answer, Answer::Known(_))
    }
}

impl Shared {
    /// Has `ask` answer the questions for all keys, as many at a time as there is memory for: those of a large batch in the order of their
    /// hashes, so that each page is planned once but where two plans meet.
    pub(super) fn plan<'k, K: AsRef<[u8]>>(
        &self,
        keys: &'k [K],
        ask: &mut dyn FnMut(Vec<Question<'k>>) -> Result<()>,
    ) -> Result<()> {
        let memory = self.lookups.take(keys.len().saturating_mul(QUESTION_BYTES + ORDERED_BYTES));
        let all_bytes = keys.len().saturating_mul(QUESTION_BYTES);
        // What fits is one plan, and needs no order.
        let order_bytes = if all_bytes <= memory.bytes() { 0 } else { memory.bytes() / ORDER_SHARE };
        let at_once = ((memory.bytes() - order_bytes) / QUESTION_BYTES).max(1);
        let ordered = (order_bytes / ORDERED_BYTES).max(at_once).min(u32::MAX as usize);
        let question = |at: usize| self.question(at, keys[at].as_ref());
        let mut order: Vec<u64> = Vec::new();
        for first in (0..keys.len()).step_by(ordered) {
            let end = keys.len().min(first + ordered);
            if end - first <= at_once {
                ask((first..end).map(question).collect())?;
                continue;
            }
            // The first 32 bits of each hash above the place.
            let bits = |at: usize| self.hasher.hash(keys[at].as_ref()).high() >> 32 << 32;
            order.clear();
            order.extend((first..end).map(|at| bits(at) | (at - first) as u64));
            order.sort_unstable();
            for plan in order.chunks(at_once) {
                ask(plan.iter().map(|&one| question(first + (one as u32) as usize)).collect())?;
            }
        }
        Ok(())
    }

    fn question<'k>(&self, at: usize, key: &'k [u8]) -> Question<'k> {
        Question { at, hash: self.hasher.hash(key), key, answer: Answer::Nothing, run: 0 }
    }

    /// Asks the memtable; the runs below it at the same moment.
    fn look(&self, questions: &mut [Question<'_>]) -> View {
        let operator = self.options.shape.operator;
        let mut memtable = lock(&self.memtable);
        if !memtable.is_empty() {
            for question in questions {
                if let Some(value) = memtable.get(question.hash, question.key) {
                    question.meet_copied(value, operator);
                }
            }
        }
        View { version: self.tree.version() }
    }
}

impl View {
    /// Tells the values of keys.
    pub(super) fn answer(
        &self,
        shared: &Shared,
        mut questions: Vec<Question<'_>>,
        answer: &mut dyn FnMut(usize, Option<&[u8]>),
    ) -> Result<()> {
        let operator = shared.options.shape.operator;
        for frozen in self.version.frozen.iter().rev() {
            let open = questions.iter_mut().filter(|question| !question.is_known());
            open.for_each(|question| question.ask_frozen(&frozen.entries, operator));
        }
        // In the order of their hashes, pages of a run are read in the order in which they lie.
        if questions.len() > 1 {
            questions.sort_unstable_by_key(|question| question.hash);
        }
        loop {
            let runs = &self.version.runs;
            let mut pages = Vec::with_capacity(questions.len());
            for at in 0..questions.len() {
                if let Some(ahead) = questions.get(at + QUESTIONS_AHEAD) {
                    ahead.prefetch(runs);
                }
                pages.push(questions[at].next_page(runs));
            }
            let mut asked = Vec::with_capacity(questions.len());
            for (question, page) in questions.into_iter().zip(pages) {
                match page {
                    Some(page) => asked.push((question, page)),
                    None => answer(question.at, question.answer.last().as_deref()),
                }
            }
            if asked.is_empty() {
                return Ok(());
            }
            asked.sort_by_key(|(question, _)| question.run);
            let wanted: Vec<(&RunSegment, Range<u64>)> = asked.iter().map(|(_, page)| page.clone()).collect();
            let blocks: u64 = wanted.iter().map(|(_, blocks)| blocks.end - blocks.start).sum();
            let memory = shared.lookups.take((blocks as usize).saturating_mul(BLOCK_BYTES));
            let how = PageReads { depth: DEPTH, in_flight_bytes: memory.bytes() };
            let mut is_answered = vec![false; asked.len()];
            read_pages(&shared.files, &wanted, how, &mut |at, page| {
                let question = &mut asked[at].0;
                if let Some(value) = page.find(question.hash, question.key)?
                    && question.meet(value, operator)
                {
                    is_answered[at] = true;
                    answer(question.at, Some(value.bytes()));
                }
                Ok(())
            })?;
            let open = asked.into_iter().zip(is_answered).filter(|(_, is_answered)| !is_answered);
            questions =
                open.map(|((question, _), _)| Question { run: question.run + 1, ..question }).collect();
        }
    }

    /// The value of a key, found without the indexes.
    pub(super) fn search(&self, shared: &Shared, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let operator = shared.options.shape.operator;
        let mut question = shared.question(0, key);
        for frozen in self.version.frozen.iter().rev() {
            question.ask_frozen(&frozen.entries, operator);
        }
        for run in self.version.runs.iter().rev() {
            let Some(piece) = piece_of(run, question.hash).filter(|_| !question.is_known()) else { continue };
            let (hash, key) = (question.hash, question.key);
            piece.search(hash, key, &mut |value| {
                if let Some(value) = value {
                    question.meet_copied(value, operator);
                }
                Ok(())
            })?;
        }
        Ok(question.answer.last())
    }
}

impl Question<'_> {
    fn ask_frozen(&mut self, frozen: &Frozen, operator: Option<MergeOperator>) {
        if let Some(value) = frozen.get(self.hash, self.key) {
            self.meet_copied(value, operator);
        }
    }

    /// Has on its way what tells the page of the newest run that was not asked.
    fn prefetch(&self, runs: &[ItemRun]) {
        let run = runs.len().checked_sub(1 + self.run).map(|at| &runs[at]);
        if let Some(piece) = run.and_then(|run| piece_of(run, self.hash)) {
            piece.prefetch(self.hash);
        }
    }

    /// The page of the newest run, of those that were not asked, which may have the key.
    fn next_page<'v>(&mut self, runs: &'v [ItemRun]) -> Option<(&'v RunSegment, Range<u64>)> {
        if self.is_known() {
            return None;
        }
        while self.run < runs.len() {
            let run = &runs[runs.len() - 1 - self.run];
            if let Some(piece) = piece_of(run, self.hash)
                && piece.may_have(self.hash)
            {
                let blocks = piece.find(self.hash);
                if !blocks.is_empty() {
                    return Some((piece, blocks));
                }
            }
            self.run += 1;
        }
        None
    }
}

/// The piece of a run that may have a hash.
pub(super) fn piece_of(run: &ItemRun, hash: KeyHash) -> Option<&RunSegment> {
    let at = run.pieces.partition_point(|piece| *piece.hashes().end() < hash.high());
    run.pieces.get(at).filter(|piece| *piece.hashes().start() <= hash.high()).map(|piece| &**piece)
}
