#!/usr/bin/env python3
"""The Clay paper's evaluation (its section 6) inside real Ceph: traffic, reads and time of repairs.

    bench.py FOLDER --kiln PROGRAM --out FOLDER [--plugins DIR] [--quick | --tiny]
             [--orders] [--code C2] [--minutes M] [--again]

One OSD gets an empty disk, in pools of RS (isa), Ceph's Clay and kiln's: bytes through private
links by the counters of the switch, bytes that devices read by the kernel's, and seconds by the
clock until nearly all bytes had moved. Every OSD has a loop device, a network namespace, and links
that are **shaped**, so slow that they and not the two cores set the time. What an idle cluster
sends is taken off. --orders: G-Clay's evaluation instead, with emulated disks in place of slow
links. A run that was cut off, or had no more time, goes on where it was (--again begins anew). One
JSON with every round goes to OUT, its headline to standard output. As root.
"""

import argparse
import hashlib
import json
import shutil
import signal
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent

from lab.clay import cases
from lab.clay import orders
from lab.clay import slow
from lab.clay import summary
from lab.clay.cases import C1, C2, C3, C4, C5, C6
from lab.clay.losing import Losing
from lab.online import osds
from lab.rig.about import about
from lab.rig.testbed import able as able_to_have_hosts
from lab.rig.tools import Failed, Unable

# Codes, and those that lose two OSDs at once; OSDs; MiB that are lost; placement groups of pools
# with several, where the paper has 512; rates of links; seconds of rest; rounds; minutes after
# which nothing new is begun; whether OSDs lay chunks as on disks.
KINDS = {
    "tiny": dict(codes=[C1], several=[], osds=6, lost_mib=16, groups=4, rate="400mbit", calm=1,
                 rounds=1, minutes=1, as_on_disks=False),
    "quick": dict(codes=[C1, C2, C3], several=[C4, C5, C6], osds=20, lost_mib=48, groups=16,
                  rate="200mbit", calm=3, rounds=1, minutes=38, as_on_disks=False),
    "full": dict(codes=[C1, C2, C3], several=[C4, C5, C6], osds=20, lost_mib=64, groups=64,
                 rate="200mbit", calm=5, rounds=3, minutes=60 * 6, as_on_disks=False),
}
ORDERS = dict(codes=[orders.G16, orders.G9, orders.G14], several=[], osds=18, lost_mib=32, groups=1,
              rate=None, calm=1, rounds=1, minutes=25, as_on_disks=True)
ORDERS_KINDS = {"tiny": KINDS["tiny"] | dict(rate=None, as_on_disks=True),
                "quick": ORDERS, "full": ORDERS | dict(rounds=3, minutes=60 * 3)}
GIVEN = ("codes", "several")
CODES = {code.name: code for code in (*KINDS["full"]["codes"], *ORDERS["codes"])}


def say(text):
    """Progress."""
    print(f"{time.strftime('%H:%M:%S')} {text}", file=sys.stderr, flush=True)


def version_of(options):
    """What rounds must have in common to be of one run: these files, the plugins, and Ceph."""
    found = hashlib.sha256(osds.release().encode())
    for path in [*sorted(HERE.glob("*.py")), *sorted((options.plugins or HERE).glob("*.so"))]:
        found.update(path.read_bytes())
    return found.hexdigest()[:16]


def kept(options, version):
    """Rounds that an earlier run of the same kind wrote down, by case; what read back wrong."""
    try:
        report = json.loads(options.file.read_text())
    except (FileNotFoundError, ValueError):
        return {}, []
    if options.again or report.get("version") != version:
        return {}, []
    rounds = {row["case"]: row["rounds"] for row in report["losses"]}
    known = {case.key: case for case in options.cases}
    rounds = {known[key]: rounds for key, rounds in rounds.items() if key in known}
    return rounds, report.get("wrong", [])


def measure(options, found, write):
    """All rounds that are lacking and that there is time for, into `found`."""
    end = time.monotonic() + options.minutes * 60
    losing = Losing(options)
    wanted = [(number, case) for number in range(options.rounds)
              for case in options.cases if losing.has(case)]
    lacking = [one for one in wanted if len(found.get(one[1], [])) <= one[0]]
    try:
        if lacking:
            losing.start()
        for at, (number, case) in enumerate(lacking):
            if time.monotonic() > end:
                break
            begin = time.monotonic()
            one = losing.case(case)
            found.setdefault(case, []).append(one)
            left = [f"round {number}: {case.key}" for number, case in lacking[at + 1:]]
            write(left, losing)
            say(f"{case.key}: {summary.short(one)}; {time.monotonic() - begin:.0f} s in all")
        if losing.pool:
            losing.leave()
            write(left, losing)
    finally:
        # A second interrupt must not leave daemons behind.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        losing.end()
        shutil.rmtree(options.folder, ignore_errors=True)


def arguments():
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", metavar="FOLDER", type=Path)
    parser.add_argument("--plugins", metavar="DIR", type=Path, help="with kiln's (else Ceph's own)")
    parser.add_argument("--kiln", metavar="PROGRAM", type=Path, required=True)
    parser.add_argument("--out", metavar="FOLDER", type=Path, required=True)
    parser.add_argument("--minutes", type=float, help="nothing new is begun after that")
    parser.add_argument("--code", choices=list(CODES), help="this one alone, in a file of its own")
    parser.add_argument("--orders", action="store_true", help="G-Clay's evaluation")
    parser.add_argument("--again", action="store_true", help="forget what an earlier run found")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--tiny", action="store_true")
    options = parser.parse_args()
    options.name = "tiny" if options.tiny else "quick" if options.quick else "full"
    for key, value in (ORDERS_KINDS if options.orders else KINDS)[options.name].items():
        if getattr(options, key, None) is None:
            setattr(options, key, value)
    if options.code:
        options.codes, options.several = [CODES[options.code]], []
    options.study = orders if options.orders else cases
    headline = orders.headline if options.orders else summary.headline
    options.headline = lambda rows: headline(rows, options.codes, options.groups, options.several)
    options.cases = options.study.cases(options.codes, options.groups, options.several)
    options.study_name = "clay-orders" if options.orders else "clay"
    words = [options.study_name, options.name if options.name != "full" else "",
             (options.code or "").lower()]
    options.file = options.out / ("-".join(filter(None, words)) + ".json")
    return options


def main():
    options = arguments()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        osds.able([tool for tool in osds.NEEDED if tool not in ("rbd", "fio")])
        able_to_have_hosts()
        if options.orders:
            slow.able()
    except Unable as error:
        print(f"SKIPPED: {error}", file=sys.stderr)
        return 3
    shutil.rmtree(options.folder, ignore_errors=True)
    options.folder.mkdir(parents=True)
    options.out.mkdir(parents=True, exist_ok=True)
    before, start, version = about(options.kiln), time.monotonic(), version_of(options)
    found, options.wrong = kept(options, version)
    sizes = {key: getattr(options, key) for key in KINDS["full"] if key not in GIVEN}

    def write(left_out, losing):
        """What there is so far, from which a run that was cut off goes on."""
        rows = [summary.row(case, rounds) for case, rounds in found.items()]
        report = {
            "bench": options.study_name, "kind": options.name, "version": version,
            "machine": before, "end": about(options.kiln), "seconds": time.monotonic() - start,
            "ceph": osds.release(), "sizes": sizes,
            "codes": {code.name: {"k": code.k, "m": code.m, "d": code.d or code.n - 1,
                                  "units": code.units}
                      for code in (*options.codes, *options.several)},
            "idle_bytes_per_second": losing.idle, "left_out": left_out, "wrong": losing.wrong,
            "paper": options.study.PAPER, "headline": options.headline(rows), "losses": rows,
        }
        part = options.file.with_suffix(".part")
        part.write_text(json.dumps(report, indent=1) + "\n")
        part.rename(options.file)

    try:
        measure(options, found, write)
    except (Failed, Unable) as error:
        print(f"clay: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print(f"clay: interrupted; what was measured is in {options.file}", file=sys.stderr)
        return 130
    report = json.loads(options.file.read_text())
    for line in report["left_out"]:
        say(f"left out, no time (the same command goes on with it): {line}")
    for line in report["wrong"]:
        say(f"read back wrong: {line}")
    print(json.dumps({key: round(value, 4) for key, value in report["headline"].items()}))
    return 1 if report["wrong"] else 0


if __name__ == "__main__":
    sys.exit(main())
