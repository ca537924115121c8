"""Full-node recovery for bench-repair: a pool over the test-bed's hosts loses a node."""

import os
import shutil
from collections import Counter

from testbed import TestbedError, bits_per_second, run

MIB = 1 << 20
NODES, LOST = 20, 20  # agents of the pool; objects that lose a chunk (as in the paper)
# Label, family, strategy, where to. "joint" takes the plan and target of every object that load
# the links most evenly. Quick runs have what the bars are about.
QUICK = [("Clay central, one node", "clay", "central", "one"),
         ("Clay hub, one node", "clay", "hub", "one"),
         ("joint, one node", "clay", "joint", "one"),
         ("joint, spread", "clay", "joint", "spread")]
FULL = [("RS central, one node", "rs", "central", "one"),
        ("RS pipelining, one node", "rs", "pipeline", "one"), *QUICK[:1],
        ("Clay, ParaRC's heuristic, one node", "clay", "pareto", "one"), *QUICK[1:],
        ("Clay central, spread", "clay", "central", "spread")]
# Without what takes half an hour.
LARGE = [*QUICK, ("Clay central, spread", "clay", "central", "spread")]
AT_ONCE = 20  # objects repaired at once


class Pool:
    """A pool with LOST objects that have a chunk on the node that will be lost."""

    def __init__(self, bed, code, chunk_mib, material, rate):
        self.bed, self.file, self.chunk = bed, bed.folder / "pool.toml", chunk_mib * MIB
        nodes = [w for host in range(NODES)
                 for w in ["--node", f"{bed.address(host)},id=n{host}"]]
        bed.ask("pool", "create", self.file, "-c", code, *nodes)
        k = int(code.split(":")[1].split("+")[0])
        path = material(bed.folder, k * self.chunk)
        # Loading is not what is measured.
        for host in range(bed.hosts):
            bed.shape(host, "10gbit")
        homes, count = {}, Counter()
        while not count or max(count.values()) < LOST:
            name = f"object-{len(homes)}"
            homes[name] = bed.ask("put", path, name, "--pool", self.file)["nodes"]
            count.update(homes[name])
        self.lost = max(count, key=lambda node: (count[node], node))
        having = [name for name in homes if self.lost in homes[name]][:LOST]
        # One that loses nothing stays, for those who read meanwhile.
        others = [name for name in homes if self.lost not in homes[name]]
        self.whole = others[0] if others else None
        for name in set(homes) - set(having) - {self.whole}:
            run(*bed.command("rm", name, "--pool", self.file))
        for host in range(bed.hosts):
            bed.shape(host, rate)
        self.without = self.file.read_bytes()
        spare = bed.address(NODES)
        bed.ask("pool", "add-node", f"n{NODES}", spare, "--pool", self.file)
        self.with_spare = self.file.read_bytes()
        bed.kill(int(self.lost[1:]))
        self.kept = bed.folder / "kept"
        copy(bed.folder / "hosts", self.kept)

    def restore(self, spare):
        """Everything as it was after the loss; the pool knows the spare node or not."""
        lost = int(self.lost[1:])
        for host in range(self.bed.hosts):
            self.bed.kill(host)
        shutil.rmtree(self.bed.folder / "hosts")
        copy(self.kept, self.bed.folder / "hosts")
        for host in range(self.bed.hosts):
            if host != lost:
                self.bed.start(host)
        for host in range(self.bed.hosts):
            if host != lost:
                self.bed.wait_for(lambda: self.bed.serving(host), f"host {host} to serve")
        self.file.write_bytes(self.with_spare if spare else self.without)
        for path in self.bed.folder.glob("pool*"):
            if path != self.file:
                shutil.rmtree(path) if path.is_dir() else path.unlink()


def copy(source, target):
    """Shards are never changed in place, so links do; the rest is small."""
    def link(old, new):
        (os.link if os.path.getsize(old) > MIB else shutil.copyfile)(old, new)
    shutil.copytree(source, target, copy_function=link)


def recover(pool, bed, label, code, strategy, where, meter_of, rate):
    """One recovery; every object must be whole after it."""
    pool.restore(where == "one")
    to = f"n{NODES}" if where == "one" else "spread"
    with meter_of(bed, sample_seconds=0.5) as meter:
        report = bed.ask("coordinator", "--pool", pool.file, "--strategy", strategy, "--to", to,
                         "--wait", 0, "--jobs", AT_ONCE, timeout=3000)
    if report["repaired"] != LOST or report["failed"]:
        raise TestbedError(f"{label}: {report['repaired']} of {LOST} repaired: {report['failed']}")
    planned = {row["node"]: max(row["planned_sent"], row["planned_received"])
               for row in report["nodes"]}
    planned = [planned.get(f"n{host}") or 0 for host in range(bed.hosts)]
    load = report["planned_max_node_load"]
    bound = load / (bits_per_second(rate) / 8)
    row = dict(kind="recovery", label=label, code=code, strategy=strategy, to=where,
               chunk_mib=pool.chunk // MIB, seconds=report["seconds"],
               plan_seconds=report["plan_seconds"], planned_load=load,
               planned_sent=report["planned_sent"], metered_load=report["max_node_load"],
               metered_sent=report["bytes_sent"], **meter.over(planned),
               bound_seconds=bound, over_bound=round(report["seconds"] / bound, 3),
               strategies=report.get("strategies"), replanned=report["replanned"],
               timeline=meter.timeline, **meter.row())
    return row


def cells(kept, bed, kiln, rate, size, chunk_mib, compared, meter_of, material, say):
    """All recoveries of one size of code, on a test-bed of its own."""
    def measure(pool, label, family, strategy, where):
        row = recover(pool, bed, label, f"{family}:{size}", strategy, where, meter_of, rate)
        say(row)
        return row

    for family in dict.fromkeys(row[1] for row in compared):
        mine = [row for row in compared if row[1] == family]
        keys = [["recovery", label, size, chunk_mib, rate] for label, *_ in mine]
        pool = None
        if kept.missing(keys):
            bed.make(NODES + 1, rate, kiln)
            pool = Pool(bed, f"{family}:{size}", chunk_mib, material, rate)
        for key, row in zip(keys, mine):
            kept.add(key, lambda: measure(pool, *row))
