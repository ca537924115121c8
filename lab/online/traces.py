#!/usr/bin/env python3
"""Traces: every request of a run in an open format, which `kiln-bench replay` plays again.

    traces.py --out FOLDER [--first N] [--iolog] FILE...

Writes traces into a folder: the first requests alone (400), or whole and as fio reads them
(`fio --read_iolog`). The bytes are in docs/reference/formats.md; fio's logs are
what they are made from.
"""

import argparse
import json
import sys
from pathlib import Path

HEAD = "# kiln-trace 1"
COLUMNS = "issue_us,op,offset,bytes,took_us,job"
KEPT = 400  # requests of a trace that is kept in the repository


def text_of(about, requests):
    """A trace as text, from (began, operation, offset, bytes, took, job) in order of beginning."""
    lines = [HEAD, "# " + json.dumps(about, sort_keys=True), COLUMNS]
    lines += [",".join(str(field) for field in request) for request in requests]
    return "\n".join(lines) + "\n"


def read(text):
    """What a trace says of itself, and its requests."""
    lines = text.splitlines()
    if lines[:1] != [HEAD] or lines[2:3] != [COLUMNS]:
        raise ValueError(f"no trace: it begins with {lines[:1]}")
    rows = []
    for line in lines[3:]:
        began, operation, *rest = line.split(",")
        rows.append((int(began), operation, *(int(field) for field in rest)))
    return json.loads(lines[1][2:]), rows


def as_iolog(rows, name):
    """The same for fio itself (`--read_iolog`, version 3): with times, of one file."""
    words = {"r": "read", "w": "write", "t": "trim"}
    lines = ["fio version 3 iolog", f"0 {name} add", f"0 {name} open"]
    lines += [f"{began // 1000} {name} {words[operation]} {offset} {size}"
              for began, operation, offset, size, *_ in rows]
    return "\n".join([*lines, f"{rows[-1][0] // 1000 if rows else 0} {name} close"]) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", metavar="FOLDER", type=Path, required=True)
    parser.add_argument("--first", metavar="N", type=int, default=KEPT)
    parser.add_argument("--iolog", action="store_true")
    parser.add_argument("files", metavar="FILE", type=Path, nargs="+")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    for path in options.files:
        about, rows = read(path.read_text())
        if options.iolog:
            (options.out / f"{path.stem}.iolog").write_text(as_iolog(rows, "image"))
        else:
            about["requests_recorded"] = len(rows)
            text = text_of(about, rows[:options.first])
            (options.out / path.name).write_text(text)


if __name__ == "__main__":
    try:
        main()
    except (OSError, ValueError) as why:
        sys.exit(f"traces: {why}")
