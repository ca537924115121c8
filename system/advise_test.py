"""Recoveries whose times `kiln advise` predicts first: 3 networks, 3 kinds of disks, 6 codes.

    advise_test predict --kiln PATH       writes lab/results/advise/predicted.json, to be
                                          committed before this measures, as root:
    advise_test FOLDER --kiln PATH --out DIR [--quick]

A node of a pool is lost with a chunk of LOST objects, and rebuilt on the others, whose agents read
and write the disk below FOLDER no faster than a kind of disk does (by cgroups, caches dropped
before). Nothing of a measurement goes into a prediction. --quick: every third cell, each network
and kind of disk with each code, in about 15 minutes; all of them take three times as long.
"""

import argparse
import json
import os
import subprocess
import tempfile
from pathlib import Path

from lab.clay import slow
from lab.repair import recovery
from lab.rig.about import about
from lab.rig.disks import drop_caches
from lab.rig.testbed import Testbed, TestbedError, able, bits_per_second, program

FILE = Path(__file__).parents[1] / "lab/results/advise/predicted.json"
MIB, PIECE = 1 << 20, 128 << 10  # no read of the kernel's is longer
NODES, LOST, CHUNK = 12, 32, 4 * MIB
CODES = ("rs:4+2", "rs:6+3", "clay:4+2", "clay:6+3", "less:6+3", "lrc:4+2+2")
LINKS = ("15mbit", "40mbit", "100mbit")
# Reads a second, bytes a second.
DISKS = {"stream": (4000, 3 * MIB), "seek": (30, 100 * MIB), "fast": (20000, 500 * MIB)}
slow.LIMITS = DISKS


def predict(kiln):
    """A row for each cell, as `kiln advise` has it without knowing of the test-bed."""
    rows = []
    with tempfile.NamedTemporaryFile("w+", suffix=".json") as model:
        for (c, code), (l, link), (d, disk) in (
                (code, link, disk) for code in enumerate(CODES) for link in enumerate(LINKS)
                for disk in enumerate(DISKS)):
            reads, bytes_ = DISKS[disk]
            model.seek(0)
            model.truncate()
            json.dump(dict(version=2, read_seconds=1 / reads, byte_seconds=1 / bytes_, depth=32,
                           start_seconds=0, combine="larger", piece_bytes=PIECE, parallelism=1,
                           alignment=4096, worst_fit=0), model)
            model.flush()
            numbers = [int(number) for number in code.split(":")[1].split("+")]
            data = LOST * CHUNK * NODES * numbers[0] // sum(numbers)
            words = ["advise", "--nodes", NODES, "--data", data, "--object", numbers[0] * CHUNK,
                     "--link", int(bits_per_second(link) / 8), "--device-model", model.name,
                     "--code", code, *"--nines 1 --lose 1 --overhead 9 --json".split()]
            said = subprocess.run([kiln, *map(str, words)], check=True, capture_output=True)
            row = json.loads(said.stdout)["codes"][0]
            rows.append(dict(code=code, link=link, disk=disk, quick=(c + l + d) % 3 == 0,
                             predicted=round(3600 * row["repair_hours"], 2),
                             bound_by=row["repair_bound_by"]))
    return dict(about=about(kiln), lost=LOST, chunk=CHUNK, nodes=NODES, rows=rows)


class Disk(slow.Slow):
    """The disk of an agent: reads and writes are limited."""

    def limit(self, reads, bytes_):
        for device in self.devices:
            for way in ("read", "write"):
                for what, limit in (("iops", reads), ("bps", bytes_)):
                    file = self.group / f"blkio.throttle.{way}_{what}_device"
                    file.write_text(f"{device} {limit}")


def disks_of(bed, kind):
    """Disks of a kind for all agents that run."""
    at = os.stat(bed.folder).st_dev
    block = Path(f"/sys/dev/block/{os.major(at)}:{os.minor(at)}").resolve()
    whole = block.parent if (block / "partition").exists() else block
    disks = []
    for host in range(bed.hosts):
        if pid := bed.pid(host):
            disks.append(Disk([whole.name]))
            disks[-1].group = slow.GROUPS / f"kiln-blind-{os.getpid()}-{host}"
            disks[-1].begin(kind, [pid])
    return disks


class Bench:
    """What a pool of recoveries asks of its bench."""

    def __init__(self, bed):
        self.bed = bed

    def material(self, size):
        """A file of random bytes."""
        path = self.bed.folder.parent / f"{self.bed.folder.name}-data"
        path.write_bytes(os.urandom(size))
        return path

    def settle(self):
        """Everything is on the disk."""
        os.sync()


def measure(bed, pool, link, disk):
    """Seconds of one recovery over such links and on such disks."""
    for host in range(bed.hosts):
        bed.shape(host, link)
    pool.restore(False)
    os.sync()
    drop_caches()
    disks = disks_of(bed, disk)
    try:
        report = bed.ask("coordinator", "--pool", pool.file, "--strategy", "joint", "--to",
                         "spread", "--wait", 0, "--jobs", LOST)
    finally:
        for one in disks:
            one.end()
    if report["repaired"] != LOST:
        raise TestbedError(f"{report['repaired']} of {LOST} repaired: {report['failed']}")
    return report["seconds"]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--kiln", type=Path, required=True)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--only", help="cells of this code alone")
    options = parser.parse_args()
    if str(options.folder) == "predict":
        FILE.write_text(json.dumps(predict(options.kiln.resolve()), indent=1) + "\n")
        return
    able()
    slow.able()
    known = json.loads(FILE.read_text())
    rows = [row for row in known["rows"] if row["quick"] or not options.quick]
    bed, done = Testbed(options.folder), []
    recovery.NODES, recovery.LOST = NODES, LOST
    try:
        for code in CODES if not options.only else [options.only]:
            bed.make(NODES + 1, LINKS[-1], options.kiln)
            pool = recovery.Pool(Bench(bed), bed, code, CHUNK // MIB, LINKS[-1])
            pool.state.held.release()
            for row in (row for row in rows if row["code"] == code):
                took = measure(bed, pool, row["link"], row["disk"])
                done.append(dict(row, measured=round(took, 2),
                                 ratio=round(took / row["predicted"], 3)))
                print(json.dumps(done[-1]), flush=True)
    finally:
        bed.down()
    within = sum(abs(row["ratio"] - 1) <= 0.15 for row in done) / max(len(done), 1)
    found = dict(about=about(options.kiln), predicted_by=known["about"]["commit"],
                 advise_cells_within_15pct=round(within, 3), rows=done)
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "advise.json").write_text(json.dumps(found, indent=1) + "\n")
    print(json.dumps(dict(advise_cells_within_15pct=round(within, 3), cells=len(done))))


if __name__ == "__main__":
    program(main, "advise-blind", unable="== advise-blind: SKIPPED")
