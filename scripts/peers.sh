#!/bin/sh
# Installs what `timeous-peer-trials` compares Timeous with: SRT's, RIST's and SCTP's from the distribution (Debian's
# names), QUIC and WebRTC by crates. With `lint` it only checks our own programs around them. What is missing at the end is
# a row "not installed" of the comparison.
set -eu
cd "$(dirname "$0")/.."
target=${CARGO_TARGET_DIR:-target}
if [ "${1:-}" = lint ]; then
    cargo fmt --manifest-path peers/Cargo.toml --check
    cargo clippy --manifest-path peers/Cargo.toml --locked --target-dir "$target/peers/build" -- -D warnings
    cc -Wall -Wextra -Werror -fsyntax-only peers/sctp.c
    exit
fi
missing=""
for pair in srt-live-transmit:srt-tools ristsender:rist-tools cc:gcc ip:iproute2; do
    command -v "${pair%%:*}" >/dev/null 2>&1 || missing="$missing ${pair##*:}"
done
[ -e /usr/include/usrsctp.h ] || missing="$missing libusrsctp-dev"
if [ -n "$missing" ]; then
    if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
        echo "installing$missing"
        # shellcheck disable=SC2086 # one word a package
        apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq $missing >/dev/null
    else
        echo "please install:$missing (Debian: sudo apt-get install$missing)" >&2
    fi
fi
mkdir -p "$target/peers"
[ ! -e /usr/include/usrsctp.h ] || cc -O2 -Wall -Wextra -o "$target/peers/timeous-sctp" peers/sctp.c -lusrsctp
cargo build --release --locked --manifest-path peers/Cargo.toml --target-dir "$target/peers/build"
cp "$target/peers/build/release/timeous-peers" "$target/peers/"
