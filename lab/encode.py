#!/usr/bin/env python3
"""What a whole encode costs, checksums and all, beside a copy of as many bytes.

    encode.py FOLDER --kiln PATH --out DIR [--quick]

FOLDER should be in memory (a tmpfs): then what is measured is computing and copying. In turns: kiln
encodes a file with each code, its shards are verified (read, and every checksum computed again),
and `cp` writes the same number of bytes. Writes encode.json; prints medians of the ratios.
"""

import argparse
import json
import os
import resource
import shutil
import subprocess
import time
from pathlib import Path
from statistics import median

from lab.rig.about import about, told

CODES = ("rs:10+4", "clay:10+4")
SHARE = 0.4  # what parities add


def measured(*words):
    """Seconds by the clock, and of processors in programs and in the kernel."""
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    subprocess.run(words, check=True, capture_output=True)
    seconds, after = time.monotonic() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    return {"seconds": round(seconds, 4), "user": round(after.ru_utime - before.ru_utime, 4),
            "system": round(after.ru_stime - before.ru_stime, 4)}


def one_round(kiln, folder):
    """Each of them once, on fresh files."""
    found = {}
    for code in CODES:
        shards = folder / "shards"
        found[f"encode {code}"] = measured(kiln, "encode", folder / "input", "--code", code, "-o",
                                           shards)
        found[f"verify {code}"] = measured(kiln, "verify", shards)
        shutil.rmtree(shards)
    found["cp"] = measured("cp", folder / "input", folder / "part", folder / "copies")
    for name in ("input", "part"):
        (folder / "copies" / name).unlink()
    return found


def main():
    """Measures, writes a report, and prints its headline."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--kiln", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--quick", action="store_true", help="a small file, three rounds")
    options = parser.parse_args()
    size, rounds = (64 << 20, 3) if options.quick else (1 << 30, 11)
    folder = options.folder
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "copies").mkdir(parents=True)
    try:
        for name, part in (("input", 1), ("part", SHARE)):
            with open(folder / name, "wb") as file:
                for _ in range(int(size * part) >> 20):
                    file.write(os.urandom(1 << 20))
        machine = about(options.kiln) | {"folder": told("stat", "-f", "-c", "%T", folder)}
        one_round(options.kiln, folder)  # memory is new
        found = [one_round(options.kiln, folder) for _ in range(rounds)]
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    medians = {who: {key: median(one[who][key] for one in found) for key in one}
               for who, one in found[0].items()}
    headline = {f"{code.split(':')[0]}_encode_over_cp": round(median(
        one["cp"]["seconds"] / one[f"encode {code}"]["seconds"] for one in found), 3)
        for code in CODES}
    report = {"bytes": size, "machine": machine, "load": os.getloadavg(), "rounds": found,
              "medians": medians, "headline": headline}
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "encode.json").write_text(json.dumps(report, indent=1) + "\n")
    print(json.dumps(headline))


if __name__ == "__main__":
    main()
