#!/usr/bin/env python3
"""How much a repair reads on average when several chunks are lost (Clay paper, Fig. 17).

    average.py --kiln PATH --out DIR

Counted by `kiln plan --average`, over all patterns: it does not matter on what machine. Writes
plan-average.json; `lab.figures` makes its picture.
"""

import argparse
import json
import subprocess
from pathlib import Path

from lab.rig.about import about

# What the rules of the paper's appendix A give, as `crates/code/src/codes/clay/tests.rs` counts
# them.
PAPER = {("clay:10+4,d=11", 1): 5.5, ("clay:10+4,d=11", 2): 8.385, ("clay:10+4,d=11", 3): 9.712,
         ("clay:10+4,d=11", 4): 10, ("clay:10+4,d=12", 1): 4, ("clay:10+4,d=12", 2): 6.857,
         ("clay:10+4,d=12", 3): 10, ("clay:10+4,d=12", 4): 10, ("clay:10+4", 1): 3.25,
         ("clay:10+4", 2): 9.165, ("clay:10+4", 3): 9.942, ("clay:10+4", 4): 10,
         ("clay:4+2", 1): 2.5, ("clay:9+3", 1): 11 / 3, ("clay:16+4", 1): 4.75}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kiln", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    rows = []
    for (code, lost), paper in PAPER.items():
        told = subprocess.run([options.kiln, "plan", "--code", code, "--average", str(lost),
                               "--json"], check=True, capture_output=True, text=True)
        row = json.loads(told.stdout)
        if not row["exhaustive"]:
            raise SystemExit(f"{code}: not all patterns of {lost} losses were counted")
        rows.append({key: row[key] for key in ("code", "failures", "patterns", "mean_chunks",
                                               "min_chunks", "max_chunks", "mean_runs")}
                    | {"paper": paper})
    report = {"about": {"commit": about(options.kiln)["commit"], "counted": True},
              "averages": rows}
    (options.out / "plan-average.json").write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
