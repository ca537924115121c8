"""Degraded reads by a client for bench-repair: a range of an object whose node is gone."""

import json

from lab.repair import meter
from lab.repair.states import State, begin_empty, create_pool, loaded
from lab.rig.testbed import TestbedError, run

MIB = 1 << 20
LOST = 1  # the data chunk that is read


class Object:
    """An object of one stripe in a pool of k+m agents; the host after them is the client."""

    def __init__(self, bench, bed, code, chunk_mib, rate):
        k, m = map(int, code.split(":")[1].split("+"))
        self.bed, self.client, self.chunk = bed, k + m, chunk_mib * MIB
        self.file = bed.folder / f"pool-{code.split(':')[0]}.toml"
        create_pool(bed, self.file, code, k + m)
        alpha = json.loads(run(bed.kiln, "codes", code, "--json").stdout)["alpha"]
        self.one_stripe(self.chunk // alpha)
        self.path = bench.material(k * self.chunk)
        loaded(bed, rate, lambda: bed.ask("put", self.path, "object", "--pool", self.file))
        shards = bed.ask("stat", "object", "--pool", self.file)["shards"]
        gone = int(shards[LOST]["node"][1:])
        bed.kill(gone)
        self.state = State(bench, self.file.stem, [gone])

    def one_stripe(self, sub_chunk):
        """The pool's large objects get sub-chunks of this many bytes."""
        text = self.file.read_text()
        before, mark, after = text.rpartition("[[policy.class]]\n")
        if not mark:
            raise TestbedError("the pool's description has no classes")
        self.file.write_text(f"{before}{mark}sub_chunk = {sub_chunk}\n{after}")


class Objects:
    """An object of each family, each in its turn."""

    def __init__(self, bench, comparison):
        self.bench, self.there, self.objects = bench, None, {}
        self.bed = bench.bed_for(comparison, sum(comparison.shape) + 1, comparison)
        for family in comparison.families:
            if self.objects:
                begin_empty(self.bed)
            self.objects[family] = Object(bench, self.bed, f"{family}:{comparison.size}",
                                          comparison.chunk_mib, bench.plan.rate_of(comparison))
            self.there = family

    def measure(self, cell):
        """One read of the lost chunk, compared with what was stored."""
        bed, family = self.bed, cell.rival.family
        stored = self.objects[family]
        if self.there != family:
            stored.state.restore()
            self.there = family
        out, start = bed.folder / "read", LOST * stored.chunk
        with meter.Meter(bed) as counted:
            report = bed.ask("get", "object", "-o", out, "--force", "--pool", stored.file,
                             "--range", f"{start}+{stored.chunk}", "--strategy",
                             cell.rival.strategy, host=stored.client)
        if run("cmp", "-n", stored.chunk, "-i", f"0:{start}", out, stored.path,
               check=False).returncode != 0:
            raise TestbedError(f"{cell.name}: the bytes differ")
        got, central = report["bytes_received"], cell.rival.strategy == "central"
        planned = [0] * bed.hosts
        planned[stored.client] = got
        # `auto` says what it chose.
        label = cell.rival.label if central else f"{cell.rival.label}, {report['strategy']}"
        return dict(label=label, strategy=report["strategy"], planned_sent=got,
                    in_memory=stored.state.held.whole, notes=report["notes"],
                    **meter.bound(report["seconds"], got, cell.rate),
                    **counted.over(planned), **counted.row())

    def close(self):
        """The test-bed goes with the next one."""
        for stored in self.objects.values():
            stored.state.held.release()
        self.bench.forget()
