//! The number of rows, and as a constant: the constants of the rows are then folded away.

use crate::Result;
use crate::error::invalid;

/// More rows than this lower no error that matters: `e^-16` is one in nine million.
pub const DEPTH_MAX: u32 = 16;

/// Fails unless there are 1 to [`DEPTH_MAX`] rows.
pub(super) fn require_depth(depth: u32) -> Result<()> {
    if depth == 0 || depth > DEPTH_MAX {
        return invalid("depth", depth, format!("choose 1 to {DEPTH_MAX} rows"));
    }
    Ok(())
}

/// Calls `$call::<D>`, or `$call::<C, D>` for `$call<C>`, with the depth, 1 to 16, as a constant.
macro_rules! with_depth {
    ($depth:expr, $call:ident $arguments:tt) => {
        with_depth!(@ $depth, $call [] $arguments, 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15)
    };
    ($depth:expr, $call:ident<$cell:ident> $arguments:tt) => {
        with_depth!(@ $depth, $call [$cell,] $arguments, 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15)
    };
    (@ $depth:expr, $call:ident $cell:tt $arguments:tt, $($d:literal)*) => {
        match $depth {
            $($d => with_depth!(@call $call $cell $d, $arguments),)*
            _ => with_depth!(@call $call $cell 16, $arguments),
        }
    };
    (@call $call:ident [$($cell:ident,)?] $d:literal, ($($argument:expr),*)) => {
        $call::<$($cell,)? $d>($($argument),*)
    };
}

pub(super) use with_depth;
