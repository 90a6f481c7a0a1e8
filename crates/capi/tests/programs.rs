//! C programs, compiled with all warnings as errors: the examples, and misuse. Under valgrind too, where it is installed.
#![cfg(target_os = "linux")]

mod compiler;

use compiler::{compile, folder, has, library_folder};
use std::path::PathBuf;
use std::process::Command;

/// Runs a program of one of the package's folders by itself, and again under valgrind, each in a folder of its own; what it printed.
fn run(source: &str) -> String {
    let program = Program::new(source, &[]);
    if has("valgrind") {
        let mut command = Command::new("valgrind");
        command.args(["--error-exitcode=99", "--leak-check=full", "--errors-for-leak-kinds=definite"]);
        command.args(["--fair-sched=yes", "-q"]);
        program.run(command.arg(program.path()));
    } else {
        println!("valgrind is not installed: {source} was run without it");
    }
    program.alone()
}

/// As `run`, with the address and the leak sanitizer instead of valgrind, under which rustix reads what the kernel told the process of
/// another program. What the library allocates is seen, too: it takes its memory from the C library.
fn run_sanitized(source: &str) -> String {
    Program::new(
        source,
        &["-fsanitize=address,undefined", "-fno-sanitize=alignment", "-fno-sanitize-recover=all"],
    )
    .alone()
}

/// A program that was compiled.
struct Program<'s> {
    source: &'s str,
    place: tempfile::TempDir,
}

impl<'s> Program<'s> {
    fn new(source: &'s str, options: &[&str]) -> Self {
        let place = tempfile::tempdir().expect("a folder");
        let all = [&["-std=c11", "-D_GNU_SOURCE"], options].concat();
        compile("cc", &all, &folder().join(source), &place.path().join("program"));
        // The library has another name in the target folder than where it is installed, and is found by its soname.
        let soname = format!("liboverbank.so.{}", env!("CARGO_PKG_VERSION_MAJOR"));
        let link = place.path().join(soname);
        std::os::unix::fs::symlink(library_folder().join("liboverbank_capi.so"), link).expect("a link");
        Self { source, place }
    }

    fn path(&self) -> PathBuf {
        self.place.path().join("program")
    }

    fn alone(&self) -> String {
        self.run(&mut Command::new(self.path()))
    }

    fn run(&self, command: &mut Command) -> String {
        let own = tempfile::tempdir_in(self.place.path()).expect("a folder");
        command.current_dir(own.path()).env("LD_LIBRARY_PATH", self.place.path());
        // What is more than memory is refused by the sanitizer's allocator as by any other.
        check(command.env("ASAN_OPTIONS", "allocator_may_return_null=1"), self.source)
    }
}

fn check(command: &mut Command, source: &str) -> String {
    let done = command.output().expect("the program");
    let (out, err) =
        (String::from_utf8_lossy(&done.stdout).into_owned(), String::from_utf8_lossy(&done.stderr));
    assert!(done.status.success(), "{source}: {}\n{out}\n{err}", done.status);
    out
}

#[test]
fn sketches() {
    let printed = run("examples/sketches.c");
    assert!(printed.contains("ada came 2 times"), "{printed}");
}

#[test]
fn monitor() {
    let printed = run("examples/monitor.c");
    assert!(printed.contains("packets 40000"), "{printed}");
}

#[test]
fn store() {
    let printed = run_sanitized("examples/store.c");
    assert!(printed.contains("capital of Japan: Tokyo"), "{printed}");
}

#[test]
fn every_sketch_comes_back_from_its_bytes() {
    run("tests/c/every_sketch.c");
}

#[test]
fn every_monitor_counts_all() {
    run("tests/c/every_monitor.c");
}

#[test]
fn misuse() {
    run_sanitized("tests/c/misuse.c");
}

#[test]
fn hashes_are_the_library_s() {
    // The same keys, lengths and seeds, hashed by the library.
    use keyhash::{HashKind, KeyHasher, Seed};
    let mut expected = String::new();
    for kind in [HashKind::Xxh3, HashKind::SipHash13] {
        for seed in [0u128, 42, 0xdead_beef_0123_4567 << 64 | 0x89ab_cdef_0bad_cafe] {
            let hasher = KeyHasher::new(kind, Seed(seed));
            for len in [0usize, 1, 3, 4, 8, 9, 13, 16, 17, 37, 39, 128, 129, 240, 241, 1000] {
                let key: Vec<u8> = (0..len).map(|i| (i * 7 + 3) as u8).collect();
                let hash = hasher.hash(&key);
                expected += &format!("{len} {:016x}{:016x}\n", hash.high(), hash.low());
            }
        }
    }
    assert_eq!(run("tests/c/hashes.c"), expected);
}

/// What `make install-c` does, on the library that this test has: pkg-config finds it, and a program runs with the shared library by its
/// soname, and with the static one.
#[test]
fn installed() {
    let place = tempfile::tempdir().expect("a folder");
    let prefix = place.path().join("prefix");
    let install = |prefix: &str| {
        Command::new("sh")
            .arg(folder().join("install.sh"))
            .arg(library_folder())
            .arg(prefix)
            .output()
            .expect("sh")
    };
    let refused = install("relative/path");
    assert!(
        !refused.status.success()
            && String::from_utf8_lossy(&refused.stderr).contains("not a path from the root")
    );
    let done = install(&prefix.display().to_string());
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));

    let lib = prefix.join("lib");
    let compiled = |flags: &[String], name: &str| {
        let program = place.path().join(name);
        let mut command = Command::new("cc");
        command
            .args(["-Wall", "-Wextra", "-Werror"])
            .arg(folder().join("examples/sketches.c"))
            .arg("-o")
            .arg(&program)
            .args(flags);
        let done = command.output().expect("a C compiler");
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        program
    };
    let mut flags = vec![format!("-I{}", prefix.join("include").display())];
    if has("pkg-config") {
        let asked = Command::new("pkg-config")
            .args(["--cflags", "--libs", "overbank"])
            .env("PKG_CONFIG_PATH", lib.join("pkgconfig"))
            .env("PKG_CONFIG_ALLOW_SYSTEM_CFLAGS", "1")
            .output()
            .expect("pkg-config");
        assert!(asked.status.success(), "{}", String::from_utf8_lossy(&asked.stderr));
        flags = String::from_utf8_lossy(&asked.stdout).split_whitespace().map(str::to_owned).collect();
    } else {
        println!("pkg-config is not installed: overbank.pc was not asked");
        flags.extend([format!("-L{}", lib.display()), "-loverbank".to_owned()]);
    }
    let shared = compiled(&flags, "shared");
    let missing = Command::new(&shared).env_remove("LD_LIBRARY_PATH").output().expect("the program");
    assert!(
        String::from_utf8_lossy(&missing.stderr).contains("liboverbank.so.0"),
        "it is found by its soname alone"
    );
    let mut command = Command::new(&shared);
    command.env("LD_LIBRARY_PATH", &lib);
    let found = command.output().expect("the program");
    assert!(found.status.success(), "{}", String::from_utf8_lossy(&found.stderr));

    let archive = lib.join("liboverbank.a").display().to_string();
    let header = format!("-I{}", prefix.join("include").display());
    let libraries = ["-lpthread", "-lm", "-ldl", "-lgcc_s"].map(str::to_owned);
    let alone = compiled(&[vec![header, archive], libraries.to_vec()].concat(), "alone");
    check(&mut Command::new(alone), "examples/sketches.c, linked statically");
}
