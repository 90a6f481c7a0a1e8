//! Compiles `bpf/` where clang and libbpf's headers are; elsewhere the crate is built without, and says so when it is asked to attach.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The programs of `bpf/`, which is a link to the tree's: so the package has it, too.
const PROGRAMS: [&str; 6] = ["count_min", "count_sketch", "coco", "hyperloglog", "flows", "empty"];

fn main() {
    println!("cargo:rustc-check-cfg=cfg(has_program)");
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed=bpf");
    println!("cargo:rerun-if-env-changed=PATH");
    let out = PathBuf::from(env::var_os("OUT_DIR").unwrap_or_default());
    let compiled = PROGRAMS.iter().try_for_each(|name| {
        compile(&Path::new("bpf").join(format!("{name}.bpf.c")), &out.join(format!("{name}.o")))
    });
    match compiled {
        Ok(()) => println!("cargo:rustc-cfg=has_program"),
        Err(why) => println!("cargo:warning=built without its kernel program: {why}"),
    }
}

fn compile(source: &Path, out: &Path) -> Result<(), String> {
    if env::var("CARGO_CFG_TARGET_OS").as_deref() != Ok("linux") {
        return Err("XDP is Linux's".to_owned());
    }
    if env::var("CARGO_CFG_TARGET_ENDIAN").as_deref() != Ok("little") {
        return Err("bpf/keyhash.h reads words with the lowest byte first".to_owned());
    }
    // Where Debian keeps asm/types.h: of the machine that compiles, as the kernel's machine is the same for all.
    let host = env::var("HOST").unwrap_or_default();
    let arch = host.split('-').next().unwrap_or_default();
    let done = Command::new("clang")
        .args(["-target", "bpf", "-O2", "-g", "-Wall", "-Wextra", "-Werror"])
        .arg(format!("-I/usr/include/{arch}-linux-gnu"))
        .arg("-c")
        .arg(source)
        .arg("-o")
        .arg(out)
        .output();
    match done {
        Ok(done) if done.status.success() => Ok(()),
        Ok(done) => {
            let said = String::from_utf8_lossy(&done.stderr);
            Err(format!("clang: {}; install clang and libbpf-dev", said.lines().next().unwrap_or("failed")))
        }
        Err(error) => Err(format!("clang: {error}; install clang and libbpf-dev")),
    }
}
