#!/bin/sh
# Builds the documentation as a book in target/book, without a warning, and checks the book's links.
set -eu
cd "$(dirname "$0")/.."
PATH="$PATH:$HOME/.cargo/bin"
python3 scripts/links.py
command -v mdbook >/dev/null 2>&1 || cargo install --locked --version 0.5.4 mdbook

# mdBook takes pages from one directory, and ours also lie at the root: README.md and others.
source=target/book-source
rm -rf "$source" target/book
mkdir -p "$source/assets"
cp -r ./*.md LICENSE-* docs "$source"
cp assets/*.svg "$source/assets"
# A directory's README.md becomes its index.html, which links have to say.
find "$source" -name '*.md' -exec sed -i 's|\(]([^):]*\)README\.md\([)#]\)|\1index.md\2|g' {} +
sed 's|](\([^.]\)|](docs/\1|; s|](\.\./|](|' docs/SUMMARY.md >"$source/SUMMARY.md"
rm "$source/docs/SUMMARY.md"

log=target/mdbook.log
mdbook build >"$log" 2>&1 || { cat "$log" >&2; exit 1; }
if grep -E "WARN|ERROR" "$log" >&2; then
    echo "mdbook warned: see above" >&2
    exit 1
fi
python3 scripts/links.py --html target/book
echo "the book: target/book/index.html"
