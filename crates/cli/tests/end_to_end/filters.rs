//! `seen` and `filter`: answers against a multiset, bulk builds, plans, damage, full disks, memory.

use crate::announced::killed;
use crate::command::overbank;
use crate::stores::SmallDisk;
use crate::stream::{Random, counts, file, keys, lines};
use crate::terminal::fits;
use std::fs;

const BUILD: &str = "filter build --quiet --memory 32MiB --keys 1e6 --error 1e-12 --seed 7";

#[test]
fn a_built_filter_counts_and_dedup_goes_on_with_it() {
    let place = tempfile::tempdir().unwrap();
    let rows = keys(121, 60_000, 20_000);
    let input = file(place.path(), "rows", lines(&rows));
    let store = place.path().join("store");
    let built = overbank(&format!("{BUILD} --json")).with(&store).with(&input).run().json();
    assert_eq!(built["rows"], 60_000);
    assert_eq!(built["filter"]["occurrences"], 60_000);
    let exact = counts(&rows);
    let mut asked: Vec<&str> = exact.keys().copied().collect();
    asked.extend(["never", "nor this"]);
    let list = file(place.path(), "asked", asked.join("\n"));
    let seen =
        |words: &str| overbank(&format!("seen --json {words} --keys-from")).with(&list).with(&store).run();
    for (ran, has_counts) in [(seen(""), false), (seen("--counts"), true)] {
        assert_eq!((ran.code, ran.err.as_str()), (Some(1), ""));
        assert_eq!(ran.out.lines().count(), asked.len());
        for (line, key) in ran.out.lines().zip(&asked) {
            let line: serde_json::Value = serde_json::from_str(line).unwrap();
            assert_eq!(line["key"], *key);
            assert_eq!(line["seen"], exact.contains_key(key));
            let count = exact.get(key).copied().unwrap_or(0);
            assert_eq!(line.get("count"), has_counts.then(|| count.into()).as_ref());
        }
    }
    let known = overbank("seen").with(&store).with(&rows[0]).run();
    assert_eq!((known.code, known.out.contains("seen")), (Some(0), true));
    assert!(overbank("seen").with(&store).with("never").run().out.contains("new"));
    let mut more = lines(&rows);
    more.extend(b"fresh\n");
    assert_eq!(overbank("dedup --memory 32MiB --store").with(&store).fed(more).run().text(), "fresh\n");
    let info = overbank("info --json").with(&store).run().json();
    assert_eq!(info["summaries"][0]["kind"], "keys seen");
    assert_eq!(info["summaries"][0]["filter"]["keys"], exact.len() + 1);
    let page = overbank("filter info").with(&store).run().text();
    for word in ["keys", "full", "error", "flash", "RAM", "Runs", "level", "bits a key"] {
        assert!(page.contains(word), "{word}: {page}");
    }
    fits(&page.replace(place.path().to_str().unwrap(), ""));
}

#[test]
fn a_build_goes_on_after_an_interruption() {
    let place = tempfile::tempdir().unwrap();
    let rows = keys(122, 300_000, 200_000);
    let input = file(place.path(), "rows", lines(&rows));
    let store = place.path().join("store");
    let build = || overbank(&format!("{BUILD} --json --commit-every 0 --resume")).with(&store).with(&input);
    let mut random = Random(126);
    for passed in [1, 4, 7, 12] {
        assert!(killed(build(), passed, &mut random));
    }
    overbank(&format!("{BUILD} --json --resume")).with(&store).with(&input).run().json();
    let filter = overbank("filter info --json").with(&store).run().json();
    assert_eq!(filter["occurrences"], rows.len());
}

#[test]
fn filters_of_one_seed_add_up() {
    let place = tempfile::tempdir().unwrap();
    let rows = keys(123, 40_000, 15_000);
    let stores: Vec<_> = (0..3).map(|part| place.path().join(format!("part-{part}"))).collect();
    for (part, store) in rows.chunks(14_000).zip(&stores) {
        overbank(BUILD).with(store).fed(lines(part)).run().text();
    }
    let into = place.path().join("into");
    let merged = overbank("filter merge --json --memory 48MiB")
        .with(&into)
        .with(&stores[0])
        .with(&stores[1])
        .run()
        .json();
    assert_eq!(merged["occurrences"], 28_000);
    overbank("filter merge --memory 48MiB").with(&into).with(&stores[2]).run().text();
    let ran = overbank("seen --json --counts --keys-from -").with(&into).fed(lines(&rows)).run();
    let exact = counts(&rows);
    for (line, key) in ran.out.lines().zip(&rows) {
        let line: serde_json::Value = serde_json::from_str(line).unwrap();
        assert_eq!(line["count"], exact[key.as_str()]);
    }
    let stranger = place.path().join("stranger");
    overbank("filter build --quiet --memory 32MiB --seed 8").with(&stranger).fed("a\n").run().text();
    let refused = overbank("filter merge").with(&into).with(&stranger).run();
    refused.fails_naming(&["stranger", "another seed", "--seed"]);
}

#[test]
fn a_plan_tells_what_a_filter_costs() {
    let plan = overbank("filter plan --json --keys 1e10 --error 1e-6 --memory 1GiB").run().json();
    let bits = plan["flash_bytes"].as_f64().unwrap() * 8.0 / 1e10;
    assert!((21.0..25.0).contains(&bits), "{plan}");
    assert!(
        plan["reads_a_lookup"].as_f64().unwrap() > 1.0 && plan["bytes_written_a_key"].as_f64().unwrap() > 2.0
    );
    fits(&overbank("filter plan --keys 1e16 --error 1e-2").run().text());
    overbank("filter plan --error 7").run().fails_naming(&["7"]);
    overbank("filter plan --memory 1MiB").run().fails_naming(&["--memory", "32.0 MiB"]);
}

#[test]
fn a_merge_names_the_store_that_is_no_filter_or_of_another_seed() {
    let place = tempfile::tempdir().unwrap();
    let input = file(place.path(), "keys", "a\nb\n");
    let at = |name: &str| place.path().join(name);
    for (command, name) in [
        ("filter build -q --seed 1", "one"),
        ("filter build -q --seed 2", "two"),
        ("profile -q --memory 8MiB --seed 3 --store", "counts"),
    ] {
        assert_eq!(overbank(command).with(at(name)).with(&input).run().code, Some(0));
    }
    let merge = |other| overbank("filter merge").with(at("into")).with(at("one")).with(at(other)).run();
    merge("counts").fails_naming(&["counts holds no filter"]);
    merge("two").fails_naming(&["two was built under another seed", "than", "one", "--seed"]);
    assert!(!merge("two").err.contains("into"));
}

#[test]
fn what_is_no_filter_is_named() {
    let place = tempfile::tempdir().unwrap();
    let profile = place.path().join("profile");
    overbank("profile --quiet --memory 8MiB --store").with(&profile).fed("a\n").run().text();
    for command in ["seen", "filter info"] {
        let run = overbank(command).with(&profile);
        let run = if command == "seen" { run.with("a") } else { run };
        run.run().fails_naming(&["holds no filter", "dedup"]);
    }
    overbank("filter build").with(&profile).fed("a\n").run().fails_naming(&["another"]);
    overbank("filter info").with(place.path().join("missing")).run().fails_naming(&["missing"]);
}

#[test]
fn damage_is_found_and_never_an_answer() {
    let place = tempfile::tempdir().unwrap();
    let store = place.path().join("store");
    overbank(BUILD).with(&store).fed(lines(&keys(124, 50_000, 40_000))).run().text();
    let mut files = fs::read_dir(&store).unwrap().map(|entry| entry.unwrap().path());
    let path = files.find(|path| path.extension().is_some_and(|end| end == "seg")).unwrap();
    let mut bytes = fs::read(&path).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&path, bytes).unwrap();
    overbank("verify").with(&store).run().ends_naming(2, &["damaged"]);
    let ran = overbank("seen --keys-from -").with(&store).fed(lines(&keys(124, 50_000, 40_000))).run();
    assert_eq!(ran.code, Some(2), "{}", ran.err);
    assert!(ran.err.contains("damaged"), "{}", ran.err);
}

#[test]
fn a_full_disk_leaves_the_last_commit_whole() {
    let place = tempfile::tempdir().unwrap();
    let Some(disk) = SmallDisk::new(&place.path().join("disk"), "12m") else {
        println!("skipped: no file system can be mounted here");
        return;
    };
    let store = disk.0.join("store");
    let mut random = Random(125);
    let rows: Vec<String> = (0..2_600_000).map(|_| format!("{:x}", random.next())).collect();
    let (first, second) = rows.split_at(100_000);
    let (first, second) =
        (file(place.path(), "first", lines(first)), file(place.path(), "second", lines(second)));
    let dedup = || overbank("dedup --memory 32MiB --error 1e-9 --store");
    let kept = dedup().with(&store).with(&first).run().text();
    assert_eq!(kept.lines().count(), 100_000);
    let ran = dedup().with(&store).with(&second).run();
    assert_eq!(ran.code, Some(2), "{}", ran.err);
    assert!(ran.err.contains("free some space"), "{}", ran.err);
    assert_eq!(dedup().with(&store).with("--append").with(&first).run().out, "");
    assert!(overbank("verify --json").with(&store).run().json()["whole"].as_bool().unwrap());
}
