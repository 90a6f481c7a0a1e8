//! Limits of the system on threads and on address space: an answer, or one line that says why there is none.

use crate::command::{Ran, overbank};
use crate::stream::{file, keys, lines};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Runs the command in a shell that limits itself first.
fn limited(limit: &str, arguments: &[&str]) -> Ran {
    let script = format!("{limit} && exec \"$@\"");
    let command = ["-c", &script, "sh", env!("CARGO_BIN_EXE_overbank")];
    Ran::from(
        Command::new("sh")
            .args(command)
            .args(arguments)
            .env("RUST_BACKTRACE", "0")
            .output()
            .expect("a shell"),
    )
}

/// A cgroup that counts processes, gone when dropped.
struct Group(PathBuf);

impl Group {
    fn new() -> Option<Self> {
        let root = ["/sys/fs/cgroup/pids", "/sys/fs/cgroup"]
            .map(Path::new)
            .into_iter()
            .find(|root| root.join("cgroup.procs").exists())?;
        let group = Self(root.join(format!("overbank-threads-{}", std::process::id())));
        fs::create_dir(&group.0).ok()?;
        group.0.join("pids.max").exists().then_some(group)
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.0);
    }
}

#[test]
fn with_any_number_of_threads_there_is_an_answer_or_a_line_that_says_why() {
    let Some(group) = Group::new() else {
        println!("skipped: no cgroup can be made here that counts processes");
        return;
    };
    let place = tempfile::tempdir().unwrap();
    let input = file(place.path(), "keys", lines(&keys(71, 60_000, 20_000)));
    let input = input.to_str().unwrap();
    let jobs: [&[&str]; 4] = [
        &["profile", "--json", "-q", "-j", "4", "--seed", "7", input],
        &["count", "--json", "-q", "-j", "4", "--seed", "7", "--store", "STORE", input],
        &["dedup", "-q", "-j", "4", "--memory", "32MiB", "--keys", "1e5", input],
        &["filter", "build", "-q", "-j", "4", "--memory", "32MiB", "--keys", "1e5", "STORE", input],
    ];
    let mut answered = 0;
    for (number, job) in jobs.iter().enumerate() {
        let expected = {
            let store = place.path().join(format!("free{number}"));
            let arguments: Vec<&str> = job
                .iter()
                .map(|&word| if word == "STORE" { store.to_str().unwrap() } else { word })
                .collect();
            let ran = limited("true", &arguments);
            assert_eq!(ran.code, Some(0), "{ran:?}");
            ran.out
        };
        for threads in 1..8 {
            let store = place.path().join(format!("store{number}-{threads}"));
            let arguments: Vec<&str> = job
                .iter()
                .map(|&word| if word == "STORE" { store.to_str().unwrap() } else { word })
                .collect();
            let limit =
                format!("echo {threads} > {0}/pids.max && echo $$ > {0}/cgroup.procs", group.0.display());
            let ran = limited(&limit, &arguments);
            if ran.code == Some(0) {
                answered += 1;
                assert!(number != 2 || ran.out == expected, "{threads} threads, {job:?}");
            } else {
                ran.ends_naming(2, &["Resource temporarily unavailable"]);
            }
        }
    }
    assert!(answered >= 16, "only {answered} runs had an answer");
}

#[test]
fn an_address_space_below_the_budget_is_named() {
    let place = tempfile::tempdir().unwrap();
    let input = file(place.path(), "keys", lines(&keys(72, 1_000, 500)));
    let input = input.to_str().unwrap();
    let limit = "ulimit -v 200000";
    for job in [
        &["profile", "-q", "-j", "1", "--memory", "512MiB", input][..],
        &["dedup", "-q", "-j", "1", "--memory", "512MiB", "--keys", "1e6", input],
        &["filter", "build", "-q", "-j", "1", "--memory", "512MiB", "--keys", "1e6", "STORE", input],
    ] {
        let store = place.path().join("store");
        let arguments: Vec<&str> =
            job.iter().map(|&word| if word == "STORE" { store.to_str().unwrap() } else { word }).collect();
        limited(limit, &arguments).fails_naming(&["ulimit -v", "memory"]);
    }
    assert_eq!(overbank("dedup -q --memory 32MiB --keys 1e6").with(input).run().code, Some(0));
}
