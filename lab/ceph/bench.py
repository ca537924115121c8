#!/usr/bin/env python3
"""What recovery costs inside Ceph: kiln's plugin beside the stock ones, on one cluster here.

    bench.py FOLDER --plugins DIR --out DIR [--minutes M]
             [--quick | --part host|recovery|away|clients|whole|moving] [--only SIZES] [--units KIB]

One OSD at a time gets an empty disk; what its recovery reads and sends is counted by Ceph (bytes
received, reads of the object store) and by the kernel (bytes that processes fetch from disk), the
idle cluster's own taken off. Computing is measured apart, by calling the plugins as an OSD does.
One machine holds all OSDs: bytes and counts are those of a real cluster, times are not. The most
wanted rows come first; what --minutes leaves no time for is named as left out.
"""

import argparse
import json
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

from lab.ceph.clients import clients
from lab.ceph.computing import computing
from lab.ceph.meter import Meter, between, measure_idle
from lab.ceph.moving import moving
from lab.ceph.whole import whole
from lab.rig.about import about
from lab.rig.ceph import Cluster, ClusterError, rados
from lab.rig.testbed import program

MIB = 1 << 20
VAN = "technique=reed_sol_van"
CODES = {
    "kiln rs": "plugin=kiln code=rs {km}",
    "stock isa": "plugin=isa {km} " + VAN,
    "kiln clay": "plugin=kiln code=clay {km}",
    "kiln clay gray": "plugin=kiln code=clay {km} order=gray",
    "kiln clay d=n-2": "plugin=kiln code=clay {km} d={less}",
    "stock clay": "plugin=clay {km} scalar_mds=isa " + VAN,
}
OURS = ["kiln clay", "kiln clay gray"]
# Recovery, most wanted first: k, m, stripe unit in KiB, code, losses. For 10+4 the first shard, the
# last and one of each section of Clay's grid; for 14+2 one of an early and two of late sections.
ONES = [[0], [4], [8], [13]]
RECOVERY = [
    (10, 4, 1024, "kiln clay", [*ONES, [0, 1]]),
    (10, 4, 1024, "stock clay", [[0], [0, 1]]),
    (10, 4, 1024, "kiln clay gray", [*ONES, [0, 1]]),
    (14, 2, 1024, "kiln clay", [[0], [8], [12], [15]]),
    (14, 2, 1024, "kiln clay gray", [[0], [8], [12], [15]]),
    (10, 4, 1024, "kiln rs", [[0]]),
    (10, 4, 1024, "stock isa", [[0]]),
    (10, 4, 64, "kiln clay", ONES),
    (6, 3, 108, "kiln clay", [[0], [8], [0, 1]]),
    (4, 2, 64, "kiln clay", [[0], [5]]),
    (4, 2, 4, "kiln clay", [[0], [5]]),
    (10, 4, 4096, "kiln clay", [[0], [13]]),
    (12, 4, 1024, "kiln clay", [*ONES, [15], [0, 1]]),
    (12, 4, 1024, "kiln clay gray", [[0], [15]]),
    (12, 4, 1024, "kiln rs", [[0]]),
    (12, 4, 1024, "stock isa", [[0]]),
    (8, 4, 324, "kiln clay d=n-2", [[0], [11], [0, 1]]),
    (6, 3, 128, "kiln clay d=n-2", [[0], [8], [0, 1]]),
    (10, 4, 1024, "kiln clay", [[shard] for shard in (1, 2, 3, 5, 6, 7, 9, 10, 11, 12)]),
]
# Losses of which some stay away while the others are recovered: lost, away.
AWAY = [
    (10, 4, 1024, "kiln clay", [([0], [1]), ([0], [13])]),
    (10, 4, 1024, "stock clay", [([0], [1])]),
]
RECOVERY_QUICK = [(4, 2, 64, name, [[0], [5]] if name in OURS else [[0]])
                  for name in CODES if "d=" not in name]
FLAGS = ["norecover", "nobackfill"]
# Parts that need no cluster, or make their own; what they are called in the report.
APART = {"host": ("computing", computing), "whole": ("whole", whole), "moving": ("moving", moving)}


def profile_of(name, k, m):
    """The profile of a code, without its stripe unit."""
    return CODES[name].format(km=f"k={k} m={m}", less=k + m - 2)


def wanted(options, k, m, unit_kib=None):
    """Whether codes of this size are measured, with chunks of a stripe of so many KiB."""
    size = not options.only or f"{k}+{m}" in options.only.split(",")
    unit = unit_kib is None or not options.units or str(unit_kib) in options.units.split(",")
    return size and unit


def say(words):
    print(words, flush=True)


class Bench:
    """One cluster, one cell of the table after the other."""

    def __init__(self, cluster, plugins, quick, end):
        self.cluster, self.plugins, self.quick, self.end = cluster, plugins, quick, end
        self.osds = len(list(cluster.folder.glob("osd.*")))
        self.rng = random.Random(8)
        cluster.settle()
        self.idle = measure_idle(cluster, range(self.osds), 5 if quick else 20)
        self.rows, self.left_out = [], []

    def cell(self, k, m, unit_kib, name, losses):
        """A pool with one placement group: its objects, then the losses."""
        pool = f"b-{k}-{m}-{unit_kib}-{name.replace(' ', '-')}"
        self.cluster.pool(pool, f"{profile_of(name, k, m)} stripe_unit={unit_kib}K", pgs=1)
        self.cluster.settle()
        stripe = k * unit_kib * 1024
        size = stripe * max(1, MIB // (unit_kib * 1024))
        # Enough to lose that what the cluster says to itself meanwhile does not count.
        count = 4 if self.quick else max(8, 24 * MIB * k // size)
        io = self.cluster.connection.open_ioctx(pool)
        start = Meter(self.cluster, range(self.osds))
        for number in range(count):
            io.write_full(f"object-{number}", self.rng.randbytes(size))
        written = between(start, Meter(self.cluster, range(self.osds)), self.idle)
        for shards in losses:
            if self.late(k, m, unit_kib, name, shards):
                continue
            shards, away = shards if isinstance(shards, tuple) else (shards, [])
            row = dict(code=name, k=k, m=m, stripe_unit_kib=unit_kib, objects=count,
                       object_bytes=size,
                       write_cpu_s_per_gib=written["cpu"] / (count * size) * 2**30)
            row.update(self.lose(pool, shards, away, count * size // k * len(shards), count))
            plan = self.plan(name, k, m, unit_kib, [*shards, "away", *away])
            row.update(planned_per_lost=plan["sub_chunks"] / plan["alpha"] / len(shards),
                       planned_reads=plan["runs"] * count * (size // stripe))
            self.rows.append(row)
            say(json.dumps(row))
        self.cluster.drop_pool(pool)

    def late(self, *what):
        """Whether there is no time left for a row, which is then named."""
        if time.monotonic() < self.end:
            return False
        self.left_out.append(what)
        say(f"left out, no time: {what}")
        return True

    def plan(self, name, k, m, unit_kib, shards):
        """What the plugin asks the OSD to read for one stripe."""
        profile = f"{profile_of(name, k, m)} stripe_unit={unit_kib}K"
        words = [self.plugins / "host", self.plugins, "reads", profile, *shards]
        done = subprocess.run(list(map(str, words)), capture_output=True, text=True, timeout=60)
        if done.returncode != 0:
            raise ClusterError(f"host reads: {done.stderr.strip()}")
        return json.loads(done.stdout)

    def lose(self, pool, shards, away, lost_bytes, objects):
        """Gives the OSDs of some shards empty disks and measures what the recovery moves; those of
        others stay away until then."""
        acting = self.acting(pool)
        lost, gone = [acting[shard] for shard in shards], [acting[shard] for shard in away]
        helpers = [osd for osd in range(self.osds) if osd not in lost + gone]
        for osd in lost + gone:
            self.cluster.lose_osd(osd)
        start = Meter(self.cluster, helpers)
        # Nothing is recovered before all lost OSDs are back, else two losses are two repairs.
        for flag in FLAGS:
            self.cluster.command("osd set", key=flag)
        for osd in lost:
            self.cluster.replace_osd(osd)
        up = self.osds - len(gone)
        self.cluster.wait_for(lambda: self.cluster.up() == up, "OSDs to be up")
        for flag in FLAGS:
            self.cluster.command("osd unset", key=flag)
        # While some are unavailable, one chunk of each object is missing for each of them.
        self.cluster.wait_for(lambda: not gone or self.missing(pool) == objects * len(gone),
                              "the recovery")
        if not gone:
            self.cluster.settle()
        moved = between(start, Meter(self.cluster, helpers), self.idle)
        new = Meter(self.cluster, lost)
        for osd in gone:
            self.cluster.start(f"osd.{osd}")
        self.cluster.wait_for(lambda: self.cluster.up() == self.osds, "OSDs to be up")
        self.cluster.settle()
        return dict(lost=shards, away=away, disk_per_lost=moved["disk"] / lost_bytes,
                    network_per_lost=(moved["network"] + new.network) / lost_bytes,
                    reads=round(moved["reads"]), recovery_cpu_s=moved["cpu"] + new.cpu,
                    lost_bytes=lost_bytes)

    def missing(self, pool):
        """Chunks of a pool that are not where they should be."""
        number = self.cluster.connection.pool_lookup(pool)
        dump = self.cluster.command("pg dump", manager=True, dumpcontents=["pgs"])
        return sum(row["stat_sum"]["num_objects_degraded"] for row in dump["pg_stats"]
                   if row["pgid"].startswith(f"{number}."))

    def acting(self, pool):
        """The OSDs of a pool's one placement group, by shard."""
        number = self.cluster.connection.pool_lookup(pool)
        return self.cluster.command("pg map", pgid=f"{number}.0")["acting"]


def on_cluster(options, report, end):
    """The parts that need a cluster."""
    table = RECOVERY_QUICK if options.quick else RECOVERY + AWAY
    table = AWAY if options.part == "away" else table
    table = [row for row in table if wanted(options, *row[:3])]
    cluster = Cluster(options.folder)
    if cluster.conf.exists():
        cluster.down()
    try:
        wide = options.part != "clients"
        cluster.make(max(k + m for k, m, *_ in table) if wide else 9, options.plugins)
        report["osds"] = cluster.up()
        if options.part != "clients":
            bench = Bench(cluster, options.plugins, options.quick, end)
            # What is not measured again stays.
            bench.rows += [row for row in report.get("recovery", [])
                           if not wanted(options, row["k"], row["m"], row["stripe_unit_kib"])
                           or (options.part == "away" and not row.get("away"))]
            report.update(idle_per_second=bench.idle, recovery=bench.rows,
                          left_out=bench.left_out)
            for k, m, unit, name, losses in table:
                if not all([bench.late(k, m, unit, name, loss) for loss in losses]):
                    bench.cell(k, m, unit, name, losses)
        if options.part == "clients" or (not options.quick and not options.part):
            report["clients"] = clients(cluster, options.seconds, say)
    finally:
        if cluster.conf.exists():
            cluster.down()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder")
    parser.add_argument("--plugins", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--part", choices=[*APART, "recovery", "away", "clients"],
                        help="only this part; away is a part of recovery")
    parser.add_argument("--only", help="some sizes, as 10+4,4+2")
    parser.add_argument("--units", help="of recovery: some stripe units in KiB, as 64,4")
    parser.add_argument("--minutes", type=float, default=60,
                        help="for recovery, and for each size of whole (60)")
    parser.add_argument("--seconds", type=int, default=10, help="of each client's run (10)")
    options = parser.parse_args()
    rados()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("bench-ceph: terminated"))
    # A part adds to what other parts measured.
    kept = options.out / ("ceph-quick.json" if options.quick else "ceph.json")
    report = json.loads(kept.read_text()) if options.part and kept.exists() else {}
    here = about(options.plugins)
    commits = report.get("about", {}).get("commits", {})
    report["about"] = here | {"commits": commits | {options.part or "all": here["commit"]}}
    try:
        for part, (name, measure) in APART.items():
            if options.part in (None, part):
                # What is not measured again stays.
                report[name] = [row for row in report.get(name, [])
                                if "k" in row and not wanted(options, row["k"], row["m"])]
                measure(options, lambda k, m: wanted(options, k, m), profile_of, say, report[name])
        if options.part not in APART:
            on_cluster(options, report, time.monotonic() + options.minutes * 60)
    finally:
        # What was measured is kept, whatever ended the run.
        kept.parent.mkdir(parents=True, exist_ok=True)
        kept.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    program(main, "bench-ceph")
