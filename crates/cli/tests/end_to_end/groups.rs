//! `group`, `wordcount`, `ngrams` and `kmers`, against maps that the tests fill and small cases by hand.

use crate::announced::{Announced, killed, points, signal};
use crate::command::{Run, overbank};
use crate::stream::{Random, file};
use flate2::read::MultiGzDecoder;
use parquet::file::reader::{FileReader, SerializedFileReader};
use rustix::process::Signal;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::Stdio;

/// Sales of a few places and things: NULLs, quotes, ties, numbers of several kinds.
const SALES: &str = "\
city,thing,amount,price,day
Bern,pear,3,1.50,2026-01-02
Bern,fig,,2.25,2026-01-03
,pear,7,0.50,2026-01-01
\"Zug, ZG\",pear,-4,,2026-01-05
Bern,pear,5,1.25,2026-01-04
";

fn group(words: &str) -> Run {
    overbank("group -q --seed 1 --memory 32MiB").args(words)
}

fn sales() -> (tempfile::TempDir, PathBuf) {
    let place = tempfile::tempdir().unwrap();
    let path = file(place.path(), "sales.csv", SALES);
    (place, path)
}

/// Lines of JSON by their member `key`.
fn by_key(text: &str, key: &str) -> BTreeMap<String, Value> {
    let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    lines.map(|line| (line[key].to_string(), line)).collect()
}

#[test]
fn sql_by_hand() {
    let (_place, path) = sales();
    let out = group("--by city --agg count,count(amount),sum(amount),min(price),max(day) --sort city")
        .with(&path)
        .run()
        .text();
    let expected = "\
city,count,count(amount),sum(amount),min(price),max(day)
Bern,3,2,8,1.25,2026-01-04
\"Zug, ZG\",1,1,-4,,2026-01-05
,1,1,7,0.5,2026-01-01
";
    assert_eq!(out, expected);

    // Two columns, decimals with all their digits, another name, the greatest first.
    let out = group("--by city,thing --types price:decimal(6,2)")
        .args("--sort total:desc")
        .with("--agg")
        .with("sum(price) as total");
    let expected = "city,thing,total\nBern,pear,2.75\nBern,fig,2.25\n,pear,0.50\n\"Zug, ZG\",pear,\n";
    assert_eq!(out.with(&path).run().text(), expected);

    // JSON has null where CSV has nothing.
    let out = group("--by city --agg sum(price) --as json").with(&path).run().text();
    let lines = by_key(&out, "city");
    assert_eq!(lines["\"Zug, ZG\""]["sum(price)"], Value::Null);
    assert_eq!((&lines["null"]["sum(price)"], lines.len()), (&Value::from(0.5), 3));

    // The first by a result, as a page; all rows as one group.
    let out = group("--by thing --top 1 --as table").with(&path).run().text();
    assert_eq!(out.split_whitespace().collect::<Vec<_>>(), ["thing", "count", "pear", "4"]);
    assert_eq!(group("--agg count,sum(amount)").with(&path).run().text(), "count,sum(amount)\n5,11\n");
}

/// Rows of which nothing is asked are counted, in every format.
#[test]
fn all_rows_are_one_group_though_no_field_is_named() {
    let (place, path) = sales();
    for words in ["", "--agg count"] {
        assert_eq!(group(words).with(&path).run().text(), "count\n5\n", "{words}");
    }
    let parquet = place.path().join("sales.parquet");
    group("--by city,thing,day --agg count -o").with(&parquet).with(&path).run().text();
    assert_eq!(group("--agg count").with(&parquet).run().text(), "count\n5\n");
    for (format, rows, count) in [
        ("lines", "a\n\nb", 3),
        ("whitespace", "a b\n\nc\n", 3),
        ("delimited", "a\tb\nc\n", 2),
        ("csv --no-header", "a,b\n\"c\nd\",e\n\n", 2),
        ("jsonl", "{\"a\":1}\n\n{}\n", 2),
        ("fasta", ">a\nAC\n>b\n", 2),
    ] {
        let text = group("--agg count --format").args(format).fed(rows).run().text();
        assert_eq!(text, format!("count\n{count}\n"), "{format}");
    }
    // A store goes on with them, and tells them from rows of which something is asked.
    let store = place.path().join("store");
    let kept = |words: &str| group(words).args("--agg count --store").with(&store).with(&path).run();
    assert_eq!(kept("").text(), "count\n5\n");
    assert_eq!(kept("--append").text(), "count\n10\n");
    kept("--append --by city").fails_naming(&["another command"]);
}

#[test]
fn a_column_that_is_there_twice_is_refused_where_it_is_asked_for() {
    let place = tempfile::tempdir().unwrap();
    let path = file(place.path(), "twice.csv", "k,x,y,x,x\na,1,2,3,4\n");
    for words in ["--by x", "--by k --agg sum(x)"] {
        let named = ["twice.csv", "columns 2 and 4", "\"x\"", "--no-header"];
        group(words).with(&path).run().fails_naming(&named);
    }
    assert_eq!(group("--by k --agg sum(y)").with(&path).run().text(), "k,sum(y)\na,2\n");
    let by_number = group("--by 4 --format csv --no-header").fed("a,1,2,3,4\n").run().text();
    assert_eq!(by_number, "4,count\n3,1\n");
    overbank("profile --quiet --key x").with(&path).run().fails_naming(&["columns 2 and 4"]);
}

#[test]
fn nulls_and_empty_texts_are_told_apart() {
    let rows = "{\"k\":\"\",\"x\":1}\n{\"k\":null,\"x\":2}\n{\"x\":3}\n{\"k\":\"a\"}\n";
    let ran = group("--by k --agg count,sum(x) --format jsonl --sort count").fed(rows).run().text();
    assert_eq!(ran, "k,count,sum(x)\n\"\",1,1\na,1,\n,2,5\n");
    let ran = group("--by 1 --agg count --format delimited --sort 1").fed("a\t1\n\t2\n\t3\n").run().text();
    assert_eq!(ran, "1,count\na,1\n,2\n");
}

/// Nothing comes to nothing, whatever is computed of it.
#[test]
fn inputs_without_rows_have_no_groups() {
    let words = "--by k --agg sum(x),p99(x),bitmap(y),max(z) --format csv";
    let header = "k,sum(x),p99(x),bitmap(y),max(z)\n";
    for rows in ["k,x,y,z\n", "k,x,y,z"] {
        assert_eq!(group(words).fed(rows).run().text(), header);
    }
    // What is NULL in the first rows is taken for what functions take.
    assert_eq!(group(words).fed("k,x,y,z\na,,,\n").run().text(), format!("{header}a,,,,\n"));
    let least =
        |memory: &str| overbank("group -q --by k --format csv --memory").with(memory).fed("k\na\n").run();
    assert_eq!(least("16MiB").text(), "k,count\na,1\n");
    least("15MiB").fails_naming(&["15.0 MiB", "16.0 MiB"]);
    let whole = "[1]\n{\"k\":\"a\"}\n";
    let ran = group("--by k --format jsonl").fed(whole).run();
    assert_eq!((ran.code, ran.out.as_str()), (Some(0), "k,count\na,1\n"));
    assert!(ran.err.contains("the row is an array, not an object"), "{}", ran.err);
}

#[test]
fn rows_of_other_types_are_counted_and_kept_for_who_wants_them() {
    let place = tempfile::tempdir().unwrap();
    let path = file(place.path(), "in.csv", "k,x\na,1\na,two\nb,3\nc\nb,9223372036854775808\n");
    let rejects = place.path().join("rejects");
    let ran = group("--by k --agg sum(x) --types x:int --sort k --rejects").with(&rejects).with(&path).run();
    assert_eq!((ran.code, ran.out.as_str()), (Some(0), "k,sum(x)\na,1\nb,3\n"));
    for word in ["3 malformed rows were left out", "line 3", "field x is \"two\", not an integer of 64 bits"]
    {
        assert!(ran.err.contains(word), "{}", ran.err);
    }
    assert_eq!(fs::read_to_string(&rejects).unwrap(), "a,two\nc\nb,9223372036854775808\n");
    group("--by k --agg sum(x) --types x:int --strict")
        .with(&path)
        .run()
        .fails_naming(&["in.csv:3", "\"two\""]);
}

#[test]
fn what_is_asked_wrongly_is_named_with_the_remedy() {
    let (_place, path) = sales();
    for (words, named) in [
        ("--by town", &["no such column", "town", "city"][..]),
        ("--by city --agg sum(cost)", &["cost", "price"]),
        ("--by city --agg summ(price)", &["no function summ", "functions are count, sum"]),
        ("--by city --agg sum(thing)", &["thing", "Utf8", "cannot be taken by sum", "--types"]),
        ("--by city --agg list(thing)", &["list(x, 10)"]),
        ("--by city --types thing:text", &["thing", "neither --by nor --agg"]),
        ("--by city --types city:number", &["no type number", "decimal(p,s)"]),
        ("--by city --sort amount", &["no column amount", "city, count"]),
        ("--by city --integers", &["--types x:int"]),
        ("--by city,count", &["count", "city"]),
        ("--by city,city", &["city", "this column twice"]),
        ("--by city --top 2:count --sort city", &["--sort and --top", "--top N"]),
        ("--by city --as parquet --threads 0", &["0"]),
    ] {
        group(words).with(&path).run().fails_naming(named);
    }
    let lines = "{\"a\":1}\n{\"a\":2}\n";
    group("--by a,b --format jsonl").fed(lines).run().fails_naming(&["no row has a field b", "2 read"]);
    group("--by a").fed("x\n").run().fails_naming(&["a", "choose a format"]);
    let out = path.with_file_name("out.parquet");
    group("--by city --as parquet")
        .with(&path)
        .with("-o")
        .with(&path)
        .run()
        .fails_naming(&["input and the output"]);
    group("--by city --agg sum(amount) --types amount:uint --strict -o")
        .with(&out)
        .with(&path)
        .run()
        .fails_naming(&["\"-4\""]);
    assert!(!out.exists() && fs::read_to_string(&path).unwrap() == SALES);
    let huge = "k,x\na,9223372036854775807\na,1\n";
    group("--by k --agg sum(x) --format csv")
        .fed(huge)
        .run()
        .ends_naming(2, &["9223372036854775808", "does not fit"]);
    let wide = group("--by k --agg sum(x) --format csv --overflow wide").fed(huge).run().text();
    assert_eq!(wide, "k,sum(x)\na,9223372036854775808\n");
}

/// Of each name and size: rows, the sum of x, the greatest y.
type Expected = BTreeMap<(String, i64), (u64, i64, f64)>;

/// Many rows with keys of two columns, and what they come to.
fn many() -> (String, Expected) {
    let (mut text, mut expected) = ("name,size,x,y\n".to_owned(), Expected::new());
    let mut state = 7u64;
    for _ in 0..60_000 {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let (name, size) = (format!("n{}", state >> 40 & 1023), (state >> 50 & 7) as i64 - 3);
        let (x, y) = ((state >> 20 & 0xffff) as i64 - 30_000, f64::from((state >> 33) as u16) / 7.0);
        text.push_str(&format!("{name},{size},{x},{y}\n"));
        let group: &mut (u64, i64, f64) = expected.entry((name, size)).or_default();
        (group.0, group.1, group.2) = (group.0 + 1, group.1 + x, group.2.max(y));
    }
    (text, expected)
}

#[test]
fn threads_do_not_change_a_byte() {
    let place = tempfile::tempdir().unwrap();
    let (text, expected) = many();
    let path = file(place.path(), "many.csv", text);
    let run = |threads: u32| {
        group("--by name,size --agg count,sum(x),max(y),sum(y) --types size:int")
            .args(&format!("-j {threads}"))
            .with(&path)
            .run()
            .text()
    };
    let one = run(1);
    assert_eq!(one.lines().count(), expected.len() + 1);
    for line in one.lines().skip(1) {
        let fields: Vec<&str> = line.split(',').collect();
        let key = (fields[0].to_owned(), fields[1].parse().unwrap());
        let (count, sum, max) = expected[&key];
        assert_eq!((fields[2], fields[3]), (count.to_string().as_str(), sum.to_string().as_str()));
        assert_eq!(fields[4].parse::<f64>().unwrap(), max);
    }
    for threads in [2, 8] {
        assert!(run(threads) == one, "other bytes with {threads} threads");
    }
    let sorted = |threads: u32| {
        let words = format!("--by name,size --agg sum(x) --sort sum(x):desc -j {threads}");
        group(&words).with(&path).run().text()
    };
    let all = sorted(1);
    assert!(all == sorted(8));
    let top = group("--by name,size --agg sum(x) --top 10:sum(x)").with(&path).run().text();
    assert!(all.starts_with(&top) && top.lines().count() == 11, "{top}");
}

/// All rows of a Parquet file, as its crate prints them.
fn parquet_rows(path: &Path) -> Vec<String> {
    let file = SerializedFileReader::new(File::open(path).unwrap()).unwrap();
    file.get_row_iter(None).unwrap().map(|row| row.unwrap().to_string()).collect()
}

#[test]
fn parquet_goes_out_with_types_and_comes_in_with_them() {
    let (place, path) = sales();
    let out = place.path().join("out.parquet");
    let words =
        "--by city --agg count,sum(price),max(day) --types price:decimal(6,2),day:date --sort city -o";
    assert_eq!(group(words).with(&out).with(&path).run().text(), "");
    assert_eq!(
        parquet_rows(&out),
        [
            r#"{city: "Bern", count: 3, sum(price): 5.00, max(day): 2026-01-04}"#,
            r#"{city: "Zug, ZG", count: 1, sum(price): null, max(day): 2026-01-05}"#,
            r#"{city: null, count: 1, sum(price): 0.50, max(day): 2026-01-01}"#,
        ]
    );
    let counted = place.path().join("counted.parquet");
    group("--by city --agg topk(amount,1) --types amount:int --top 1:city -o")
        .with(&counted)
        .with(&path)
        .run()
        .text();
    let list = "topk(amount,1): [{value: -4, count: 1, error: 0}]";
    assert_eq!(parquet_rows(&counted), [format!("{{city: \"Zug, ZG\", {list}}}")]);
    // What was written is read with its types: a date is a date, a count a number.
    let again = group("--by max(day) --agg")
        .with("sum(count),max(sum(price))")
        .args("--sort max(day):desc --as json")
        .with(&out);
    again.run().fails_naming(&["sum(count)"]);
    let again =
        group("--by city --agg").with(r#"sum(count) as n,max("sum(price)") as most,min("max(day)") as day"#);
    let again = again.args("--sort day:desc --as json").with(&out).run().text();
    let first = r#"{"city":"Zug, ZG","n":1,"most":null,"day":"2026-01-05"}"#;
    assert_eq!(again.lines().next(), Some(first));
    assert_eq!(again.lines().count(), 3);
}

#[test]
fn words_are_counted_as_in_a_map() {
    let text = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../README.md")).unwrap();
    let place = tempfile::tempdir().unwrap();
    let path = file(place.path(), "readme.txt", &text);
    let mut words: BTreeMap<String, u64> = BTreeMap::new();
    let mut pairs: BTreeMap<String, u64> = BTreeMap::new();
    for line in text.to_lowercase().lines() {
        let line: Vec<&str> =
            line.split(|sign: char| !sign.is_alphanumeric()).filter(|word| !word.is_empty()).collect();
        line.iter().for_each(|word| *words.entry((*word).to_owned()).or_default() += 1);
        line.windows(2).for_each(|pair| *pairs.entry(pair.join(" ")).or_default() += 1);
    }
    let counted = |command: &str, name: &str| -> BTreeMap<String, u64> {
        let run = overbank(command)
            .args("-q --memory 32MiB --lowercase --letters --as json")
            .with(&path)
            .run()
            .text();
        let lines = run.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        lines.map(|line| (line[name].as_str().unwrap().to_owned(), line["count"].as_u64().unwrap())).collect()
    };
    assert!(counted("wordcount", "word") == words);
    assert!(counted("ngrams -n 2", "ngram") == pairs);
    let top = overbank("wordcount -q --memory 32MiB --lowercase --letters --top 1").with(&path).run().text();
    let most = words.iter().max_by_key(|(_, count)| **count).unwrap();
    assert_eq!(top, format!("word,count\n{},{}\n", most.0, most.1));
    let trigrams = overbank("ngrams -n 3 --characters --sort ngram").fed("abab\nab\nbab\n").run().text();
    assert_eq!(trigrams, "ngram,count\naba,1\nbab,2\n");
    overbank("ngrams -n 0").run().fails_naming(&["0"]);
}

#[test]
fn kmers_of_a_genome_are_those_of_a_map() {
    let sample = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/ecoli_MG1655-K12.fasta.gz");
    let mut text = String::new();
    MultiGzDecoder::new(File::open(sample).unwrap()).read_to_string(&mut text).unwrap();
    // The beginning is enough, in two records.
    let (header, sequence) = text.split_once('\n').unwrap();
    let sequence: String = sequence.lines().collect::<String>()[..200_000].to_owned();
    let (one, other) = sequence.split_at(120_000);
    let place = tempfile::tempdir().unwrap();
    let path = file(place.path(), "part.fasta", format!("{header}\n{one}\n>second\n{other}\n"));
    let complement = |kmer: &[u8]| -> Vec<u8> {
        let pair = |letter: &u8| b"TGCA"[b"ACGT".iter().position(|other| other == letter).unwrap()];
        kmer.iter().rev().map(pair).collect()
    };
    let mut expected: BTreeMap<Vec<u8>, u64> = BTreeMap::new();
    for part in [one, other] {
        for kmer in part.as_bytes().windows(9) {
            *expected.entry(kmer.to_vec().min(complement(kmer))).or_default() += 1;
        }
    }
    let run = |threads: u32| {
        let words = format!("kmers -k 9 --canonical -q --seed 3 --memory 64MiB -j {threads}");
        overbank(&words).with(&path).run().text()
    };
    let text = run(1);
    let found: BTreeMap<Vec<u8>, u64> = text
        .lines()
        .skip(1)
        .map(|line| line.split_once(',').unwrap())
        .map(|(kmer, count)| (kmer.as_bytes().to_vec(), count.parse().unwrap()))
        .collect();
    assert!(found == expected, "{} k-mers, not {}", found.len(), expected.len());
    assert!(run(4) == text);
}

#[test]
fn a_reader_that_leaves_is_met_with_silence() {
    let (text, _) = many();
    let place = tempfile::tempdir().unwrap();
    let path = file(place.path(), "many.csv", text);
    let mut child = group("--by name,size,x").with(&path).start();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), output.stderr), (Some(141), Vec::new()));
}

#[test]
fn an_output_that_is_not_whole_is_none() {
    let (place, _) = sales();
    let out = place.path().join("out.csv");
    fs::write(&out, "before").unwrap();
    // The second file is no gzip, which is found when groups of the first are there.
    let broken = file(place.path(), "broken.csv.gz", [&b"\x1f\x8b\x08\0"[..], &[0; 40]].concat());
    let ran = group("--by city -o").with(&out).with(place.path().join("sales.csv")).with(&broken).run();
    assert_eq!(ran.code, Some(2), "{ran:?}");
    assert_eq!(fs::read_to_string(&out).unwrap(), "before");
    assert_eq!(fs::read_dir(place.path()).unwrap().count(), 3);
}

#[test]
fn a_signal_leaves_the_output_as_it_was() {
    let (place, path) = sales();
    for name in ["out.csv", "out.parquet"] {
        let out = place.path().join(name);
        fs::write(&out, "before").unwrap();
        for point in ["chunk", "written"] {
            let mut run = Announced::start(group("--by city -o").with(&out).with(&path), Run::start);
            assert!(run.reach(point), "{point} is announced");
            signal(&run.child, Signal::INT);
            run.end().ends_naming(130, &["interrupted", "run the same command again"]);
            assert_eq!(fs::read_to_string(&out).unwrap(), "before");
        }
        fs::remove_file(&out).unwrap();
    }
    assert_eq!(fs::read_dir(place.path()).unwrap().count(), 1);
}

#[test]
fn a_run_that_is_killed_anywhere_goes_on() {
    let (text, _) = many();
    let text: String = text.split_inclusive('\n').take(9_000).collect();
    let place = tempfile::tempdir().unwrap();
    let path = file(place.path(), "many.csv", text);
    let words = "--by name,size --agg count,sum(x),sum(y) --types size:int --commit-every 0";
    let expected = group(words.split(" --commit").next().unwrap()).with(&path).run().text();
    let stored = |store: &Path| group(words).with("--store").with(store);
    let whole = place.path().join("whole");
    let points = points(stored(&whole).with(&path).output_to(Stdio::null()));
    let mut random = Random(3);
    for run in 0..3 {
        let store = place.path().join(format!("store{run}"));
        let passed = random.below(points);
        killed(stored(&store).with(&path).output_to(Stdio::null()), passed, &mut random);
        // A run that came to its end in spite of the kill is gone on with, too: nothing is left to be read then.
        let resumed = stored(&store).args("--resume").with(&path).output_to(Stdio::null());
        killed(resumed, random.below(points), &mut random);
        let resumed = stored(&store).args("--resume").with(&path).run().text();
        assert!(resumed == expected, "killed at {passed}");
    }
    stored(&whole).with(&path).run().fails_naming(&["whole stream", "--append", "--resume"]);
    group("--by size --store")
        .with(&whole)
        .args("--resume")
        .with(&path)
        .run()
        .fails_naming(&["another command", "--by"]);
    let other = group("--by name,size --agg count,sum(x),sum(y) --types size:float --resume --store");
    other.with(&whole).with(&path).run().fails_naming(&["another type", "size"]);
    // The same rows once more: counts double.
    let appended = stored(&whole).args("--append --top 1:count").with(&path).run().text();
    let most = group(words.split(" --commit").next().unwrap()).args("--top 1:count").with(&path).run().text();
    let count = |text: &str| text.lines().nth(1).unwrap().split(',').nth(2).unwrap().parse::<u64>().unwrap();
    assert_eq!(count(&appended), 2 * count(&most));
    overbank("top").with(&whole).run().fails_naming(&["holds groups", "overbank group"]);
    overbank("verify").with(&whole).run().text();
    overbank("info").with(&whole).run().text();
}

#[test]
fn groups_that_memory_does_not_hold_go_to_flash() {
    let place = tempfile::tempdir().unwrap();
    let mut random = Random(11);
    // Some 240 bytes a key where digits take half a byte: more than the groups' half of the memory.
    let key = |random: &mut Random| (0..30).map(|_| format!("{:016x}", random.next())).collect::<String>();
    let keys: Vec<String> = (0..100_000).map(|_| key(&mut random)).collect();
    let text: String = keys.iter().chain(keys.iter().step_by(4)).map(|key| format!("{key} 7\n")).collect();
    let path = file(place.path(), "keys", text);
    let spool = place.path().join("spool");
    fs::create_dir(&spool).unwrap();
    let words = "--by 1 --agg count,sum(2) --format whitespace --spool";
    let out = overbank("group -q --memory 32MiB").args(words).with(&spool).with(&path).run().text();
    assert_eq!(out.lines().count(), keys.len() + 1);
    let twice = out.lines().filter(|line| line.ends_with(",2,14")).count();
    let once = out.lines().filter(|line| line.ends_with(",1,7")).count();
    assert_eq!((twice, once), (25_000, 75_000));
    assert_eq!(fs::read_dir(&spool).unwrap().count(), 0);
}
