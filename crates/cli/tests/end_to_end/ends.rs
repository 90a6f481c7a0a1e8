//! Weights and values at the ends of their types: no bound is false, what is exact says so, and what is full says so.

use crate::command::overbank;
use crate::stream::{file, lines};
use serde_json::Value;
use std::path::Path;

fn objects(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).expect("one JSON object a line")).collect()
}

/// Asks a store for the keys `0..keys`; returns each answer.
fn estimates(place: &Path, store: &Path, keys: u64) -> Vec<Value> {
    let asked: Vec<String> = (0..keys).map(|key| key.to_string()).collect();
    let path = file(place, "asked", lines(&asked));
    objects(&overbank("estimate --json --keys-from").with(&path).with(store).run().text())
}

#[test]
fn counts_above_32_bits_are_inside_their_bounds() {
    const KEYS: u64 = 20_000;
    let place = tempfile::tempdir().unwrap();
    let rows: Vec<String> = (0..7 * KEYS)
        .map(|i| (i * 7919 + i / KEYS * 131) % KEYS)
        .map(|key| format!("{key}\t{}", 1_200_000_000 + key))
        .collect();
    let input = file(place.path(), "rows.tsv", lines(&rows));
    for (i, command) in [
        "count --memory 16MiB --cell-bits 64",
        "count --memory 16MiB --cell-bits 32",
        "count --memory 16MiB --cell-bits 8",
        "count --memory 16MiB --cell-bits 64 --conservative",
        "profile --memory 8MiB --flash 0",
    ]
    .into_iter()
    .enumerate()
    {
        let store = place.path().join(i.to_string());
        let options = " -f delimited -k 1 -w 2 --seed 1 -q --json -n 20000 --store";
        let report = overbank(&(command.to_owned() + options)).with(&store).with(&input).run().json();
        assert_eq!(report["weight"], 7 * (1_200_000_000 * KEYS + KEYS * (KEYS - 1) / 2));
        let threshold = report["heavy_threshold"].as_u64().unwrap();
        assert!(threshold > 0, "keys must have moved to the pages");
        let mut below_lower = 0;
        for (key, answer) in (0..KEYS).zip(estimates(place.path(), &store, KEYS)) {
            let truth = 7 * (1_200_000_000 + key);
            let bound = |field: &str| answer[field].as_u64().unwrap();
            assert!(truth <= bound("upper"), "{command}: {answer} for {truth}");
            let is_below = bound("lower") > truth;
            assert!(!is_below || answer["lower_confidence"] == 0.95, "{command}: {answer} for {truth}");
            below_lower += u64::from(is_below);
        }
        assert!(below_lower * 20 <= KEYS, "{command}: {below_lower}");
        let listed: std::collections::HashSet<&str> =
            report["heavy"].as_array().unwrap().iter().map(|key| key["key"].as_str().unwrap()).collect();
        let missing = (0..KEYS).filter(|key| !listed.contains(&*key.to_string()));
        assert!(missing.map(|key| 7 * (1_200_000_000 + key)).max().unwrap_or(0) <= threshold, "{command}");
    }
}

#[test]
fn sums_beyond_64_bits_say_that_no_bound_is_known() {
    let place = tempfile::tempdir().unwrap();
    let store = place.path().join("store");
    let rows = format!("a {0}\na 1\nb {0}\nc 5\n", u64::MAX);
    let run = overbank("profile -q -f whitespace --key 1 --weight 2 --store").with(&store);
    let text = run.with(file(place.path(), "rows", rows)).run().text();
    assert!(text.contains("36,893,488,147,419,103,236") && text.contains("no bound"), "{text}");
    let answers = objects(&overbank("estimate --json").with(&store).with("a").with("c").run().text());
    assert_eq!(
        (&answers[0]["upper"], &answers[0]["saturated"], &answers[0]["lower"]),
        (&Value::Null, &true.into(), &u64::MAX.into())
    );
    assert_eq!(
        (&answers[1]["upper"], &answers[1]["lower"], answers[1].get("saturated")),
        (&5.into(), &5.into(), None)
    );
    let text = overbank("estimate").with(&store).with("a").run().text();
    assert!(text.contains("no bound") && text.contains("at least, 95 %"), "{text}");
    let top = overbank("top --json").with(&store).run().json();
    assert_eq!(top["weight"].as_f64(), Some(36_893_488_147_419_103_236.0));
    assert_eq!(top["heavy"][0]["saturated"], true);
}

#[test]
fn weights_of_more_than_1e18_are_answered() {
    let place = tempfile::tempdir().unwrap();
    let store = place.path().join("store");
    let rows = "a 600000000000000000\nb 400000000000000000\nb 5\n";
    let run = overbank("profile -q -f whitespace --key 1 --weight 2 --store").with(&store);
    run.with(file(place.path(), "rows", rows)).run().text();
    let text = overbank("estimate").with(&store).with("a").run().text();
    assert!(text.contains("600,000,000,000,000,000"), "{text}");
}

/// A quantile of the report at `rank`.
fn quantile(report: &Value, rank: f64) -> f64 {
    let quantiles = report["values"]["quantiles"].as_array().unwrap();
    quantiles.iter().find(|quantile| quantile["rank"] == rank).unwrap()["value"].as_f64().unwrap()
}

#[test]
fn quantiles_over_the_whole_range_of_doubles_are_within_their_error() {
    let place = tempfile::tempdir().unwrap();
    let mut random = crate::stream::Random(5);
    let mut unit = || (random.next() >> 11) as f64 / (1u64 << 53) as f64;
    let large: Vec<f64> = (0..20_000).map(|_| -1e5 + unit() * 99e3).chain([-5.55e-17]).collect();
    let wide: Vec<f64> = (0..20_000).map(|_| -80.0 * (1.0 - unit()).ln()).chain([1.797e308]).collect();
    let ends = vec![f64::MAX, f64::MIN, 5e-324, -5e-324, 0.0, 1e-310, -1e-310, f64::MAX, f64::MAX];
    for mut values in [large, wide, ends] {
        let rows: Vec<String> = values.iter().map(|value| format!("k {value:e}")).collect();
        let input = file(place.path(), "values", lines(&rows));
        let report =
            overbank("profile --json --seed 7 -q -f whitespace --key 1 --value 2").with(&input).run().json();
        values.sort_by(f64::total_cmp);
        for rank in [0.0, 0.25, 0.5, 0.75, 0.9, 0.99, 0.999, 1.0] {
            let truth = values[(rank * (values.len() - 1) as f64) as usize];
            let found = quantile(&report, rank);
            assert!(
                (found / 2.0 - truth / 2.0).abs() <= truth.abs() / 2.0 * 0.01,
                "{rank}: {found} for {truth}"
            );
        }
        let mean = report["values"]["mean"].as_f64().unwrap();
        assert!(values[0] <= mean && mean <= values[values.len() - 1], "{mean}");
        assert_eq!(
            report["distinct"],
            serde_json::json!({
                "estimate": 1.0, "lower": 1.0, "upper": 1.0, "confidence": 1.0, "relative_error": 0.0, "exact": true,
            })
        );
    }
}

#[test]
fn while_all_keys_are_in_ram_distinct_and_repeats_are_exact() {
    let place = tempfile::tempdir().unwrap();
    let store = place.path().join("store");
    let rows: Vec<String> = (0..3000).map(|i| (i * i % 1009).to_string()).collect();
    let truth = rows.iter().collect::<std::collections::HashSet<_>>().len();
    let input = file(place.path(), "rows", lines(&rows));
    let text = overbank("profile -q --store").with(&store).with(&input).run().text();
    let is_exact = |name: &str| text.lines().any(|line| line.contains(name) && line.ends_with("exact"));
    assert!(
        is_exact("distinct keys") && is_exact("repeats") && text.contains("every key was counted"),
        "{text}"
    );
    let distinct = overbank("distinct --json").with(&store).run().json();
    assert_eq!((&distinct["estimate"], &distinct["exact"]), (&(truth as f64).into(), &true.into()));
    // The same rows again, and others, in a later run.
    let more: Vec<String> = (0..500).map(|i| format!("more {}", i % 7)).collect();
    let more = file(place.path(), "more", lines(&[rows, more].concat()));
    let report = overbank("profile -q --json --append --store").with(&store).with(&more).run().json();
    assert_eq!(
        (&report["distinct"]["estimate"], &report["distinct"]["exact"]),
        (&(truth as f64 + 7.0).into(), &true.into())
    );
    let share = 1.0 - (truth as f64 + 7.0) / 6500.0;
    assert_eq!(
        report["repeat_share"],
        serde_json::json!({"estimate": share, "lower": share, "upper": share, "exact": true})
    );
    assert!(overbank("distinct").with(&store).run().text().trim_end().ends_with("exact"));
}
