//! Standard input, named pipes and lists of unlike inputs: the same rows as from one plain file, or an error that names
//! the input.
#![allow(clippy::unwrap_used)]

mod naive;

use naive::check::{drain, hasher};
use naive::{Compression, compress};
use overbank_ingest::{Batch, Error, Options, Parser, Position, Reader};
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

const RESUME: &str = "OVERBANK_INGEST_TEST_RESUME";

/// What a child made of its standard input: rows, and the position after each chunk with the rows up to there; or the
/// error's text.
type Read = Result<(Vec<String>, Vec<(String, usize)>), String>;

/// Runs this test program again, as [`a_child_that_reads_standard_input`].
fn read_in_a_child(stdin: &[u8], resume: &str) -> Read {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact", "--nocapture", "a_child_that_reads_standard_input"])
        .env(RESUME, resume)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut pipe = child.stdin.take().unwrap();
    let text = stdin.to_vec();
    // In pieces, so that reads come short; a child that fails closes its end early.
    let writer = std::thread::spawn(move || text.chunks(5).try_for_each(|piece| pipe.write_all(piece)));
    let output = String::from_utf8(child.wait_with_output().unwrap().stdout).unwrap();
    let _ = writer.join().unwrap();
    let (mut rows, mut positions) = (Vec::new(), Vec::new());
    for line in output.lines() {
        match line.split_once('=') {
            Some(("row", key)) => rows.push(key.to_owned()),
            Some(("position", bytes)) => positions.push((bytes.to_owned(), rows.len())),
            Some(("error", why)) => return Err(why.to_owned()),
            _ => {}
        }
    }
    Ok((rows, positions))
}

#[test]
#[ignore = "the other tests run it in a process of its own"]
fn a_child_that_reads_standard_input() {
    let mut options = Options::new(["-"]);
    options.chunk_bytes = 8;
    let mut lines = String::from("\n");
    let outcome = (|| {
        let mut reader = match std::env::var(RESUME).unwrap_or_default().as_str() {
            "" => Reader::open(options.clone())?,
            hex => {
                let byte = |at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap();
                let bytes: Vec<u8> = (0..hex.len()).step_by(2).map(byte).collect();
                Reader::resume(options.clone(), &Position::from_bytes(&bytes)?)?
            }
        };
        let (parser, mut batch) = (Parser::new(&options, hasher()), Batch::new());
        while let Some(chunk) = reader.next_chunk()? {
            let position = chunk.position().to_bytes();
            parser.parse(chunk, &mut batch)?;
            for key in batch.keys() {
                writeln!(lines, "row={}", String::from_utf8_lossy(key)).unwrap();
            }
            let hex: String = position.iter().map(|byte| format!("{byte:02x}")).collect();
            writeln!(lines, "position={hex}").unwrap();
        }
        Ok::<_, Error>(())
    })();
    if let Err(error) = outcome {
        writeln!(lines, "error={error}").unwrap();
    }
    print!("{lines}");
}

#[test]
fn standard_input_is_read_and_resumed_like_a_file() {
    let text: String = (0..12).map(|i| format!("line {i}\n")).collect();
    let expected: Vec<String> = text.lines().map(str::to_owned).collect();
    for compression in [Compression::Plain, Compression::Gzip] {
        let stdin = compress(text.as_bytes(), compression);
        let (rows, positions) = read_in_a_child(&stdin, "").unwrap();
        assert_eq!(rows, expected);
        assert!(positions.len() > 5);
        for (position, before) in positions.iter().step_by(3) {
            assert_eq!(read_in_a_child(&stdin, position).unwrap().0, expected[*before..]);
        }
        // Another stream, which ends before the place.
        let (last, _) = positions.last().unwrap();
        let error = read_in_a_child(&compress(b"short\n", compression), last).unwrap_err();
        assert!(error.contains("cannot resume: the length of -"), "{error}");
    }
    assert_eq!(read_in_a_child(b"", "").unwrap().0, Vec::<String>::new());
}

#[test]
fn a_named_pipe_is_read_among_files() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    std::fs::write(path("a"), "1\n2").unwrap();
    std::fs::write(path("c"), "").unwrap();
    std::fs::write(path("d"), "5\n").unwrap();
    assert!(Command::new("mkfifo").arg(path("b")).status().unwrap().success());
    let options = Options::new(["a", "b", "c", "d"].map(path));
    let pipe = path("b");
    let write = |text: &'static [u8]| {
        let pipe = pipe.clone();
        std::thread::spawn(move || std::fs::write(pipe, text).unwrap())
    };
    let writer = write(b"3\n4\n");
    let reader = Reader::open(options.clone()).unwrap();
    assert_eq!(reader.total_bytes(), None, "nobody knows what a pipe holds");
    let (all, after) = drain(reader, &options);
    writer.join().unwrap();
    assert_eq!(all, naive::lines(b"1\n2\n3\n4\n5\n"));
    // Resumed behind the pipe, nobody writes to it any more; resumed in it, it is read again from its start.
    let (position, before) = &after[2];
    assert_eq!(position.current().unwrap().0, path("d"));
    assert_eq!(
        before.followed_by(&drain(Reader::resume(options.clone(), position).unwrap(), &options).0),
        all
    );
    let (position, before) = &after[1];
    let writer = write(b"3\n4\n");
    assert_eq!(
        before.followed_by(&drain(Reader::resume(options.clone(), position).unwrap(), &options).0),
        all
    );
    writer.join().unwrap();

    let mut options = Options::new([path("b")]);
    (options.format, options.keys) = (overbank_ingest::Format::Parquet, vec!["k".into()]);
    let writer = write(b"PAR1");
    let error = Reader::open(options).unwrap().next_chunk().unwrap_err();
    writer.join().unwrap();
    assert!(matches!(error, Error::NotAFile { .. }), "{error}");
}

#[test]
fn inputs_of_different_formats_follow_each_other() {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in
        [("1.csv", "k,n\na,1\n"), ("2.jsonl.gz", "{\"k\":\"b\"}\n"), ("3.tsv", "n\tk\n1\tc\n"), ("4.csv", "")]
    {
        let gzip = if name.ends_with(".gz") { Compression::Gzip } else { Compression::Plain };
        std::fs::write(folder.path().join(name), compress(text.as_bytes(), gzip)).unwrap();
    }
    let mut options = Options::new([folder.path().join("*")]);
    options.keys = vec!["k".into()];
    let (all, after) = drain(Reader::open(options.clone()).unwrap(), &options);
    assert_eq!(all, naive::lines(b"a\nb\nc\n"));
    for (position, before) in &after {
        let reader = Reader::resume(options.clone(), position).unwrap();
        assert_eq!(before.followed_by(&drain(reader, &options).0), all);
    }
    // One that has no such column, and one that has no columns.
    for (name, text, what) in
        [("5.csv", "x,y\n1,2\n", "columns are: x, y"), ("5.log", "x\n", "have no fields")]
    {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        let error = first_error(&options);
        assert!(error.contains(name) && error.contains(what) && !error.contains('\n'), "{error}");
        std::fs::remove_file(path).unwrap();
    }
}

/// The text of the error that reading ends with.
fn first_error(options: &Options) -> String {
    let read = || {
        let mut reader = Reader::open(options.clone())?;
        while reader.next_chunk()?.is_some() {}
        Ok::<_, Error>(())
    };
    read().unwrap_err().to_string()
}

#[test]
fn an_input_that_cannot_be_opened_is_named_before_any_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    std::fs::write(path("a"), "1\n").unwrap();
    std::fs::write(path("c"), "3\n").unwrap();
    std::os::unix::fs::symlink(Path::new("nowhere"), path("b")).unwrap();
    let opened = |inputs: &[&str]| Reader::open(Options::new(inputs.iter().map(|name| path(name)))).map(drop);
    for inputs in [&["a", "b", "c"][..], &["*"]] {
        let error = opened(inputs).unwrap_err();
        assert!(matches!(&error, Error::Open { path, .. } if path.ends_with("b")), "{error}");
    }
    std::fs::remove_file(path("b")).unwrap();
    std::fs::create_dir(path("b")).unwrap();
    let error = opened(&["a", "b", "c"]).unwrap_err();
    assert!(matches!(&error, Error::IsDirectory { path } if path.ends_with("b")), "{error}");
    assert!(opened(&["*"]).is_ok(), "a pattern means files");

    // One that goes away after the check.
    std::fs::remove_dir(path("b")).unwrap();
    std::fs::write(path("b"), "2\n").unwrap();
    let mut reader = Reader::open(Options::new([path("*")])).unwrap();
    assert!(reader.next_chunk().unwrap().is_some());
    std::fs::remove_file(path("b")).unwrap();
    let error = reader.next_chunk().unwrap_err();
    assert!(matches!(&error, Error::Open { path, .. } if path.ends_with("b")), "{error}");
}
