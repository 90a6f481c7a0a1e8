//! fio as the reference for reads: what the device gives to whoever asks at the same depth.

use crate::{Clock, Metric, Result};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;

/// fio on one file, with the engine that works here.
#[derive(Debug)]
pub struct Fio {
    file: PathBuf,
    engine: &'static str,
}

impl Fio {
    /// Tries io_uring, then libaio; else a sentence that says why there is no reference.
    ///
    /// # Errors
    /// That sentence: fio is missing, or neither engine reads `file`.
    pub fn find(file: &Path) -> std::result::Result<Self, String> {
        let mut why = String::new();
        for engine in ["io_uring", "libaio"] {
            let fio = Self { file: file.to_owned(), engine };
            match fio.run(64, 4) {
                Ok(_) => return Ok(fio),
                Err(error) => why = error.to_string(),
            }
        }
        Err(why)
    }

    /// Reads `reads` blocks, `depth` at a time, at random places. The sample is the time of the reads alone, without
    /// fio's start; returns how many reads there were.
    ///
    /// # Errors
    /// When fio fails or its report cannot be read.
    pub fn read_randomly(&self, reads: usize, depth: usize, clock: &mut Clock) -> Result<u64> {
        let report = self.run(reads, depth)?;
        let job = &report["jobs"][0];
        let number = |value: &Value| value.as_f64().ok_or("fio's report lacks a number");
        let iops = number(&job["read"]["iops"])?;
        let wall_ns = reads as f64 / iops * 1e9;
        // Percent of the run, over the user's and the kernel's side.
        let cpu_share = (number(&job["usr_cpu"])? + number(&job["sys_cpu"])?) / 100.0;
        clock.add(wall_ns as u64, (wall_ns * cpu_share) as u64);
        clock.note(Metric::DeviceOpsPerS, iops);
        Ok(job["read"]["total_ios"].as_u64().unwrap_or(0))
    }

    fn run(&self, reads: usize, depth: usize) -> Result<Value> {
        let output = Command::new("fio")
            .args([
                "--name=read",
                "--direct=1",
                "--rw=randread",
                "--bs=4k",
                "--randrepeat=0",
                "--norandommap",
            ])
            .arg(format!("--ioengine={}", self.engine))
            .arg(format!("--iodepth={depth}"))
            .arg(format!("--number_ios={reads}"))
            .arg("--output-format=json")
            .arg(format!("--filename={}", self.file.display()))
            .output()
            .map_err(|error| format!("it cannot be started ({error}); install the package fio"))?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            return Err(format!("it failed with {}: {}", self.engine, said.trim()).into());
        }
        Ok(serde_json::from_slice(&output.stdout)?)
    }
}
