#!/usr/bin/env python3
"""Goes through the tutorial as somebody new: a clone, a build, a file, a pool, a first change.

    tutorial_test.py FOLDER

FOLDER is made, and emptied before. The clone is of what is committed here, and builds everything
anew, which takes some twenty minutes of two cores; so CI does not run this. What the commands print
is compared with the page by crates/kiln/tests/program/sessions.rs.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from system import pages

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "guide" / "tutorial.md"
# What the prose between two blocks asks for; the page is checked for saying so.
SAID = ("write `crates/code/src/codes/single.rs`", "add `mod single;` to the modules",
        "`single::FAMILY,` to the table\n`CODES`", "Change a 1 of the matrix to 0",
        "`|_, at| u8::from(at != 1)`", "it names the\nloss that no longer decodes",
        "`git checkout crates`; remove the file")
# Exit code 1 says that what was lost can be rebuilt.
LOST = ("kiln verify shards", "kiln status")
FILE = "crates/code/src/codes/single.rs"
CHANGE = rf"""cd "$home" && cat > {FILE} << 'END'
%s
END
sed -i -e 's/^mod star;/mod single;\n&/' \
    -e 's/^pub static CODES: .*/&\n    single::FAMILY,/' crates/code/src/codes.rs"""
# The last paragraphs, whose commands stand in the running text.
AFTER = rf"""sed -i 's/|_, _| 1)/|_, at| u8::from(at != 1))/' {FILE}
if cargo test -p kiln-code --lib codes::battery > broken 2>&1; then exit 1; fi
grep 'single:.* lost' broken
git checkout -q crates && rm {FILE} && test -z "$(git status --porcelain crates)" """


def script(page):
    """The page as a script; the clone is of this repository."""
    parts = ["set -ex", "home=$PWD/kiln"]
    for block in pages.blocks(page):
        if block.language == "rust":
            parts.append(CHANGE % "\n".join(block.lines))
        elif re.match(r"[$#] ", block.lines[0]):
            parts += [step.text + (" || test $? = 1" if step.text in LOST else "")
                      for step in pages.prompted(block)]
        elif block.language == "indented":
            parts += block.lines
    return "\n".join([*parts, AFTER]).replace("git clone ... kiln", f"git clone -q {ROOT} kiln")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args().folder.resolve()
    page = PAGE.read_text(encoding="utf-8")
    missing = [words for words in SAID if words not in page]
    if missing:
        sys.exit(f"FAILED: the page no longer says {missing}; this test does what it said")
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    (folder / "script").write_text(script(page), encoding="utf-8")
    around = {key: value for key, value in os.environ.items()
              if not key.startswith("KILN_") and key not in ("CARGO_TARGET_DIR", "MAKEFLAGS")}
    with open(folder / "log", "w", encoding="utf-8") as log:
        code = subprocess.call(["bash", "script"], cwd=folder, env=around, stdout=log, stderr=log)
    if code:
        print((folder / "log").read_text(encoding="utf-8", errors="replace")[-3000:])
        sys.exit(f"FAILED: exit code {code}, see {folder / 'log'}")
    print("tutorial: done from the clone to the first change")


if __name__ == "__main__":
    main()
