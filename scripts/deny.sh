#!/bin/sh
# Checks licences, bans and sources of the dependencies, where cargo-deny is installed.
if command -v cargo-deny >/dev/null 2>&1; then
    # It reads the manifests of all dependencies, those for other systems too, which a build does not fetch.
    cargo fetch --locked --quiet
    exec cargo deny --offline check bans licenses sources
fi
echo "SKIPPED dependency check: needs cargo-deny (cargo install --locked cargo-deny)" >&2
