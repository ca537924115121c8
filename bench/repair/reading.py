"""Degraded reads by a client for bench-repair: a range of an object whose node is gone."""

import json

from testbed import TestbedError, bits_per_second, run

MIB = 1 << 20
LOST = 1  # the data chunk that is read
# Label, what `kiln get --strategy` is told.
COMPARED = [("client decodes", "central"), ("agents compute", "auto")]


class Object:
    """An object of one stripe in a pool of k+m agents; the host after them is the client."""

    def __init__(self, bed, kiln, code, chunk_mib, material, rate):
        k, m = map(int, code.split(":")[1].split("+"))
        self.bed, self.client, self.chunk = bed, k + m, chunk_mib * MIB
        bed.make(k + m + 1, rate, kiln)
        self.file = bed.folder / "pool.toml"
        nodes = [w for host in range(k + m)
                 for w in ["--node", f"{bed.address(host)},id=n{host}"]]
        bed.ask("pool", "create", self.file, "-c", code, *nodes)
        alpha = json.loads(run(kiln, "codes", code, "--json").stdout)["alpha"]
        self.one_stripe(self.chunk // alpha)
        self.path = material(bed.folder, k * self.chunk)
        # Loading is not what is measured.
        for host in range(bed.hosts):
            bed.shape(host, "10gbit")
        bed.ask("put", self.path, "object", "--pool", self.file)
        for host in range(bed.hosts):
            bed.shape(host, rate)
        shards = bed.ask("stat", "object", "--pool", self.file)["shards"]
        bed.kill(int(shards[LOST]["node"][1:]))

    def one_stripe(self, sub_chunk):
        """The pool's large objects get sub-chunks of this many bytes."""
        text = self.file.read_text()
        before, mark, after = text.rpartition("[[policy.class]]\n")
        if not mark:
            raise TestbedError("the pool's description has no classes")
        self.file.write_text(f"{before}{mark}sub_chunk = {sub_chunk}\n{after}")

    def read(self, label, code, strategy, rate, meter_of):
        """One read of the lost chunk, compared with what was stored."""
        out, start = self.bed.folder / "read", LOST * self.chunk
        with meter_of(self.bed) as meter:
            report = self.bed.ask("get", "object", "-o", out, "--force", "--pool", self.file,
                                  "--range", f"{start}+{self.chunk}", "--strategy", strategy,
                                  host=self.client)
        if run("cmp", "-n", self.chunk, "-i", f"0:{start}", out, self.path,
               check=False).returncode != 0:
            raise TestbedError(f"{label} {code}: the bytes differ")
        got = report["bytes_received"]
        planned = [0] * self.bed.hosts
        planned[self.client] = got
        bound = got / (bits_per_second(rate) / 8)
        return dict(kind="read", label=label, code=code, strategy=report["strategy"],
                    chunk_mib=self.chunk // MIB, seconds=report["seconds"], planned_sent=got,
                    notes=report["notes"], **meter.over(planned), bound_seconds=bound,
                    over_bound=round(report["seconds"] / bound, 3), **meter.row())


def cells(kept, bed, kiln, rate, size, chunk_mib, times, meter_of, material, say):
    """All reads of one size of code, on a test-bed of its own."""
    for family, compared in [("clay", COMPARED), ("rs", COMPARED)]:
        code = f"{family}:{size}"
        keys = [(label, strategy, ["read", label, code, chunk_mib, time, rate])
                for label, strategy in compared for time in range(times)]
        if not kept.missing([key for *_, key in keys]):
            stored = None
        else:
            stored = Object(bed, kiln, code, chunk_mib, material, rate)

        def measure(label, strategy):
            row = stored.read(label, code, strategy, rate, meter_of)
            say(row)
            return row

        for label, strategy, key in keys:
            kept.add(key, lambda: measure(label, strategy))
