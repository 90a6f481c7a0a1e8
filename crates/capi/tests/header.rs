//! The header that is checked in is the one that the source makes, and C++ takes it, too.

mod compiler;

use cbindgen::{Builder, Config};
use compiler::{compile, folder};
use std::fs;
use std::path::PathBuf;

/// Set to write the header instead of comparing it.
const WRITE: &str = "OVERBANK_WRITE_HEADER";

/// In the order in which a reader meets them.
const SOURCES: &[&str] = &[
    "error",
    "arrays",
    "buffer",
    "hash",
    "sketch",
    "sketch_query",
    "store",
    "filter",
    "frequency",
    "dictionary",
    "groups",
    "monitor",
];

/// The header without what is said to Rust alone.
fn header() -> String {
    let mut builder = Builder::new()
        .with_config(Config::from_file(folder().join("cbindgen.toml")).expect("the configuration"));
    for source in SOURCES {
        builder = builder.with_src(folder().join(format!("src/{source}.rs")));
    }
    let mut bytes = Vec::new();
    builder.generate().expect("a header").write(&mut bytes);
    let text = String::from_utf8(bytes).expect("UTF-8");
    let (mut lines, mut is_for_rust) = (Vec::new(), false);
    for line in text.lines() {
        if line.trim() == "* # Safety" {
            is_for_rust = true;
            lines.pop();
        }
        is_for_rust &= !line.contains("*/");
        if !is_for_rust {
            lines.push(line.trim_end());
        }
    }
    lines.join("\n") + "\n"
}

#[test]
fn the_header_is_what_the_source_says() {
    let (path, made) = (folder().join("include/overbank.h"), header());
    if std::env::var_os(WRITE).is_some() {
        fs::create_dir_all(path.parent().expect("a folder")).expect("the folder");
        fs::write(&path, &made).expect("the header");
    }
    let kept = fs::read_to_string(&path).unwrap_or_default();
    let differs = made.lines().zip(kept.lines()).position(|(made, kept)| made != kept);
    assert!(
        made == kept,
        "line {differs:?} of {} is not what the source says: run this test with {WRITE}=1",
        path.display()
    );
}

/// Each function and type of the source stands in the header: no file was left out.
#[test]
fn nothing_is_left_out() {
    let made = header();
    let sources =
        fs::read_dir(folder().join("src")).expect("the sources").map(|entry| entry.expect("an entry").path());
    let sources: Vec<PathBuf> = sources.filter(|path| path.is_file()).collect();
    let mut functions = 0;
    for source in sources {
        let text = fs::read_to_string(&source).expect("a source");
        for rest in text.split("extern \"C\" fn ").skip(1) {
            let name = rest.split('(').next().expect("a name");
            assert!(
                made.contains(&format!(" {name}(")) || made.contains(&format!("*{name}(")),
                "{name} of {}",
                source.display()
            );
            functions += 1;
        }
    }
    assert!(functions > 60, "{functions} functions");
}

#[test]
fn the_header_is_c_of_1999_and_cpp() {
    let place = tempfile::tempdir().expect("a folder");
    for (compiler, standard, name) in [("cc", "-std=c99", "alone.c"), ("c++", "-std=c++11", "alone.cpp")] {
        let source = place.path().join(name);
        fs::write(&source, "#include \"overbank.h\"\nint main() { return overbank_version()[0] == 0; }\n")
            .expect("a source");
        let object = place.path().join("alone.o");
        compile(compiler, &[standard, "-pedantic", "-c"], &source, &object);
    }
}
