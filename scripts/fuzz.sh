#!/bin/sh
# Runs every fuzz target for the given number of seconds, one after the other, or only those named after it. Goes on after
# a finding; fails at the end if there was any.
set -eu
seconds=$1
shift
cd "$(dirname "$0")/../fuzz"
PATH="$PATH:$HOME/.cargo/bin"
command -v cargo-fuzz >/dev/null 2>&1 || cargo install --locked cargo-fuzz
targets=${*:-$(cargo +nightly fuzz list)}
log=$(mktemp)
trap 'rm -f "$log"' EXIT
failed=
for target in $targets; do
    echo "== $target for $seconds s"
    if ! cargo +nightly fuzz run "$target" -- -max_total_time="$seconds" -print_final_stats=1 >"$log" 2>&1; then
        tail -n 40 "$log" >&2
        echo "$target failed: see above, and fuzz/artifacts/$target" >&2
        failed="$failed $target"
        continue
    fi
    grep -E "^stat::(number_of_executed_units|peak_rss_mb)" "$log"
done
if [ -n "$failed" ]; then
    echo "failed:$failed" >&2
    exit 1
fi
