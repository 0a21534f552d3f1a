#!/bin/sh
# Checks licences, bans and sources of the dependencies with cargo-deny: where it is installed, and in CI, which
# installs it, since nothing is skipped there.
set -eu
PATH="$PATH:$HOME/.cargo/bin"
if ! command -v cargo-deny >/dev/null 2>&1; then
    if [ "${TIMEOUS_REQUIRE_ALL:-}" != 1 ]; then
        echo "SKIPPED dependency check: needs cargo-deny (cargo install --locked cargo-deny)" >&2
        exit 0
    fi
    cargo install --quiet --locked --version 0.20.2 cargo-deny
fi
# It reads the manifests of all dependencies, those for other systems too, which a build does not fetch.
cargo fetch --locked --quiet
exec cargo deny --offline check bans licenses sources
