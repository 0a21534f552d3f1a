# Two commands do everything: `make demo` runs the main job, `make test` the tests.
# `make` alone builds the tool, which needs nothing but Rust.

CARGO ?= cargo
FUZZ_SECONDS ?= 600

# Where `make install` puts things; DESTDIR goes before all of them, for packages.
PREFIX ?= /usr/local
BINDIR ?= $(PREFIX)/bin
LIBDIR ?= $(PREFIX)/lib
INCLUDEDIR ?= $(PREFIX)/include
MANDIR ?= $(PREFIX)/share/man
PROFILE ?= release

.PHONY: all install install-tool install-run install-libcm demo report peers narrow peers-lint docs test quick bench fuzz lint unit bpf loom sanitize tools deny

all:
	$(CARGO) build --release

# The tool, the library of `timeous run`, and libcm for C: shared and static library, headers, pkg-config files and manuals.
VERSION = $(shell sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)
# What is built along. The tests give all that they have built already, since a part by itself has other features of libraries.
ALONG ?=
BUILT = $(or $(CARGO_TARGET_DIR),target)/$(PROFILE:dev=debug)
install: install-tool install-run install-libcm

install-tool:
	$(CARGO) build --profile $(PROFILE) --locked -p timeous-cli $(ALONG)
	install -d $(DESTDIR)$(BINDIR)
	install -m 755 $(BUILT)/timeous $(DESTDIR)$(BINDIR)

# Where the tool looks for it: ../lib/timeous from its own directory.
install-run:
	$(CARGO) build --profile $(PROFILE) --locked -p timeous-preload $(ALONG)
	install -d $(DESTDIR)$(BINDIR)/../lib/timeous
	install -m 755 $(BUILT)/libtimeous_run.so $(DESTDIR)$(BINDIR)/../lib/timeous

install-libcm:
	$(CARGO) build --profile $(PROFILE) --locked -p timeous-c $(ALONG)
	install -d $(DESTDIR)$(LIBDIR)/pkgconfig $(DESTDIR)$(INCLUDEDIR) $(DESTDIR)$(MANDIR)/man3
	install -m 755 $(BUILT)/libcm.so $(DESTDIR)$(LIBDIR)/libcm.so.$(VERSION)
	ln -sf libcm.so.$(VERSION) $(DESTDIR)$(LIBDIR)/libcm.so.$(firstword $(subst ., ,$(VERSION)))
	ln -sf libcm.so.$(VERSION) $(DESTDIR)$(LIBDIR)/libcm.so
	install -m 644 $(BUILT)/libcm.a $(DESTDIR)$(LIBDIR)
	install -m 644 bindings/c/include/cm.h bindings/c/include/utl.h $(DESTDIR)$(INCLUDEDIR)
	for part in cm utl; do \
		sed -e 's|@PREFIX@|$(PREFIX)|' -e 's|@LIBDIR@|$(LIBDIR)|' -e 's|@INCLUDEDIR@|$(INCLUDEDIR)|' \
			-e 's|@VERSION@|$(VERSION)|' bindings/c/$$part.pc.in >$(DESTDIR)$(LIBDIR)/pkgconfig/$$part.pc && \
		install -m 644 bindings/c/man/$$part.3 $(DESTDIR)$(MANDIR)/man3 && \
		for function in $$(sed -n 's/^[a-z].*[ *]\('$$part'[a-z]*_[a-z_]*\)(.*/\1/p' bindings/c/include/$$part.h); do \
			ln -sf $$part.3 $(DESTDIR)$(MANDIR)/man3/$$function.3 || exit 1; done || exit 1; done

# The main job: a live H.264 stream over a congested link, three times; a table, and a page with plots and video.
demo:
	$(CARGO) build --release -p timeous-cli -p timeous-demo
	target/release/timeous-demo --out demo-out

# The papers' experiments in virtual time: a page with all of them in report/. With REAL=--real on this kernel, too (root).
report:
	$(CARGO) build --release -p timeous-lab $(if $(REAL),--features timeous-lab/bpf)
	target/release/timeous-lab all --out report $(REAL)

# Timeous beside real peers over emulated links (root): a page in peers-out/. Installs the peers.
peers:
	@scripts/peers.sh
	$(CARGO) build --release -p timeous-peer-trials
	target/release/timeous-peer-trials --out peers-out

# Timeous beside plain TCP on links where a packet takes up to 1.5 round trips (root): a table.
narrow:
	$(CARGO) build --release -p timeous-peer-trials
	scripts/narrow.py

# Of our own programs around other people's transports, `make lint` checks the lock file alone: it would build what only they need.
peers-lint:
	@scripts/peers.sh lint

# The documentation as a book: target/book. Installs mdbook.
docs:
	@scripts/docs.sh

test: tools lint unit bpf loom sanitize

# What the tests need beside Rust: other people's programs, as peers and judges.
tools:
	@scripts/tools.sh

lint:
	$(CARGO) fmt --all --check
	@scripts/links.py
	$(CARGO) clippy --workspace --all-targets --locked --features timeous/tokio -- -D warnings
	$(CARGO) check --manifest-path fuzz/Cargo.toml --bins --locked --target-dir target --quiet
	$(CARGO) update --manifest-path peers/Cargo.toml --workspace --locked --quiet
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --workspace --no-deps --locked --features timeous/tokio --quiet
	@scripts/typos.sh
	@scripts/deny.sh

# While you work: lints and unit tests, in a few minutes.
quick:
	$(CARGO) fmt --all --check
	@scripts/links.py
	$(CARGO) clippy --workspace --all-targets --locked --features timeous/tokio --quiet -- -D warnings
	$(CARGO) test --workspace --lib --locked --features timeous/tokio --quiet

# Many tests stream in real time, and wait more than they compute: more of them at once than there are processors.
TEST_THREADS ?= $(shell n=$$(nproc); echo $$((n > 4 ? n : 4)))
unit:
	RUST_TEST_THREADS=$(TEST_THREADS) ALONG="--workspace --lib --bins --tests --features timeous/tokio" \
		$(CARGO) test --workspace --locked --features timeous/tokio

# The program that the kernel runs, on this machine's kernel (as root).
bpf:
	@scripts/bpf.sh

# The model checker takes the place of the atomics and tries every interleaving.
loom:
	RUSTFLAGS="--cfg loom" $(CARGO) test -p timeous-ring --test loom --release --target-dir target/loom
	RUSTFLAGS="--cfg loom" $(CARGO) test -p timeous-ipc --test loom --release --target-dir target/loom

sanitize:
	@crates/ring/sanitize.sh

bench:
	$(CARGO) bench -p timeous-ring --bench ring
	$(CARGO) bench -p timeous-choice --bench plan
	$(CARGO) bench -p timeous-ipc --bench ipc
	$(CARGO) bench -p timeous-net --bench sim
	$(CARGO) bench -p timeous-host --bench transports
	$(CARGO) bench -p timeous-testbed --bench send
	$(CARGO) bench -p timeous --bench streams
	$(CARGO) bench -p timeous --bench workers
	$(CARGO) bench -p timeous --bench fan_out

# Every target for FUZZ_SECONDS (`make fuzz FUZZ_SECONDS=60` for a short look). Needs a nightly toolchain.
fuzz:
	@scripts/fuzz.sh $(FUZZ_SECONDS)
