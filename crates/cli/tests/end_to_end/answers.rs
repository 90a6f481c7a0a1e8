//! `profile` against exact models: facts equal, estimates inside their bounds, whatever the form of the input.

use crate::command::overbank;
use crate::stream::{counts, file, keys, lines, sample};
use flate2::{Compression, write::GzEncoder};
use serde_json::Value;
use std::io::Write;
use std::path::Path;

const SEED: &str = "profile --json --seed 7 --memory 16MiB";
/// Standard errors that a true value may be away: beyond six, a correct sketch fails once in 5e8 seeds.
const SIGMAS: f64 = 6.2;

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

/// The report without what depends on the run and on the form of the input.
fn answer(mut report: Value) -> Value {
    for field in ["cost", "inputs", "bytes"] {
        report.as_object_mut().unwrap().remove(field);
    }
    report
}

fn number(value: &Value) -> f64 {
    value.as_f64().expect("a number")
}

fn is_near(report: &Value, truth: usize) {
    let distinct = &report["distinct"];
    let (estimate, error) = (number(&distinct["estimate"]), number(&distinct["relative_error"]));
    assert!((estimate - truth as f64).abs() <= 1.0 + SIGMAS * error * truth as f64, "{estimate} for {truth}");
    assert!(number(&distinct["lower"]) <= estimate && estimate <= number(&distinct["upper"]));
}

/// Every listed key is inside its bounds, the list is in order, and, where it holds all candidates, no key above the
/// threshold is missing.
fn heavy_is_right(report: &Value, rows: &[String]) {
    let truth = counts(rows);
    let mut missing = truth.clone();
    let listed = report["heavy"].as_array().unwrap();
    for key in listed {
        let name = key["key"].as_str().unwrap();
        let count = missing.remove(name).expect("a key is listed once, and only if it came");
        let [lower, estimate, upper] =
            ["lower", "estimate", "upper"].map(|field| key[field].as_u64().unwrap());
        assert!(lower <= count && count <= upper, "{key} for {count}");
        assert!(lower <= estimate && estimate <= upper, "{key}");
    }
    assert!(listed.is_sorted_by_key(|key| std::cmp::Reverse(key["estimate"].as_u64().unwrap())));
    let threshold = report["heavy_threshold"].as_u64().unwrap();
    let heaviest_missing = missing.values().max().copied().unwrap_or(0);
    assert!(
        heaviest_missing <= threshold,
        "a key that came {heaviest_missing} times is missing, above {threshold}"
    );
}

/// Each quantile is within its relative error of a number at its rank, or beside it; `grain` is the step of the numbers.
fn quantiles_are_right(values: &Value, mut truth: Vec<f64>, grain: f64) {
    truth.sort_by(f64::total_cmp);
    let last = truth.len() - 1;
    assert_eq!(values["count"].as_u64().unwrap() as usize, truth.len());
    assert_eq!((number(&values["min"]), number(&values["max"])), (truth[0], truth[last]));
    let mean = truth.iter().sum::<f64>() / truth.len() as f64;
    assert!((number(&values["mean"]) - mean).abs() <= 1e-9 * mean.abs().max(1.0));
    let error = number(&values["relative_error"]);
    for quantile in values["quantiles"].as_array().unwrap() {
        let (rank, found) = (number(&quantile["rank"]), number(&quantile["value"]));
        let at = rank * last as f64;
        let (low, high) = (truth[at.floor() as usize], truth[at.ceil() as usize]);
        let slack = grain / 2.0 + 1e-9;
        assert!(
            found >= low - error * low.abs() - slack && found <= high + error * high.abs() + slack,
            "rank {rank}: {found}, not {low} to {high}"
        );
    }
}

fn lengths(rows: &[String]) -> Vec<f64> {
    rows.iter().map(|key| key.len() as f64).collect()
}

#[test]
fn every_form_of_a_stream_has_the_same_right_answer() {
    let place = tempfile::tempdir().unwrap();
    let rows = keys(1, 60_000, 20_000);
    let text = lines(&rows);
    let first = overbank(SEED).with(file(place.path(), "keys.txt", &text)).run().json();
    assert_eq!(first["rows"], rows.len());
    assert_eq!(first["weight"], rows.len());
    assert_eq!(first["bytes"], text.len());
    assert_eq!(first["skipped"], 0);
    is_near(&first, counts(&rows).len());
    assert_eq!(first["heavy"].as_array().unwrap().len(), 10);
    heavy_is_right(&overbank(SEED).with("-n1000000").with(place.path().join("keys.txt")).run().json(), &rows);
    quantiles_are_right(&first["values"], lengths(&rows), 1.0);

    let table = |header: &str, row: &dyn Fn(usize, &String) -> String| {
        let body: String = rows.iter().enumerate().map(|(i, key)| row(i, key)).collect();
        format!("{header}{body}")
    };
    let csv =
        table("id,\"the key\",note\r\n", &|i, key| format!("{i},\"{key}\",\"a, \"\"quoted\"\"\nnote\"\r\n"));
    let fields = table("", &|i, key| format!("  {i} \t {key}  tail\n"));
    let json = table("", &|i, key| format!("{{\"id\": {i}, \"user\": {{\"key\": \"{key}\"}}}}\n"));
    let semicolons = table("", &|i, key| format!("{i};{key};;\n"));
    let half = rows.len() / 2;
    file(place.path(), "part-2.gz", gzip(&lines(&rows[half..])));
    file(place.path(), "part-1.zst", zstd::encode_all(&lines(&rows[..half])[..], 1).unwrap());
    let forms: [(&str, std::path::PathBuf); 7] = [
        ("", file(place.path(), "keys.gz", gzip(&text))),
        ("", file(place.path(), "keys.txt.zst", zstd::encode_all(&text[..], 3).unwrap())),
        ("", place.path().join("part-*")),
        ("--key 2 --format whitespace", file(place.path(), "fields", fields)),
        ("--key 2 --format delimited --delimiter ;", file(place.path(), "semicolons", semicolons)),
        ("--key user.key", file(place.path(), "keys.jsonl.gz", gzip(json.as_bytes()))),
        ("--key", file(place.path(), "keys.csv", csv)),
    ];
    for (options, path) in forms {
        let run = overbank(SEED).with(&path);
        let run = options.split_whitespace().fold(run, |run, word| run.with(word));
        let run = if options == "--key" { run.with("the key") } else { run };
        assert_eq!(answer(run.run().json()), answer(first.clone()), "{}", path.display());
    }
    assert_eq!(answer(overbank(SEED).fed(text).run().json()), answer(first), "standard input");
}

#[test]
fn threads_do_not_change_the_answer_and_another_seed_does() {
    let place = tempfile::tempdir().unwrap();
    let path = file(place.path(), "keys", lines(&keys(2, 400_000, 300_000)));
    let on = |options: &str| answer(overbank(options).with(&path).run().json());
    let one = on("profile --json --memory 8MiB --seed 7 -j 1 -n 50");
    for threads in [2, 5] {
        assert_eq!(on(&format!("profile --json --memory 8MiB --seed 7 -n 50 --threads {threads}")), one);
    }
    assert_ne!(on("profile --json --memory 8MiB --seed 8 -n 50"), one);
    assert_ne!(on("profile --json --memory 8MiB --seed 7 -n 50 --hash siphash")["distinct"], one["distinct"]);
}

#[test]
fn weights_and_values_are_taken_from_their_columns() {
    let place = tempfile::tempdir().unwrap();
    let names = keys(3, 20_000, 500);
    let mut csv = "name,hits,ms\n".to_owned();
    let (mut weighted, mut values) = (std::collections::HashMap::<&str, u64>::new(), Vec::new());
    for (i, name) in names.iter().enumerate() {
        let (weight, value) = (i as u64 % 7, (i as f64 - 5_000.0) * 0.37);
        csv.push_str(&format!("{name},{weight},{value}\n"));
        *weighted.entry(name).or_default() += weight;
        values.push(value);
    }
    let report = overbank("profile --json --seed 7 --key name --weight hits --value ms -n 600")
        .with(file(place.path(), "t.csv", csv))
        .run()
        .json();
    assert_eq!(report["weight"], weighted.values().sum::<u64>());
    assert_eq!(report["values"]["measure"], "value");
    for key in report["heavy"].as_array().unwrap() {
        let truth = weighted[key["key"].as_str().unwrap()];
        assert!(
            (key["lower"].as_u64().unwrap()..=key["upper"].as_u64().unwrap()).contains(&truth),
            "{key} for {truth}"
        );
    }
    quantiles_are_right(
        &report["values"],
        values.iter().map(|v| format!("{v}").parse().unwrap()).collect(),
        0.0,
    );
}

#[test]
fn the_sample_that_ships_is_counted_right() {
    let path = sample("hsts_hosts.txt.zst");
    let text = zstd::decode_all(std::fs::File::open(&path).unwrap()).unwrap();
    let rows: Vec<String> = String::from_utf8(text.clone()).unwrap().lines().map(str::to_owned).collect();
    let report = overbank("profile --json --seed 7").with(&path).run().json();
    assert_eq!(
        (report["rows"].as_u64().unwrap(), report["bytes"].as_u64().unwrap()),
        (rows.len() as u64, text.len() as u64)
    );
    is_near(&report, counts(&rows).len());
    quantiles_are_right(&report["values"], lengths(&rows), 1.0);
}

#[test]
fn bytes_that_are_no_text_are_keys_like_others() {
    let report = overbank("profile --json --seed 7").fed(b"\xff\xfe\n\xff\xfe\n\0\n\n".to_vec()).run().json();
    assert_eq!((report["rows"].as_u64(), report["distinct"]["estimate"].as_f64()), (Some(4), Some(3.0)));
    assert_eq!(report["heavy"][0]["key_hex"], "fffe");
    assert_eq!(report["values"]["min"], 0.0);
}

#[test]
fn an_empty_stream_and_a_last_line_without_its_end_are_fine() {
    let empty = overbank("profile --json").fed("").run().json();
    assert_eq!((empty["rows"].as_u64(), empty["distinct"]["estimate"].as_f64()), (Some(0), Some(0.0)));
    assert!(overbank("profile").fed("").run().text().contains("rows"));
    let cut = overbank("profile --json").fed("a\nb").run().json();
    assert_eq!((cut["rows"].as_u64(), cut["bytes"].as_u64()), (Some(2), Some(3)));
    assert!(Path::new(&sample("README.md")).exists());
}
