//! How items get in: through the memtable, frozen when it is full.

use super::Dictionary;
use super::item::{Item, Value, shown};
use super::shared::Shared;
use crate::Result;
use crate::error::invalid;
use crate::lock::lock;
use crate::{Error, KeyHash};
use std::sync::Arc;

/// Keys taken at a time, and their bytes, unless one alone has more: all of them or, where the disk is full, none. Each thread that writes
/// may be ahead of the memory's division by as much.
const CHUNK_KEYS: usize = 1 << 10;
const CHUNK_BYTES: usize = 32 << 10;

/// What is to be done with the values of a call.
#[derive(Clone, Copy)]
enum Write {
    Put,
    IfAbsent,
    Operand,
}

impl Dictionary {
    /// Gives a key this value, whatever it had before.
    ///
    /// # Errors
    /// As [`Dictionary::insert_many`].
    pub fn insert(&self, key: &[u8], value: &[u8]) -> Result<()> {
        self.insert_many(&[key], &[value])
    }

    /// Gives each key its value, whatever it had before; of a key that comes twice, the last.
    ///
    /// # Cost
    /// A hash, a copy, and each item's share of the merges that are due. No read.
    ///
    /// # Errors
    /// `InvalidOption` for another number of values than of keys, and for an item that is longer than
    /// [`item_bytes_max`](super::DictionaryOptions::item_bytes_max): nothing was taken. `Full`: the last keys, 1024 at most, were not
    /// taken, what came before them is in, and nothing is lost. `BudgetExceeded` where the index outgrew its share; `ReadOnly`; `Corrupt`,
    /// `Io` or `Poisoned` from a merge, with any part of the keys taken.
    pub fn insert_many<K: AsRef<[u8]>, V: AsRef<[u8]>>(&self, keys: &[K], values: &[V]) -> Result<()> {
        self.shared().write_pairs(keys, values, Write::Put)
    }

    /// Gives each key its value unless it has one already: of a key that comes several times, the first stays. It does not read for that,
    /// so it does not tell which were new.
    ///
    /// # Errors
    /// As [`Dictionary::insert_many`]; `InvalidOption` in a dictionary with an operator.
    pub fn insert_many_if_absent<K: AsRef<[u8]>, V: AsRef<[u8]>>(
        &self,
        keys: &[K],
        values: &[V],
    ) -> Result<()> {
        if let Some(operator) = self.shared().options.shape.operator {
            let why = "what operands meet must be known; read first, or use a dictionary without an operator";
            return invalid("if_absent", format!("a dictionary with {operator:?}"), why);
        }
        self.shared().write_pairs(keys, values, Write::IfAbsent)
    }

    /// Changes the value of a key as the dictionary's operator says, or gives it this one if it has none.
    ///
    /// # Errors
    /// As [`Dictionary::merge_many`].
    pub fn merge(&self, key: &[u8], operand: &[u8]) -> Result<()> {
        self.merge_many(&[key], &[operand])
    }

    /// Changes the value of each key as the dictionary's operator says, or gives it this one if it has none. No value is read for that.
    ///
    /// # Errors
    /// As [`Dictionary::insert_many`]; `InvalidOption` in a dictionary without an operator; `BudgetExceeded`, or `InvalidOption` where no
    /// memory is enough, while a value is longer than any may be, as [`MergeOperator::Append`](super::MergeOperator::Append) says: the
    /// last keys, 1024 at most, were not taken then.
    pub fn merge_many<K: AsRef<[u8]>, V: AsRef<[u8]>>(&self, keys: &[K], operands: &[V]) -> Result<()> {
        if self.shared().options.shape.operator.is_none() {
            let why = "choose a merge operator when the dictionary is made";
            return invalid("merge", "an operand", why);
        }
        self.shared().write_pairs(keys, operands, Write::Operand)
    }

    /// Takes a key and its value out, if it is in.
    ///
    /// # Errors
    /// As [`Dictionary::insert_many`].
    pub fn remove(&self, key: &[u8]) -> Result<()> {
        self.remove_many(&[key])
    }

    /// Takes keys and their values out, those that are in. It does not read for that, so it does not tell which were.
    ///
    /// # Errors
    /// As [`Dictionary::insert_many`].
    pub fn remove_many<K: AsRef<[u8]>>(&self, keys: &[K]) -> Result<()> {
        let shared = self.shared();
        shared.gate.writable()?;
        let mut longest = 0;
        for key in keys {
            longest = shared.check_item(key.as_ref(), &[])?.max(longest);
        }
        shared.tree.table.note_item_bytes(longest);
        shared.write(keys.len(), |_| Ok(()), |at| (keys[at].as_ref(), Value::Deleted))
    }
}

impl Shared {
    fn write_pairs<K: AsRef<[u8]>, V: AsRef<[u8]>>(
        self: &Arc<Self>,
        keys: &[K],
        values: &[V],
        write: Write,
    ) -> Result<()> {
        self.gate.writable()?;
        if keys.len() != values.len() {
            let why = format!("there is one for each of {} keys", keys.len());
            return invalid("values", values.len(), why);
        }
        let mut longest = 0;
        for (key, value) in keys.iter().zip(values) {
            longest = self.check_item(key.as_ref(), value.as_ref())?.max(longest);
            if let Some(operator) = self.options.shape.operator {
                operator.check(value.as_ref())?;
            }
        }
        self.tree.table.note_item_bytes(longest);
        let check = |shared: &Shared| match write {
            Write::Operand => shared.check_growth(),
            Write::Put | Write::IfAbsent => Ok(()),
        };
        self.write(keys.len(), check, |at| {
            let value = values[at].as_ref();
            let value = match write {
                Write::Put => Value::Put(value),
                Write::IfAbsent => Value::IfAbsent(value),
                Write::Operand => Value::Operand(value),
            };
            (keys[at].as_ref(), value)
        })
    }

    /// Refuses an item that is too long for the memory; how long it is.
    pub(super) fn check_item(&self, key: &[u8], value: &[u8]) -> Result<usize> {
        let most = self.options.item_bytes_max();
        let bytes = key.len() + value.len();
        if bytes <= most {
            return Ok(bytes);
        }
        let why = format!(
            "the item {} may have {most} bytes, a 64th of the dictionary's memory of {}; open it with more",
            shown(key),
            self.options.memory_bytes
        );
        invalid("an item", format!("{bytes} bytes long"), why)
    }

    /// Takes `count` items in, some at a time, each time unless `check` refuses.
    fn write<'a>(
        self: &Arc<Self>,
        count: usize,
        check: impl Fn(&Shared) -> Result<()>,
        item: impl Fn(usize) -> (&'a [u8], Value<'a>),
    ) -> Result<()> {
        let _change = self.gate.change();
        let mut hashes: Vec<KeyHash> = Vec::with_capacity(count.min(CHUNK_KEYS));
        let mut first = 0;
        while first < count {
            let chunk = first..chunk_end(first, count, &item);
            first = chunk.end;
            hashes.clear();
            hashes.extend(chunk.clone().map(|at| self.hasher.hash(item(at).0)));
            check(self)?;
            self.make_room()?;
            let mut memtable = lock(&self.memtable);
            for (at, &hash) in chunk.clone().zip(&hashes) {
                let (key, value) = item(at);
                let item = Item { hash, key, value };
                while memtable.is_full_for(&item, self.shares.memtable_bytes) {
                    self.freeze(&mut memtable);
                    drop(memtable);
                    self.make_room_or_go_on()?;
                    memtable = lock(&self.memtable);
                }
                if memtable.is_empty() {
                    self.state().begin_memtable(0);
                }
                memtable.push(item);
            }
            drop(memtable);
            self.tree.pace(chunk.len(), false)?;
        }
        Ok(())
    }

    /// Sees to it that beside what is frozen there is room for a memtable: it stays where it is when it is frozen.
    fn make_room(self: &Arc<Self>) -> Result<()> {
        self.check_index()?;
        self.tree.make_room(0)
    }

    /// As [`Shared::make_room`]; a full disk is told of by the next chunk: this one is taken whole.
    fn make_room_or_go_on(self: &Arc<Self>) -> Result<()> {
        match self.tree.make_room(0) {
            Ok(()) | Err(Error::Full { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }
}

/// Where the items end that are taken together, from `first` on.
fn chunk_end<'a>(first: usize, count: usize, item: &impl Fn(usize) -> (&'a [u8], Value<'a>)) -> usize {
    let most = (first + CHUNK_KEYS).min(count);
    let mut bytes = 0;
    for at in first..most {
        let (key, value) = item(at);
        bytes += key.len() + value.bytes().len();
        if bytes > CHUNK_BYTES {
            return (first + 1).max(at);
        }
    }
    most
}
