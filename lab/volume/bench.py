#!/usr/bin/env python3
"""What volumes cost: bytes at devices and links, latency and rate, under fio.

    bench.py FOLDER --kiln PROGRAM --out FOLDER [--quick | --tiny]

Every node of a pool is an ext4 on a loop device of its own, all on one disk of this machine: bytes
are counted exactly, times are those of a shared disk and mean something only as ratios between
rounds in turns. Links are those of agents in network namespaces. As root. One JSON object with
every round goes to OUT, its headline numbers as one line to standard output. --tiny proves that it
runs, and gives no numbers worth anything.
"""

import argparse
import json
import os
import shutil
import statistics
import sys
import time
from pathlib import Path

from lab.rig.about import about
from lab.rig.testbed import program
from lab.rig.tools import Unable
from lab.volume import sections
from lab.volume.sections import CODE, REPLICAS

TOOLS = ("fio", "losetup", "mkfs.ext4", "mount", "ip", "tc")
# MiB of a volume, of a volume over links, of first writes, of reads and of a round; rounds; seconds
# of jobs that last a time; what a repair may read and write a second at each node; what is made
# into whole stripes together.
SIZES = {
    "tiny": dict(size=96, net=32, first=4, short=4, part=8, rounds=1, seconds=1, limit="200MiB",
                 segment="4MiB"),
    "quick": dict(size=512, net=256, first=64, short=48, part=256, rounds=3, seconds=6,
                  limit="15MiB", segment="32MiB"),
    "full": dict(size=4096, net=1024, first=256, short=512, part=2048, rounds=5, seconds=30,
                 limit="15MiB", segment="32MiB"),
}
BARS = {
    "write_bytes_per_byte_uniform": 7.2, "write_bytes_per_byte_zipf": 6,
    "read_bytes_per_byte_write": 1.1, "foreground_reads": 0, "read_amplification_4k": 1.1,
    "first_write_over_overwrite": 1.05, "net_bytes_per_byte_write": 8, "q1_latency_over_rep": 1.25,
    "iops_over_rep_uniform": 0.5, "iops_over_rep_zipf": 0.8, "sealed_over_clay": 0.8,
    "recovery_bytes_over_planned": 1, "recovery_client_keeps": 0.7,
}


def say(text):
    """Progress."""
    print(f"{time.strftime('%H:%M:%S')} {text}", file=sys.stderr, flush=True)


def measure(options):
    """All rounds of all sections."""
    found = {}
    volumes = sections.Volumes(options.folder, options.kiln, options.size, options.segment)
    rows = [
        ("first", lambda: sections.first(volumes, options)),
        ("sequential", lambda: sections.sequential(volumes, options)),
        ("uniform", lambda: sections.overwrites(volumes, options, sections.UNIFORM, 2)),
        ("zipf", lambda: sections.overwrites(volumes, options, sections.ZIPF, 1)),
        ("depth1", lambda: sections.one_by_one(volumes, options)),
        ("read", lambda: sections.reads(volumes, options)),
        ("recovery", lambda: sections.recovery(volumes, options)),
    ]
    try:
        for name, section in rows:
            say(name)
            found[name] = section()
        found["status"] = {code: volumes[code][1].end() for code in (CODE, REPLICAS)}
    finally:
        volumes.end()
    say("links")
    found["links"] = sections.links(options.folder, options.kiln, options)
    return found


def median(rounds, *way):
    """The median over rounds of a number in each."""
    def number(one):
        for key in way:
            one = one[key]
        return one
    return statistics.median(map(number, rounds))


def ratio(rounds, key):
    """The median over rounds of what is within each, of the coded volume over replicas."""
    return statistics.median(one[CODE][key] / one[REPLICAS][key] for one in rounds)


def headline(found):
    """The numbers that bars are about."""
    first = found["first"]
    moved = [one[kind]["read_per_byte"] for one in first for kind in ("first", "overwrite")]
    return {
        "write_bytes_per_byte_uniform": median(found["uniform"], CODE, "written_per_byte"),
        "write_bytes_per_byte_zipf": median(found["zipf"], CODE, "written_per_byte"),
        "read_bytes_per_byte_write": median(found["uniform"], CODE, "read_per_byte"),
        "foreground_reads": max(moved),
        "read_amplification_4k": median(found["read"], "read_per_byte"),
        "first_write_over_overwrite": statistics.median(
            one["first"]["mean_us"] / one["overwrite"]["mean_us"] for one in first),
        "net_bytes_per_byte_write": median(found["links"], "net_per_byte"),
        "q1_latency_over_rep": ratio(found["depth1"], "mean_us"),
        "iops_over_rep_uniform": ratio(found["uniform"], "iops"),
        "iops_over_rep_zipf": ratio(found["zipf"], "iops"),
        "sealed_over_clay": median(found["sequential"], "over_put"),
        "recovery_bytes_over_planned": median(found["recovery"], "over_planned"),
        "recovery_client_keeps": median(found["recovery"], "keeps"),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", metavar="FOLDER", type=Path)
    parser.add_argument("--kiln", metavar="PROGRAM", type=Path, required=True)
    parser.add_argument("--out", metavar="FOLDER", type=Path, required=True)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--tiny", action="store_true")
    options = parser.parse_args()
    missing = [tool for tool in TOOLS if shutil.which(tool) is None]
    if missing or os.geteuid() != 0:
        raise Unable(f"it needs {', '.join(missing) or 'root'}")
    options.folder, options.kiln = options.folder.absolute(), options.kiln.absolute()
    shutil.rmtree(options.folder, ignore_errors=True)
    options.folder.mkdir(parents=True)
    kind = "tiny" if options.tiny else "quick" if options.quick else "full"
    for name, value in SIZES[kind].items():
        setattr(options, name, value)
    before, start = about(options.kiln), time.monotonic()
    found = measure(options)
    numbers = headline(found)
    report = {"bench": "volume", "kind": kind, "machine": before, "end": about(options.kiln),
              "seconds": time.monotonic() - start, "sizes": SIZES[kind], "volumes": found,
              "headline": numbers, "bars": BARS}
    options.out.mkdir(parents=True, exist_ok=True)
    name = "volume.json" if kind == "full" else f"volume-{kind}.json"
    (options.out / name).write_text(json.dumps(report, indent=1) + "\n")
    print(json.dumps({key: round(value, 3) for key, value in numbers.items()}))
    shutil.rmtree(options.folder, ignore_errors=True)


if __name__ == "__main__":
    program(main, "bench-volume")
