#!/usr/bin/env python3
"""Prints how large the house is: lines for each crate, tests apart, and circles of modules.

    house.py [--circles] [COMMIT]

Without COMMIT the files as they lie here. Lines are all lines, of Rust, Python, C and C++; tests
are files below `tests`, files of `#[cfg(test)] mod name;` and modules `#[cfg(test)] mod x { .. }`.
Circles are found by the check of the same name (crates/kiln/tests/tidy); a commit is unpacked for
that.
"""

import argparse
import collections
import io
import os
import re
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LANGUAGES = {"rs": "Rust", "py": "Python", "c": "C/C++", "h": "C/C++", "cc": "C/C++"}
GATE = re.compile(r"#\[cfg\((test|any\(test, feature = .*)\)\]")
MODULE = re.compile(r"\s*(?:pub(?:\([a-z]+\))? )?mod (\w+)( \{|;)")


def sources(folder):
    """All paths that hold code of ours, from the root of the repository."""
    skipped = {".git", "target", "out", "__pycache__"}
    for place, folders, names in os.walk(folder):
        folders[:] = sorted(set(folders) - skipped)
        for name in sorted(names):
            if name.rpartition(".")[2] in LANGUAGES:
                yield Path(place, name).relative_to(folder)


def crate(path):
    """The part of the house that a path belongs to."""
    deep = path.parts[0] in ("crates", "bindings")
    return "/".join(path.parts[:2 if deep else 1])


def gated(folder, paths):
    """Files and folders that are for tests alone, without extension; lines of such modules."""
    stems, lines = set(), collections.Counter()
    for path in (path for path in paths if path.suffix == ".rs"):
        own = path.parent if path.name in ("lib.rs", "main.rs", "mod.rs") else path.with_suffix("")
        text = (folder / path).read_text().splitlines()
        for at, line in enumerate(text[:-1]):
            found = GATE.fullmatch(line.strip()) and MODULE.match(text[at + 1])
            if found and found[2] == ";":
                stems.add(own / found[1])
            elif found:
                indent = line[:len(line) - len(line.lstrip())]
                lines[path] += text.index(indent + "}", at) - at + 1
    return stems, lines


def count(folder):
    """{crate: {(language, whether it is tests): lines}}"""
    paths = list(sources(folder))
    stems, inner = gated(folder, paths)
    counts = collections.defaultdict(collections.Counter)
    for path in paths:
        lines = len((folder / path).read_text().splitlines())
        stem = path.with_suffix("")
        tests = "tests" in path.parts or path.stem.endswith("_test") or \
            any(one in stems for one in (stem, *stem.parents))
        language, row = LANGUAGES[path.suffix[1:]], counts[crate(path)]
        row[language, tests] += lines - (0 if tests else inner[path])
        row[language, True] += 0 if tests else inner[path]
    return counts


def table(counts):
    """The counts as Markdown."""
    languages = ("Rust", "Python", "C/C++")
    kinds = [(language, tests) for language in languages for tests in (False, True)]
    yield "| part | " + " | ".join(
        language + (", tests" if tests else "") for language, tests in kinds) + " | all |"
    yield "|---|" + "--:|" * (len(kinds) + 1)
    total = collections.Counter()
    for name in sorted(counts):
        total.update(counts[name])
    for name, row in [*sorted(counts.items()), ("**all**", total)]:
        cells = [f"{row[kind]:,}" if row[kind] else "" for kind in kinds]
        yield f"| {name} | " + " | ".join(cells) + f" | {sum(row.values()):,} |"


def circles(folder):
    """What the check of circles finds below a folder."""
    words = ["cargo", "test", "-q", "-p", "kiln", "--test", "tidy", "--", "--nocapture", "--exact",
             "circles::siblings_use_each_other_in_one_direction"]
    done = subprocess.run(words, cwd=ROOT, env={**os.environ, "KILN_TIDY_ROOT": str(folder)},
                          stdout=subprocess.PIPE, text=True, check=True)
    for line in done.stdout.splitlines():
        if line.startswith("circle: "):
            yield "- " + line.removeprefix("circle: ")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--circles", action="store_true", help="circles of modules, too")
    parser.add_argument("commit", nargs="?", metavar="COMMIT")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = ROOT
        if options.commit:
            words = ["git", "-C", str(ROOT), "archive", options.commit]
            packed = subprocess.run(words, stdout=subprocess.PIPE, check=True).stdout
            with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
                archive.extractall(scratch, filter="data")
            folder = Path(scratch)
        print("\n".join(table(count(folder))))
        if options.circles:
            found = list(circles(folder))
            print(f"\n{len(found)} circles", *found, sep="\n")


if __name__ == "__main__":
    sys.exit(main())
