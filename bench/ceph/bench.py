#!/usr/bin/env python3
"""What recovery costs inside Ceph: kiln's plugin beside the stock ones, on one cluster here.

    bench.py FOLDER --plugins DIR --out DIR [--quick]

One OSD at a time gets an empty disk; what its recovery reads and sends is counted by Ceph (bytes
received, reads of the object store) and by the kernel (bytes that processes fetch from disk), the
idle cluster's own taken off. Computing is measured apart, by calling the plugins as an OSD does.
One machine holds all OSDs: bytes and counts are those of a real cluster, times are not.
"""

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent.parent / "bindings" / "ceph"))

from cluster import Cluster, Trouble, rados  # noqa: E402

MIB = 1 << 20
VAN = "technique=reed_sol_van"
CODES = {
    "kiln rs": "plugin=kiln code=rs {kmd}",
    "stock isa": "plugin=isa {km} " + VAN,
    "kiln clay": "plugin=kiln code=clay {km}",
    "kiln clay gray": "plugin=kiln code=clay {km} order=gray",
    "stock clay": "plugin=clay {km} scalar_mds=isa " + VAN,
}
# (k, m, stripe units in KiB, bytes of an object for each data chunk and unit)
FULL = [(4, 2, [4, 64, 1024]), (6, 3, [108, 864]), (10, 4, [64, 1024, 4096]),
        (14, 2, [64, 1024])]
QUICK = [(4, 2, [64])]
FLAGS = ["norecover", "nobackfill"]


class Meter:
    """Counters of all OSDs at one moment."""

    def __init__(self, cluster, osds):
        self.at = time.monotonic()
        self.network = self.reads = self.disk = 0
        self.cpu = 0.0
        for osd in osds:
            code, out, _ = cluster.connection.osd_command(
                osd, json.dumps({"prefix": "perf dump"}), b"")
            if code != 0:
                raise Trouble(f"osd.{osd}: no perf counters")
            dump = json.loads(out)
            self.network += sum(worker["msgr_recv_bytes"] for name, worker in dump.items()
                                if name.startswith("AsyncMessenger::Worker"))
            self.reads += dump["bluestore"]["read_lat"]["avgcount"]
            pid = cluster.pid(f"osd.{osd}")
            io = dict(line.split(": ") for line in
                      Path(f"/proc/{pid}/io").read_text().splitlines())
            self.disk += int(io["read_bytes"])
            fields = Path(f"/proc/{pid}/stat").read_text().rsplit(") ", 1)[1].split()
            self.cpu += (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def between(start, end, idle):
    """What happened from one meter to the next, without what an idle cluster does meanwhile."""
    seconds = end.at - start.at
    return {name: getattr(end, name) - getattr(start, name) - idle[name] * seconds
            for name in ["network", "disk", "reads", "cpu"]}


class Bench:
    """One cluster, one cell of the table after the other."""

    def __init__(self, cluster, quick):
        self.cluster, self.quick = cluster, quick
        self.osds = len(list(cluster.folder.glob("osd.*")))
        self.rng = random.Random(8)
        cluster.settle()
        self.idle = self.measure_idle(5 if quick else 20)

    def measure_idle(self, seconds):
        start = Meter(self.cluster, range(self.osds))
        time.sleep(seconds)
        end = Meter(self.cluster, range(self.osds))
        return {name: value / (end.at - start.at) for name, value
                in between(start, end, dict(network=0, disk=0, reads=0, cpu=0)).items()}

    def cell(self, k, m, unit_kib, name, lost_shards):
        """A pool with one placement group: its objects, then the loss of each shard."""
        profile = CODES[name].format(km=f"k={k} m={m}", kmd=f"k={k} m={m}")
        pool = f"b-{k}-{m}-{unit_kib}-{name.replace(' ', '-')}"
        self.cluster.pool(pool, f"{profile} stripe_unit={unit_kib}K", pgs=1)
        self.cluster.settle()
        stripe = k * unit_kib * 1024
        count = 4 if self.quick else 8
        size = stripe * max(1, (4 * MIB) // (unit_kib * 1024) // 4)
        io = self.cluster.connection.open_ioctx(pool)
        start = Meter(self.cluster, range(self.osds))
        for number in range(count):
            io.write_full(f"object-{number}", self.rng.randbytes(size))
        written = between(start, Meter(self.cluster, range(self.osds)), self.idle)
        lost_bytes = count * size // k
        rows = []
        for shards in lost_shards:
            rows.append(self.lose(pool, shards, lost_bytes * len(shards)))
            rows[-1].update(code=name, k=k, m=m, stripe_unit_kib=unit_kib,
                            objects=count, object_bytes=size,
                            write_cpu_s_per_gib=written["cpu"] / (count * size) * 2**30)
            print(json.dumps(rows[-1]), flush=True)
        self.cluster.command("osd pool delete", pool=pool, pool2=pool,
                             yes_i_really_really_mean_it=True)
        return rows

    def lose(self, pool, shards, lost_bytes):
        """Gives the OSDs of some shards empty disks and measures what the recovery moves."""
        acting = self.acting(pool)
        lost = [acting[shard] for shard in shards]
        helpers = [osd for osd in range(self.osds) if osd not in lost]
        for osd in lost:
            self.cluster.lose_osd(osd)
        start = Meter(self.cluster, helpers)
        # Nothing is recovered before all lost OSDs are back, else two losses are two repairs.
        for flag in FLAGS:
            self.cluster.command("osd set", key=flag)
        for osd in lost:
            self.cluster.replace_osd(osd)
        self.cluster.wait_for(lambda: self.cluster.up() == self.osds, "OSDs to be up")
        for flag in FLAGS:
            self.cluster.command("osd unset", key=flag)
        self.cluster.settle()
        moved = between(start, Meter(self.cluster, helpers), self.idle)
        new = Meter(self.cluster, lost)
        return dict(lost=shards, disk_per_lost=moved["disk"] / lost_bytes,
                    network_per_lost=(moved["network"] + new.network) / lost_bytes,
                    reads=round(moved["reads"]), recovery_cpu_s=moved["cpu"] + new.cpu,
                    lost_bytes=lost_bytes)

    def acting(self, pool):
        """The OSDs of a pool's one placement group, by shard."""
        number = self.cluster.connection.pool_lookup(pool)
        return self.cluster.command("pg map", pgid=f"{number}.0")["acting"]


def computing(plugins, cells):
    """CPU seconds for a GiB, from the plugins called as an OSD calls them."""
    rows = []
    for k, m, unit_kib in cells:
        size = f"k={k} m={m}"
        words = [profile.format(km=size, kmd=size) for profile in CODES.values()]
        done = subprocess.run(
            [str(plugins / "host"), str(plugins), "bench", str(unit_kib << 10), *words],
            capture_output=True, text=True, timeout=600)
        if done.returncode != 0:
            raise Trouble(f"computing {k}+{m}, {unit_kib} KiB: {done.stderr.strip()}")
        for name, line in zip(CODES, done.stdout.splitlines(), strict=True):
            rows.append(dict(code=name, k=k, m=m, stripe_unit_kib=unit_kib, **json.loads(line)))
            print(json.dumps(rows[-1]), flush=True)
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder")
    parser.add_argument("--plugins", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--only", help="one size, as 10+4")
    options = parser.parse_args()
    rados()
    sizes = QUICK if options.quick else FULL
    if options.only:
        sizes = [row for row in sizes if f"{row[0]}+{row[1]}" == options.only]
    cells = [(k, m, unit) for k, m, units in sizes for unit in units]
    report = dict(computing=computing(options.plugins, cells), recovery=[])
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("bench-ceph: terminated"))
    cluster = Cluster(options.folder)
    if cluster.conf.exists():
        cluster.down()
    try:
        osds = max(k + m for k, m, _ in sizes)
        cluster.make(osds, options.plugins)
        bench = Bench(cluster, options.quick)
        report["idle_per_second"] = bench.idle
        for k, m, units in sizes:
            for unit in units:
                every = unit == 1024 and (k, m) == (10, 4)
                shards = range(k + m) if every else [0, k // 2, k + m - 1]
                for name in CODES:
                    losses = [[shard] for shard in (shards if "clay" in name else [0])]
                    report["recovery"] += bench.cell(k, m, unit, name, losses + [[0, 1]])
    finally:
        # What was measured is kept, whatever ended the run.
        options.out.mkdir(parents=True, exist_ok=True)
        (options.out / "ceph.json").write_text(json.dumps(report, indent=1) + "\n")
        if cluster.conf.exists():
            cluster.down()


if __name__ == "__main__":
    try:
        main()
    except (Trouble, OSError) as trouble:
        sys.exit(f"bench-ceph: {trouble}")
