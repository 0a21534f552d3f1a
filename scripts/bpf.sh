#!/bin/sh
# Checks and tests what the feature `bpf` adds: the programs that the kernel runs. Where clang or libbpf's headers are
# missing it is skipped, but with TIMEOUS_REQUIRE_ALL=1.
set -eu
cargo=${CARGO:-cargo}
if ! command -v clang >/dev/null 2>&1 || [ ! -e /usr/include/bpf/bpf_helpers.h ]; then
    echo "SKIPPED kernel TCP, datagrams of plain sockets: needs clang and libbpf-dev (scripts/tools.sh as root)" >&2
    [ "${TIMEOUS_REQUIRE_ALL:-}" != 1 ]
    exit
fi
$cargo clippy -p timeous-kernel --all-targets --locked --features bpf -- -D warnings
$cargo test -p timeous-kernel --locked --features bpf
$cargo test -p timeous-cli --bin timeous --locked --features bpf kernel_tcp
$cargo test -p timeous-cli --test daemon_api --locked --features bpf datagrams
