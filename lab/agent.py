#!/usr/bin/env python3
"""An agent over the loopback interface beside a bare TLS copy of the same bytes, on one core.

    agent.py --loopback PROGRAM --out DIR [--runs 3]

PROGRAM is the example `loopback` of kiln-bench; a run of it has three rounds. Files are in the
folder that TMPDIR names. Writes agent.json with all rounds; `lab.figures` makes its picture.
"""

import argparse
import json
import os
import re
import subprocess
from pathlib import Path

from lab.rig.about import about

ROUND = re.compile(r"TLS copy ([\d.]+) GB/s, into a file ([\d.]+); agent read ([\d.]+) .*"
                   r"agent write ([\d.]+)")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--loopback", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--runs", type=int, default=3)
    options = parser.parse_args()
    os.sched_setaffinity(0, {0})
    where, rounds = about(options.loopback), []
    for _ in range(options.runs):
        out = subprocess.run([options.loopback], check=True, capture_output=True, text=True)
        for found in ROUND.finditer(out.stdout):
            copy, kept, read, written = map(float, found.groups())
            rounds.append(dict(copy=copy, kept=kept, read=read, write=written))
    if not rounds:
        raise SystemExit("the example printed no round")
    report = dict(about=where, unit="GB/s", rounds=rounds)
    (options.out / "agent.json").write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
