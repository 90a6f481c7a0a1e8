//! Immutable files in hash order.
