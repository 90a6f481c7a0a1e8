//! The usual functions: what may be asked of a column.

use super::sections::registers::{LG_M_MAX, LG_M_MIN};
use super::value::ColumnType;
use crate::Result;
use crate::error::invalid;

/// The most items that a function keeps of a group.
const ITEMS_MAX: usize = 1 << 16;
/// Above all bounds of bitmaps: 2 MiB of bits.
const BELOW_MAX: u32 = 1 << 24;
const ALPHA_MIN: f64 = 1e-4;
const ALPHA_MAX: f64 = 0.5;

/// What is computed of the rows of a group. A NULL takes part in none of them but [`Function::CountRows`]; where there is nothing else, a
/// function is [`Value::Null`](super::Value::Null), a count 0 and a list empty.
///
/// ```
/// use overbank::aggregate::{
///     Basis, ColumnType, Columns, Counted, Function, Groups, GroupsOptions, Item, LeftOut, RowBatch, Value,
/// };
///
/// let column = 0;
/// let functions = [
///     Function::Mean { column },
///     Function::Deviation { column, of: Basis::Population },
///     Function::Last { column },
///     Function::List { column, most: 2 },
///     Function::Top { column, most: 1, tracked: 16 },
/// ];
/// let columns = Columns::new(&[ColumnType::Unsigned], &functions)?;
/// let groups = Groups::new(columns.clone(), GroupsOptions::new())?;
/// let mut rows = RowBatch::new();
/// for (place, size) in [7, 3, 7, 7].into_iter().enumerate() {
///     columns.push_row(place as u64, &[Item::Unsigned(size)], &mut rows)?;
/// }
/// groups.insert_batch(&["shoe"; 4], &rows)?;
/// let shoes = groups.get(b"shoe")?.ok_or("no shoes")?;
/// let values = columns.values(shoes.as_state())?;
/// assert_eq!(values[..3], [Value::Float(6.0), Value::Float(3f64.sqrt()), Value::Unsigned(7)]);
/// let first = vec![Value::Unsigned(7), Value::Unsigned(3)];
/// assert_eq!(values[3], Value::List { values: first, left_out: LeftOut::Exactly(2) });
/// let most = Counted { value: Value::Unsigned(7), count: 3, error: 0 };
/// assert_eq!(values[4], Value::Counts { counts: vec![most], others_at_most: 1 });
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, PartialEq, Debug)]
#[non_exhaustive]
pub enum Function {
    /// How many rows there are.
    CountRows,
    /// How many rows have an item in column `column`.
    Count {
        /// Which column.
        column: usize,
    },
    /// Their sum: that of whole numbers is exact until it is asked for; that of floats does not depend on the order of rows.
    Sum {
        /// Which column.
        column: usize,
    },
    /// The least of them.
    Min {
        /// Which column.
        column: usize,
    },
    /// The greatest of them.
    Max {
        /// Which column.
        column: usize,
    },
    /// Their mean, a float.
    Mean {
        /// Which column.
        column: usize,
    },
    /// Their variance, a float.
    Variance {
        /// Which column.
        column: usize,
        /// What they are.
        of: Basis,
    },
    /// Their standard deviation, a float.
    Deviation {
        /// Which column.
        column: usize,
        /// What they are.
        of: Basis,
    },
    /// That of the row with the least place; of several such rows, the least.
    First {
        /// Which column.
        column: usize,
    },
    /// That of the row with the greatest place; of several such rows, the greatest.
    Last {
        /// Which column.
        column: usize,
    },
    /// One of them. It is the least, for which it is does not depend on threads then.
    Any {
        /// Which column.
        column: usize,
    },
    /// The first of them, in the order of the rows' places, and how many more there are.
    List {
        /// Which column.
        column: usize,
        /// How many are kept.
        most: usize,
    },
    /// The least of them, each once, in ascending order, and whether there are more.
    Distinct {
        /// Which column.
        column: usize,
        /// How many are kept.
        most: usize,
    },
    /// The most frequent of them, with their counts: exact while there are no more than `tracked` different ones, else estimates of a
    /// sample of as many rows. Rows have different places, or else the sample is not one.
    Top {
        /// Which column.
        column: usize,
        /// How many are listed.
        most: usize,
        /// How many are counted, and how many rows the sample has; 1024 let an item of 5 % of the rows err by 2.5 % of them.
        tracked: usize,
    },
    /// How many different ones there are, about.
    DistinctCount {
        /// Which column.
        column: usize,
        /// Binary logarithm of the number of registers: the standard error is `1.04 / sqrt(2^lg_m)`.
        lg_m: u32,
    },
    /// The one of which this share is less, about: 0.5 is the median.
    Quantile {
        /// Which column.
        column: usize,
        /// The share, from 0 to 1.
        q: f64,
        /// The relative error.
        alpha: f64,
    },
    /// All numbers below a bound, each once, in ascending order, and how many items were not below it.
    Bitmap {
        /// Which column, of unsigned numbers.
        column: usize,
        /// The bound.
        below: u32,
    },
    /// The bits that all of them have.
    BitAnd {
        /// Which column, of whole numbers.
        column: usize,
    },
    /// The bits that any of them has.
    BitOr {
        /// Which column, of whole numbers.
        column: usize,
    },
    /// The bits that an odd number of them has.
    BitXor {
        /// Which column, of whole numbers.
        column: usize,
    },
}

/// What the numbers are whose variance is asked for.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Basis {
    /// All there are: the variance is the mean square of what they differ from their mean.
    Population,
    /// A sample: the variance is an estimate of that of all, and that of one number is `Null`.
    Sample,
}

/// What is done with a sum that does not fit the type of its column.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Overflow {
    /// It is refused when it is asked for.
    #[default]
    Error,
    /// It is the number of the type that is nearest.
    Saturate,
}

impl Function {
    /// Its canonical name, without its arguments.
    pub fn name(self) -> &'static str {
        match self {
            Function::CountRows => "rows",
            Function::Count { .. } => "count",
            Function::Sum { .. } => "sum",
            Function::Min { .. } => "min",
            Function::Max { .. } => "max",
            Function::Mean { .. } => "mean",
            Function::Variance { of: Basis::Population, .. } => "var_pop",
            Function::Variance { of: Basis::Sample, .. } => "var_samp",
            Function::Deviation { of: Basis::Population, .. } => "stddev_pop",
            Function::Deviation { of: Basis::Sample, .. } => "stddev_samp",
            Function::First { .. } => "first",
            Function::Last { .. } => "last",
            Function::Any { .. } => "any",
            Function::List { .. } => "list",
            Function::Distinct { .. } => "distinct",
            Function::Top { .. } => "top",
            Function::DistinctCount { .. } => "distinct_count",
            Function::Quantile { .. } => "quantile",
            Function::Bitmap { .. } => "bitmap",
            Function::BitAnd { .. } => "bit_and",
            Function::BitOr { .. } => "bit_or",
            Function::BitXor { .. } => "bit_xor",
        }
    }

    /// Of which column; `None` for rows.
    pub fn column(self) -> Option<usize> {
        match self {
            Function::CountRows => None,
            Function::Count { column }
            | Function::Sum { column }
            | Function::Min { column }
            | Function::Max { column }
            | Function::Mean { column }
            | Function::Variance { column, .. }
            | Function::Deviation { column, .. }
            | Function::First { column }
            | Function::Last { column }
            | Function::Any { column }
            | Function::List { column, .. }
            | Function::Distinct { column, .. }
            | Function::Top { column, .. }
            | Function::DistinctCount { column, .. }
            | Function::Quantile { column, .. }
            | Function::Bitmap { column, .. }
            | Function::BitAnd { column }
            | Function::BitOr { column }
            | Function::BitXor { column } => Some(column),
        }
    }

    /// Whether it can be asked of a column of this type.
    pub fn takes(self, column_type: ColumnType) -> bool {
        match self {
            Function::Sum { .. }
            | Function::Mean { .. }
            | Function::Variance { .. }
            | Function::Deviation { .. }
            | Function::Quantile { .. } => column_type != ColumnType::Bytes,
            Function::BitAnd { .. } | Function::BitOr { .. } | Function::BitXor { .. } => {
                matches!(column_type, ColumnType::Unsigned | ColumnType::Signed)
            }
            Function::Bitmap { .. } => column_type == ColumnType::Unsigned,
            _ => true,
        }
    }

    /// Fails for arguments out of their range.
    pub(super) fn require(self) -> Result<()> {
        match self {
            Function::List { most, .. } | Function::Distinct { most, .. }
                if !(1..=ITEMS_MAX).contains(&most) =>
            {
                invalid("the most items of a function", most, format!("keep 1 to {ITEMS_MAX} of a group"))
            }
            Function::Top { most, tracked, .. }
                if !(1..=tracked.min(ITEMS_MAX)).contains(&most) || tracked > ITEMS_MAX =>
            {
                let why = format!("list 1 or more, and track as many at least and {ITEMS_MAX} at most");
                invalid("the most items of a function", format!("{most} of {tracked}"), why)
            }
            Function::DistinctCount { lg_m, .. } if !(LG_M_MIN..=LG_M_MAX).contains(&lg_m) => {
                invalid("lg_m", lg_m, format!("choose {LG_M_MIN} (26 % error) to {LG_M_MAX} (0.2 % error)"))
            }
            Function::Quantile { q, .. } if !(0.0..=1.0).contains(&q) => {
                invalid("the share of a quantile", q, "it is from 0 to 1")
            }
            Function::Quantile { alpha, .. } if !(ALPHA_MIN..=ALPHA_MAX).contains(&alpha) => {
                invalid("alpha", alpha, format!("choose a relative error from {ALPHA_MIN} to {ALPHA_MAX}"))
            }
            Function::Bitmap { below, .. } if !(1..=BELOW_MAX).contains(&below) => {
                invalid("the bound of a bitmap", below, format!("it is from 1 to {BELOW_MAX}"))
            }
            _ => Ok(()),
        }
    }
}
