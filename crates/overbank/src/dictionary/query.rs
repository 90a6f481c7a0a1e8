//! Looks keys up: in the memtable, in the runs in RAM, and on flash in the newest run that may have them.
//!
//! ```text
//!   key ─▶ memtable ─▶ runs in RAM ─▶ newest run whose front lets it through ─▶ one page read ─▶ a value: done
//!                                     next older one  ◀── an operand, or not there ───┘
//! ```

use super::Dictionary;
use super::item::Value;
use super::memtable::Frozen;
use super::operator::{Combined, MergeOperator, combine};
use super::run::{PageReads, RunSegment, read_pages};
use super::shared::Shared;
use super::table::{ItemRun, ItemVersion};
use crate::lock::lock;
use crate::{KeyHash, Result};
use std::ops::Range;
use std::sync::Arc;

/// Reads in flight.
const DEPTH: usize = 128;
/// Keys whose reads are planned together, at least: more of them where the memory of lookups has room for so many of this length.
const QUESTIONS_MIN: usize = 1 << 12;
const QUESTION_BYTES: usize = 256;
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
    /// As [`Dictionary::get`], 128 reads in flight together, one for all keys of a page.
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
        let at_once = (shared.shares.lookup_bytes / 2 / QUESTION_BYTES).max(QUESTIONS_MIN);
        for first in (0..keys.len()).step_by(at_once) {
            let keys = &keys[first..(first + at_once).min(keys.len())];
            let mut questions = shared.questions(keys);
            let view = shared.look(&mut questions);
            view.answer(shared, questions, &mut |at, value| answer(first + at, value))?;
        }
        Ok(())
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
    pub(super) fn questions<'k, K: AsRef<[u8]>>(&self, keys: &'k [K]) -> Vec<Question<'k>> {
        let question = |(at, key): (usize, &'k K)| {
            let key = key.as_ref();
            Question { at, hash: self.hasher.hash(key), key, answer: Answer::Nothing, run: 0 }
        };
        keys.iter().enumerate().map(question).collect()
    }

    /// Asks the memtable; the runs below it at the same moment.
    fn look(&self, questions: &mut [Question<'_>]) -> View {
        let operator = self.options.shape.operator;
        let mut memtable = lock(&self.memtable);
        if !memtable.is_empty() {
            for question in questions {
                if let Some(value) = memtable.get(question.hash, question.key, &self.hasher, operator) {
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
        let how = PageReads { depth: DEPTH, in_flight_bytes: shared.shares.lookup_bytes / 2 };
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
        let keys = [key];
        let Some(mut question) = shared.questions(&keys).pop() else { return Ok(None) };
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
