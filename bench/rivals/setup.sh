#!/usr/bin/env bash
# Installs the rivals that do not come with the system into data/rivals: `bash bench/rivals/setup.sh`.
# The benches use what they find there and say what they leave out.
set -euo pipefail
cd "$(dirname "$0")/../.."
python3 -m venv data/rivals
data/rivals/bin/pip install --quiet --disable-pip-version-check -r bench/rivals/requirements.txt
data/rivals/bin/python -c 'import duckdb; print("duckdb", duckdb.__version__)'
cargo install --quiet --root data/rivals huniq runiq
