"""Full-node recovery for bench-repair: pools over the test-bed's hosts lose a node."""

import shutil
from collections import Counter

from lab.repair import meter
from lab.repair.estimate import LOST, NODES
from lab.repair.plans import STRATEGY
from lab.repair.states import State, begin_empty, create_pool, loaded
from lab.rig.testbed import TestbedError, run

MIB = 1 << 20
AT_ONCE = LOST  # objects repaired at once


class Pool:
    """A pool with LOST objects that have a chunk on the node that will be lost, and a spare node;
    the test-bed is empty before."""

    def __init__(self, bench, bed, code, chunk_mib, rate):
        self.bed, self.name = bed, f"pool-{code.split(':')[0]}"
        self.file = bed.folder / f"{self.name}.toml"
        create_pool(bed, self.file, code, NODES)
        k = int(code.split(":")[1].split("+")[0])
        path = bench.material(k * chunk_mib * MIB)
        loaded(bed, rate, lambda: self.load(path))
        self.without = self.file.read_bytes()
        bed.ask("pool", "add-node", f"n{NODES}", bed.address(NODES), "--pool", self.file)
        self.with_spare = self.file.read_bytes()
        bed.kill(int(self.lost[1:]))
        self.state = State(bench, self.name, [int(self.lost[1:])])

    def load(self, path):
        """Puts objects until a node has a chunk of enough of them, and removes the others."""
        homes, count = {}, Counter()
        while not count or max(count.values()) < LOST:
            name = f"object-{len(homes)}"
            homes[name] = self.bed.ask("put", path, name, "--pool", self.file)["nodes"]
            count.update(homes[name])
        self.lost = max(count, key=lambda node: (count[node], node))
        having = [name for name in homes if self.lost in homes[name]][:LOST]
        self.indices = [homes[name].index(self.lost) for name in having]
        # One that loses nothing stays, for those who read meanwhile.
        others = [name for name in homes if self.lost not in homes[name]]
        self.whole = others[0] if others else None
        for name in set(homes) - set(having) - {self.whole}:
            run(*self.bed.command("rm", name, "--pool", self.file))

    def restore(self, spare):
        """Everything as it was after the loss; the pool knows the spare node or not."""
        self.state.restore()
        self.file.write_bytes(self.with_spare if spare else self.without)
        for path in self.bed.folder.glob(f"{self.name}*"):
            if path != self.file:
                shutil.rmtree(path) if path.is_dir() else path.unlink()


class Pools:
    """A pool for each family on the same hosts, each in its turn."""

    def __init__(self, bench, comparison):
        self.bench, self.pools = bench, {}
        self.bed = bench.bed_for(comparison, NODES + 1, comparison)
        for family in comparison.families:
            if self.pools:
                begin_empty(self.bed)
            self.pools[family] = Pool(bench, self.bed, f"{family}:{comparison.size}",
                                      comparison.chunk_mib, bench.plan.rate_of(comparison))

    def measure(self, cell):
        """One recovery; every object must be whole after it."""
        bed, pool, rival = self.bed, self.pools[cell.rival.family], cell.rival
        pool.restore(rival.to == "one")
        to = f"n{NODES}" if rival.to == "one" else "spread"
        with meter.Meter(bed, sample_seconds=0.5) as counted:
            report = bed.ask("coordinator", "--pool", pool.file, "--strategy", rival.strategy,
                             "--to", to, "--wait", 0, "--jobs", AT_ONCE, timeout=3000)
        if report["repaired"] != LOST or report["failed"]:
            raise TestbedError(f"{cell.name}: {report['repaired']} of {LOST} repaired: "
                               f"{report['failed']}")
        loads = {row["node"]: max(row["planned_sent"], row["planned_received"])
                 for row in report["nodes"]}
        planned = [loads.get(f"n{host}") or 0 for host in range(bed.hosts)]
        # ParaRC finds its plans offline; a pool finds them first, and says how long that took.
        found = report["plan_seconds"] if rival.strategy == STRATEGY else 0
        report = dict(report, seconds=report["seconds"] - found)
        return dict(in_memory=pool.state.held.whole, plan_seconds=report["plan_seconds"],
                    search_left_out=found > 0, indices=pool.indices,
                    strategies=report.get("strategies"),
                    replanned=report["replanned_count"],
                    # What all hosts received between two looks.
                    timeline=[(at, sum(got)) for at, got in counted.timeline],
                    **meter.loads(report, counted, planned, cell.rate))

    def close(self):
        """The test-bed goes with the next one."""
        for pool in self.pools.values():
            pool.state.held.release()
        self.bench.forget()
