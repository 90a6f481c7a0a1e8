//! The questions to a kept store: they agree with the report of the run that made it.

use crate::command::overbank;
use crate::stream::{counts, file, keys, lines};
use serde_json::Value;
use std::path::{Path, PathBuf};

const PROFILE: &str = "profile --json --seed 7 --memory 16MiB --quiet --store";

/// A store of `rows`, and the report that came with it.
fn kept(place: &Path, rows: &[String]) -> (PathBuf, Value) {
    let store = place.join("store");
    let report = overbank(PROFILE).with(&store).with(file(place, "keys", lines(rows))).run().json();
    (store, report)
}

fn objects(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).expect("one JSON object a line")).collect()
}

#[test]
fn every_query_repeats_the_report() {
    let place = tempfile::tempdir().unwrap();
    let rows = keys(11, 50_000, 9_000);
    let (store, report) = kept(place.path(), &rows);
    assert!(report["cost"]["stored_bytes"].as_u64().unwrap() > 0);
    assert_eq!(overbank("distinct --json").with(&store).run().json(), report["distinct"]);
    let top = overbank("top --json").with(&store).run().json();
    for field in ["heavy", "heavy_threshold", "weight"] {
        assert_eq!(top[field], report[field]);
    }
    let none = overbank("top -n 0").with(&store).run().text();
    assert!(none.contains("none were asked for") && !none.contains("came more than"), "{none}");
    assert_eq!(overbank("top --json -n 3").with(&store).run().json()["heavy"].as_array().unwrap().len(), 3);
    assert_eq!(overbank("quantile --json").with(&store).run().json(), report["values"]);
    let median = overbank("quantile --json").with(&store).with("0.5").run().json();
    assert_eq!(median["quantiles"][0]["value"], report["values"]["quantiles"][2]["value"]);

    let info = overbank("info --json").with(&store).run().json();
    assert_eq!((&info["complete"], &info["hash"]), (&Value::Bool(true), &Value::from("XXH3-128")));
    assert_eq!(info["summaries"][0]["name"], "profile");
    let whole = overbank("verify --json").with(&store).run().json();
    assert_eq!((&whole["whole"], whole["damaged"].as_array().unwrap().len()), (&Value::Bool(true), 0));
    assert!(whole["blocks"].as_u64().unwrap() > 500);
}

#[test]
fn text_and_json_say_the_same() {
    let place = tempfile::tempdir().unwrap();
    let (store, report) = kept(place.path(), &keys(12, 20_000, 100));
    let heaviest = &report["heavy"][0];
    let name = heaviest["key"].as_str().unwrap();
    let digits = |text: &str| text.replace(',', "");
    for text in [
        overbank("top -n 1").with(&store).run().text(),
        overbank("estimate").with(&store).with(name).run().text(),
        overbank("profile --seed 7 --memory 16MiB").with(place.path().join("keys")).run().text(),
    ] {
        let line = text.lines().find(|line| line.contains(name)).expect("the heaviest key is shown");
        assert!(digits(line).contains(&heaviest["estimate"].to_string()), "{line}");
    }
    let distinct = overbank("distinct").with(&store).run().text();
    assert!(distinct.contains(&report["distinct"]["estimate"].as_f64().unwrap().to_string()), "{distinct}");
    assert!(overbank("verify").with(&store).run().text().contains("no damage"));
    assert!(overbank("info").with(&store).run().text().contains("read to its end"));
}

#[test]
fn estimates_hold_the_truth_and_a_key_that_never_came_is_exit_code_1() {
    let place = tempfile::tempdir().unwrap();
    let rows = keys(13, 50_000, 9_000);
    let (store, _) = kept(place.path(), &rows);
    let truth = counts(&rows);
    let asked: Vec<String> = truth.keys().map(|key| (*key).to_owned()).collect();
    let path = file(place.path(), "asked", lines(&asked));
    let answers = objects(&overbank("estimate --json --keys-from").with(&path).with(&store).run().text());
    assert_eq!(answers.len(), asked.len());
    let mut below = 0;
    for (answer, key) in answers.iter().zip(&asked) {
        assert_eq!(answer["key"], key.as_str());
        let count = truth[key.as_str()];
        assert!(count <= answer["upper"].as_u64().unwrap(), "{answer} for {count}");
        below += usize::from(count < answer["lower"].as_u64().unwrap());
    }
    // The lower bound may fail for 1 key in 20.
    assert!(below <= asked.len() / 20, "{below} of {} lower bounds are wrong", asked.len());

    let one = overbank("estimate --json").with(&store).with(&asked[0]).run();
    assert_eq!(objects(&one.text()), answers[..1]);
    let fed =
        overbank("estimate --json --keys-from -").with(&store).with(&asked[0]).fed(asked[1].clone()).run();
    assert_eq!(objects(&fed.text()), answers[..2]);

    let absent = overbank("estimate").with(&store).with(&asked[0]).with("never came").run();
    assert_eq!((absent.code, absent.err.as_str()), (Some(1), ""));
    assert!(absent.out.contains("never came"));
}

#[test]
fn keys_of_several_fields_are_looked_up_with_tabs() {
    let place = tempfile::tempdir().unwrap();
    let store = place.path().join("store");
    let rows = "GET / 200\nPOST / 200\nGET / 404\nGET / 200\n";
    let run =
        overbank("profile --json --key 1,3 --format whitespace --store").with(&store).fed(rows).run().json();
    assert_eq!((&run["rows"], &run["heavy"][0]["key"]), (&Value::from(4), &Value::from("GET\t200")));
    let answer = overbank("estimate --json").with(&store).with("GET\t200").run().json();
    assert_eq!(answer["estimate"], 2);
}

#[test]
fn append_adds_up_to_one_stream() {
    let place = tempfile::tempdir().unwrap();
    let rows = keys(14, 40_000, 5_000);
    let (first, second) = rows.split_at(15_000);
    let second = file(place.path(), "second", lines(second));
    let (store, report) = kept(place.path(), first);
    let whole = overbank(PROFILE).with(place.path().join("whole")).fed(lines(&rows)).run().json();
    let both = overbank(PROFILE).with(&store).with("--append").with(second).run().json();
    assert_eq!(report["rows"], first.len());
    for field in ["rows", "weight", "bytes", "distinct", "heavy", "heavy_threshold", "values", "repeat_share"]
    {
        assert_eq!(both[field], whole[field], "{field}");
    }
}

#[test]
fn an_empty_store_has_nothing_to_show() {
    let place = tempfile::tempdir().unwrap();
    let store = place.path().join("store");
    overbank(PROFILE).with(&store).fed("").run().json();
    for command in ["top", "top --json", "quantile", "quantile --json"] {
        let ran = overbank(command).with(&store).run();
        assert_eq!((ran.code, ran.err.as_str()), (Some(1), ""), "{command}");
    }
    assert_eq!(overbank("estimate").with(&store).with("x").run().code, Some(1));
    assert_eq!(overbank("distinct --json").with(&store).run().json()["estimate"], 0.0);
}
