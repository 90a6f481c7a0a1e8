# What a person does with this project, one word each. Needs Rust, a C compiler, and Python for `data`.

OVERBANK := target/release/overbank
PREFIX   ?= /usr/local
SAMPLE   := testdata/twitter52_250k_keys.txt.zst

.PHONY: help run test format lint tidy unit targets packages fuzz-smoke bench crash fuzz data capi install-c

help:
	@echo "make run     build, then profile the real sample that ships and query the result"
	@echo "make test    everything: format, lint, tidy, all tests, smoke runs of benches and fuzz targets"
	@echo "make crash   a million crash states and more, by all crash explorations (STATES=n: as many as you say)"
	@echo "make bench   every figure at full size into bench.jsonl (QUICK=1: below 60 s a bench)"
	@echo "make capi    build the C library; make install-c PREFIX=/usr/local installs it, its header and its pkg-config file"
	@echo "make data    fetch at least 300 MB of real text into data/ for 'bench profile'"
	@echo "make fuzz    a minute of libFuzzer for each target (needs nightly and cargo-fuzz)"

# The main job on a real stream, then questions to the store that it leaves behind.
run: $(OVERBANK)-built
	@place=$$(mktemp -d) && trap 'rm -rf "$$place"' EXIT && set -ex && \
	$(OVERBANK) profile $(SAMPLE) --store "$$place/keys" && \
	$(OVERBANK) top "$$place/keys" -n 3 && \
	$(OVERBANK) estimate "$$place/keys" 13053225291711363978 && \
	$(OVERBANK) distinct "$$place/keys" && \
	$(OVERBANK) quantile "$$place/keys" 0.5 0.99 && \
	$(OVERBANK) info "$$place/keys" && \
	$(OVERBANK) verify "$$place/keys" && \
	$(OVERBANK) dedup $(SAMPLE) --store "$$place/seen" --stats > "$$place/unique" && \
	$(OVERBANK) seen "$$place/seen" 13053225291711363978

# Cargo knows better than make what has changed.
.PHONY: $(OVERBANK)-built
$(OVERBANK)-built:
	cargo build --release -p overbank-cli

# Each of them whatever the others find; the last line is the summary of all tests.
test:
	@$(MAKE) --no-print-directory --keep-going format lint tidy targets packages unit

format:
	cargo fmt --all --check

# Once with all that tests and benches reach, and once as users have it: the command does without the feature `internals`, and what
# nobody uses then is dead.
lint:
	cargo clippy --workspace --all-targets -- -D warnings
	cargo clippy -p overbank -p overbank-cli -- -D warnings

tidy:
	cargo xtask tidy

# Other systems are checked, not built: what rustup cannot get is named and left out.
targets:
	cargo xtask targets

packages:
	cargo xtask package
	cargo xtask deny

# Unit, property, crash, doc and end-to-end tests; the smoke runs of benches and fuzz targets are tests too.
unit:
	@cargo xtask test

# The explorations that `make test` runs on a few workloads each, on as many as it takes.
crash:
	cargo xtask crash $(STATES)

bench:
	cargo run --release -p overbank-bench -- all $(if $(QUICK),--quick) --json bench.jsonl

capi:
	cargo build --release -p overbank-capi

# `sudo make install-c` needs no cargo: `make capi` was run before.
install-c:
	sh crates/capi/install.sh $(or $(CARGO_TARGET_DIR),target)/release $(PREFIX)

data:
	python3 bench/text_corpus.py data

fuzz:
	bash fuzz/run.sh $(or $(SECONDS_EACH),60)
