//! HyperLogLog sketches of DataSketches and Redis, as those made them; and what we write, as those read it where they are installed.
//!
//! `golden/foreign_hll/make.py` made the files and says with what. The last two tests run the programs themselves, and pass without a word
//! where there is none: `pip install datasketches`, and `redis-server` on the path.
#![allow(clippy::unwrap_used, reason = "a test may fail by a panic; clippy.toml covers only test functions")]

use overbank::sketch::hyperloglog::foreign::{ForeignHyperLogLog, RegisterBits};
use std::path::{Path, PathBuf};
use std::process::Command;

const ALL_BITS: [(RegisterBits, &str); 3] =
    [(RegisterBits::Four, "4"), (RegisterBits::Six, "6"), (RegisterBits::Eight, "8")];

fn file(name: &str) -> Vec<u8> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/foreign_hll");
    std::fs::read(folder.join(name)).expect("the golden file exists")
}

fn datasketches(name: &str) -> ForeignHyperLogLog {
    ForeignHyperLogLog::from_datasketches(&file(name)).unwrap_or_else(|why| panic!("{name}: {why}"))
}

/// Every form of one stream is one sketch, with an estimate within 6.5 standard errors.
#[test]
fn all_forms_of_datasketches_are_read() {
    for keys in [0u32, 3, 20, 300] {
        let first = datasketches(&format!("ds_8_{keys}_hll8_compact.bin"));
        for (_, bits) in ALL_BITS {
            for form in ["compact", "updatable"] {
                let name = format!("ds_8_{keys}_hll{bits}_{form}.bin");
                assert_eq!(datasketches(&name), first, "{name}");
            }
        }
        let limit = 6.5 * 1.04 / 16.0 * f64::from(keys);
        assert!((first.estimate() - f64::from(keys)).abs() <= limit, "{} of {keys}", first.estimate());
    }
    let large = datasketches("ds_12_300000_hll8_compact.bin");
    assert!((large.estimate() / 300_000.0 - 1.0).abs() < 6.5 * 1.04 / 64.0, "{}", large.estimate());
    for name in ["hll6_compact", "hll4_compact", "hll4_updatable"] {
        assert_eq!(datasketches(&format!("ds_12_300000_{name}.bin")), large, "{name}");
    }
}

/// From where the registers begin, and what follows: the rest of the header says in which order keys came, which we do not know.
#[test]
fn registers_are_written_as_datasketches_writes_them() {
    const REGISTERS: usize = 40;
    for name in ["ds_8_300", "ds_12_300000"] {
        for (bits, label) in ALL_BITS {
            let theirs = file(&format!("{name}_hll{label}_compact.bin"));
            let ours = datasketches(&format!("{name}_hll8_compact.bin")).to_datasketches(bits).unwrap();
            assert!(ours[REGISTERS..] == theirs[REGISTERS..], "{name}, {label} bits");
            // Preamble words, version, family, size, room for exceptions; least register and kind; numbers of registers.
            assert_eq!((&ours[..5], &ours[6..8]), (&theirs[..5], &theirs[6..8]), "{name}, {label} bits");
            assert_eq!(ours[16..REGISTERS], theirs[16..REGISTERS], "{name}, {label} bits");
        }
    }
}

#[test]
fn both_forms_of_redis_are_read_and_count_as_there() {
    // What `PFCOUNT` said.
    for (name, keys) in [("redis_sparse_100.bin", 100.0), ("redis_dense_20000.bin", 19_891.0)] {
        let sketch = ForeignHyperLogLog::from_redis(&file(name)).unwrap();
        assert!((sketch.estimate() - keys).abs() <= 0.5, "{name}: {} for {keys}", sketch.estimate());
    }
    let dense = file("redis_dense_20000.bin");
    let ours = ForeignHyperLogLog::from_redis(&dense).unwrap().to_redis().unwrap();
    assert!(ours.len() == dense.len() && ours[16..] == dense[16..], "the registers differ");
}

#[test]
fn damaged_images_are_errors_or_sketches_and_never_panics() {
    // An updatable image of 4 bits ends in room for exceptions, which nobody misses.
    let names = [
        ("ds_8_3_hll4_compact.bin", 20),
        ("ds_8_20_hll6_updatable.bin", 140),
        ("ds_8_300_hll4_updatable.bin", 168),
        ("ds_8_300_hll6_compact.bin", 233),
    ];
    for (name, needed) in names {
        let bytes = file(name);
        for len in 0..needed {
            assert!(ForeignHyperLogLog::from_datasketches(&bytes[..len]).is_err(), "{name} cut to {len}");
        }
        for bit in 0..8 * bytes.len() {
            let mut damaged = bytes.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            if let Ok(sketch) = ForeignHyperLogLog::from_datasketches(&damaged) {
                assert!(sketch.estimate() >= 0.0);
            }
        }
    }
    let bytes = file("redis_sparse_100.bin");
    (0..bytes.len())
        .for_each(|len| assert!(ForeignHyperLogLog::from_redis(&bytes[..len]).is_err(), "cut to {len}"));
}

/// Python reads what we write: its estimate by the registers is near ours.
#[test]
fn datasketches_reads_what_we_write() {
    let python = |script: &str, path: &Path| {
        let output = Command::new("python3").arg("-c").arg(script).arg(path).output().ok()?;
        output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    if python("import datasketches", Path::new("")).is_none() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    for (name, lg_m) in [("ds_8_300_hll8_compact.bin", 8), ("ds_12_300000_hll8_compact.bin", 12)] {
        let sketch = datasketches(name);
        for (bits, label) in ALL_BITS {
            let path = folder.path().join("image");
            std::fs::write(&path, sketch.to_datasketches(bits).unwrap()).unwrap();
            let script = "import sys, datasketches\n\
                sketch = datasketches.hll_sketch.deserialize(open(sys.argv[1], 'rb').read())\n\
                union = datasketches.hll_union(sketch.lg_config_k)\n\
                union.update(sketch)\n\
                print(sketch.lg_config_k, sketch.get_estimate(), union.get_result().get_estimate())";
            let said = python(script, &path).expect("DataSketches reads it");
            let numbers: Vec<f64> = said.split(' ').map(|number| number.parse().unwrap()).collect();
            assert_eq!(numbers[0], f64::from(lg_m), "{name} {label}");
            for estimate in &numbers[1..] {
                // Two estimators of the same registers differ by less than a standard error.
                let limit = 1.04 / 2f64.powi(lg_m).sqrt();
                assert!(
                    (estimate / sketch.estimate() - 1.0).abs() < limit,
                    "{name} {label}: {said} for {}",
                    sketch.estimate()
                );
            }
        }
    }
}

/// Redis counts what we write as we do, also merged there.
#[cfg(unix)]
#[test]
fn redis_reads_what_we_write() {
    use std::io::{BufRead, BufReader};
    use std::os::unix::net::UnixStream;

    let folder = tempfile::tempdir().unwrap();
    let socket: PathBuf = folder.path().join("socket");
    let server = Command::new("redis-server")
        .args(["--port", "0", "--save", "", "--dir"])
        .arg(folder.path())
        .arg("--unixsocket")
        .arg(&socket)
        .stdout(std::process::Stdio::piped())
        .spawn();
    let Ok(mut server) = server else { return };
    let log = BufReader::new(server.stdout.take().expect("its standard output"));
    let is_ready = log.lines().map_while(Result::ok).any(|line| line.contains("accept connections"));
    let connected = is_ready.then(|| UnixStream::connect(&socket).expect("a socket to connect to"));
    let answers = connected.map(|mut connection| {
        let dense = ForeignHyperLogLog::from_redis(&file("redis_dense_20000.bin")).unwrap();
        let mut merged = ForeignHyperLogLog::from_redis(&file("redis_sparse_100.bin")).unwrap();
        let sparse = merged.to_redis().unwrap();
        merged.merge(&dense).unwrap();
        ask(&mut connection, &[b"SET", b"dense", &dense.to_redis().unwrap()]);
        ask(&mut connection, &[b"SET", b"sparse", &sparse]);
        let counts = [
            &[b"PFCOUNT".as_slice(), b"dense"][..],
            &[b"PFCOUNT", b"sparse"],
            &[b"PFCOUNT", b"dense", b"sparse"],
        ];
        let counts = counts.map(|words| ask(&mut connection, words)[1..].trim().parse::<f64>().unwrap());
        let sparse = ForeignHyperLogLog::from_redis(&sparse).unwrap();
        (counts, [dense, sparse, merged].map(|sketch| sketch.estimate()))
    });
    server.kill().unwrap();
    server.wait().unwrap();
    let (counts, estimates) = answers.expect("the server answers");
    for (count, estimate) in counts.into_iter().zip(estimates) {
        assert!((count - estimate).abs() <= 0.5, "{count} there and {estimate} here");
    }
}

/// One command, and the first line of its answer.
#[cfg(unix)]
fn ask(connection: &mut std::os::unix::net::UnixStream, words: &[&[u8]]) -> String {
    use std::io::{BufRead, BufReader, Write};

    let mut request = format!("*{}\r\n", words.len()).into_bytes();
    for word in words {
        request.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
        request.extend_from_slice(word);
        request.extend_from_slice(b"\r\n");
    }
    connection.write_all(&request).unwrap();
    let mut line = String::new();
    BufReader::new(connection).read_line(&mut line).unwrap();
    line
}
