#!/usr/bin/env python3
"""The Clay paper's evaluation (its section 6) inside real Ceph: traffic, reads and time of repairs.

    bench.py FOLDER --kiln PROGRAM --out FOLDER [--plugins DIR] [--quick | --tiny]
             [--code C2] [--minutes M]

One OSD gets an empty disk, in pools of RS (isa), Ceph's Clay and kiln's: bytes through private
links by the counters of the switch, bytes that devices read by the kernel's, and seconds by the
clock until nearly all bytes had moved. Every OSD has a loop device, a network namespace, and links
that are **shaped**, so slow that they and not the two cores set the time. What an idle cluster
sends is taken off. One JSON with every round goes to OUT, its headline to standard output. As root.
"""

import argparse
import json
import shutil
import signal
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
BENCH = HERE.parent
SHARED = ("", "testbed", "volume", "ceph", "online")
sys.path += [str(HERE), *(str(BENCH / name) for name in SHARED),
             str(BENCH.parent / "bindings" / "ceph")]

import osds  # noqa: E402
import summary  # noqa: E402
from cases import C1, C2, C3, cases  # noqa: E402
from cluster import ClusterError  # noqa: E402
from losing import Losing  # noqa: E402
from testbed import TestbedError  # noqa: E402
from testbed import Unable as NoHosts  # noqa: E402
from testbed import able as able_to_have_hosts  # noqa: E402
from tools import Failed, Unable  # noqa: E402
from where import about  # noqa: E402

CODES = {code.name: code for code in (C1, C2, C3)}
# Codes; OSDs; MiB that are lost; placement groups of pools with several, where the paper has 512;
# rates of links; seconds of rest; rounds; minutes after which nothing new is begun.
KINDS = {
    "tiny": dict(codes=[C1], osds=6, lost_mib=16, groups=4, rate="400mbit", calm=1, rounds=1,
                 minutes=1),
    "quick": dict(codes=[C1, C3], osds=20, lost_mib=48, groups=16, rate="200mbit", calm=3,
                  rounds=1, minutes=24),
    "full": dict(codes=[C1, C2, C3], osds=20, lost_mib=64, groups=64, rate="200mbit", calm=5,
                 rounds=3, minutes=60 * 6),
}


def say(text):
    """Progress."""
    print(f"{time.strftime('%H:%M:%S')} {text}", file=sys.stderr, flush=True)


def measure(options, found):
    """All rounds that there is time for, into `found`; what was left out."""
    end, left_out = time.monotonic() + options.minutes * 60, []
    losing = Losing(options, say)
    try:
        losing.start()
        for number in range(options.rounds):
            for case in cases(options.codes, options.groups):
                if not losing.has(case):
                    continue
                if time.monotonic() > end:
                    left_out.append(f"round {number}: {case.key}")
                    continue
                begin = time.monotonic()
                one = losing.case(case)
                found.setdefault(case, []).append(one)
                say(f"{case.key}: {summary.short(one)}; {time.monotonic() - begin:.0f} s in all")
    finally:
        # A second interrupt must not leave daemons behind.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        losing.end()
        shutil.rmtree(options.folder, ignore_errors=True)
    return left_out, losing.idle


def arguments():
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", metavar="FOLDER", type=Path)
    parser.add_argument("--plugins", metavar="DIR", type=Path, help="with kiln's (else Ceph's own)")
    parser.add_argument("--kiln", metavar="PROGRAM", type=Path, required=True)
    parser.add_argument("--out", metavar="FOLDER", type=Path, required=True)
    parser.add_argument("--minutes", type=float, help="nothing new is begun after that")
    parser.add_argument("--code", choices=list(CODES), help="this one alone, in a file of its own")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--tiny", action="store_true")
    options = parser.parse_args()
    options.name = "tiny" if options.tiny else "quick" if options.quick else "full"
    for key, value in KINDS[options.name].items():
        if getattr(options, key, None) is None:
            setattr(options, key, value)
    if options.code:
        options.codes = [CODES[options.code]]
    words = ["clay", options.name if options.name != "full" else "", (options.code or "").lower()]
    options.file = "-".join(filter(None, words)) + ".json"
    return options


def main():
    options = arguments()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        osds.able()
        able_to_have_hosts()
    except (Unable, NoHosts) as error:
        print(f"SKIPPED: {error}", file=sys.stderr)
        return 3
    shutil.rmtree(options.folder, ignore_errors=True)
    options.folder.mkdir(parents=True)
    options.out.mkdir(parents=True, exist_ok=True)
    before, start, found = about(options.kiln), time.monotonic(), {}
    try:
        left_out, idle = measure(options, found)
    except (ClusterError, TestbedError, Failed) as error:
        print(f"clay: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("clay: interrupted; nothing was written", file=sys.stderr)
        return 130
    rows = [summary.row(case, rounds) for case, rounds in found.items()]
    sizes = {key: getattr(options, key) for key in KINDS["full"] if key != "codes"}
    report = {
        "bench": "clay", "kind": options.name, "machine": before, "end": about(options.kiln),
        "seconds": time.monotonic() - start, "ceph": osds.release(), "sizes": sizes,
        "codes": {code.name: {"k": code.k, "m": code.m, "units": code.units}
                  for code in options.codes},
        "idle_bytes_per_second": idle, "left_out": left_out, "paper": summary.paper(),
        "headline": summary.headline(rows, options.codes, options.groups), "losses": rows,
    }
    (options.out / options.file).write_text(json.dumps(report, indent=1) + "\n")
    for line in left_out:
        say(f"left out, no time: {line}")
    print(json.dumps({key: round(value, 4) for key, value in report["headline"].items()}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
