#!/usr/bin/env bash
# Installs the rivals that do not come with the system: `bash bench/rivals/setup.sh`. Commands and Python's go into data/rivals; the
# key-value stores of the dictionary benches are built into bench/rivals/target, with the RocksDB that Debian ships (librocksdb-dev and
# libclang-dev), which saves building it. As root it installs those packages, and KMC and jellyfish, which count k-mers. The benches use
# what they find and say what they leave out.
set -euo pipefail
cd "$(dirname "$0")/../.."
python3 -m venv data/rivals
data/rivals/bin/pip install --quiet --disable-pip-version-check -r bench/rivals/requirements.txt
data/rivals/bin/python -c 'import datafusion, duckdb, polars
for rival in duckdb, polars, datafusion: print(rival.__name__, rival.__version__)'
cargo install --quiet --root data/rivals huniq runiq

if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    apt-get update -qq
    apt-get install -y -qq --no-install-recommends librocksdb-dev libclang-dev fio kmc jellyfish
fi
header=/usr/include/rocksdb/c.h
if [ -e "$header" ]; then
    export ROCKSDB_INCLUDE_DIR=/usr/include ROCKSDB_LIB_DIR=/usr/lib/$(cc -dumpmachine)
else
    echo "there is no $header: RocksDB is built from source, which takes half an hour" >&2
fi
cargo build --release --quiet --manifest-path bench/rivals/Cargo.toml
bench/rivals/target/release/overbank-rivals list
bash bench/rivals/sketches/setup.sh
