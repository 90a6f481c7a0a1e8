//! The command from outside: exit code, standard output and standard error of real processes.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on ends where it stands")]

mod announced;
mod answers;
mod command;
mod counts;
mod dedup;
mod dict;
mod ends;
mod faces;
mod failures;
mod filters;
mod group_faults;
mod groups;
mod hostile;
mod inputs;
mod interfaces;
mod joins;
mod kept_keys;
mod limits;
mod live;
mod memory;
mod merges;
mod monitors;
mod outputs;
#[path = "../../../ingest/tests/naive/packets.rs"]
#[allow(dead_code, reason = "tests of the reader use the rest")]
mod packets;
mod parquet;
mod places;
mod queries;
mod resume;
mod schema;
mod sequences;
mod stores;
mod stream;
mod terminal;
mod xdp;
