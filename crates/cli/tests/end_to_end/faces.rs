//! What the command is to other programs: forms of answers, exit codes at the ends of pipes, and messages that say what fits.

use crate::command::{Ran, overbank};
use crate::stream::{file, lines};
use std::path::{Path, PathBuf};
use std::process::Command;

/// A store of a few counted keys, with ties and keys that need quotes.
fn counted(place: &Path) -> PathBuf {
    let store = place.join("counted");
    let rows = "b\na\nc\\d\nx,\"y\"\nb\na\nq\tr\n";
    overbank("profile --json --store").with(&store).fed(rows).run().json();
    store
}

/// Runs in a shell, with the command as `$0` and `place` as `$1`.
fn shell(script: &str, place: &Path) -> Ran {
    let mut command = Command::new("bash");
    command.args(["-c", script, env!("CARGO_BIN_EXE_overbank")]).arg(place);
    Ran::from(command.output().expect("bash runs"))
}

#[test]
fn answers_come_as_plain_lines() {
    let place = tempfile::tempdir().unwrap();
    let store = counted(place.path());
    let ask = |words: &str| overbank(words).with(&store);
    let tsv = "2\t2\t2\ta\n2\t2\t2\tb\n1\t1\t1\tc\\\\d\n1\t1\t1\tq\\tr\n1\t1\t1\tx,\"y\"\n";
    assert_eq!(ask("top --output tsv").run().text(), tsv);
    let csv = "estimate,lower,upper,key\n2,2,2,a\n2,2,2,b\n1,1,1,c\\d\n1,1,1,q\tr\n1,1,1,\"x,\"\"y\"\"\"\n";
    assert_eq!(ask("top --output csv").run().text(), csv);
    assert_eq!(ask("top -n 1 --output tsv").run().text(), "2\t2\t2\ta\n");
    assert_eq!(ask("top --output json").run().text(), ask("top --json").run().text());
    assert_eq!(ask("top --output table").run().text(), ask("top").run().text());
    ask("top --json --output tsv").run().fails_naming(&["--json", "--output"]);

    let asked = ["x,\"y\"", "never came"];
    let run = ask("estimate --output csv").with(asked[0]).with(asked[1]).run();
    assert_eq!(run.code, Some(1));
    assert_eq!(run.out, "estimate,lower,upper,key\n1,1,1,\"x,\"\"y\"\"\"\n0,0,0,never came\n");
    let run = ask("estimate --output tsv").with(asked[0]).run();
    assert_eq!(run.text(), "1\t1\t1\tx,\"y\"\n");

    assert_eq!(ask("distinct --output tsv").run().text().split('\t').next(), Some("5"));
    assert!(ask("distinct --output csv").run().text().starts_with("estimate,lower,upper\n5,"));
    assert_eq!(
        ask("quantile --output csv").with("0").with("1").run().text(),
        "rank,value\n0.0,1.0\n1.0,5.0\n"
    );

    let filter = place.path().join("filter");
    overbank("filter build --json").with(&filter).fed("a\na\nb\n").run().json();
    let seen = |words: &str| overbank(words).with(&filter).with("a").with("z").run();
    assert_eq!(seen("seen --output tsv").out, "seen\ta\nnew\tz\n");
    assert_eq!(seen("seen --output csv --counts").out, "count,key\n2,a\n0,z\n");
}

#[test]
fn count_prints_its_list_as_uniq_does() {
    let place = tempfile::tempdir().unwrap();
    let rows: Vec<String> = (0..3_000u32).map(|i| format!("key {}", i * i % 701)).collect();
    let input = file(place.path(), "rows", lines(&rows));
    let count = |name: &str, words: &str| {
        let run =
            overbank("count --quiet --memory 16MiB --seed 1").with("--store").with(place.path().join(name));
        words.split(' ').fold(run, |run, word| run.with(word)).with(&input).run()
    };
    let all = count("all", "--output tsv").text();
    let expected = shell("sort \"$1\" | uniq -c | sort -k1,1nr -k2 | sed 's/^ *//; s/ /\\t/'", &input).out;
    let listed: Vec<String> = all
        .lines()
        .map(|line| {
            let fields: Vec<&str> = line.split('\t').collect();
            assert_eq!((fields.len(), fields[0], fields[1]), (4, fields[1], fields[2]), "{line}");
            format!("{}\t{}", fields[0], fields[3])
        })
        .collect();
    let mut wanted: Vec<&str> = expected.lines().collect();
    // The shell's order may be that of a language; ours is that of bytes.
    wanted.sort_by_key(|line| {
        let (count, key) = line.split_once('\t').unwrap();
        (std::cmp::Reverse(count.parse::<u64>().unwrap()), key)
    });
    assert_eq!(listed, wanted);
    assert_eq!(
        count("two", "--output tsv -n 2").text(),
        all.lines().take(2).map(|line| format!("{line}\n")).collect::<String>()
    );
    assert!(count("csv", "--output csv").text().starts_with("estimate,lower,upper,key\n"));
}

#[test]
fn ties_have_one_order_under_every_seed() {
    let rows: Vec<String> = (0..2_000).map(|i| format!("key {}", (i * 7919) % 1_000)).collect();
    let mut keys: Vec<String> = (0..1_000).map(|i| format!("key {i}")).collect();
    keys.sort();
    for seed in ["1", "2", "3"] {
        let run = overbank("profile --json -n 40 --seed").with(seed).fed(lines(&rows)).run().json();
        let top: Vec<&str> =
            run["heavy"].as_array().unwrap().iter().map(|key| key["key"].as_str().unwrap()).collect();
        assert_eq!(top, keys[..40], "seed {seed}");
    }
}

#[test]
fn a_reader_that_leaves_ends_the_command_in_silence() {
    let place = tempfile::tempdir().unwrap();
    let rows: Vec<String> = (0..200_000).map(|i| format!("key number {i}")).collect();
    let input = file(place.path(), "rows", lines(&rows));
    for (command, reads) in [
        ("profile --json --quiet", true),
        ("--help", false),
        ("plan --rows 1e9", false),
        ("completions bash", false),
    ] {
        // The reader has left before the command writes.
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let run = command.split(' ').fold(overbank(""), |run, word| run.with(word));
        let run = if reads { run.with(&input) } else { run };
        let ran = run.output_to(writer).run();
        assert_eq!((ran.code, ran.err.as_str()), (Some(141), ""), "{command}");
    }
    let ran = shell("\"$0\" dedup \"$1\" | head -1; echo ${PIPESTATUS[0]}", &input);
    assert_eq!((ran.out.as_str(), ran.err.as_str()), ("key number 0\n141\n", ""));
}

#[test]
fn a_closed_standard_input_is_no_empty_one() {
    let place = tempfile::tempdir().unwrap();
    let store = place.path().join("store");
    overbank("profile --quiet --store").with(&store).fed("a\n").run().text();
    let asked = format!("estimate --keys-from - {}", store.display());
    let commands =
        ["profile", "dedup -", "filter build new", "count --store new", "dedup --remove --store new", &asked];
    for command in commands {
        let mut shell = Command::new("sh");
        shell.args(["-c", &format!("exec \"$0\" {command} <&-"), env!("CARGO_BIN_EXE_overbank")]);
        let ran = Ran::from(shell.current_dir(place.path()).output().unwrap());
        ran.ends_naming(2, &["standard input is closed", "/dev/null"]);
        assert!(!place.path().join("new").exists(), "{command}");
    }
    // One that nobody wants may be closed.
    let mut shell = Command::new("sh");
    shell.args(["-c", &format!("exec \"$0\" top {} <&-", store.display()), env!("CARGO_BIN_EXE_overbank")]);
    Ran::from(shell.output().unwrap()).text();
}

#[test]
fn a_closed_standard_output_is_an_error() {
    let place = tempfile::tempdir().unwrap();
    let input = file(place.path(), "rows", "a\nb\na\n");
    for command in ["dedup", "profile", "profile --json", "count --store \"$1.store\""] {
        let ran = shell(&format!("\"$0\" {command} \"$1\" >&-"), &input);
        ran.fails_naming(&["standard output is closed", "/dev/null"]);
        assert!(!input.with_extension("store").exists(), "refused before anything is made");
    }
    let ran = shell("\"$0\" profile --quiet \"$1\" > /dev/null", &input);
    assert_eq!((ran.code, ran.err.as_str()), (Some(0), ""));
    let ran = shell("\"$0\" man \"$1.man\" >&-", &input);
    assert_eq!((ran.code, ran.err.as_str()), (Some(0), ""));
    let ran = shell("\"$0\" dedup --quiet \"$1\" <&- 2>&-", &input);
    assert_eq!((ran.code, ran.out.as_str()), (Some(0), "a\nb\n"));
}

#[test]
fn the_wrong_kind_of_store_names_the_command_that_fits() {
    let place = tempfile::tempdir().unwrap();
    let counted = counted(place.path());
    let filter = place.path().join("filter");
    overbank("dedup --store").with(&filter).fed("a\n").run().text();
    for command in ["estimate", "top", "distinct", "quantile"] {
        let run = overbank(command).with(&filter);
        let run = if command == "estimate" { run.with("a") } else { run };
        run.run().fails_naming(&["filter holds no profile but keys seen", "`overbank seen`", "filter info"]);
    }
    overbank("seen")
        .with(&counted)
        .with("a")
        .run()
        .fails_naming(&["counted holds no filter but counts", "`overbank estimate`"]);
    overbank("filter info")
        .with(&counted)
        .run()
        .fails_naming(&["counted holds no filter but counts", "`overbank estimate`"]);
}

#[test]
fn a_mistyped_word_is_asked_back() {
    overbank("profil").run().fails_naming(&["profil", "did you mean profile?"]);
    overbank("profile --memroy 1GiB").run().fails_naming(&["did you mean --memory?"]);
    overbank("profile --format jsnl").run().fails_naming(&["did you mean jsonl?"]);
    let place = tempfile::tempdir().unwrap();
    let csv = file(place.path(), "t.csv", "user_id,ms\na,1\n");
    overbank("profile --key User_Id")
        .with(&csv)
        .run()
        .fails_naming(&["did you mean \"user_id\"?", "user_id, ms"]);
    // One letter means one thing.
    overbank("profile -v ms").run().fails_naming(&["-v"]);
}

#[test]
fn options_are_named_as_they_are_typed() {
    let place = tempfile::tempdir().unwrap();
    let store = place.path().join("store");
    let refused = |words: &str, names: &[&str]| {
        let ran = overbank(words).with("--store").with(&store).fed("a\n").run();
        ran.fails_naming(names);
        assert!(!ran.err.contains('_'), "{}", ran.err);
        assert!(!store.exists(), "{words}");
    };
    refused("dedup --error 0", &["--error cannot be 0"]);
    refused("dedup --error 0.9", &["--error cannot be 0.9"]);
    refused("count --epsilon 0", &["--epsilon cannot be 0"]);
    refused("count --delta 2", &["--delta cannot be 2"]);
    refused("count --flash 100TiB --memory 64MiB", &["--flash"]);
    refused("profile --flash 100TiB --memory 64MiB", &["--flash"]);
    refused("profile --memory 1KiB", &["--memory"]);
    refused("dedup --memory 1MiB", &["--memory"]);
}

#[test]
fn control_characters_in_names_stand_escaped() {
    let place = tempfile::tempdir().unwrap();
    let evil = "evil\u{1b}[31m\nname";
    let missing = overbank("profile").with(place.path().join(evil)).run();
    missing.fails_naming(&["evil\\u{1b}[31m\\nname"]);
    let input = file(place.path(), &format!("{evil}.jsonl"), "{\"k\":1}\n{oops\n");
    let page = overbank("profile --quiet --key k").with(&input).run();
    assert!(!page.out.contains('\u{1b}') && page.out.contains("evil\\u{1b}[31m\\nname"), "{}", page.out);
    let out = overbank("dedup --key k").with(&input).run();
    assert!(!out.err.contains('\u{1b}') && out.err.lines().count() == 1, "{}", out.err);
    let store = place.path().join(evil);
    overbank("profile --json --store").with(&store).fed("a\n").run().json();
    let page = overbank("info").with(&store).run().text();
    assert!(!page.contains('\u{1b}') && page.contains("evil\\u{1b}[31m\\nname"), "{page}");
}
