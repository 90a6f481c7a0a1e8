#!/usr/bin/env bash
# libFuzzer on every target: `bash fuzz/run.sh SECONDS [TARGET…]`. Needs nightly and cargo-fuzz.
#
# The planted bug goes first and must be found, or nothing else that this script says means anything.
set -euo pipefail
cd "$(dirname "$0")/.."
seconds=${1:-60}
shift || true

cargo +nightly fuzz --version >/dev/null 2>&1 || {
    echo "needs a nightly toolchain and cargo-fuzz: rustup toolchain install nightly; cargo install cargo-fuzz" >&2
    exit 2
}

fuzz() { # TARGET SECONDS
    cargo +nightly fuzz run --features libfuzzer "$1" -- \
        -max_total_time="$2" -max_len=65536 -timeout=10 -rss_limit_mb=2048 -malloc_limit_mb=512 -print_final_stats=1
}

if fuzz planted 60 >/dev/null 2>&1; then
    echo "the planted bug was not found: this fuzzer finds nothing" >&2
    exit 1
fi
echo "planted: found, as it must be"

if [ $# -eq 0 ]; then
    targets=()
    for file in fuzz/fuzz_targets/*.rs; do
        name=$(basename "$file" .rs)
        [ "$name" = planted ] || targets+=("$name")
    done
    set -- "${targets[@]}"
fi
status=0
for target in "$@"; do
    log=$(mktemp)
    if fuzz "$target" "$seconds" >"$log" 2>&1; then
        echo "$target: $(grep -o 'number_of_executed_units: [0-9]*' "$log") in $seconds s, no crash"
    else
        status=1
        echo "$target: CRASH"
        tail -n 40 "$log"
    fi
    rm -f "$log"
done
exit "$status"
