#!/usr/bin/env python3
"""Checks links within the documentation: no network, a fraction of a second.

Without an argument: the relative links and anchors of all Markdown pages at the root and in docs/, that the book's table
of contents (docs/SUMMARY.md) has every page of docs/, and that pages which other files of the repository name exist.
With `--html DIRECTORY`: the relative links and anchors of a built book.
"""

import html.parser
import os
import pathlib
import re
import subprocess
import sys
import urllib.parse

ROOT = pathlib.Path(__file__).resolve().parent.parent
EXTERNAL = re.compile(r"^([a-z][a-z0-9+.-]*:|//)", re.IGNORECASE)
FENCE = re.compile(r"^\s*(```|~~~)")
HEADING = re.compile(r"^(#{1,6})\s+(.*?)\s*#*\s*$")
LINK = re.compile(r"\]\(\s*<?([^)\s>]+)>?(?:\s+\"[^\"]*\")?\s*\)")
DEFINITION = re.compile(r"^\s{0,3}\[[^\]]+\]:\s+<?(\S+?)>?(?:\s+\"[^\"]*\")?\s*$")
MENTION = re.compile(rb"\bdocs/[A-Za-z0-9_/-]+\.md\b")


def slug(heading):
    """Returns the anchor that GitHub and mdBook give a heading."""
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
    text = re.sub(r"[^\w\- ]", "", text.lower())
    return text.replace(" ", "-")


def read_markdown(path):
    """Returns a page's links, with their line numbers, and its anchors."""
    links, anchors, seen, fenced = [], set(), {}, False
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if FENCE.match(line):
            fenced = not fenced
        if fenced:
            continue
        heading = HEADING.match(line)
        if heading:
            name = slug(heading[2])
            count = seen.get(name, 0)
            seen[name] = count + 1
            anchors.add(name if count == 0 else f"{name}-{count}")
        anchors.update(re.findall(r"<a (?:id|name)=\"([^\"]+)\"", line))
        bare = re.sub(r"`[^`]*`", "``", line)
        links += [(number, target) for target in LINK.findall(bare)]
        links += [(number, target) for target in DEFINITION.findall(bare)]
    return links, anchors


class Page(html.parser.HTMLParser):
    """A page of a built book: its links and anchors."""

    def __init__(self, text):
        super().__init__()
        self.links, self.anchors = [], set()
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        for name, value in attrs:
            if name == "id":
                self.anchors.add(value)
            elif value and (name == "src" or (name == "href" and tag in ("a", "link"))):
                self.links.append((self.getpos()[0], value))


def read_html(path):
    page = Page(path.read_text(encoding="utf-8"))
    return page.links, page.anchors


def check(pages, read, suffix):
    """Returns a complaint for each link whose file or anchor does not exist."""
    known = {page: read(page) for page in pages}
    complaints = []
    for page in pages:
        for line, link in known[page][0]:
            if EXTERNAL.match(link):
                continue
            path, _, anchor = urllib.parse.unquote(link).partition("#")
            target = pathlib.Path(os.path.normpath(page.parent / path)) if path else page
            where = f"{page}:{line}: {link}"
            if not target.exists():
                complaints.append(f"{where}: no such file")
            elif anchor and target.suffix == suffix:
                if target not in known:
                    known[target] = read(target)
                if anchor not in known[target][1]:
                    complaints.append(f"{where}: no such heading")
    return complaints


def check_sources():
    docs = sorted((ROOT / "docs").rglob("*.md"))
    pages = sorted(ROOT.glob("*.md")) + docs
    complaints = check(pages, read_markdown, ".md")

    summary = ROOT / "docs" / "SUMMARY.md"
    listed = {pathlib.Path(os.path.normpath(summary.parent / link)) for _, link in read_markdown(summary)[0]}
    complaints += [f"{page}: not in docs/SUMMARY.md" for page in docs if page != summary and page not in listed]

    files = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True, stdout=subprocess.PIPE).stdout
    for name in filter(None, files.decode().split("\0")):
        path = ROOT / name
        if not path.is_file() or path.is_symlink() or path.stat().st_size > 1 << 20:
            continue
        for mention in set(MENTION.findall(path.read_bytes())):
            if not (ROOT / mention.decode()).exists():
                complaints.append(f"{path}: names {mention.decode()}, which does not exist")
    return pages, complaints


def main():
    if sys.argv[1:2] == ["--html"]:
        pages = sorted(pathlib.Path(sys.argv[2]).resolve().rglob("*.html"))
        pages = [page for page in pages if page.name not in ("404.html", "toc.html")]
        complaints = check(pages, read_html, ".html")
    else:
        pages, complaints = check_sources()
    for complaint in complaints:
        print(complaint.replace(f"{ROOT}/", ""), file=sys.stderr)
    if complaints:
        sys.exit(f"{len(complaints)} bad links")
    print(f"links of {len(pages)} pages are good")


main()
