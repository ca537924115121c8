#!/usr/bin/env python3
"""Prints the size and shape of the product as one line of JSON.

    house.py [COMMIT]

Without COMMIT the files of this checkout count. "The product" is everything outside `lab/`, or
outside `bench/` before there was a lab; tests are included.

rust_lines        lines of .rs files
lab_lines         lines of .rs and .py files of the laboratory
back_arrows       modules stand in each lib.rs and mod file from what is used to what uses. An arrow
                  from one module to another on its level that stands at or below it is an arrow
                  back (so each circle has one at least). So is one from a module to the file of a
                  module above it which itself uses that branch: a circle of parent and child
circles           sets of modules on one level that use each other
pool_methods      functions in `impl Pool` outside tests, of traits not counted
backend_methods   functions in `pub trait Backend`
clause_openers    share of lines of doc comments (`///`, `//!`) that open with a headless clause
readme_lines, make_targets
"""

import argparse
import io
import json
import re
import subprocess
import tarfile
from pathlib import Path

import modules

ROOT = Path(__file__).resolve().parent.parent
# The back_arrows of commit 27c0d83, as `house.py 27c0d83` counts them.
BACK_ARROWS_AT_27C0D83 = 646
LABORATORY = ("lab/", "bench/")
OPENERS = re.compile(
    r"\s*//[/!] ?(What|Where|Who|Whoever|Whose|How|Whether|Which|(That|Those) of)\b")
DOC = re.compile(r"\s*//[/!]")
IMPL = re.compile(
    r"(?m)^impl(?:<[^{]*?>)? Pool(?:<[^{]*>)? (?:where [^{]*)?\{\n(.*?)^\}", re.DOTALL)
FUNCTION = re.compile(r"(?m)^    (?:pub(?:\([a-z ]+\))? )?(?:const |async |unsafe )*fn ")


def files(commit):
    """{path: text} of sources and of the two files at the root."""
    wanted = re.compile(r".*\.(rs|py)|README\.md|Makefile")
    git = ["git", "-C", str(ROOT)]
    if commit:
        packed = subprocess.run([*git, "archive", commit], stdout=subprocess.PIPE, check=True)
        with tarfile.open(fileobj=io.BytesIO(packed.stdout)) as archive:
            return {entry.name: archive.extractfile(entry).read().decode()
                    for entry in archive if entry.isfile() and wanted.fullmatch(entry.name)}
    listed = subprocess.run([*git, "ls-files", "-co", "--exclude-standard"], text=True,
                            stdout=subprocess.PIPE, check=True).stdout.splitlines()
    return {path: (ROOT / path).read_text(encoding="utf-8") for path in listed
            if wanted.fullmatch(path) and (ROOT / path).is_file()}


def back(tree):
    """Arrows of one crate against the order of its modules; and its circles."""
    beside, above = tree.arrows()
    against = [arrow for arrows in beside.values() for arrow in arrows if arrow[0] < arrow[1]]
    returning = [(at, over) for at, over in above
                 if tree.line(at)[tree.line(at).index(over) + 1] in tree.branches_used(over)]
    circles = [circle for arrows in beside.values() for circle in tree.circles(arrows)]
    return against + returning, circles


def functions(texts, pattern):
    """How many functions there are in the bodies that a pattern finds."""
    return sum(len(FUNCTION.findall(body)) for text in texts for body in pattern.findall(text))


def count(sources):
    lab = {path: text for path, text in sources.items() if path.startswith(LABORATORY)}
    rust = {path: text for path, text in sources.items()
            if path.endswith(".rs") and path not in lab}
    lines = {path: text.splitlines() for path, text in rust.items()}
    crates = [back(tree) for tree in modules.trees(rust)]
    arrows = sum(len(found) for found, _ in crates)
    docs = [line for text in lines.values() for line in text if DOC.match(line)]
    code = {path: modules.product(modules.blank(text)) for path, text in rust.items()
            if path.startswith("crates/") and "/tests/" not in path}
    backend = re.compile(r"(?m)^pub trait Backend\b[^{]*\{\n(.*?)^\}", re.DOTALL)
    targets = re.findall(r"(?m)^([\w%-]+(?: [\w%-]+)*) *:(?!=)", sources.get("Makefile", ""))
    return {
        "rust_lines": sum(map(len, lines.values())),
        "lab_lines": sum(len(text.splitlines()) for text in lab.values()),
        "back_arrows": arrows,
        "back_arrows_over_27c0d83": round(arrows / BACK_ARROWS_AT_27C0D83, 3),
        "circles": sum(len(found) for _, found in crates),
        "pool_methods": functions((text for path, text in code.items()
                                   if path.startswith("crates/pool/")), IMPL),
        "backend_methods": functions(code.values(), backend),
        "clause_openers": round(sum(map(bool, map(OPENERS.match, docs))) / len(docs), 4),
        "readme_lines": len(sources.get("README.md", "").splitlines()),
        "make_targets": len({name for names in targets for name in names.split()}),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("commit", nargs="?", metavar="COMMIT")
    print(json.dumps(count(files(parser.parse_args().commit))))


if __name__ == "__main__":
    main()
