#!/usr/bin/env python3
"""The headline numbers of lab/results, computed from the data that is committed there.

    headlines.py [FOLDER]

Prints every number with the file that it is computed from and, where it is the worst of several
cells, the cell. Pages link to such a number as `FILE.json#name`; `.ci/evidence.py` checks that
they show what is computed here. Whoever has measured anew puts the new JSON into lab/results.

A bench has a file in `headline/` and a row below. Its `NUMBERS` are functions of a report, by file
and by name; each gives a number, a number with the cell that it is of, or the least and the most
of several as a list.
"""

import json
import sys
from pathlib import Path

from lab.headline import (
    agent,
    ceph,
    clay,
    core,
    devices,
    hdfs,
    many,
    order,
    plan,
    repair,
    xor,
)

RESULTS = Path(__file__).resolve().parent / "results"
NUMBERS = {}
for module in (core, xor, plan, order, devices, repair, agent, many, ceph, clay, hdfs):
    NUMBERS.update(module.NUMBERS)


def main():
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else RESULTS
    for file, numbers in NUMBERS.items():
        if not (folder / file).exists():
            print(f"{file}: not there")
            continue
        report = json.loads((folder / file).read_text())
        missing = []
        for name, function in numbers.items():
            try:
                found = function(report)
            except KeyError:
                missing.append(name)
                continue
            number, cell = found if isinstance(found, tuple) else (found, "")
            parts = number if isinstance(number, list) else [number]
            shown = " to ".join(f"{part:.5g}" for part in parts)
            print(f"{file}#{name}: {shown}" + (f" ({cell})" if cell else ""))
        if missing:
            print(f"{file}: not measured: {', '.join(missing)}")


if __name__ == "__main__":
    main()
