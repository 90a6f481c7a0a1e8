//! Contests with engines that do nothing but say what they were asked.

use super::*;
use crate::{Bench, Report};
use std::cell::RefCell;

static BENCH: Bench =
    Bench { name: "test", about: "a test", engines: &["overbank", "rival"], run: |_| Ok(()) };

fn with_run<T>(size: Size, body: impl FnOnce(&mut Run<'_>) -> T) -> T {
    let mut report = Report::new(None).expect("no file");
    body(&mut Run::new(&BENCH, size, &mut report, None))
}

#[test]
fn rounds_turn_the_order_round_after_a_warm_up() {
    let order = RefCell::new(String::new());
    let enter = |name: char| {
        let order = &order;
        move |_: &mut Clock| {
            order.borrow_mut().push(name);
            Ok(0)
        }
    };
    with_run(Size::Quick, |run| {
        run.contest(Case::Sort).exact("overbank", enter('A')).exact("rival", enter('B')).finish()
    })
    .expect("the digests agree");
    assert_eq!(*order.borrow(), "ABBAABBA");
}

#[test]
fn exact_engines_that_disagree_are_an_error_and_approximate_ones_are_not() {
    let contest = |exact: bool| {
        with_run(Size::Smoke, |run| {
            let contest = run.contest(Case::Sort).exact("overbank", |_| Ok(1));
            let contest = if exact {
                contest.exact("rival", |_| Ok(2))
            } else {
                contest.approximate("rival", |_| Ok(2))
            };
            contest.finish()
        })
    };
    let error = contest(true).expect_err("1 is not 2").to_string();
    assert!(error.contains("overbank and rival disagree"), "{error}");
    contest(false).expect("approximate answers may differ");
}

#[test]
fn an_engine_that_disagrees_with_itself_is_an_error() {
    let mut answers = 0;
    let result = with_run(Size::Quick, |run| {
        run.contest(Case::Sort)
            .exact("overbank", |_| {
                answers += 1;
                Ok(answers)
            })
            .finish()
    });
    assert!(result.is_err());
}

#[test]
fn an_undeclared_engine_does_not_run() {
    let result = with_run(Size::Smoke, |run| run.contest(Case::Sort).exact("overbnak", |_| Ok(0)).finish());
    assert!(result.expect_err("a misspelt name").to_string().contains("overbnak"));
}

#[test]
fn the_median_is_between_minimum_and_maximum() {
    assert_eq!(spread(vec![3.0, 1.0, 2.0]), (1.0, 2.0, 3.0));
    assert_eq!(spread(vec![4.0, 1.0, 2.0, 3.0]), (1.0, 2.5, 4.0));
    assert_eq!(spread(vec![5.0]), (5.0, 5.0, 5.0));
}

#[test]
fn a_time_boxed_sample_counts_what_it_did() {
    let file = tempfile::NamedTempFile::new().expect("a temporary file");
    let mut report = Report::new(Some(file.path())).expect("created");
    let mut run = Run::new(&BENCH, Size::Smoke, &mut report, None);
    let sample = |seconds: u64, done: Option<u64>| {
        move |clock: &mut Clock| {
            clock.add(seconds * 1_000_000_000, 0);
            done.into_iter().for_each(|done| clock.did(done));
            Ok(0)
        }
    };
    let contest = run.contest(Case::Insert).ops(1000).share_of("rival");
    contest
        .approximate("rival", sample(1, None))
        .approximate("overbank", sample(2, Some(50)))
        .finish()
        .expect("run");
    let text = std::fs::read_to_string(file.path()).expect("written");
    let figures: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let find = |engine: &str, metric: &str| {
        figures.iter().find(|figure| figure["engine"] == engine && figure["metric"] == metric)
    };
    let (whole, boxed) = (find("rival", "ops_per_s"), find("overbank", "ops_per_s"));
    assert_eq!(whole.expect("a rate")["value"], 1000.0);
    assert_eq!(boxed.expect("a rate")["value"], 25.0);
    assert_eq!(boxed.expect("a rate")["params"]["ops_done"], 50);
    assert_eq!(boxed.expect("a rate")["params"]["time_boxed"], true);
    assert!(whole.expect("a rate")["params"].get("time_boxed").is_none());
    assert_eq!(find("overbank", "device_share").expect("a share")["value"], 0.025);
    assert!(find("rival", "device_share").is_none());
}

/// The test program is not the bench command, so a child that it starts of itself fails.
#[test]
fn an_engine_whose_process_dies_is_out_and_fails_the_run_at_its_end() {
    static DYING: Bench = Bench {
        name: "test",
        about: "a test",
        engines: &["overbank", "rival"],
        run: |run| {
            run.contest(Case::Sort).with_memory().exact("overbank", |_| Ok(1)).finish()?;
            run.contest(Case::Sort)
                .exact("rival", |clock| {
                    clock.add(5, 5);
                    Ok(1)
                })
                .finish()
        },
    };
    let file = tempfile::NamedTempFile::new().expect("a temporary file");
    let mut report = Report::new(Some(file.path())).expect("created");
    let error = Run::new(&DYING, Size::Smoke, &mut report, None).execute().expect_err("one is out");
    assert!(error.to_string().contains("overbank is out"), "{error}");
    let text = std::fs::read_to_string(file.path()).expect("written");
    assert!(text.contains("rival") && !text.contains("peak_rss_bytes"), "the others go on: {text}");
}
