# Two commands do everything: `make demo` runs the main job, `make test` the tests.
# `make` alone builds the tool, which needs nothing but Rust.

CARGO ?= cargo
FUZZ_SECONDS ?= 600

.PHONY: all demo report test bench fuzz lint unit loom sanitize tools deny

all:
	$(CARGO) build --release

# The main job: a live H.264 stream over a congested link, three times; a table, and a page with plots and video.
demo:
	$(CARGO) build --release -p timeous-cli -p timeous-lab
	target/release/timeous-lab demo --out demo-out

# The papers' experiments in virtual time: a page with all of them in report/. With REAL=--real on this kernel, too (root).
report:
	$(CARGO) build --release -p timeous-cli -p timeous-lab
	target/release/timeous-lab all --out report $(REAL)

test: tools lint unit loom sanitize

# What the tests need beside Rust: other people's programs, as peers and judges.
tools:
	@scripts/tools.sh

lint:
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets --locked --features timeous/tokio -- -D warnings
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --workspace --no-deps --locked --features timeous/tokio --quiet
	@scripts/deny.sh

unit:
	$(CARGO) build --workspace --bins --locked
	$(CARGO) test --workspace --locked --features timeous/tokio

# The model checker takes the place of the atomics and tries every interleaving.
loom:
	RUSTFLAGS="--cfg loom" $(CARGO) test -p timeous-ring --test loom --release --target-dir target/loom

sanitize:
	@crates/ring/sanitize.sh

bench:
	$(CARGO) bench -p timeous-ring --bench ring
	$(CARGO) bench -p timeous-net --bench sim
	$(CARGO) bench -p timeous-host --bench transports
	$(CARGO) bench -p timeous-engine --bench send

# Every target for FUZZ_SECONDS (`make fuzz FUZZ_SECONDS=60` for a short look). Needs a nightly toolchain.
fuzz:
	@scripts/fuzz.sh $(FUZZ_SECONDS)
