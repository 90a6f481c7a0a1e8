//! The hash and the columns of `bpf/keyhash.h`, compiled as C, are the library's.

use keyhash::{HashKind, KeyHasher, Seed, columns_of_power};
use std::fmt::Write;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

const PROGRAM: &str = r#"
#include "keyhash.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
int main(void) {
    unsigned char key[37];
    char hex[75];
    unsigned long long seed;
    unsigned width;
    while (scanf("%llu %u %74s", &seed, &width, hex) == 3) {
        size_t len = strlen(hex) / 2;
        for (size_t i = 0; i < len; i++) {
            char pair[3] = {hex[2 * i], hex[2 * i + 1], 0};
            key[i] = (unsigned char)strtoul(pair, NULL, 16);
        }
        struct overbank_u128 hash = overbank_xxh3(key, (unsigned)len, seed);
        printf("%016llx%016llx", hash.high, hash.low);
        for (unsigned row = 0; row < 5; row++) printf(" %u", overbank_column(hash.high ^ hash.low, row, width));
        printf(" %u%u%u", overbank_is_negative(hash.low, 0), overbank_is_negative(hash.low, 1), overbank_is_negative(hash.low, 2));
        printf(" %u %u\n", overbank_rank(hash.low), overbank_rank(width < 32 ? hash.low >> (width * 2) : 0));
    }
    return 0;
}
"#;

#[test]
fn the_kernel_s_hash_is_the_library_s() {
    let place = tempfile::tempdir().expect("a folder");
    let (source, program) = (place.path().join("vectors.c"), place.path().join("vectors"));
    fs::write(&source, PROGRAM).expect("the source");
    let bpf = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../bpf");
    let mut compiler = Command::new("cc");
    compiler.args([
        "-O2",
        "-Wall",
        "-Wextra",
        "-Werror",
        "-fsanitize=undefined",
        "-fno-sanitize-recover=all",
        "-I",
    ]);
    let done = compiler.arg(bpf).arg(&source).arg("-o").arg(&program).output().expect("a C compiler");
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));

    let (mut asked, mut expected) = (String::new(), String::new());
    for i in 0..2000u64 {
        // Keys of all bits, of none, and of any.
        let random = |at: u64| KeyHasher::new(HashKind::Xxh3, Seed(1)).hash_u64(i * 64 + at).low();
        let seed = [0, 1, u64::MAX, random(63)][i as usize % 4];
        let (len, lg_width) = ([4, 8, 13, 16, 32, 37][(i / 4) as usize % 6], 1 + (i % 32) as u32);
        let byte = |at: usize| match i / 24 {
            0 => 0,
            1 => 0xff,
            _ => random(at as u64) as u8,
        };
        let key: Vec<u8> = (0..len).map(byte).collect();
        write!(asked, "{seed} {lg_width} ").expect("memory");
        key.iter().for_each(|byte| write!(asked, "{byte:02x}").expect("memory"));
        asked += "\n";
        let hash = KeyHasher::new(HashKind::Xxh3, Seed::from(seed)).hash(&key);
        write!(expected, "{:016x}{:016x}", hash.high(), hash.low()).expect("memory");
        let columns = columns_of_power::<5>(hash.fold(), lg_width);
        columns.iter().for_each(|column| write!(expected, " {column}").expect("memory"));
        let bit = |row: u32| (hash.low() >> row) & 1;
        write!(expected, " {}{}{}", bit(0), bit(1), bit(2)).expect("memory");
        let shifted = hash.low().checked_shr(lg_width * 2).unwrap_or(0);
        writeln!(expected, " {} {}", hash.low().leading_zeros() + 1, shifted.leading_zeros() + 1)
            .expect("memory");
    }
    let input = place.path().join("asked");
    fs::write(&input, asked).expect("the questions");
    let done = Command::new(&program)
        .stdin(fs::File::open(&input).expect("the questions"))
        .output()
        .expect("the program");
    assert_eq!(String::from_utf8_lossy(&done.stdout), expected);
}
