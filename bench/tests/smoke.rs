//! Every registered bench runs, at a size for tests, so that none can rot; and the command keeps its word.

use overbank_bench::{Case, Metric, benches};
use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output};

fn command(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_overbank-bench")).args(arguments).output().expect("the command starts")
}

#[test]
fn every_bench_runs_in_smoke_size_and_writes_well_formed_figures() {
    for bench in benches::ALL {
        let file = tempfile::NamedTempFile::new().expect("a temporary file");
        let path = file.path().to_str().expect("a UTF-8 path");
        let output = command(&[bench.name, "--size", "smoke", "--json", path]);
        assert!(output.status.success(), "{}: {}", bench.name, String::from_utf8_lossy(&output.stderr));
        check_figures(bench.name, bench.engines, file.path());
    }
}

fn check_figures(bench: &str, engines: &[&str], file: &Path) {
    let text = std::fs::read_to_string(file).expect("the figures were written");
    assert!(!text.is_empty(), "{bench} reported no figure");
    for line in text.lines() {
        let figure: Value = serde_json::from_str(line).expect("one JSON object a line");
        assert_eq!(figure["bench"], bench);
        assert!(Case::from_name(figure["case"].as_str().expect("text")).is_some(), "{line}");
        let metric = Metric::from_name(figure["metric"].as_str().expect("text")).expect("a known metric");
        assert_eq!(figure["unit"], metric.unit());
        assert!(engines.contains(&figure["engine"].as_str().expect("text")), "{line}");
        assert!(figure["value"].is_number() && figure["params"].is_object(), "{line}");
        assert_eq!(figure["params"]["size"], "smoke");
    }
}

#[test]
fn list_names_every_bench_and_an_unknown_name_is_an_error() {
    let listed = String::from_utf8(command(&["list"]).stdout).expect("UTF-8");
    assert!(benches::ALL.iter().all(|bench| listed.contains(bench.name)));
    let output = command(&["no_such_bench"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("no_such_bench"));
}

#[test]
fn bench_names_and_engine_names_are_plain_words_and_unique() {
    let plain = |name: &str| {
        !name.is_empty()
            && name.len() <= 17
            && name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_')
    };
    for (i, bench) in benches::ALL.iter().enumerate() {
        assert!(plain(bench.name) && !["all", "list"].contains(&bench.name), "{}", bench.name);
        assert!(benches::ALL[..i].iter().all(|other| other.name != bench.name), "{}", bench.name);
        assert!(bench.engines.iter().all(|engine| plain(engine)), "{:?}", bench.engines);
    }
}
