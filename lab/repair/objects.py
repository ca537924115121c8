"""Degraded reads of bench-repair, and what storing an object costs: objects on bare agents."""

import shutil

from lab.repair import meter
from lab.repair.memory import InMemory
from lab.rig.testbed import TestbedError, run

MIB = 1 << 20


class Objects:
    """An object of k chunks of each family's code, of which one at a time lies with the agents;
    each rival rebuilds the same lost chunk."""

    def __init__(self, bench, comparison):
        self.bench = bench
        self.bed = bench.bed_for("agents", bench.hosts, comparison)
        self.there, self.folder = None, self.bed.folder / "objects"
        k, m = comparison.shape
        path = bench.material(k * comparison.chunk_mib * MIB)
        kib = comparison.sub_chunk_kib
        extra = ["--sub-chunk", f"{kib}KiB"] if kib else []
        for family in comparison.families:
            folders = [self.folder / family / f"h{host}" for host in range(k + m)]
            for folder in folders:
                folder.mkdir(parents=True)
            # Straight into folders, which no agent serves yet.
            run(self.bed.kiln, "encode", path, "-c", f"{family}:{comparison.size}",
                *(word for folder in folders for word in ["-o", folder]), *extra,
                "--name", "object", "-q", timeout=1800)
        bench.settle()
        self.held = InMemory(self.folder)

    def move(self, family, there):
        """Moves a family's shards to the agents, or back."""
        for folder in (self.folder / family).iterdir():
            pair = folder, self.bed.folder / "hosts" / folder.name
            source, target = pair if there else reversed(pair)
            for path in source.iterdir():
                path.rename(target / path.name)

    def place(self, family):
        """The object of this family is the one that agents have."""
        if self.there == family:
            return
        if self.there:
            self.move(self.there, False)
        self.move(family, True)
        self.there = family

    def measure(self, cell):
        """One lost chunk, rebuilt on a host that stores nothing of its stripe, and compared."""
        bed, of, rival = self.bed, cell.comparison, cell.rival
        words = self.bench.plans.strategy(cell.code, cell.lost, rival.strategy)
        words += ["--window", f"{of.window_kib}KiB"] if of.window_kib else []
        self.place(rival.family)
        n = sum(of.shape)
        name = f"object.{cell.lost:02}.kiln"
        kept = bed.folder / name
        (bed.disk(cell.lost) / name).rename(kept)
        try:
            with meter.Meter(bed) as counted:
                report = bed.ask("coordinator", *(bed.address(host) for host in range(n)), "--to",
                                 bed.address(n), *words, timeout=1800)
            if run("cmp", kept, bed.disk(n) / name, check=False).returncode != 0:
                raise TestbedError(f"{cell.name}: the rebuilt shard differs")
            self.bench.plans.check(report)
        finally:
            kept.rename(bed.disk(cell.lost) / name)
            (bed.disk(n) / name).unlink(missing_ok=True)
        loads = {row["node"]: max(row["bytes_sent"], row["bytes_received"])
                 for row in report["nodes"]}
        planned = [loads.get(bed.address(host), 0) for host in range(bed.hosts)]
        return dict(lost=cell.lost, in_memory=self.held.whole, replanned=len(report["replanned"]),
                    **meter.loads(report, counted, planned, cell.rate))

    def close(self):
        """The agents have nothing."""
        if self.there:
            self.move(self.there, False)
        self.held.release()
        shutil.rmtree(self.folder)
        self.bench.forget()


class Storing:
    """What storing one object costs a client with a link as the others'."""

    def __init__(self, bench, comparison):
        self.bench = bench
        self.bed = bench.bed_for("agents", bench.hosts, comparison)
        self.path = bench.material(comparison.shape[0] * comparison.chunk_mib * MIB)

    def measure(self, cell):
        """One object, which is removed afterwards."""
        bed, n = self.bed, sum(cell.comparison.shape)
        outputs = [word for host in range(n) for word in ["-o", bed.address(host)]]
        with meter.Meter(bed) as counted:
            report = bed.ask("encode", self.path, "-c", cell.code, *outputs, "--name", "stored",
                             "--force", host=n)
        for host in range(n):
            for path in bed.disk(host).glob("stored.*"):
                path.unlink()
        planned = n * cell.comparison.chunk_mib * MIB
        return dict(**meter.bound(report["seconds"], planned, cell.rate), planned_sent=planned,
                    **counted.over([planned if host == n else 0 for host in range(bed.hosts)]),
                    **counted.row())

    def close(self):
        """Nothing is left."""
        self.bench.forget()
