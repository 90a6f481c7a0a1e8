//! What the rows of each key come to, exactly.

use crate::arrays::{keys, overbank_bytes, slice, write};
use crate::error::overbank_status::*;
use crate::error::{Answer, call, fail};
use crate::hash::{hasher_of, overbank_hasher};
use crate::object::{Opaque, change, give, release, share};
use crate::store::{ask, overbank_store};
use overbank::aggregate::{
    Basis, ColumnType, Columns, Function, GroupScan, Groups, GroupsOptions, Item, KeyState, RowBatch, Value,
};
use std::ffi::c_char;

/// Nothing: a NULL of SQL.
pub const OVERBANK_NULL: u32 = 0;
/// A `uint64_t`.
pub const OVERBANK_UNSIGNED: u32 = 1;
/// An `int64_t`.
pub const OVERBANK_SIGNED: u32 = 2;
/// A `double`.
pub const OVERBANK_FLOAT: u32 = 3;
/// Bytes.
pub const OVERBANK_BYTES: u32 = 4;
/// Of answers alone: a number within bounds.
pub const OVERBANK_ABOUT: u32 = 5;

/// How many rows there are.
pub const OVERBANK_COUNT_ROWS: u32 = 1;
/// How many items.
pub const OVERBANK_COUNT: u32 = 2;
/// The items' sum.
pub const OVERBANK_SUM: u32 = 3;
/// The least item.
pub const OVERBANK_MIN: u32 = 4;
/// The greatest item.
pub const OVERBANK_MAX: u32 = 5;
/// The items' mean.
pub const OVERBANK_MEAN: u32 = 6;
/// Their variance, as all there are.
pub const OVERBANK_VARIANCE: u32 = 7;
/// Their standard deviation, as all there are.
pub const OVERBANK_DEVIATION: u32 = 8;
/// The item of the row that was inserted first.
pub const OVERBANK_FIRST: u32 = 9;
/// The item of the row that was inserted last.
pub const OVERBANK_LAST: u32 = 10;
/// How many different items, about; `argument` is the binary logarithm of the number of registers.
pub const OVERBANK_DISTINCT_COUNT: u32 = 11;
/// The item of which a share of `argument` is less, within 1 %.
pub const OVERBANK_QUANTILE: u32 = 12;

/// A function of a column.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct overbank_function {
    /// OVERBANK_COUNT_ROWS and so on.
    pub function: u32,
    /// Of which column; OVERBANK_COUNT_ROWS does not look at it.
    pub column: u32,
    /// What some functions need; 0 else.
    pub argument: f64,
}

/// An item of a row, or what a function says.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct overbank_value {
    /// OVERBANK_NULL and so on; says which of the others hold.
    pub kind: u32,
    /// Of OVERBANK_UNSIGNED.
    pub unsigned_value: u64,
    /// Of OVERBANK_SIGNED.
    pub signed_value: i64,
    /// Of OVERBANK_FLOAT and OVERBANK_ABOUT.
    pub float_value: f64,
    /// Of OVERBANK_ABOUT: the truth is not below this.
    pub lower: f64,
    /// Of OVERBANK_ABOUT: the truth is not above this.
    pub upper: f64,
    /// Of OVERBANK_BYTES: until the group that it is of is freed, or its scan goes on.
    pub bytes: overbank_bytes,
}

/// Groups: rows in, an answer a key out.
pub struct overbank_groups {
    _private: [u8; 0],
}

/// What is behind the handle.
pub(crate) struct Grouping {
    groups: Groups<Columns>,
    types: Vec<ColumnType>,
    /// Rows inserted: the place of the next.
    rows: std::sync::atomic::AtomicU64,
}

impl Opaque for overbank_groups {
    type Inner = Grouping;
    const TAG: u32 = u32::from_le_bytes(*b"grps");
    const NAME: &'static str = "handle of groups";
}

/// A group that was asked for, or the one at which a scan is.
pub struct overbank_group {
    _private: [u8; 0],
}

/// What is behind the handle.
pub(crate) struct Cursor {
    columns: Columns,
    scan: Option<GroupScan<Columns>>,
    key: Vec<u8>,
    values: Option<Vec<Value>>,
}

impl Opaque for overbank_group {
    type Inner = Cursor;
    const TAG: u32 = u32::from_le_bytes(*b"grou");
    const NAME: &'static str = "group";
}

fn column_type(kind: u32) -> Answer<ColumnType> {
    Ok(match kind {
        OVERBANK_UNSIGNED => ColumnType::Unsigned,
        OVERBANK_SIGNED => ColumnType::Signed,
        OVERBANK_FLOAT => ColumnType::Float,
        OVERBANK_BYTES => ColumnType::Bytes,
        _ => {
            let why = format!(
                "a column's type cannot be {kind}: choose OVERBANK_UNSIGNED, _SIGNED, _FLOAT or _BYTES"
            );
            return fail(OVERBANK_INVALID, why);
        }
    })
}

fn function_of(asked: &overbank_function) -> Answer<Function> {
    let &overbank_function { function, column, argument } = asked;
    let (column, of) = (column as usize, Basis::Population);
    Ok(match function {
        OVERBANK_COUNT_ROWS => Function::CountRows,
        OVERBANK_COUNT => Function::Count { column },
        OVERBANK_SUM => Function::Sum { column },
        OVERBANK_MIN => Function::Min { column },
        OVERBANK_MAX => Function::Max { column },
        OVERBANK_MEAN => Function::Mean { column },
        OVERBANK_VARIANCE => Function::Variance { column, of },
        OVERBANK_DEVIATION => Function::Deviation { column, of },
        OVERBANK_FIRST => Function::First { column },
        OVERBANK_LAST => Function::Last { column },
        // A cast stops at the ends, and those are refused.
        OVERBANK_DISTINCT_COUNT => Function::DistinctCount { column, lg_m: argument as u32 },
        OVERBANK_QUANTILE => Function::Quantile { column, q: argument, alpha: 0.01 },
        _ => {
            let why =
                format!("a function cannot be {function}: choose OVERBANK_COUNT_ROWS to OVERBANK_QUANTILE");
            return fail(OVERBANK_INVALID, why);
        }
    })
}

/// # Safety
/// Bytes are as the crate's rules say.
unsafe fn item_of<'a>(value: &overbank_value) -> Answer<Item<'a>> {
    Ok(match value.kind {
        OVERBANK_NULL => Item::Null,
        OVERBANK_UNSIGNED => Item::Unsigned(value.unsigned_value),
        OVERBANK_SIGNED => Item::Signed(value.signed_value),
        OVERBANK_FLOAT => Item::Float(value.float_value),
        OVERBANK_BYTES => {
            // SAFETY: the caller's duty.
            Item::Bytes(unsafe { slice(value.bytes.data, value.bytes.len, "an item's bytes") }?)
        }
        kind => {
            return fail(
                OVERBANK_INVALID,
                format!("an item's kind cannot be {kind}: choose OVERBANK_NULL to OVERBANK_BYTES"),
            );
        }
    })
}

fn value_of(value: &Value) -> Answer<overbank_value> {
    let bytes = overbank_bytes { data: std::ptr::null(), len: 0 };
    let none = overbank_value {
        kind: OVERBANK_NULL,
        unsigned_value: 0,
        signed_value: 0,
        float_value: 0.0,
        lower: 0.0,
        upper: 0.0,
        bytes,
    };
    Ok(match *value {
        Value::Null => none,
        Value::Unsigned(value) => overbank_value { kind: OVERBANK_UNSIGNED, unsigned_value: value, ..none },
        Value::Signed(value) => overbank_value { kind: OVERBANK_SIGNED, signed_value: value, ..none },
        Value::Float(value) => overbank_value { kind: OVERBANK_FLOAT, float_value: value, ..none },
        Value::About { value, lower, upper } => {
            overbank_value { kind: OVERBANK_ABOUT, float_value: value, lower, upper, ..none }
        }
        Value::Bytes(ref value) => {
            overbank_value { kind: OVERBANK_BYTES, bytes: overbank_bytes::of(value), ..none }
        }
        _ => return fail(OVERBANK_OTHER, "this answer has no form in C"),
    })
}

/// Groups by `functions` of columns of these types, in so much memory; 0: the library's choice. With a store, they are its structure of
/// that name, and what memory does not hold goes to its files; with `store` NULL they are in RAM, `name` is not looked at, and `hasher` may
/// be NULL for a random seed.
///
/// # Safety
/// The crate's rules.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn overbank_groups_new(
    store: *const overbank_store,
    name: *const c_char,
    types: *const u32,
    types_len: usize,
    functions: *const overbank_function,
    functions_len: usize,
    memory_bytes: usize,
    hasher: *const overbank_hasher,
    out: *mut *mut overbank_groups,
) -> i32 {
    // SAFETY: the caller's duty.
    let make = || unsafe {
        let types = slice(types, types_len, "types")?
            .iter()
            .map(|&kind| column_type(kind))
            .collect::<Answer<Vec<_>>>()?;
        let functions = slice(functions, functions_len, "functions")?
            .iter()
            .map(function_of)
            .collect::<Answer<Vec<_>>>()?;
        let columns = Columns::new(&types, &functions)?;
        let mut options = GroupsOptions::new();
        if memory_bytes != 0 {
            options = options.memory_bytes(memory_bytes);
        }
        let groups = match store.is_null() {
            true if hasher.is_null() => Groups::new(columns, options)?,
            true => Groups::new(columns, options.hasher(hasher_of(hasher)?))?,
            false => {
                let name = crate::arrays::text(name, "the name")?;
                share(store, |store| Ok(store.groups(name, columns, options)?))?
            }
        };
        Ok(Grouping { groups, types, rows: Default::default() })
    };
    // SAFETY: the caller's duty.
    call(|| unsafe { give(out, make) })
}

/// Takes `rows` rows in: row `i` is of the group of `keys[i]`, and its items are `items[i * columns]` and on, one a column.
///
/// # Safety
/// The crate's rules; `items` points to `rows` times as many as there are columns.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn overbank_groups_insert(
    groups: *const overbank_groups,
    keys_in: *const overbank_bytes,
    items: *const overbank_value,
    rows: usize,
) -> i32 {
    // SAFETY: the caller's duty.
    call(|| unsafe {
        let keys = keys(keys_in, rows, "keys")?;
        share(groups, |groups| {
            let columns = groups.types.len();
            let Some(all) = rows.checked_mul(columns) else {
                return fail(
                    OVERBANK_INVALID,
                    format!("{rows} rows of {columns} items are more than memory"),
                );
            };
            let items = slice(items, all, "items")?;
            let first = groups.rows.fetch_add(rows as u64, std::sync::atomic::Ordering::Relaxed);
            let (mut batch, mut row) = (RowBatch::new(), Vec::with_capacity(columns));
            for i in 0..rows {
                row.clear();
                for (item, &wanted) in items[i * columns..(i + 1) * columns].iter().zip(&groups.types) {
                    if item.kind != OVERBANK_NULL && column_type(item.kind).ok() != Some(wanted) {
                        let why = format!(
                            "an item of row {i} is of kind {}, but its column is {wanted:?}",
                            item.kind
                        );
                        return fail(OVERBANK_INVALID, why);
                    }
                    row.push(item_of(item)?);
                }
                groups.groups.aggregate().push_row(first.wrapping_add(i as u64), &row, &mut batch)?;
            }
            Ok(groups.groups.insert_batch(&keys, &batch)?)
        })
    })
}

/// Takes everything that waits into the groups, so that what is asked next is quicker.
///
/// # Safety
/// The crate's rules.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn overbank_groups_finalize(groups: *const overbank_groups) -> i32 {
    // SAFETY: the caller's duty.
    unsafe { ask(groups, |groups| Ok(groups.groups.finalize()?)) }
}

/// How many groups there are.
///
/// # Safety
/// The crate's rules.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn overbank_groups_count(groups: *const overbank_groups, count: *mut u64) -> i32 {
    // SAFETY: the caller's duty.
    unsafe { ask(groups, |groups| write(count, groups.groups.count()?, "count")) }
}

/// The group of a key. OVERBANK_NOT_FOUND, and no group, where it has no row.
///
/// # Safety
/// The crate's rules.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn overbank_groups_get(
    groups: *const overbank_groups,
    key: *const u8,
    key_len: usize,
    out: *mut *mut overbank_group,
) -> i32 {
    // SAFETY: the caller's duty.
    let make = || unsafe {
        let key = slice(key, key_len, "the key")?;
        share(groups, |groups| match groups.groups.get(key)? {
            Some(state) => {
                let columns = groups.groups.aggregate().clone();
                let values = Some(columns.values(state.as_state())?);
                Ok(Cursor { columns, scan: None, key: state.key, values })
            }
            None => fail(OVERBANK_NOT_FOUND, "no row has this key"),
        })
    };
    // SAFETY: the caller's duty.
    call(|| unsafe { give(out, make) })
}

/// All groups, in the order of their keys' hashes: stands before the first, and `overbank_group_next` goes on.
///
/// # Safety
/// The crate's rules.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn overbank_groups_scan(
    groups: *const overbank_groups,
    out: *mut *mut overbank_group,
) -> i32 {
    // SAFETY: the caller's duty.
    let make = || unsafe {
        share(groups, |groups| {
            let (columns, scan) = (groups.groups.aggregate().clone(), Some(groups.groups.scan()?));
            Ok(Cursor { columns, scan, key: Vec::new(), values: None })
        })
    };
    // SAFETY: the caller's duty.
    call(|| unsafe { give(out, make) })
}

/// Goes on to the next group of a scan. OVERBANK_NOT_FOUND behind the last.
///
/// # Safety
/// The crate's rules.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn overbank_group_next(group: *mut overbank_group) -> i32 {
    // SAFETY: the caller's duty.
    call(|| unsafe {
        change(group, |cursor| {
            let Some(scan) = &mut cursor.scan else {
                return fail(
                    OVERBANK_WRONG_KIND,
                    "this group was asked for by its key, and has no next; scan for that",
                );
            };
            cursor.values = None;
            let Some(state) = scan.next_group()? else {
                return fail(OVERBANK_NOT_FOUND, "there are no more groups");
            };
            cursor.key.clone_from(&state.key);
            let values = cursor.columns.values(KeyState::as_state(state))?;
            cursor.values = Some(values);
            Ok(())
        })
    })
}

/// The group's key, until it is freed or goes on.
///
/// # Safety
/// The crate's rules.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn overbank_group_key(group: *const overbank_group, key: *mut overbank_bytes) -> i32 {
    // SAFETY: the caller's duty.
    unsafe { work_on(group, |cursor, _| write(key, overbank_bytes::of(&cursor.key), "key")) }
}

/// What function `i` says of the group.
///
/// # Safety
/// The crate's rules.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn overbank_group_value(
    group: *const overbank_group,
    i: usize,
    value: *mut overbank_value,
) -> i32 {
    // SAFETY: the caller's duty.
    unsafe {
        work_on(group, |_, values| match values.get(i) {
            Some(found) => write(value, value_of(found)?, "value"),
            None => fail(OVERBANK_INVALID, format!("i cannot be {i}: there are {} functions", values.len())),
        })
    }
}

/// # Safety
/// The crate's rules.
unsafe fn work_on(group: *const overbank_group, ask: impl FnOnce(&Cursor, &[Value]) -> Answer<()>) -> i32 {
    // SAFETY: the caller's duty; a scan is not `Sync`, so one thread at a time.
    unsafe {
        crate::store::work(group.cast_mut(), |cursor| match &cursor.values {
            Some(values) => ask(cursor, values),
            None => fail(OVERBANK_NOT_FOUND, "the scan is at no group; call overbank_group_next first"),
        })
    }
}

/// Frees a group, or the scan; NULL is none.
///
/// # Safety
/// The crate's rules.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn overbank_group_free(group: *mut overbank_group) -> i32 {
    // SAFETY: the caller's duty.
    call(|| unsafe { release(group) })
}

/// Frees the handle of groups; those of a store stay there.
///
/// # Safety
/// The crate's rules.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn overbank_groups_free(groups: *mut overbank_groups) -> i32 {
    // SAFETY: the caller's duty.
    call(|| unsafe { release(groups) })
}
