//! Each rule trips on its fault, and on nothing else; the project itself has none.

use super::source::Source;
use super::{Fault, check};
use std::fs;
use std::path::Path;

/// A small project without fault. Each test changes one file of it.
const CLEAN: &[(&str, &str)] = &[
    ("crates/keyhash/Cargo.toml", "[package]\nname = \"keyhash\"\n[dependencies]\n"),
    ("crates/keyhash/src/lib.rs", "//! Hashes.\n"),
    (
        "crates/overbank/Cargo.toml",
        "[package]\nname = \"overbank\"\n[dependencies]\nkeyhash.workspace = true\n",
    ),
    (
        "crates/overbank/src/lib.rs",
        "//! The library.\npub mod bits;\npub mod store;\npub use store::{Store};\n",
    ),
    ("crates/overbank/src/bits/mod.rs", "//! Bits.\nmod pack;\n"),
    ("crates/overbank/src/bits/pack.rs", "//! Packs.\nuse crate::error::Result;\n"),
    (
        "crates/overbank/src/store/mod.rs",
        "//! A store. Uses `std::fs`? No.\nuse crate::{bits, error::Error};\n",
    ),
    ("README.md", "# A project\n"),
    ("ARCHITECTURE.md", MAP),
    ("Makefile", "test:\n\tcargo test\n"),
];

/// Who may use what in the small project.
const MAP: &str = "# Map

| room | contains | may use |
|---|---|---|
| `crates/keyhash` | hashes | – |
| `crates/overbank` | the library | keyhash |
| `crates/overbank/src/error.rs` | errors | – |
| `…/bits` | bits | – |
| `…/device` | the seam | – |
| `…/store` | a store | bits, device |
| `…/sketch` | sketches | bits |
| `…/filter` | a filter | all above; not `sketch` |
| `…/dictionary` | a dictionary | filter |
| `crates/cli` | a face | overbank |
";

fn faults_with(changed: &[(&str, &str)]) -> Vec<Fault> {
    let root = tempfile::tempdir().expect("a temporary directory");
    for (path, text) in CLEAN.iter().chain(changed) {
        let path = root.path().join(path);
        fs::create_dir_all(path.parent().expect("inside the tree")).expect("created");
        fs::write(path, text).expect("written");
    }
    check(root.path()).expect("a readable tree")
}

/// The changed tree has faults, and all of them are of `rule`, in the file that was changed last.
#[track_caller]
fn trips(rule: &str, changed: &[(&str, &str)]) {
    let faults = faults_with(changed);
    let path = changed.last().expect("one change").0;
    assert!(!faults.is_empty(), "{rule} did not trip");
    assert!(faults.iter().all(|fault| fault.rule == rule && fault.path == path), "{faults:#?}");
}

#[track_caller]
fn passes(changed: &[(&str, &str)]) {
    assert_eq!(faults_with(changed), []);
}

#[test]
fn the_small_project_is_clean() {
    passes(&[]);
}

#[test]
fn the_project_itself_is_clean() {
    let faults = check(&Path::new(env!("CARGO_MANIFEST_DIR")).join("..")).expect("a readable tree");
    let shown: Vec<String> = faults.iter().map(ToString::to_string).collect();
    assert!(faults.is_empty(), "\n{}", shown.join("\n"));
}

const PACK: &str = "crates/overbank/src/bits/pack.rs";
const STORE: &str = "crates/overbank/src/store/mod.rs";

#[test]
fn a_face_that_asks_for_internals_trips() {
    let manifest = |line| format!("[package]\nname = \"overbank-cli\"\n[dependencies]\n{line}\n");
    let asks = manifest("overbank = { workspace = true, features = [\"internals\"] }");
    trips("arrow", &[("crates/cli/Cargo.toml", &asks)]);
    passes(&[("crates/cli/Cargo.toml", &manifest("overbank.workspace = true"))]);
    passes(&[("bench/Cargo.toml", &asks)]);
}

#[test]
fn upward_arrows_trip_in_every_spelling() {
    for arrow in [
        "use crate::store::Thing;",
        "use crate::{error::Error, store::Thing};",
        "use crate::{\n    error::Error,\n    store,\n};",
        "use super::super::store::Thing;",
        "use crate::Store;",
        "fn f() -> crate::store::Thing {}",
        "#[cfg(test)]\nmod tests {\n    use crate::store::Thing;\n}",
    ] {
        trips("arrow", &[(PACK, &format!("//! Packs.\n{arrow}\n"))]);
    }
}

#[test]
fn arrows_in_comments_and_strings_are_no_arrows() {
    passes(&[(PACK, "//! See crate::store.\n// crate::store\nconst S: &str = \"crate::store::X\";\n")]);
    passes(&[(PACK, "//! Own words.\nuse super::store::Thing;\nuse my::crate::store;\n")]);
}

#[test]
fn a_room_uses_what_its_row_says_and_nothing_else() {
    let library = (
        "crates/overbank/src/lib.rs",
        "//! L.\nmod bits;\nmod store;\nmod dictionary;\nmod filter;\nmod sketch;\n",
    );
    let filter = ("crates/overbank/src/filter.rs", "//! F.\nuse crate::{bits, store};\n");
    let dictionary = ("crates/overbank/src/dictionary.rs", "//! D.\nuse crate::filter;\n");
    let sketch = ("crates/overbank/src/sketch.rs", "//! S.\nuse crate::bits;\n");
    passes(&[library, filter, sketch, dictionary]);
    for wrong in ["use crate::dictionary;", "use crate::sketch;"] {
        trips(
            "arrow",
            &[library, sketch, dictionary, ("crates/overbank/src/filter.rs", &format!("//! F.\n{wrong}\n"))],
        );
    }
    let wide = ("crates/overbank/src/sketch.rs", "//! S.\nuse crate::store::Thing;\n");
    trips("arrow", &[library, filter, dictionary, wide]);
    let deep = ("crates/overbank/src/dictionary.rs", "//! D.\nuse crate::store::Thing;\n");
    trips("arrow", &[library, filter, sketch, deep]);
}

#[test]
fn rooms_and_crates_without_a_row_trip() {
    let library = ("crates/overbank/src/lib.rs", "//! L.\nmod bits;\nmod store;\nmod cellar;\n");
    trips("arrow", &[library, ("crates/overbank/src/cellar.rs", "//! Cellar.\n")]);
    trips("arrow", &[("crates/attic/Cargo.toml", "[package]\nname = \"attic\"\n[dependencies]\n")]);
}

#[test]
fn rows_that_name_what_is_not_above_them_trip() {
    for (old, new) in [
        ("| a store | bits, device |", "| a store | bits, sketch |"),
        ("| sketches | bits |", "| sketches | bats |"),
        ("not `sketch`", "not `dictionary`"),
    ] {
        trips("arrow", &[("ARCHITECTURE.md", &MAP.replace(old, new))]);
    }
}

#[test]
fn modules_that_use_each_other_trip_however_far_around() {
    let library = |code: &str| format!("//! B.\nmod pack;\nmod one;\nmod two;\n{code}");
    let bits = library("");
    let bits = ("crates/overbank/src/bits/mod.rs", &*bits);
    let one = |code: &'static str| ("crates/overbank/src/bits/one.rs", code);
    let two = |code: &'static str| ("crates/overbank/src/bits/two/mod.rs", code);
    for (first, second) in [
        ("//! O.\nuse super::two::B;\n", "//! T.\nuse super::one;\n"),
        ("//! O.\nuse crate::bits::two::B;\n", "//! T.\nfn f() -> super::one::A {}\n"),
        ("//! O.\nuse super::{pack::P, two};\n", "//! T.\nuse crate::{bits::{one::A}, error::E};\n"),
    ] {
        trips("circle", &[bits, two(second), one(first)]);
    }
    let pack = (PACK, "//! P.\nuse super::one::A;\n");
    trips("circle", &[bits, pack, two("//! T.\nuse super::pack;\n"), one("//! O.\nuse super::two;\n")]);
    // What lies deeper counts for the module that it lies in.
    trips(
        "circle",
        &[
            bits,
            two("//! T.\nmod deep;\n"),
            ("crates/overbank/src/bits/two/deep.rs", "//! D.\nuse super::super::one::A;\n"),
            one("//! O.\nuse super::two::B;\n"),
        ],
    );
    // One way, tests, and what a module and the one that holds it use of each other are no circle.
    passes(&[bits, two("//! T.\n"), one("//! O.\nuse super::two;\n")]);
    passes(&[
        bits,
        one("//! O.\nuse super::two;\n"),
        two("//! T.\n#[cfg(test)]\nmod tests {\n    use super::super::one;\n}\n"),
    ]);
    passes(&[
        bits,
        one("//! O.\n"),
        two("//! T.\nmod deep;\nuse deep::D;\n"),
        ("crates/overbank/src/bits/two/deep.rs", "//! D.\nuse super::B;\nuse crate::bits::two::C;\n"),
    ]);
}

#[test]
fn two_public_types_of_one_name_trip() {
    let bits = ("crates/overbank/src/bits/mod.rs", "//! B.\nmod pack;\npub struct Span;\n");
    trips("name", &[bits, (PACK, "//! P.\nuse crate::error::Result;\npub enum Span {}\n")]);
    passes(&[
        bits,
        (PACK, "//! P.\npub(crate) struct Span;\nstruct Other;\nimpl X {\n    pub type Span = u8;\n}\n"),
    ]);
}

#[test]
fn long_lines_of_code_trip_and_tables_do_not() {
    let line = |start: &str| format!("//! P.\n{start}{}\n", "ä".repeat(140 - start.chars().count()));
    passes(&[(PACK, &line("// "))]);
    trips("width", &[(PACK, &line("// ").replace("// ", "/// "))]);
    passes(&[(PACK, &line("//! | a").replace("a", "aaa"))]);
    passes(&[("README.md", &line("# "))]);
}

#[test]
fn poisoned_locks_are_the_lock_rooms_alone() {
    trips("poison", &[(STORE, "//! S.\nuse std::sync::PoisonError;\n")]);
    passes(&[(STORE, "//! S: PoisonError.\n")]);
}

#[test]
fn upward_arrows_between_crates_trip_but_tests_may_look_up() {
    let manifest = "crates/keyhash/Cargo.toml";
    trips("arrow", &[(manifest, "[package]\n[dependencies]\noverbank.workspace = true\n")]);
    trips("arrow", &[(manifest, "[target.'cfg(unix)'.dependencies]\noverbank = { workspace = true }\n")]);
    passes(&[(manifest, "[package]\n[dev-dependencies]\noverbank.workspace = true\n")]);
}

#[test]
fn files_over_800_lines_trip() {
    let lines = |count: usize| format!("//! Long.\n{}", "// line\n".repeat(count - 1));
    passes(&[(PACK, &lines(800))]);
    trips("size", &[(PACK, &lines(801))]);
}

#[test]
fn undocumented_unsafe_trips_even_where_unsafe_may_stand() {
    trips("unsafe", &[(PACK, "//! P.\nfn f() {\n    unsafe { g() }\n}\n")]);
    trips(
        "unsafe",
        &[(PACK, "//! P.\nfn f() {\n    // SAFETY: fine.\n    let a = 1;\n    unsafe { g() }\n}\n")],
    );
    trips("unsafe", &[(PACK, "//! P.\nunsafe impl Send for X {}\n")]);
    trips("unsafe", &[(PACK, "//! P.\n/// Does.\nunsafe fn f() {}\n")]);
    passes(&[(
        PACK,
        "//! P.\nfn f() {\n    // SAFETY: checked\n    // above.\n    let a =\n        unsafe { g() };\n}\n",
    )]);
    passes(&[(PACK, "//! P.\n/// Does.\n///\n/// # Safety\n/// Needs AVX2.\n#[inline]\nunsafe fn f() {}\n")]);
    passes(&[(PACK, "//! P.\n/// Does.\n///\n/// # Safety\n/// No.\npub unsafe extern \"C\" fn f() {}\n")]);
    passes(&[(PACK, "//! P: unsafe.\n#![forbid(unsafe_code)]\nconst S: &str = \"unsafe {\";\n")]);
}

#[test]
fn unsafe_outside_its_places_trips_though_documented() {
    trips("unsafe", &[(STORE, "//! S.\nfn f() {\n    // SAFETY: sound.\n    unsafe { g() }\n}\n")]);
}

#[test]
fn dead_files_trip_and_every_kind_of_target_lives() {
    trips("dead", &[("crates/overbank/src/bits/old.rs", "//! Nobody declares this.\n")]);
    trips(
        "dead",
        &[(PACK, "//! P.\n// mod old;\n"), ("crates/overbank/src/bits/pack/old.rs", "//! Commented out.\n")],
    );
    passes(&[
        (PACK, "//! P.\n#[cfg(test)]\nmod old;\n#[path = \"odd.rs\"]\nmod strange;\n"),
        ("crates/overbank/src/bits/pack/old.rs", "//! Declared.\n"),
        ("crates/overbank/src/bits/odd.rs", "//! Named by its path.\n"),
        ("crates/overbank/tests/crash.rs", "//! A test.\nmod model;\n"),
        ("crates/overbank/tests/model.rs", "//! Its module; also a target.\n"),
        ("crates/overbank/src/bin/tool.rs", "//! A binary.\n"),
        ("crates/overbank/examples/a.rs", "//! An example.\n"),
    ]);
}

#[test]
fn words_of_one_machine_trip_in_any_text() {
    let path = format!("See {}notes.\n", concat!("/wo", "rk/"));
    trips("banned", &[("README.md", &path)]);
    let host = format!("//! P.\nconst HOST: &str = \"{}\";\n", concat!("index.crates", ".io"));
    trips("banned", &[(PACK, &host)]);
}

#[test]
fn blanks_and_tabs_trip_except_where_make_needs_them() {
    trips("whitespace", &[("README.md", "# A project \n")]);
    trips("whitespace", &[(PACK, "//! P.\nfn f() {\n\tg()\n}\n")]);
    trips("whitespace", &[("README.md", "no line end")]);
    trips("whitespace", &[("Makefile", "test:\n\tcargo test \n")]);
}

#[test]
fn a_missing_header_trips() {
    trips("header", &[(PACK, "use std::io;\n")]);
    trips("header", &[(PACK, "")]);
    passes(&[(PACK, "#![no_main]\n//! P.\n")]);
}

#[test]
fn empty_file_names_trip() {
    let bits = ("crates/overbank/src/bits/mod.rs", "//! B.\nmod pack;\nmod util;\n");
    trips("file-name", &[bits, ("crates/overbank/src/bits/util.rs", "//! U.\n")]);
}

#[test]
fn reaching_past_the_device_trips_outside_tests() {
    for line in [
        "use std::fs::File;",
        "use std::{fs, io};",
        "fn f() { std::fs::read(p); }",
        "use std::time::Instant;",
        "use std::{time::SystemTime};\nfn f() { SystemTime::now(); }",
        "fn f() { rand::random::<u64>(); }",
        "use rustix::io::pread;",
    ] {
        trips("seam", &[(STORE, &format!("//! S.\n{line}\n"))]);
    }
    passes(&[(STORE, "//! S.\n#[cfg(test)]\nmod tests {\n    use std::fs;\n}\nuse std::time::Duration;\n")]);
    passes(&[
        (STORE, "//! S.\n#[cfg(test)]\nmod tests;\n"),
        ("crates/overbank/src/store/tests.rs", "//! T.\nuse std::fs;\n"),
    ]);
    passes(&[
        ("crates/overbank/src/lib.rs", "//! L.\nmod bits;\nmod store;\nmod device;\n"),
        ("crates/overbank/src/device/mod.rs", "//! The seam.\nuse std::fs::File;\n"),
    ]);
}

#[test]
fn literals_and_comments_are_blanked_byte_for_byte() {
    let text = "let a = 'x'; let b: &'static str = r#\"un\"safe\"#; /* un /* safe */ */ c('\\'', b\"q\\\"\", '\"') // z\n";
    let code = Source::new("a.rs", text).code;
    assert_eq!(code.len(), text.len());
    assert!(code.contains("&'static str ="), "{code}");
    for gone in ["un", "safe", "q", "z", "'x'"] {
        assert!(!code.replace("'static", "").contains(gone), "{gone}: {code}");
    }
    assert!(code.contains("c("), "{code}");
}
