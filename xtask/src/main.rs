//! Placeholder of the crate root, replaced with its first command.
fn main() {}
