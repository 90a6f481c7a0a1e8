//! What is published about the JSON of every command, beside what the commands print.

use crate::command::{Run, overbank};
use crate::stream::{file, keys, lines, sample};
use jsonschema::Validator;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

/// The published schema.
struct Schema(Value);

impl Schema {
    fn published() -> Self {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/schema/overbank-1.json");
        Self(serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap())
    }

    /// A judge of the output of `command`.
    fn of(&self, command: &str) -> Validator {
        let schema = json!({
            "$schema": self.0["$schema"],
            "$ref": format!("#/$defs/{command}"),
            "$defs": self.0["$defs"],
        });
        jsonschema::validator_for(&schema).expect("a schema")
    }

    /// Checks all lines that a run printed.
    fn holds(&self, command: &str, text: &str) {
        assert!(!text.is_empty(), "{command} printed nothing");
        let judge = self.of(command);
        for line in text.lines() {
            let value = serde_json::from_str(line).expect("a line is a JSON value");
            assert_eq!(faults(&judge, &value), [""; 0], "{command}: {line}");
        }
    }
}

/// What is wrong with `value`.
fn faults(judge: &Validator, value: &Value) -> Vec<String> {
    judge.iter_errors(value).map(|error| format!("{}: {error}", error.instance_path())).collect()
}

/// The definitions within, `$defs` themselves left out.
fn each_object<'a>(schema: &'a Value, visit: &mut impl FnMut(&'a Value)) {
    visit(schema);
    match schema {
        Value::Object(fields) => fields.values().for_each(|field| each_object(field, visit)),
        Value::Array(items) => items.iter().for_each(|item| each_object(item, visit)),
        _ => {}
    }
}

fn input(place: &Path) -> PathBuf {
    file(place, "keys", lines(&keys(17, 30_000, 4_000)))
}

fn asked(words: &str, store: &Path) -> Run {
    overbank(words).with(store)
}

#[test]
fn every_field_of_the_schema_is_described_and_no_other_is_allowed() {
    let schema = Schema::published();
    assert_eq!(jsonschema::meta::validate(&schema.0).map_err(|error| error.to_string()), Ok(()));
    let mut objects = 0;
    each_object(&schema.0["$defs"], &mut |object| {
        let Some(properties) = object.get("properties").and_then(Value::as_object) else { return };
        objects += 1;
        assert_eq!(object["additionalProperties"], false, "{object}");
        for (name, field) in properties {
            assert!(field.get("description").or(field.get("$ref")).is_some(), "{name}: {field}");
        }
        for name in object["required"].as_array().unwrap() {
            assert!(properties.contains_key(name.as_str().unwrap()), "{name}");
        }
    });
    assert!(objects > 20);
    let stray = faults(&schema.of("distinct"), &json!({ "estimate": 1, "stray": 2 }));
    assert!(stray.iter().any(|fault| fault.contains("stray")) && stray.len() > 1, "{stray:?}");
    assert!(
        !faults(&schema.of("top"), &json!({ "weight": "1", "heavy_threshold": 0, "heavy": [] })).is_empty()
    );
}

#[test]
fn what_is_counted_is_as_published() {
    let schema = Schema::published();
    let place = tempfile::tempdir().unwrap();
    let input = input(place.path());
    let (profile, count) = (place.path().join("profile"), place.path().join("count"));
    let small = "--quiet --memory 16MiB";
    let run = asked(&format!("profile --json {small} --store"), &profile).with(&input).run();
    schema.holds("profile", &run.text());
    schema.holds("profile", &overbank("profile --json --quiet").fed("").run().text());
    let table = "k\tw\tv\na\t3\t0.5\nb\tx\t1\n\"\u{1}\t1\t1\n";
    let rows =
        overbank("profile --json --quiet --format delimited --key 1 --weight 2 --value 3").fed(table).run();
    schema.holds("profile", &rows.out);
    let run = asked(&format!("count --json {small} --store"), &count).with(&input).run();
    schema.holds("count", &run.text());
    for store in [&profile, &count] {
        schema.holds("top", &asked("top --json -n 3000", store).run().text());
        schema.holds("estimate", &asked("estimate --json --keys-from", &input).with(store).run().text());
        schema.holds("estimate", &asked("estimate --json", store).with("never came").run().out);
        schema.holds("distinct", &asked("distinct --json", store).run().text());
        schema.holds("quantile", &asked("quantile --json", store).run().text());
        schema.holds("info", &asked("info --json", store).run().text());
        schema.holds("verify", &asked("verify --json", store).run().text());
    }
    let [merged, twice] = ["merged", "twice"].map(|name| place.path().join(name));
    asked(&format!("profile --json --seed 3 {small} --store"), &twice).with(&input).run().text();
    schema.holds("merge", &asked("merge --json", &merged).with(&twice).with(&twice).run().text());
    schema.holds("info", &asked("info --json", &merged).run().text());
    schema.holds("plan", &overbank("plan --rows 1e9 --json").run().text());

    let bytes = place.path().join("bytes");
    asked("profile --json --quiet --store", &bytes).fed(b"\xff\xfe\n\xff\xfe\nplain\n").run().text();
    schema.holds("top", &asked("top --json", &bytes).run().text());
    let long = place.path().join("long");
    asked("profile --json --quiet --store", &long).fed("x".repeat(100_000)).run().text();
    schema.holds("top", &asked("top --json", &long).run().text());
    let empty = place.path().join("empty");
    asked("profile --json --quiet --store", &empty).fed("").run().text();
    schema.holds("top", &asked("top --json", &empty).run().out);
    schema.holds("quantile", &asked("quantile --json", &empty).run().out);
}

#[test]
fn what_is_remembered_is_as_published() {
    let schema = Schema::published();
    let place = tempfile::tempdir().unwrap();
    let input = input(place.path());
    let [deduped, built, merged] = ["deduped", "built", "merged"].map(|name| place.path().join(name));
    let seed = "--seed 5 --memory 32MiB";
    let run = asked(&format!("dedup --json --quiet {seed} --store"), &deduped).with(&input).run();
    schema.holds("dedup", &run.err);
    let run = asked("dedup --json --quiet --remove --memory 32MiB --store", &deduped).fed("key\n").run();
    schema.holds("dedup", &run.err);
    schema.holds("dedup", &overbank("dedup --json --quiet --window 1e6").with(&input).run().err);
    let run = asked(&format!("filter build --json --quiet {seed}"), &built).with(&input).run();
    schema.holds("filter_build", &run.text());
    let run = asked("filter merge --json --memory 32MiB", &merged).with(&built).with(&deduped).run();
    schema.holds("filter", &run.text());
    for store in [&deduped, &built, &merged] {
        schema.holds("filter", &asked("filter info --json", store).run().text());
        schema.holds("seen", &asked("seen --json --keys-from", &input).with(store).run().out);
        schema.holds("seen", &asked("seen --json --counts", store).with("never came").run().out);
        schema.holds("info", &asked("info --json", store).run().text());
        schema.holds("verify", &asked("verify --json", store).run().text());
    }
    schema.holds("filter_plan", &overbank("filter plan --keys 1e9 --json").run().text());
}

#[test]
fn what_a_dictionary_says_is_as_published() {
    let schema = Schema::published();
    let place = tempfile::tempdir().unwrap();
    let [store, one, two, all, join] =
        ["store", "one", "two", "all", "join"].map(|name| place.path().join(name));
    let pairs = file(place.path(), "pairs", b"a\t1\nb\t\xff\n\xfe\tx\n\t\n");
    let fields = "--format delimited --key 1 --value 2";
    let run = asked(&format!("dict build --json {fields} --ranks --merge append"), &store).with(&pairs).run();
    schema.holds("dict_change", &run.text());
    schema.holds(
        "dict_change",
        &asked(&format!("dict update --json {fields}"), &store).with(&pairs).run().text(),
    );
    schema.holds("dict_change", &asked("dict delete --json", &store).fed("a\n").run().text());
    schema.holds("dict_pair", &asked("dict scan --as json", &store).run().text());
    schema.holds("dict_pair", &asked("dict get --as json --absent", &store).with("b").with("a").run().out);
    schema.holds("dict_info", &asked("dict info --json", &store).run().text());
    schema.holds("info", &asked("info --json", &store).run().text());
    schema.holds("dict_split", &asked("dict split --json", &store).with(&one).with(&two).run().text());
    schema.holds("dict_info", &asked("dict concat --json", &all).with(&one).with(&two).run().text());
    schema.holds("dict_rank", &asked("dict rank --json", &all).with("b").with("a").run().out);
    schema.holds("dict_join", &asked("dict join --json", &store).fed("c\nd\n").run().err);
    schema.holds(
        "dict_plan",
        &overbank("dict plan --items 1e9 --key-bytes 40 --value-bytes 1e3 --json").run().text(),
    );
    asked("dict build", &join).fed("k\n").run().text();
    let segment = std::fs::read_dir(&join).unwrap().map(|entry| entry.unwrap().path());
    let segment = segment.filter(|path| path.extension().is_some_and(|end| end == "seg")).last().unwrap();
    let mut bytes = std::fs::read(&segment).unwrap();
    bytes[20] ^= 1;
    std::fs::write(&segment, bytes).unwrap();
    schema.holds("verify", &asked("verify --json", &join).run().out);
}

#[test]
fn what_is_monitored_is_as_published() {
    let schema = Schema::published();
    let capture = sample("captures/ntp.pcap");
    for words in ["", "--by bytes --key five-tuple", "--epoch 100s -n 3"] {
        let run = asked(&format!("monitor --json --memory 16MiB {words} --pcap"), &capture).run();
        schema.holds("monitor", &run.text());
    }
    let place = tempfile::tempdir().unwrap();
    let store = place.path().join("epochs");
    let run = asked("monitor --json --memory 16MiB --epoch 100s --store", &store)
        .args("--pcap")
        .with(&capture)
        .run();
    schema.holds("monitor", &run.text());
    for epoch in ["", "--epoch last"] {
        schema.holds("top", &asked(&format!("top --json {epoch}"), &store).run().text());
        schema.holds("distinct", &asked(&format!("distinct --json {epoch}"), &store).run().text());
        schema.holds("quantile", &asked(&format!("quantile --json {epoch}"), &store).run().text());
        let flow = asked(&format!("estimate --json {epoch}"), &store).with("10.0.0.1 > 10.0.0.2").run();
        schema.holds("estimate", &flow.out);
    }
    schema.holds("info", &asked("info --json", &store).run().text());
    schema.holds("verify", &asked("verify --json", &store).run().text());
}

#[test]
fn what_groups_say_is_as_published() {
    let schema = Schema::published();
    let place = tempfile::tempdir().unwrap();
    let words = "group --by 1,2 --agg count,sum(2),max(2),topk(1,2) --types 2:float --format delimited --as json --memory 32MiB";
    let rows = file(place.path(), "rows", "a\t1.5\n\t\nb\tnan\n");
    schema.holds("group", &overbank(words).with(&rows).run().text());
    schema.holds("group", &overbank("wordcount --as json --memory 32MiB").with(&rows).run().text());
}
