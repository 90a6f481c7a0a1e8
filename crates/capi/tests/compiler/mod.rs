//! The C compiler, and the library that programs are linked with.

// Not every test uses all of it.
#![allow(dead_code)]

use std::path::{Path, PathBuf};
use std::process::Command;

/// This package's.
pub(crate) fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// Where the shared library lies: beside this test.
pub(crate) fn library_folder() -> PathBuf {
    let program = std::env::current_exe().expect("this test");
    program.parent().expect("its folder").to_owned()
}

/// Compiles one source; every warning is an error.
pub(crate) fn compile(compiler: &str, options: &[&str], source: &Path, out: &Path) {
    let mut command = Command::new(compiler);
    command.args(options).args(["-Wall", "-Wextra", "-Werror", "-g", "-I"]).arg(folder().join("include"));
    command.arg(source).arg("-o").arg(out);
    if !options.contains(&"-c") {
        let library = library_folder().join("liboverbank_capi.so");
        assert!(library.exists(), "{} is not built", library.display());
        command
            .arg(&library)
            .arg(format!("-Wl,-rpath,{}", library_folder().display()))
            .args(["-lpthread", "-lm"]);
    }
    let done = command
        .output()
        .unwrap_or_else(|error| panic!("{compiler}: {error}; install a C compiler (build-essential)"));
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
}

/// Whether a program is there.
pub(crate) fn has(program: &str) -> bool {
    Command::new(program).arg("--version").output().is_ok_and(|done| done.status.success())
}
