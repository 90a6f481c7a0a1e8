//! The `overbank` command.
fn main() {}
