//! Where outputs may be: in no store, and where links lead.

use crate::command::overbank;
use crate::dedup::exact;
use crate::stores::image;
use crate::stream::file;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

#[test]
fn an_output_in_a_store_is_refused_and_the_store_stays_as_it_was() {
    let place = tempfile::tempdir().unwrap();
    let input = file(place.path(), "rows.jsonl", "{\"u\":1}\nbad\n{\"u\":2}\n");
    let (store, other) = (place.path().join("store"), place.path().join("other"));
    for made in [&store, &other] {
        let ran = exact("--quiet --key=u --store").with(made).with(&input).run();
        ran.ends_naming(0, &["malformed"]);
    }
    let link = place.path().join("link");
    symlink("store/superblock", &link).unwrap();
    let before = (image(&store), image(&other));
    let files = [store.join("superblock"), store.join("000001.man"), store.join("new"), link];
    for out in &files {
        for option in ["-o", "--rejects"] {
            let words = [option.trim_start_matches("-o"), "lies in the store", "outside of it"];
            for run in [exact("--quiet --key=u --store").with(&store), exact("--quiet --key=u")] {
                run.with(&input).with(option).with(out).run().fails_naming(&words);
            }
        }
        for command in
            ["profile --quiet --key=u --append --store", "filter build --quiet --memory 32MiB --key=u"]
        {
            let run = overbank(command).with(&store).with("--rejects").with(out).with(&input).run();
            run.fails_naming(&["--rejects", "lies in the store", "outside of it"]);
        }
        // A store that is not the run's own is no better place.
        let run = exact("--quiet --key=u --store").with(&other).with(&input).with("-o").with(out).run();
        run.fails_naming(&["--output", "lies in the store", "outside of it"]);
    }
    let appended = fs::OpenOptions::new().append(true).open(store.join("superblock")).unwrap();
    let run = exact("--quiet --key=u --store").with(&store).with(&input).output_to(appended).run();
    run.fails_naming(&["standard output", "superblock", "lies in the store"]);
    assert!((image(&store), image(&other)) == before);
}

#[test]
fn a_store_and_an_output_are_not_one() {
    let place = tempfile::tempdir().unwrap();
    let input = file(place.path(), "rows", "a\nb\na\n");
    let new = place.path().join("new");
    for option in ["-o", "--rejects"] {
        let run = exact("--quiet --store").with(&new).with(&input).with(option).with(&new).run();
        run.fails_naming(&["is the directory of --store", "another file"]);
    }
    assert!(!new.exists(), "nothing is made where an option is refused");
}

#[test]
fn a_link_to_a_file_that_is_not_there_is_written_through() {
    let place = tempfile::tempdir().unwrap();
    let input = file(place.path(), "rows", "a\nb\na\n");
    let (far, link, second) =
        (place.path().join("far"), place.path().join("link"), place.path().join("second"));
    fs::create_dir(&far).unwrap();
    symlink("far/out", &link).unwrap();
    symlink("link", &second).unwrap();
    let is_link = |path: &Path| fs::symlink_metadata(path).unwrap().is_symlink();
    let store = place.path().join("store");
    for run in [exact("--quiet"), exact("--quiet --store").with(&store)] {
        run.with(&input).with("-o").with(&second).run().text();
        assert!(is_link(&link) && is_link(&second));
        assert_eq!(fs::read_to_string(far.join("out")).unwrap(), "a\nb\n");
        fs::remove_file(far.join("out")).unwrap();
    }
    let both = exact("").with(&input).with("-o").with(&second).with("--rejects").with(far.join("out")).run();
    both.fails_naming(&["--rejects", "the output too"]);
    let nowhere = place.path().join("nowhere");
    symlink("no/such/out", &nowhere).unwrap();
    exact("").with(&input).with("-o").with(&nowhere).run().fails_naming(&[
        "cannot write to",
        "nowhere",
        "No such file",
    ]);
    let round = place.path().join("round");
    symlink("round", &round).unwrap();
    exact("").with(&input).with("-o").with(&round).run().fails_naming(&[
        "cannot write to",
        "round",
        "symbolic links",
    ]);
    assert!(is_link(&nowhere) && is_link(&round));
}
