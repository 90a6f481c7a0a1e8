//! Groups where something comes in between: a signal, a second process, a store that was moved; and what must be the same for any number of
//! threads.

use crate::announced::Announced;
use crate::command::{Run, overbank};
use crate::stream::{Random, file};
use rustix::process::Signal;
use std::fs;

fn group(words: &str) -> Run {
    overbank("group -q --seed 1 --memory 32MiB").args(words)
}

#[test]
fn two_that_want_a_store_are_told_apart() {
    let place = tempfile::tempdir().unwrap();
    let (input, store) = (file(place.path(), "in", "a\nb\na\n"), place.path().join("store"));
    let stored = || group("--by 1 --format whitespace --sort count --store").with(&store).with(&input);
    let mut first = Announced::start(stored(), Run::start);
    assert!(first.reach("committing"));
    stored().with("--resume").run().fails_naming(&["store", "another process"]);
    let first = first.end().text();
    assert_eq!(first, "1,count\nb,1\na,2\n");
    // A store that was moved is the same one; one that is gone is a new one.
    let moved = place.path().join("moved");
    fs::rename(&store, &moved).unwrap();
    let again = group("--by 1 --format whitespace --sort count --resume --store").with(&moved).with(&input);
    assert_eq!(again.run().text(), first);
}

#[test]
fn ctrl_c_keeps_what_came_and_the_rest_goes_on() {
    let place = tempfile::tempdir().unwrap();
    let text: String = (0..40_000).map(|i| format!("k{}\n", i * 7919 % 5000)).collect();
    let (input, store) = (file(place.path(), "in", text), place.path().join("store"));
    let stored = || group("--by 1 --format whitespace --sort 1 --store").with(&store).with(&input);
    let whole = group("--by 1 --format whitespace --sort 1").with(&input).run().text();
    let mut run = Announced::start(stored(), Run::start);
    assert!(run.reach("chunk") && run.reach("chunk"));
    crate::announced::signal(&run.child, Signal::INT);
    run.end().ends_naming(130, &["interrupted", "--resume"]);
    assert!(stored().with("--resume").run().text() == whole);
}

#[test]
fn values_that_come_most_often_have_their_counts() {
    let rows = "k,x,y\na,p,1\na,q,2\na,p,2\nb,,\na,p,2\n\"b\",\"say \"\"hi\"\"\",7\n";
    let words = "--by k --agg topk(x,2),topk(y,1) --types y:int --format csv --sort k";
    let csv = group(words).fed(rows).run().text();
    assert_eq!(
        csv,
        "k,\"topk(x,2)\",\"topk(y,1)\"\n\
         a,\"[{\"\"value\"\":\"\"p\"\",\"\"count\"\":3,\"\"error\"\":0},{\"\"value\"\":\"\"q\"\",\"\"count\"\":1,\"\"error\"\":0}]\",\
         \"[{\"\"value\"\":2,\"\"count\"\":3,\"\"error\"\":0}]\"\n\
         b,\"[{\"\"value\"\":\"\"say \\\"\"hi\\\"\"\"\",\"\"count\"\":1,\"\"error\"\":0}]\",\
         \"[{\"\"value\"\":7,\"\"count\"\":1,\"\"error\"\":0}]\"\n"
    );
    let json = group(words).args("--as json").fed(rows).run().text();
    let first: serde_json::Value = serde_json::from_str(json.lines().next().unwrap()).unwrap();
    assert_eq!(
        first["topk(x,2)"],
        serde_json::json!([
            {"value": "p", "count": 3, "error": 0}, {"value": "q", "count": 1, "error": 0},
        ])
    );
    // Beyond what is counted, counts may be off, and say by how much.
    let text: String =
        (0..20_000).map(|i| if i % 2 == 0 { "often\n".to_owned() } else { format!("{i}\n") }).collect();
    let about = group("--agg topk(1,1) --format whitespace --as json").fed(text).run().json();
    let top = &about["topk(1,1)"][0];
    let (count, error) = (top["count"].as_u64().unwrap(), top["error"].as_u64().unwrap());
    assert_eq!(top["value"], "often");
    assert!(error > 0 && count.abs_diff(10_000) <= error, "{count} give or take {error}");
}

#[test]
fn any_number_of_threads_writes_the_same_in_order() {
    let place = tempfile::tempdir().unwrap();
    let mut random = Random(77);
    let row =
        |random: &mut Random| format!("{},{}\n", random.below(3000), random.below(1 << 40) as f64 / 7.0);
    let input = file(
        place.path(),
        "in.csv",
        "k,x\n".to_owned() + &(0..30_000).map(|_| row(&mut random)).collect::<String>(),
    );
    let words = "--by k --agg count,sum(x),mean(x),p99(x),distinct(x),topk(x,2),first(x),list(x,2) --sort sum(x):desc";
    let run = |threads: &str, form: &str| {
        group(words).args("-j").with(threads).args("--as").with(form).with(&input).run().text()
    };
    for form in ["csv", "json"] {
        let one = run("1", form);
        assert!(run("8", form) == one && run("16", form) == one, "{form}");
    }
}
