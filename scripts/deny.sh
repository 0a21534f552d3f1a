#!/bin/sh
# Checks licences, bans, sources and advisories of the dependencies with cargo-deny: where it is installed, and in CI, which
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
cargo deny --offline check bans licenses sources
# The advisories come from the network: where it is not there, that is said, and the copy that an earlier run made counts.
db=${TIMEOUS_ADVISORIES:-https://github.com/RustSec/advisory-db}
if GIT_TERMINAL_PROMPT=0 timeout 30 git ls-remote --quiet --exit-code "$db" HEAD >/dev/null 2>&1; then
    exec cargo deny check advisories
elif ls "${CARGO_HOME:-$HOME/.cargo}"/advisory-db*/* >/dev/null 2>&1; then
    echo "advisories: $db cannot be reached, so an earlier copy is checked" >&2
    exec cargo deny check --disable-fetch advisories
else
    echo "SKIPPED advisories: $db cannot be reached" >&2
fi
