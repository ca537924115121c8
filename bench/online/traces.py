"""Traces: every request of a run in an open format, which `kiln-bench replay` plays again.

The bytes are in docs/FORMATS.md. fio's logs are what they are made from.
"""

import json

HEAD = "# kiln-trace 1"
COLUMNS = "issue_us,op,offset,bytes,took_us,job"
# What is kept in the repository of a long one.
KEPT = 400


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
