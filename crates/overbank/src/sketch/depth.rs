//! The number of rows as a constant: the constants of the rows are then folded away.

/// Calls `$call::<D>` with the depth, 1 to 16, as a constant.
macro_rules! with_depth {
    ($depth:expr, $call:ident $arguments:tt) => {
        with_depth!(@ $depth, $call $arguments, 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15)
    };
    (@ $depth:expr, $call:ident $arguments:tt, $($d:literal)*) => {
        match $depth {
            $($d => with_depth!(@call $call, $d, $arguments),)*
            _ => with_depth!(@call $call, 16, $arguments),
        }
    };
    (@call $call:ident, $d:literal, ($($argument:expr),*)) => { $call::<$d>($($argument),*) };
}

pub(super) use with_depth;

/// More rows than this lower no error that matters.
pub(super) const DEPTH_MAX: u32 = 16;
