//! The command from outside: exit code, standard output and standard error of real processes.

mod answers;
mod command;
mod failures;
mod memory;
mod queries;
mod resume;
mod stores;
mod stream;
mod terminal;
