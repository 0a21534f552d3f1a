#!/bin/sh
# Checks the spelling with typos, which it installs into target/typos, from PyPI or, in CI, where nothing is skipped, by cargo.
set -eu
cd "$(dirname "$0")/.."
version=1.52.0
PATH="$PATH:$PWD/target/typos/bin:$HOME/.cargo/bin"
if ! command -v typos >/dev/null 2>&1; then
    if ! (python3 -m venv target/typos && target/typos/bin/pip install -q "typos==$version") >/dev/null 2>&1; then
        if [ "${TIMEOUS_REQUIRE_ALL:-}" != 1 ]; then
            echo "SKIPPED spelling: needs typos (cargo install --locked typos-cli)" >&2
            exit 0
        fi
        cargo install --quiet --locked --version "$version" typos-cli
    fi
fi
exec typos --format brief
