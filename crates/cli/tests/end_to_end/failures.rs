//! What goes wrong outside the store: one line on standard error, exit code 2, nothing on standard output, no panic.

use crate::command::{Ran, overbank};
use crate::stream::{file, keys, lines};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

#[test]
fn a_closed_pipe_ends_every_command_in_silence() {
    let place = tempfile::tempdir().unwrap();
    let store = place.path().join("store");
    let input = file(place.path(), "keys", lines(&keys(31, 2_000, 500)));
    overbank("profile --quiet --store").with(&store).with(&input).run().text();
    let closed = || {
        let (reader, writer) = std::io::pipe().expect("a pipe");
        drop(reader);
        writer
    };
    for command in ["profile", "profile --json", "count --memory 16MiB", "count --json --memory 16MiB"] {
        let run = overbank(command);
        let store = place.path().join(command.replace(' ', ""));
        let run = if command.starts_with("count") { run.with("--store").with(store) } else { run };
        run.with(&input).output_to(closed()).run().ends_in_silence();
    }
    for command in
        ["top", "top --json", "distinct", "quantile", "info", "info --json", "verify", "estimate --json"]
    {
        let run = overbank(command).with(&store);
        let run = if command.starts_with("estimate") { run.with("key-1-x") } else { run };
        run.output_to(closed()).run().ends_in_silence();
    }
    let bulk = overbank("estimate --keys-from").with(&input).with(&store).output_to(closed()).run();
    bulk.ends_in_silence();
    for command in ["plan --rows 1e9", "plan --rows 1e9 --json"] {
        overbank(command).output_to(closed()).run().ends_in_silence();
    }
    overbank("completions bash").output_to(closed()).run().ends_in_silence();
}

/// A first run that failed has changed nothing: the next one may have another seed and hash.
#[test]
fn a_store_of_a_run_that_failed_keeps_no_seed() {
    let place = tempfile::tempdir().unwrap();
    let bad = file(place.path(), "bad.jsonl", "no object\n".repeat(10));
    let good = file(place.path(), "good.jsonl", "{\"k\":1}\n".repeat(10));
    let commands = ["profile --store", "count --memory 16MiB --store", "dedup --store", "filter build"];
    for (at, command) in commands.into_iter().enumerate() {
        let run = |words: &str, input: &Path| {
            let store = place.path().join(format!("store-{at}"));
            overbank(command).with(store).args(words).args("-q --key k").with(input).run()
        };
        let failed = run("--seed 1", &bad);
        assert!(failed.code == Some(2) && failed.err.contains("rows are malformed"), "{failed:?}");
        assert_eq!(run("--seed 2 --hash siphash", &good).code, Some(0), "{command}");
        assert_eq!(run("--seed 3 --append", &good).code, Some(2), "{command}");
    }
}

/// A store has each of its files open: as many as the hard limit allows, and beyond it the error says so.
#[test]
fn the_limit_of_open_files_is_raised_or_named() {
    let place = tempfile::tempdir().unwrap();
    let input = file(place.path(), "keys", lines(&keys(32, 60_000, 60_000)));
    let store = place.path().join("store");
    overbank("profile -q --memory 16MiB --store").with(&store).with(&input).run().text();
    let top = |limits: &str| {
        let own = format!("ulimit {limits}; exec \"$0\" top \"$1\"");
        let mut shell = Command::new("sh");
        shell.args(["-c", &own, env!("CARGO_BIN_EXE_overbank")]).arg(&store);
        shell.output().unwrap()
    };
    assert!(std::fs::read_dir(&store).unwrap().count() > 5);
    let raised = top("-S -n 7");
    assert!(raised.status.success(), "{raised:?}");
    let refused = top("-n 7");
    let told = String::from_utf8(refused.stderr).unwrap();
    assert!(refused.status.code() == Some(2) && told.lines().count() == 1, "{told}");
    assert!(told.contains("7 files") && told.contains("ulimit -n"), "{told}");
}

#[test]
fn a_full_output_names_the_cause() {
    for command in ["profile --json", "profile", "completions zsh", "plan --rows 5"] {
        let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        overbank(command).output_to(full).run().fails_naming(&["cannot write to standard output", "space"]);
    }
}

/// Runs the command under a limit of the shell.
fn limited(limit: &str, options: &str, paths: &[&Path], out: Stdio) -> Ran {
    let mut shell = Command::new("sh");
    shell.args(["-c", &format!("ulimit {limit}; exec \"$@\""), "sh", env!("CARGO_BIN_EXE_overbank")]);
    Ran::from(shell.args(options.split_whitespace()).args(paths).stdout(out).output().expect("a shell"))
}

#[test]
fn a_limit_of_file_sizes_is_an_error_and_the_store_stays_whole() {
    let place = tempfile::tempdir().unwrap();
    let rows = keys(33, 200_000, 190_000);
    let input = file(place.path(), "keys", lines(&rows));
    let words = ["cannot write to", "File too large", "ulimit -f"];
    // 512 KiB or 1 MiB: shells count in units of their own.
    let out = || std::fs::File::create(place.path().join("out")).unwrap();
    let options = "dedup --quiet --memory 256MiB --keys 1e6";
    limited("-f 1024", options, &[&input], out().into()).ends_naming(2, &words);
    let store = place.path().join("store");
    let first = lines(&rows[..20_000]);
    overbank("profile --quiet --memory 64MiB --store").with(&store).fed(first).run().text();
    let more = "profile --quiet --memory 64MiB --append --store";
    limited("-f 64", more, &[&store, &input], Stdio::piped()).fails_naming(&[
        "cannot",
        "File too large",
        "ulimit -f",
    ]);
    assert!(overbank("verify --json").with(&store).run().json()["whole"].as_bool().unwrap());
    assert_eq!(overbank("quantile --json").with(&store).run().json()["count"], 20_000);
}

#[test]
fn a_limit_of_the_address_space_below_the_budget_is_said_before_anything_is_read() {
    for options in ["dedup --memory 64MiB", "profile --memory 64MiB"] {
        let ran = limited("-v 70000", options, &[Path::new("/nowhere")], Stdio::piped());
        ran.fails_naming(&["--memory 64.0 MiB", "88.0 MiB", "ulimit -v"]);
    }
}

#[test]
fn inputs_that_cannot_be_read_are_named() {
    let place = tempfile::tempdir().unwrap();
    let missing = place.path().join("missing.txt");
    overbank("profile").with(&missing).run().fails_naming(&["cannot open", "missing.txt", "No such file"]);
    overbank("profile").with(place.path()).run().fails_naming(&["is a directory", "/*"]);
    overbank("profile").with(place.path().join("*.log")).run().fails_naming(&[
        "no file matches",
        "*.log",
        "quote",
    ]);
    let present = file(place.path(), "present", "a\n");
    overbank("profile").with(&present).with(&missing).run().fails_naming(&["cannot open", "missing.txt"]);
    let secret = file(place.path(), "secret", "a\n");
    std::fs::set_permissions(&secret, std::fs::Permissions::from_mode(0o000)).unwrap();
    if std::fs::File::open(&secret).is_err() {
        overbank("profile").with(&secret).run().fails_naming(&["cannot open", "secret", "ermission denied"]);
    }
    overbank("profile").with("/proc/self/mem").run().fails_naming(&["/proc/self/mem"]);
}

#[test]
fn an_input_that_is_not_there_is_found_before_there_is_a_store() {
    let place = tempfile::tempdir().unwrap();
    let (store, missing) = (place.path().join("store"), place.path().join("missing"));
    let commands = [
        "profile --store",
        "count --store",
        "dedup --store",
        "dedup --row-numbers --store",
        "dedup --remove --store",
        "filter build",
    ];
    for command in commands {
        overbank(command).with(&store).with(&missing).run().fails_naming(&["cannot open", "missing"]);
        assert!(!store.exists(), "{command}");
    }
}

#[test]
fn a_store_in_which_nothing_was_committed_says_so() {
    let place = tempfile::tempdir().unwrap();
    let store = place.path().join("store");
    let table = file(place.path(), "t.csv", "id\n1\n");
    overbank("profile --key idd --store").with(&store).with(&table).run().fails_naming(&["idd"]);
    for command in ["top", "distinct", "quantile", "estimate"] {
        let run = overbank(command).with(&store);
        let run = if command == "estimate" { run.with("1") } else { run };
        run.run().fails_naming(&["store holds nothing yet", "profile or count"]);
    }
    overbank("seen").with(&store).with("1").run().fails_naming(&["holds no filter"]);
    overbank("profile --quiet --key id --store").with(&store).with(&table).run().text();
}

#[test]
fn damaged_compression_is_an_error_and_not_a_short_answer() {
    let place = tempfile::tempdir().unwrap();
    let whole = zstd::encode_all(&lines(&keys(32, 20_000, 5_000))[..], 1).unwrap();
    let cut = file(place.path(), "cut.zst", &whole[..whole.len() / 2]);
    overbank("profile").with(cut).run().fails_naming(&["cut.zst", "cut short"]);
    let mut flipped = whole;
    let middle = flipped.len() / 2;
    flipped[middle] ^= 0x55;
    let flipped = file(place.path(), "flipped.zst", flipped);
    // A flip that the frame cannot notice leaves a whole answer; zstd frames without checksum allow it.
    let ran = overbank("profile").with(flipped).run();
    if ran.code != Some(0) {
        ran.fails_naming(&["flipped.zst"]);
    }
}

#[test]
fn options_that_cannot_be_are_refused_before_anything_is_read() {
    let missing = "/nowhere/at/all";
    let refused = |options: &str, words: &[&str]| {
        overbank(options).with(missing).run().fails_naming(words);
    };
    refused("profile --memory 1MiB", &["memory", "8 MiB"]);
    refused("profile --memory lots", &["--memory", "lots"]);
    refused("profile --resume", &["--store"]);
    refused("profile --append", &["--store"]);
    refused("profile --delimiter ab --format csv", &["--delimiter", "one byte"]);
    refused("profile --delimiter ; --format jsonl", &["--delimiter", "jsonl"]);
    refused("profile --threads 0", &["--threads"]);
    refused("profile --format xml", &["--format", "xml"]);
    refused("profile --no-such-option", &["--no-such-option"]);
    refused("profile --flash 1GiB", &["--store"]);
    refused("count", &["flash", "--store"]);
    let store = "--store /nowhere/store";
    refused(&format!("count --memory 8MiB {store}"), &["memory", "16 MiB"]);
    refused(&format!("count --epsilon 1e-6 --flash 1GiB {store}"), &["--epsilon", "--flash"]);
    refused(&format!("count --epsilon 0 {store}"), &["epsilon", "0"]);
    refused(&format!("count --epsilon 2 {store}"), &["epsilon", "2"]);
    refused(&format!("count --epsilon 1e-300 {store}"), &["epsilon"]);
    refused(&format!("count --delta 0 {store}"), &["delta"]);
    refused(&format!("count --delta 1e-9 {store}"), &["delta", "e^-16"]);
    refused(&format!("count --flash 0 {store}"), &["--flash", "profile"]);
    refused(&format!("count --flash 100 {store}"), &["--flash", "100 B", "1.00 MiB"]);
    refused(&format!("count --flash 100TiB {store}"), &["--flash", "100 TiB", "GiB"]);
    refused(&format!("profile --flash 100TiB {store}"), &["--flash", "100 TiB", "GiB"]);
    refused(&format!("dedup --error 0 {store}"), &["--error cannot be 0", "0.5"]);
    refused(&format!("dedup --error 1e-300 {store}"), &["--error cannot be 1e-300"]);
    refused("filter build --error 2 /nowhere/store", &["--error cannot be 2", "0.5"]);
    refused(&format!("count --epsilon 0 {store}"), &["--epsilon cannot be 0", "2^-30"]);
    refused(&format!("count --delta 0 {store}"), &["--delta cannot be 0", "e^-16"]);
    refused("profile --memory 1KiB", &["--memory cannot be 1.00 KiB", "8 MiB"]);
    refused(&format!("count --pending 100000 {store}"), &["--pending 100000", "64.0 MiB", "give less"]);
    refused(&format!("profile --memory 8MiB --flash 1GiB {store}"), &["memory", "16 MiB"]);
    overbank("plan").run().fails_naming(&["--rows"]);
    overbank("plan --rows many").run().fails_naming(&["--rows", "many", "1e9"]);
    overbank("plan --rows 1e9 --epsilon 7").run().fails_naming(&["epsilon", "7"]);
    refused("quantile --json /nowhere 1.5", &["0 to 1"]);
    overbank("estimate /nowhere").run().fails_naming(&["KEY"]);
    overbank("frobnicate").run().fails_naming(&["frobnicate"]);
}

#[test]
fn a_wrong_field_is_named_with_its_choices() {
    let place = tempfile::tempdir().unwrap();
    let csv = file(place.path(), "t.csv", "name,ms\na,1\n");
    overbank("profile --key nmae").with(&csv).run().fails_naming(&["nmae", "t.csv", "name, ms"]);
    overbank("profile --key name --value mss").with(&csv).run().fails_naming(&["mss", "name, ms"]);
    overbank("profile").with(&csv).run().fails_naming(&["t.csv", "--key"]);
    overbank("profile --format whitespace --key zero").with(&csv).run().fails_naming(&["zero"]);
}

#[test]
fn malformed_rows_are_counted_with_their_lines_and_strict_refuses_them() {
    let place = tempfile::tempdir().unwrap();
    let rows: String = (0..1000)
        .map(|i| if i % 100 == 41 { "{oops\n".into() } else { format!("{{\"k\": {i}}}\n") })
        .collect();
    let path = file(place.path(), "t.jsonl", rows);
    let told = |ran: Ran, words: &[&str]| {
        ran.ends_naming(0, words);
        ran.out
    };
    let json = |text: String| serde_json::from_str::<serde_json::Value>(&text).unwrap();
    let words = &["10 malformed rows were left out", "line 42 of"];
    let report = json(told(overbank("profile --json -q --key k").with(&path).run(), words));
    assert_eq!(report["malformed"], 10);
    assert_eq!((report["rows"].as_u64(), report["skipped"].as_u64()), (Some(990), Some(10)));
    let lines: Vec<u64> =
        report["skipped_first"].as_array().unwrap().iter().map(|row| row["line"].as_u64().unwrap()).collect();
    assert_eq!(lines, [42, 142, 242, 342, 442]);
    let page = told(overbank("profile --key k").with(&path).run(), words);
    assert!(page.contains("rows skipped") && page.contains("t.jsonl:42: "), "{page}");
    overbank("profile --key k --strict").with(&path).run().fails_naming(&["t.jsonl:42:", "--strict"]);

    let numbers = "a 1 x\nb two 2\nc -3 3\nd 4 nan\ne 5 5\n";
    let fields = "profile --json --format whitespace --key 1 --weight 2 --value 3";
    let report = json(told(overbank(fields).fed(numbers).run(), &["4 malformed rows"]));
    assert_eq!((report["rows"].as_u64(), report["weight"].as_u64()), (Some(1), Some(5)));
    assert_eq!(report["skipped"], 4);
}

#[test]
fn standard_input_is_called_so() {
    let cut = zstd::encode_all(&lines(&keys(34, 2_000, 500))[..], 1).unwrap();
    let cut = &cut[..cut.len() / 2];
    for (words, input, told) in [
        ("profile --quiet", cut, "standard input is cut short"),
        ("profile --quiet", b"PK\x03\x04", "standard input is a zip archive"),
        ("profile --quiet --format csv --key b", b"a\n1\n", "no such column \"b\" in standard input"),
        ("profile --quiet --format jsonl --key b --strict", b"{\n", "standard input:1: not JSON"),
        ("profile --quiet --format parquet --key b", b"PAR1", "standard input cannot be read from its end"),
    ] {
        overbank(words).fed(input).run().fails_naming(&[told]);
    }
}

#[test]
fn a_row_longer_than_memory_is_an_error_that_says_how_long_it_is() {
    let mut text = b"short\n".to_vec();
    text.resize(100 << 20, b'x');
    text.extend(b"\nshort\n");
    let ran = overbank("profile --json --memory 16MiB --threads 2").fed(text).run();
    ran.fails_naming(&[
        "line 2 of standard input",
        "a row of 100 MiB",
        "--memory 16.0 MiB",
        "give --memory 4096MiB",
    ]);
}

#[test]
fn a_file_that_is_no_list_of_keys_is_named_with_its_line() {
    let place = tempfile::tempdir().unwrap();
    let store = place.path().join("store");
    overbank("profile --json --store").with(&store).fed("a\n").run().json();
    let mut text = b"a\n".to_vec();
    text.resize(20 << 20, b'x');
    let blob = file(place.path(), "blob", text);
    let ran = overbank("estimate --keys-from").with(&blob).with(&store).run();
    ran.ends_naming(2, &["line 2", "blob", "16.0 MiB", "one key a line"]);
    let missing = overbank("estimate --keys-from /nowhere/keys").with(&store).run();
    missing.fails_naming(&["/nowhere/keys", "No such file", "standard input"]);
}

#[test]
fn places_that_cannot_be_written_are_named() {
    let place = tempfile::tempdir().unwrap();
    let taken = file(place.path(), "taken", "a\n");
    overbank("man").with(&taken).run().fails_naming(&["taken", "directory"]);
    overbank("profile --store").with(&taken).fed("a\n").run().fails_naming(&["taken"]);
    overbank("profile --store /proc/store").fed("a\n").run().fails_naming(&["/proc/store"]);
    overbank("profile --store")
        .with(place.path().join("no/store"))
        .fed("a\n")
        .run()
        .fails_naming(&["no", "directory"]);
}
