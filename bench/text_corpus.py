#!/usr/bin/env python3
"""Builds the text corpus of `bench profile`: Debian's documentation packages, stripped to plain text.

    python3 bench/text_corpus.py data

    apt-get download ──> dpkg-deb -x ──> HTML stripped ──> data/doc_lines.txt   one line of text a line
                                                           data/doc_words.txt   one word a line
                                                           data/CHECKSUMS       SHA-256 of packages and results

Debian's package versions move, so a figure quotes the checksums that it was measured on. What is there already
is kept: delete the folder to start afresh. Standard library only.
"""

import gzip
import hashlib
import html
import multiprocessing
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

PACKAGES = [
    "linux-doc-6.1",
    "openjdk-17-doc",
    "rust-doc",
    "python3.11-doc",
    "cppreference-doc-en-html",
    "ghc-doc",
]
SUFFIXES = (".html", ".txt", ".rst", ".yaml")
BYTES_WANTED = 300_000_000


# What a page says without being text; a comment; a tag that ends a line; any other tag. Expressions, because a real
# parser takes an hour for what they do in minutes, and a corpus needs words rather than a document tree.
SILENT = re.compile(r"<(script|style|head|svg)\b.*?</\1\s*>|<!--.*?-->", re.DOTALL | re.IGNORECASE)
BLOCK = re.compile(r"</?(?:p|div|li|tr|br|h[1-6]|pre|section|dt|dd)\b[^>]*>", re.IGNORECASE)
TAG = re.compile(r"</?[a-zA-Z!?][^>]*>")


def text_of(page):
    """The text of an HTML page, without scripts and styles; block elements end a line."""
    return html.unescape(TAG.sub("", BLOCK.sub("\n", SILENT.sub("", page))))


def lines_of(path):
    """The non-empty lines of one document, inner blanks squeezed."""
    opened = gzip.open(path, "rb") if path.suffix == ".gz" else open(path, "rb")
    with opened as file:
        raw = file.read().decode("utf-8", errors="replace")
    if ".html" in path.name:
        raw = text_of(raw)
    return [squeezed for line in raw.split("\n") if (squeezed := " ".join(line.split()))]


def encoded(path):
    """One document as the two texts, ready to be written."""
    lines = lines_of(path)
    words = [word for line in lines for word in line.split(" ")]
    join = lambda items: ("\n".join(items) + "\n" if items else "").encode()
    return join(lines), join(words)


def fetch(folder):
    """Downloads and unpacks the packages; returns the .deb files."""
    folder.mkdir(parents=True, exist_ok=True)
    for package in PACKAGES:
        if not list(folder.glob(f"{package}_*.deb")):
            try:
                # apt's own sandbox user may not be allowed to write here; as root it is not needed.
                subprocess.run(["apt-get", "download", "-q", "-o", "APT::Sandbox::User=root", package],
                               cwd=folder, check=True)
            except (OSError, subprocess.CalledProcessError) as error:
                sys.exit(f"cannot download {package} ({error}); this needs Debian's apt: try `apt-get update` first")
    debs = sorted(folder.glob("*.deb"))
    for deb in debs:
        place = folder / deb.stem
        if not place.exists():
            partial = folder / f"{deb.stem}.partial"
            shutil.rmtree(partial, ignore_errors=True)
            subprocess.run(["dpkg-deb", "-x", deb, partial], check=True)
            partial.rename(place)
    return debs


def documents(folder, debs):
    """All documents in a fixed order, links left out, so that the result depends on the packages alone."""
    for deb in debs:
        for top, folders, names in os.walk(folder / deb.stem):
            folders.sort()
            for name in sorted(names):
                path = Path(top) / name
                if name.removesuffix(".gz").endswith(SUFFIXES) and not path.is_symlink():
                    yield path


def sha256(path):
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def main(folder):
    lines_path, words_path, sums_path = (folder / name for name in ("doc_lines.txt", "doc_words.txt", "CHECKSUMS"))
    if sums_path.exists():
        print(f"{sums_path} is there; delete {folder} to build the corpus afresh")
        return
    debs = fetch(folder / "packages")
    paths = list(documents(folder / "packages", debs))
    lines_partial, words_partial = lines_path.with_suffix(".partial"), words_path.with_suffix(".partial")
    with multiprocessing.Pool() as pool, open(lines_partial, "wb") as lines, open(words_partial, "wb") as words:
        for done, (line_bytes, word_bytes) in enumerate(pool.imap(encoded, paths, chunksize=16), 1):
            lines.write(line_bytes)
            words.write(word_bytes)
            if done % 5000 == 0:
                print(f"{done} of {len(paths)} documents, {words.tell() / 1e6:.0f} MB", file=sys.stderr)
    size = words_partial.stat().st_size
    if size < BYTES_WANTED:
        sys.exit(f"only {size} bytes of text came out, {BYTES_WANTED} are wanted: the packages have changed")
    lines_partial.rename(lines_path)
    words_partial.rename(words_path)
    with open(sums_path.with_suffix(".partial"), "w", encoding="utf-8") as sums:
        for path in [*debs, lines_path, words_path]:
            sums.write(f"{sha256(path)}  {path.relative_to(folder)}  {path.stat().st_size} bytes\n")
    sums_path.with_suffix(".partial").rename(sums_path)
    print(sums_path.read_text(encoding="utf-8"), end="")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: text_corpus.py FOLDER")
    main(Path(sys.argv[1]))
