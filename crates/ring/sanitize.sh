#!/bin/sh
# Tests of memory that two sides share, the packet ring's and the control queues', under AddressSanitizer and
# ThreadSanitizer. Needs a nightly toolchain; its std is the precompiled one.
# A name after the kind of sanitizer picks tests: sanitize.sh thread hostile
set -eu
cd "$(dirname "$0")"
here=$(pwd)
target=x86_64-unknown-linux-gnu
which=${1:-both}
if ! cargo +nightly --version >/dev/null 2>&1; then
    echo "SKIPPED sanitizers: need a nightly toolchain (rustup toolchain install nightly)" >&2
    [ "${TIMEOUS_REQUIRE_ALL:-}" != 1 ]
    exit
fi
[ $# -gt 0 ] && shift

address() {
    RUSTFLAGS="-Zsanitizer=address" \
        cargo +nightly test --target "$target" --target-dir "${CARGO_TARGET_DIR:-../../target}/asan" \
        -p timeous-ring -p timeous-ipc --lib --test ring --test ipc -- "$@"
}

# Left out are the tests in which this sanitizer sees nothing and takes minutes: the oracle (one thread) and the million
# packets between processes (it watches one process). One test runs at a time: the sanitizer does not see that memory was
# unmapped, and takes a test that gets the same address for a racing one. The ABI flag lets instrumented crates link with
# the precompiled std.
thread() {
    RUSTFLAGS="-Zsanitizer=thread -Cunsafe-allow-abi-mismatch=sanitizer" \
        TSAN_OPTIONS="suppressions=$here/tsan.supp" \
        cargo +nightly test --target "$target" --target-dir "${CARGO_TARGET_DIR:-../../target}/tsan" \
        -p timeous-ring -p timeous-ipc --lib --test ring --test ipc -- --test-threads=1 --skip model --skip million "$@"
}

case $which in
    address) address "$@" ;;
    thread) thread "$@" ;;
    both) address "$@" && thread "$@" ;;
    *) echo "usage: $0 [address|thread|both] [test name]" >&2 && exit 2 ;;
esac
