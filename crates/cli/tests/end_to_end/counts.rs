//! `count` and the sketch on flash against exact counts: bounds, the heaviest keys, bulk estimates, the plan.

use crate::command::{Run, overbank};
use crate::stream::{counts, file, keys, lines, sample};
use serde_json::Value;
use std::collections::HashMap;
use std::path::Path;

/// A sketch that the buffer outgrows many times: logs and passes both happen.
const COUNT: &str =
    "count --json --seed 7 --memory 16MiB --flash 16MiB --pending 1 --quiet --threads 2 --store";

/// Estimates of all of `asked`, one JSON object a line.
fn estimates(store: &Path, asked: &[&str]) -> Vec<Value> {
    let mut text = asked.join("\n");
    text.push('\n');
    let out = overbank("estimate --json --keys-from -").with(store).fed(text).run().text();
    out.lines().map(|line| serde_json::from_str(line).expect("one JSON object a line")).collect()
}

fn number(value: &Value) -> u64 {
    value.as_u64().expect("a whole number")
}

/// Every key between its bounds, except a lower one for 1 key in 20; every key above the threshold in the list.
fn answers_are_right(store: &Path, truth: &HashMap<&str, u64>) {
    let asked: Vec<&str> = truth.keys().copied().collect();
    let mut below = 0;
    for (key, answer) in asked.iter().zip(estimates(store, &asked)) {
        let [lower, estimate, upper] = ["lower", "estimate", "upper"].map(|field| number(&answer[field]));
        assert_eq!(answer["key"], *key);
        assert!(truth[key] <= upper && lower <= estimate && estimate <= upper, "{answer} for {}", truth[key]);
        below += usize::from(truth[key] < lower);
    }
    assert!(below * 20 <= asked.len(), "{below} of {} lower bounds are wrong", asked.len());
    let top = overbank("top --json -n 10000000").with(store).run().json();
    let mut missing = truth.clone();
    for key in top["heavy"].as_array().unwrap() {
        let count = missing.remove(key["key"].as_str().unwrap()).expect("a key that came, once");
        assert!(number(&key["lower"]) <= count && count <= number(&key["upper"]), "{key} for {count}");
    }
    let threshold = number(&top["heavy_threshold"]);
    assert!(missing.values().all(|&count| count <= threshold), "a key above {threshold} is missing");
}

fn without_cost(mut report: Value) -> Value {
    report.as_object_mut().unwrap().remove("cost").unwrap();
    report["counts"]["flash"].as_object_mut().unwrap().remove("pending_chunks").unwrap();
    report
}

#[test]
fn counts_of_a_skewed_stream_are_right_and_come_from_flash() {
    let place = tempfile::tempdir().unwrap();
    let store = place.path().join("store");
    let rows = keys(71, 900_000, 600_000);
    let report = overbank(COUNT).with(&store).with(file(place.path(), "keys", lines(&rows))).run().json();
    assert_eq!((number(&report["rows"]), number(&report["weight"])), (900_000, 900_000));
    let flash = &report["counts"]["flash"];
    assert_eq!((number(&flash["width"]), number(&flash["depth"])), (4096 * 204, 5));
    assert!(number(&flash["weight"]) > 500_000 && number(&flash["bytes"]) == 16 << 20, "{flash}");
    // A pass writes the sketch once at least.
    assert!(number(&report["cost"]["stored_bytes"]) > 16 << 20, "{}", report["cost"]);
    // The pages in RAM, an eighth of 16 MiB, would be off by about 2 for as many keys.
    let error = report["counts"]["error_average"].as_f64().unwrap();
    assert!(error < 0.2, "{error}");
    answers_are_right(&store, &counts(&rows));

    let verified = overbank("verify --json").with(&store).run().json();
    assert_eq!((&verified["whole"], number(&verified["unchecked_blocks"])), (&Value::Bool(true), 0));
    assert!(number(&verified["blocks"]) > 4096, "the sketch's blocks are read: {verified}");
    let info = overbank("info --json").with(&store).run().json();
    assert_eq!(
        (&info["summaries"][1]["name"], &info["summaries"][1]["kind"]),
        (&"profile/counts".into(), &"counts on flash".into())
    );
    assert_eq!(info["summaries"][1]["sketch"], *flash);
    assert!(overbank("info").with(&store).run().text().contains("835,584 columns, 5 rows"));
}

#[test]
fn counters_that_grow_err_less_in_as_many_bytes() {
    let place = tempfile::tempdir().unwrap();
    let rows = keys(75, 900_000, 800_000);
    let input = file(place.path(), "keys", lines(&rows));
    let error = |bits: &str| {
        let store = place.path().join(bits);
        let report = overbank("count --json --seed 7 --memory 16MiB --flash 2MiB --quiet --cell-bits")
            .with(bits)
            .with("--store")
            .with(&store)
            .with(&input)
            .run()
            .json();
        let flash = &report["counts"]["flash"];
        assert_eq!((flash["cell_bits"].to_string(), number(&flash["bytes"])), (bits.to_owned(), 2 << 20));
        answers_are_right(&store, &counts(&rows));
        report["counts"]["error_average"].as_f64().unwrap()
    };
    let (plain, small) = (error("32"), error("8"));
    assert!(small * 2.0 < plain, "{small} against {plain}");
    overbank("count --cell-bits 7 --store x y").run().fails_naming(&["--cell-bits", "7", "4, 8, 32 or 64"]);
    let plan = overbank("plan --json --rows 1e9 --epsilon 1e-8 --cell-bits 8").run().json();
    let wide = overbank("plan --json --rows 1e9 --epsilon 1e-8").run().json();
    let bytes = |plan: &Value| plan["flash_bytes"].as_u64().unwrap();
    assert!(3 * bytes(&plan) < bytes(&wide) && plan["cell_bits"] == 8, "{plan}");
}

#[test]
fn the_samples_that_ship_are_counted_right() {
    for name in ["twitter52_250k_keys.txt.zst", "hsts_hosts.txt.zst"] {
        let place = tempfile::tempdir().unwrap();
        let store = place.path().join("store");
        let bytes = zstd::decode_all(std::fs::File::open(sample(name)).unwrap()).unwrap();
        let rows: Vec<String> = String::from_utf8(bytes).unwrap().lines().map(str::to_owned).collect();
        overbank(COUNT).with(&store).with(sample(name)).run().json();
        answers_are_right(&store, &counts(&rows));
    }
}

#[test]
fn weights_are_counted() {
    let place = tempfile::tempdir().unwrap();
    let store = place.path().join("store");
    let names = keys(72, 200_000, 120_000);
    let mut truth: HashMap<&str, u64> = HashMap::new();
    let mut text = String::new();
    for (name, weight) in names.iter().zip((0..5u64).cycle()) {
        *truth.entry(name).or_default() += weight * weight;
        text.push_str(&format!("{name}\t{}\n", weight * weight));
    }
    let report = overbank(COUNT)
        .with(&store)
        .with("--format=delimited")
        .with("--key=1")
        .with("--weight=2")
        .fed(text)
        .run()
        .json();
    assert_eq!(number(&report["weight"]), truth.values().sum::<u64>());
    truth.retain(|_, weight| *weight > 0);
    answers_are_right(&store, &truth);
}

#[test]
fn threads_and_form_do_not_change_the_answer() {
    let place = tempfile::tempdir().unwrap();
    let rows = keys(73, 300_000, 250_000);
    let input = file(place.path(), "keys", lines(&rows));
    let asked: Vec<&str> = rows.iter().step_by(151).map(String::as_str).collect();
    let answers = ["-j1", "-j3"].map(|threads| {
        let store = place.path().join(threads);
        let options = COUNT.replace("--threads 2", threads);
        (without_cost(overbank(&options).with(&store).with(&input).run().json()), estimates(&store, &asked))
    });
    assert_eq!(answers[0], answers[1]);
}

#[test]
fn append_adds_up_and_profile_has_the_same_counts() {
    let place = tempfile::tempdir().unwrap();
    let rows = keys(74, 300_000, 250_000);
    let input = file(place.path(), "keys", lines(&rows));
    let asked: Vec<&str> = rows.iter().step_by(151).map(String::as_str).collect();
    let whole = place.path().join("whole");
    let counted = without_cost(overbank(COUNT).with(&whole).with(&input).run().json());

    let (first, second) = rows.split_at(120_000);
    let (first, second) = (lines(first), file(place.path(), "second", lines(second)));
    let parts = place.path().join("parts");
    overbank(COUNT).with(&parts).fed(first).run().json();
    // Without a size the store's own is taken.
    let both =
        overbank("count --json --memory 16MiB --append --store").with(&parts).with(second).run().json();
    for field in ["rows", "weight", "distinct", "heavy", "heavy_threshold", "counts"] {
        let mut both = both[field].clone();
        if field == "counts" {
            both["flash"].as_object_mut().unwrap().remove("pending_chunks").unwrap();
        }
        assert_eq!(both, counted[field], "{field}");
    }
    assert_eq!(estimates(&parts, &asked), estimates(&whole, &asked));

    let profiled = place.path().join("profiled");
    let options = "profile --json --seed 7 --memory 16MiB --flash 16MiB --store";
    let report = without_cost(overbank(options).with(&profiled).with(&input).run().json());
    assert_eq!(report["heavy"], counted["heavy"]);
    assert_eq!(report["counts"], counted["counts"]);
    assert_eq!(estimates(&profiled, &asked), estimates(&whole, &asked));
}

#[test]
fn conservative_counts_are_nearer_and_never_below_the_truth() {
    let place = tempfile::tempdir().unwrap();
    let rows = keys(75, 600_000, 500_000);
    let (input, truth) = (file(place.path(), "keys", lines(&rows)), counts(&rows));
    let asked: Vec<&str> = truth.keys().copied().collect();
    let small = COUNT.replace("--flash 16MiB", "--flash 4MiB");
    let error = |store: &Path, run: Run| {
        run.with(store).with(&input).run().json();
        answers_are_right(store, &truth);
        let answers = asked.iter().zip(estimates(store, &asked));
        answers.map(|(key, answer)| number(&answer["estimate"]) - truth[key]).sum::<u64>()
    };
    let plain = error(&place.path().join("plain"), overbank(&small));
    let conservative =
        error(&place.path().join("raised"), overbank(&small.replace("count", "count --conservative")));
    assert!(conservative * 3 / 2 < plain, "{conservative} against {plain}");
}

#[test]
fn a_profile_without_flash_says_when_it_would_help() {
    let place = tempfile::tempdir().unwrap();
    let rows: Vec<String> = (0..600_000).map(|i| format!("{i:x}")).collect();
    let input = file(place.path(), "keys", lines(&rows));
    let text = overbank("profile --memory 8MiB").with(&input).run().text();
    assert!(text.contains("counts are off by") && text.contains("--flash"), "{text}");
    let text = overbank("profile --memory 64MiB").with(&input).run().text();
    assert!(!text.contains("--flash"), "{text}");
    // With a store it helps by itself, unless it may not.
    let on = |options: &str, name: &str| {
        overbank(&format!("profile --json --memory 16MiB {options} --store"))
            .with(place.path().join(name))
            .with(&input)
            .run()
            .json()
    };
    let kept = on("", "kept");
    assert_eq!(number(&kept["counts"]["flash"]["bytes"]), 128 << 20);
    assert!(kept["counts"]["error_average"].as_f64().unwrap() < 0.01);
    assert_eq!(on("--flash 0", "plain")["counts"]["flash"], Value::Null);
    let small = overbank("profile --json --memory 8MiB --store")
        .with(place.path().join("small"))
        .with(&input)
        .run()
        .json();
    assert_eq!(small["counts"]["flash"], Value::Null);
}

#[test]
fn keys_in_bulk_take_the_memory_of_a_batch() {
    let place = tempfile::tempdir().unwrap();
    let store = place.path().join("store");
    overbank(COUNT).with(&store).fed("a\nb\na\n").run().json();
    let mut text = String::new();
    for i in 0..1_000_000u32 {
        text.push_str(["a\n", "b\n", "a key that never came\r\n"][i as usize % 3]);
    }
    let asked = file(place.path(), "asked", text);
    // A row kept as text is above 200 bytes, so a table of all of them would not fit.
    let limited = "ulimit -v 150000 && exec \"$@\"";
    let output = std::process::Command::new("sh")
        .args(["-c", limited, "sh", env!("CARGO_BIN_EXE_overbank"), "estimate"])
        .arg(&store)
        .arg("--keys-from")
        .arg(&asked)
        .output()
        .expect("a shell");
    let ran = crate::command::Ran::from(output);
    assert_eq!((ran.code, ran.err.as_str()), (Some(1), ""));
    let mut rows = ran.out.lines();
    assert_eq!(
        rows.next().unwrap().split_whitespace().collect::<Vec<_>>(),
        ["count", "at", "least,", "95", "%", "at", "most", "key"]
    );
    let expected = ["2 2 2 a", "1 1 1 b", "0 0 0 a key that never came"];
    let mut seen = 0;
    for (row, expected) in rows.zip(expected.iter().cycle()) {
        assert_eq!(row.split_whitespace().collect::<Vec<_>>().join(" "), *expected);
        seen += 1;
    }
    assert_eq!(seen, 1_000_000);
}

#[test]
fn the_plan_is_what_count_makes_of_it() {
    let place = tempfile::tempdir().unwrap();
    let store = place.path().join("store");
    let rows = keys(76, 300_000, 10_000_000);
    let sizes = "--epsilon 2e-6 --delta 0.02 --pending 2 --memory 16MiB";
    let plan = overbank(&format!("plan --json --rows 3e5 {sizes}")).run().json();
    let counted = overbank(&format!("count --json --seed 7 {sizes} --store"))
        .with(&store)
        .fed(lines(&rows))
        .run()
        .json();
    let flash = &counted["counts"]["flash"];
    for field in ["width", "depth", "pages", "epsilon", "delta"] {
        assert_eq!(plan[field], flash[field], "{field}");
    }
    assert_eq!(plan["depth"], 4);
    assert!(plan["epsilon"].as_f64().unwrap() <= 2e-6);
    assert!(plan["flash_bytes"].as_u64() >= flash["bytes"].as_u64());
    let stored = number(&counted["cost"]["stored_bytes"]);
    assert!(stored <= number(&plan["flash_bytes_max"]) + (16 << 20), "{stored}");
    // The worst case that is planned for is that of the stream: nearly all keys come once.
    let (planned, found) =
        (plan["error_average"].as_f64().unwrap(), counted["counts"]["error_average"].as_f64().unwrap());
    assert!(found <= planned * 1.5 + 0.05, "{found} for {planned}");

    let human = overbank(&format!("plan --keys 3e5 {sizes}")).run().text();
    for word in ["300,000 rows", "16.0 MiB", "4 rows", "Theorem 1", "an estimate reads", "3  blocks"] {
        assert!(human.contains(word), "{word}: {human}");
    }
    // More logs are less to write; a larger sketch errs less.
    let with = |options: &str| overbank(&format!("plan --json --rows 1e9 {options}")).run().json();
    let writes = |plan: &Value| plan["blocks_written_per_million"].as_f64().unwrap();
    assert!(writes(&with("--pending 32")) < writes(&with("--pending 4")));
    let errors = ["--flash 1GiB", "--flash 4GiB"].map(|size| with(size)["error_average"].as_f64().unwrap());
    assert!(errors[1] < errors[0] / 3.0, "{errors:?}");
}

#[test]
fn a_reader_that_a_writer_has_overtaken_answers_from_a_newer_commit() {
    use std::io::Write;
    let place = tempfile::tempdir().unwrap();
    let (store, pipe) = (place.path().join("store"), place.path().join("asked"));
    let rows = keys(77, 200_000, 180_000);
    let input = file(place.path(), "keys", lines(&rows));
    // Without pending logs each commit writes the sketch anew.
    let count = COUNT.replace("--pending 1", "--pending 0");
    overbank(&count).with(&store).with(&input).run().json();
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let reader = overbank("estimate --json --keys-from").with(&pipe).with(&store).start();
    // The pipe opens once the reader reads it, and by then it has its snapshot.
    let mut feed = std::fs::OpenOptions::new().write(true).open(&pipe).unwrap();
    for _ in 0..3 {
        overbank(&count).with(&store).with("--append").with(&input).run().json();
    }
    feed.write_all(&lines(&rows[..2_000])).unwrap();
    drop(feed);
    let ran = crate::command::Ran::from(reader.wait_with_output().unwrap());
    let now = overbank("estimate --json --keys-from -").with(&store).fed(lines(&rows[..2_000])).run().text();
    assert_eq!(ran.text(), now);
    assert_eq!(overbank("verify --json").with(&store).run().json()["whole"], true);
}
