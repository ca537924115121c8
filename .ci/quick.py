#!/usr/bin/env python3
"""Runs the tests of the workspace but those that take long, and says which it left out.

    quick.py [--cargo CARGO]

Those are the rows of `.ci/slow`: seconds of one core, and the test. A row that is nobody's name any
more is an error, so that the list cannot outlive its reasons. Tests that draw at random draw less.
"""

import argparse
import os
import re
import subprocess
import sys
from pathlib import Path

# Kills of a program, of 200; simulated clusters, of 400 and 600.
FEWER = {"KILN_KILL_ROUNDS": "10", "KILN_SIM_SEEDS": "40"}

ENDINGS = (".rs", ".py")
ROOT = Path(__file__).resolve().parent.parent


def slow():
    """(seconds, name) of all tests that are left out."""
    lines = (ROOT / ".ci/slow").read_text().splitlines()
    rows = [line.split() for line in lines if line and not line.startswith("#")]
    return [(float(seconds), name) for seconds, name in rows]


def known():
    """The names of all functions of our sources: tests are Rust, or Python that Rust runs."""
    folders = [ROOT / name for name in ("crates", "bindings", "fuzz")]
    paths = [path for folder in folders for path in folder.rglob("*.*") if path.suffix in ENDINGS]
    return {name for path in paths for name in re.findall(r"\b(?:fn|def) (\w+)", path.read_text())}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cargo", default="cargo")
    options = parser.parse_args()
    rows, functions = slow(), known()
    gone = [name for _, name in rows if name.rpartition("::")[2] not in functions]
    if gone:
        sys.exit(f".ci/slow: no longer there: {', '.join(gone)}; remove or rename the rows")
    skips = [word for _, name in rows for word in ("--skip", name)]
    words = [options.cargo, "test", "-q", "--workspace", "--locked", "--", *skips]
    code = subprocess.call(words, cwd=ROOT, env={**FEWER, **os.environ})
    print(f"left to `make test`: {len(rows)} tests, {sum(seconds for seconds, _ in rows):.0f} s of "
          "one core, and all that needs Ceph, root or another toolchain:")
    for seconds, name in sorted(rows, reverse=True):
        print(f"  {seconds:6.1f} s  {name}")
    print("and with fewer rounds: " + ", ".join(f"{name}={few}" for name, few in FEWER.items()))
    sys.exit(code)


if __name__ == "__main__":
    main()
