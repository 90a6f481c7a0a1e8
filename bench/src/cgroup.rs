//! A memory cgroup around a child process: everything it touches, page cache included, counts.
//!
//! ```text
//!   v1   /sys/fs/cgroup/memory/overbank-bench-<pid>-<n>/   memory.limit_in_bytes   memory.max_usage_in_bytes
//!   v2   /sys/fs/cgroup/overbank-bench-<pid>-<n>/          memory.max              memory.peak
//! ```
//!
//! Needs root and a writable hierarchy. Where that is missing, [`MemoryGroup::create`] says why, and the
//! caller puts that sentence into the figure's parameters instead of a limit.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

/// A fresh cgroup with a memory limit. Dropping it removes it.
#[derive(Debug)]
pub struct MemoryGroup {
    place: PathBuf,
    version: Version,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Version {
    V1,
    V2,
}

impl Version {
    const fn limit_file(self) -> &'static str {
        match self {
            Self::V1 => "memory.limit_in_bytes",
            Self::V2 => "memory.max",
        }
    }

    const fn peak_file(self) -> &'static str {
        match self {
            Self::V1 => "memory.max_usage_in_bytes",
            Self::V2 => "memory.peak",
        }
    }
}

impl MemoryGroup {
    /// A group that holds its processes, their page cache included, to `limit_bytes`, without swap.
    ///
    /// # Errors
    /// A sentence that says why this machine cannot.
    pub fn create(limit_bytes: u64) -> Result<Self, String> {
        let mounts = fs::read_to_string("/proc/mounts").unwrap_or_default();
        let (root, version) = memory_hierarchy(&mounts, |root| {
            fs::read_to_string(root.join("cgroup.controllers")).unwrap_or_default()
        })
        .ok_or("no cgroup hierarchy with a memory controller is mounted")?;
        Self::create_in(&root, version, limit_bytes)
    }

    fn create_in(root: &Path, version: Version, limit_bytes: u64) -> Result<Self, String> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let place = root.join(format!("overbank-bench-{}-{number}", std::process::id()));
        if version == Version::V2 {
            // Refused inside some containers; whether it matters shows when the limit is written.
            let _ = fs::write(root.join("cgroup.subtree_control"), "+memory");
        }
        fs::create_dir(&place).map_err(|error| cannot("create", &place, &error))?;
        let group = Self { place, version };
        let limit = group.place.join(version.limit_file());
        fs::write(&limit, limit_bytes.to_string()).map_err(|error| cannot("write", &limit, &error))?;
        // No swap, where the kernel lets us say so: else the limit would only move the memory to disk.
        let _ = match version {
            Version::V1 => fs::write(group.place.join("memory.swappiness"), "0"),
            Version::V2 => fs::write(group.place.join("memory.swap.max"), "0"),
        };
        Ok(group)
    }

    /// A command that runs `program` inside this group from its first instruction on. glibc is told to hold no more than is in use:
    /// with an arena a thread, two writers of a cascade filter, who never have 19 MiB allocated, filled 42 MiB, and 27.5 with one.
    pub fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new("sh");
        command
            .env("MALLOC_ARENA_MAX", "1")
            .env("MALLOC_MMAP_THRESHOLD_", "262144")
            .env("MALLOC_TRIM_THRESHOLD_", "262144")
            .arg("-c")
            .arg(r#"echo $$ > "$0" && exec "$@""#)
            .arg(self.place.join("cgroup.procs"))
            .arg(program.as_ref());
        command
    }

    /// The most memory the group ever held, page cache included; `None` where the kernel does not tell.
    pub fn peak_bytes(&self) -> Option<u64> {
        fs::read_to_string(self.place.join(self.version.peak_file())).ok()?.trim().parse().ok()
    }
}

impl Drop for MemoryGroup {
    fn drop(&mut self) {
        // A group that still holds a process stays; it is empty and harmless once the process ends.
        let _ = fs::remove_dir(&self.place);
    }
}

fn cannot(verb: &str, path: &Path, error: &std::io::Error) -> String {
    format!(
        "cannot {verb} {} ({error}); run as root on a machine with a writable cgroup hierarchy",
        path.display()
    )
}

/// Where the memory controller lives, from the text of /proc/mounts.
fn memory_hierarchy(mounts: &str, controllers: impl Fn(&Path) -> String) -> Option<(PathBuf, Version)> {
    mounts.lines().find_map(|line| {
        let mut fields = line.split(' ').skip(1);
        let (root, kind, options) = (Path::new(fields.next()?), fields.next()?, fields.next()?);
        let version = match kind {
            "cgroup" if options.split(',').any(|option| option == "memory") => Version::V1,
            "cgroup2" if controllers(root).split_whitespace().any(|name| name == "memory") => Version::V2,
            _ => return None,
        };
        Some((root.to_owned(), version))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_memory_controller_is_found_in_both_versions() {
        let v1 = "tmpfs /sys/fs/cgroup tmpfs rw 0 0\n\
                  cgroup /sys/fs/cgroup/cpu cgroup rw,relatime,cpu 0 0\n\
                  cgroup /sys/fs/cgroup/memory cgroup rw,relatime,memory 0 0\n\
                  cgroup2 /sys/fs/cgroup/unified cgroup2 rw 0 0\n";
        let found = memory_hierarchy(v1, |_| String::new());
        assert_eq!(found, Some(("/sys/fs/cgroup/memory".into(), Version::V1)));
        let v2 = "cgroup2 /sys/fs/cgroup cgroup2 rw,nosuid 0 0\n";
        let found = memory_hierarchy(v2, |_| "cpuset cpu io memory pids\n".into());
        assert_eq!(found, Some(("/sys/fs/cgroup".into(), Version::V2)));
        assert_eq!(memory_hierarchy(v2, |_| "cpu pids".into()), None);
    }

    #[test]
    fn limits_are_written_to_the_files_of_each_version() {
        for (version, file) in [(Version::V1, "memory.limit_in_bytes"), (Version::V2, "memory.max")] {
            let root = tempfile::tempdir().expect("a temporary directory");
            let group =
                MemoryGroup::create_in(root.path(), version, 64 << 20).expect("a plain directory will do");
            assert_eq!(fs::read_to_string(group.place.join(file)).expect("written"), "67108864");
        }
    }

    #[test]
    fn a_machine_without_a_writable_hierarchy_is_told_so() {
        let why =
            MemoryGroup::create_in(Path::new("/nonexistent"), Version::V2, 1).expect_err("no such place");
        assert!(why.contains("/nonexistent") && why.contains("root"), "{why}");
    }

    /// On machines that can: a child that fills 256 MiB of page cache and heap under 64 MiB must be held or
    /// killed, and the peak must respect the limit.
    #[test]
    fn a_real_group_holds_its_processes_to_the_limit() {
        const LIMIT_BYTES: u64 = 64 << 20;
        let group = match MemoryGroup::create(LIMIT_BYTES) {
            Ok(group) => group,
            Err(why) => return eprintln!("skipped: {why}"),
        };
        let inside = group.command("cat").arg("/proc/self/cgroup").output().expect("cat runs");
        let place = group.place.file_name().and_then(OsStr::to_str).expect("an ASCII name");
        assert!(String::from_utf8_lossy(&inside.stdout).contains(place), "the child is not in its group");
        // `head` of one endless line into `tail` keeps it all in memory.
        let status =
            group.command("sh").args(["-c", "head -c 256M /dev/zero | tail -c 256M > /dev/null"]).status();
        assert!(status.is_ok());
        let peak = group.peak_bytes();
        assert!(peak.is_none_or(|peak| peak <= LIMIT_BYTES), "{peak:?} bytes were used");
        assert!(
            peak.is_none_or(|peak| peak > LIMIT_BYTES / 2),
            "the child never came near the limit: {peak:?}"
        );
    }
}
