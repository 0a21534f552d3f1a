#!/bin/sh
# Runs every fuzz target for the given number of seconds, one after the other.
set -eu
seconds=$1
cd "$(dirname "$0")/../fuzz"
PATH="$PATH:$HOME/.cargo/bin"
command -v cargo-fuzz >/dev/null 2>&1 || cargo install --locked cargo-fuzz
for target in $(cargo +nightly fuzz list); do
    echo "== $target for $seconds s"
    cargo +nightly fuzz run "$target" -- -max_total_time="$seconds" -print_final_stats=1 2>&1 |
        grep -E "^(stat::|SUMMARY|==[0-9]+==|.*panicked|artifact_prefix)" || true
    if [ -n "$(ls "artifacts/$target" 2>/dev/null)" ]; then
        echo "$target found something: see fuzz/artifacts/$target" >&2
        exit 1
    fi
done
