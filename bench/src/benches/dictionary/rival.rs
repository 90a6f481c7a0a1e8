//! The stores of `bench/rivals`, each step in a process of its own, which tells what it cost as our own child processes do.

use super::Shape;
use super::asking::Asking;
use crate::clock::Sample;
use crate::{Clock, Result};
use std::ops::Range;
use std::path::Path;
use std::process::Command;

/// One sentence with the settings of an engine.
pub(super) fn settings(program: &Path, engine: &str, shape: Shape) -> Result<String> {
    let output = output(command(program, engine, "settings", shape))?;
    Ok(String::from_utf8(output)?.trim().to_owned())
}

/// Inserts items; returns how many.
pub(super) fn load(
    program: &Path,
    engine: &str,
    clock: &mut Clock,
    shape: Shape,
    folder: &Path,
    numbers: Range<u64>,
) -> Result<u64> {
    let mut command = command(program, engine, "load", shape);
    command.arg(folder).arg(format!("first={}", numbers.start)).arg(format!("end={}", numbers.end));
    measure(clock, command)
}

/// Looks up items; returns how many.
pub(super) fn get(
    program: &Path,
    engine: &str,
    clock: &mut Clock,
    shape: Shape,
    folder: &Path,
    asking: Asking,
) -> Result<u64> {
    let mut command = command(program, engine, "get", shape);
    command.arg(folder).arg(format!("end={}", shape.count));
    let numbers = [
        ("lookups", asking.lookups),
        ("threads", asking.threads),
        ("batch", asking.batch),
        ("seed", asking.seed),
    ];
    command.args(numbers.map(|(name, number)| format!("{name}={number}")));
    measure(clock, command)
}

fn command(program: &Path, engine: &str, step: &str, shape: Shape) -> Command {
    let mut command = Command::new(program);
    command
        .args([engine, step])
        .arg(format!("items={}", shape.items.name()))
        .arg(format!("memory_bytes={}", shape.memory_bytes))
        .arg(format!("patience_ms={}", shape.patience.as_millis()));
    // What our own processes tell glibc in a cgroup is for them; a rival is run as its users run it.
    for name in ["MALLOC_ARENA_MAX", "MALLOC_MMAP_THRESHOLD_", "MALLOC_TRIM_THRESHOLD_"] {
        command.env_remove(name);
    }
    command
}

fn output(mut command: Command) -> Result<Vec<u8>> {
    let output = command.output()?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(format!("{command:?} ended with {}: {}", output.status, said.trim()).into());
    }
    Ok(output.stdout)
}

fn measure(clock: &mut Clock, command: Command) -> Result<u64> {
    let sample = Sample::from_json(&output(command)?).ok_or("a rival returned no sample")?;
    clock.add(sample.wall_ns, sample.cpu_ns);
    sample.notes.iter().for_each(|(metric, value)| clock.note(*metric, *value));
    Ok(sample.ops.ok_or("a rival did not say how far it came")?)
}
