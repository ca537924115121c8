#!/usr/bin/env python3
"""How long listing, status and the plan of a repair take in pools of many tiny objects.

    many.py FOLDER --many PROGRAM --out DIR [--objects 10000]... [--rounds 3]

PROGRAM is the example `many` of kiln-bench. FOLDER is made and removed for every round. Writes
pool-many.json with all rounds; `lab.figures` makes its picture.
"""

import argparse
import json
import shutil
import subprocess
from pathlib import Path

from lab.rig.about import about


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--many", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--objects", type=int, action="append")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    where, rows = about(options.many), []
    for objects in options.objects or [10_000]:
        for _ in range(options.rounds):
            shutil.rmtree(options.folder, ignore_errors=True)
            options.folder.mkdir(parents=True)
            out = subprocess.run([options.many, options.folder, str(objects)], check=True,
                                 capture_output=True, text=True)
            rows.append(json.loads(out.stdout))
    shutil.rmtree(options.folder, ignore_errors=True)
    lines = ",\n  ".join(json.dumps(row) for row in rows)
    text = f'{{\n "about": {json.dumps(where)},\n "many": [\n  {lines}\n ]\n}}\n'
    (options.out / "pool-many.json").write_text(text)


if __name__ == "__main__":
    main()
