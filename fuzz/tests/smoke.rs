//! Every fuzz target for a moment, on stable; and proof that the runner would see a crash.

use overbank_fuzz::{smoke, targets};
use std::path::Path;
use std::time::Duration;

/// Enough to find what a decoder gets plainly wrong; libFuzzer does the rest.
const MUTANTS: u64 = 20_000;
/// No target may hold up the others; on a slow machine it gets fewer mutants.
const LIMIT: Duration = Duration::from_secs(2);
const SEED: u64 = 0x0bad_cafe;

#[test]
fn no_target_panics_on_its_seeds_or_on_mutants_of_them() {
    for target in targets::ALL {
        match smoke(target, MUTANTS, LIMIT, SEED) {
            Ok(tally) => println!("{:<24}{tally:?}", target.name),
            Err(crash) => panic!("{} crashed on {:?}: {}", crash.target, crash.input, crash.message),
        }
    }
}

#[test]
fn the_runner_finds_a_planted_bug_and_cuts_it_down() {
    let crash = smoke(&targets::planted::TARGET, MUTANTS, Duration::MAX, SEED).expect_err("the bug is there");
    assert!(crash.message.contains("range end"), "{}", crash.message);
    assert_eq!(crash.input.len(), 4, "`LEN` and a length are enough: {:?}", crash.input);
}

#[test]
fn every_seed_is_accepted() {
    for target in targets::ALL {
        let seeds = (target.seeds)();
        assert!(!seeds.is_empty(), "{} has no seed", target.name);
        for (i, seed) in seeds.iter().enumerate() {
            assert_eq!((target.run)(seed), overbank_fuzz::Verdict::Accepted, "seed {i} of {}", target.name);
        }
    }
}

#[test]
fn every_target_has_its_entry_for_libfuzzer() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let manifest = std::fs::read_to_string(folder.join("Cargo.toml")).expect("a manifest");
    for target in targets::ALL {
        let entry = format!("fuzz_targets/{}.rs", target.name);
        let text = std::fs::read_to_string(folder.join(&entry)).unwrap_or_default();
        assert!(
            text.contains(&format!("targets::{}::TARGET", target.name)),
            "{entry} is missing or calls another"
        );
        assert!(manifest.contains(&format!("path = \"{entry}\"")), "{entry} has no [[bin]] in Cargo.toml");
    }
}
