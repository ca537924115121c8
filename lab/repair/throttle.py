"""A limited recovery for bench-repair, with a client that reads meanwhile."""

import subprocess
import time

from lab.repair import meter
from lab.repair import recovery
from lab.repair.estimate import LOST, NODES
from lab.rig.testbed import TestbedError, bits_per_second

MIB = 1 << 20
READS = 3  # before the recovery, to compare with
AGAIN = 5  # times that a read is begun at most
EVERY, SPAN = 0.1, 1.0  # seconds between samples; over which a rate is taken


def read(bed, pool, name, client):
    """Bytes a second of one read of an object that has lost nothing."""
    out = bed.folder / "read"
    for left in reversed(range(AGAIN)):
        start = time.monotonic()
        try:
            bed.ask("get", name, "-o", out, "--force", "--pool", pool.file, host=client)
            break
        except TestbedError as why:
            # The coordinator may change the map between this client's first look and its last.
            if not left or "run it again" not in str(why):
                raise
    return out.stat().st_size / (time.monotonic() - start)


def busiest(timeline):
    """The most that any host received in any second, and the mean of the busiest one while most
    of the bytes moved, in bytes a second."""
    sums = [0] * len(timeline[0][1])
    most, moments = 0, [(0, sums)]
    for at, got in timeline:
        sums = [a + b for a, b in zip(sums, got)]
        moments.append((at, list(sums)))
    host = max(range(len(sums)), key=lambda host: sums[host])
    for first, (at, before) in enumerate(moments):
        later = next((m for m in moments[first:] if m[0] >= at + SPAN), None)
        if later:
            rates = [(b - a) / (later[0] - at) for a, b in zip(before, later[1])]
            most = max(most, rates[host])
    inner = [(at, row[host]) for at, row in moments
             if 0.1 * sums[host] <= row[host] <= 0.9 * sums[host]]
    if len(inner) < 2:  # over after a look or two
        inner = [(0, 0), (timeline[-1][0], sums[host])]
    mean = (inner[-1][1] - inner[0][1]) / (inner[-1][0] - inner[0][0])
    return most, mean, host


class Limited:
    """What the limit does to a recovery, and the recovery to a client's reads."""

    def __init__(self, bench, comparison):
        self.bench, self.client = bench, NODES + 1
        self.bed = bench.bed_for(comparison, NODES + 2, comparison)
        self.pool = recovery.Pool(bench, self.bed, f"clay:{comparison.size}",
                                  comparison.chunk_mib, bench.plan.rate_of(comparison))
        if self.pool.whole is None:
            raise TestbedError("no object without a chunk on the lost node")

    def measure(self, cell):
        """A limited recovery, beside reads that follow each other."""
        bed, pool, client = self.bed, self.pool, self.client
        limit = self.bench.plan.limit["bytes_second"]
        pool.restore(True)
        before = [read(bed, pool, pool.whole, client) for _ in range(READS)]
        words = bed.command("coordinator", "--pool", pool.file, "--to", f"n{NODES}", "--wait", 0,
                            "--jobs", recovery.AT_ONCE, "--limit-rate", limit, "--json")
        during, reads = [], []
        with meter.Meter(bed, sample_seconds=EVERY) as counted:
            process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
            begun = time.monotonic()
            while process.poll() is None:
                reads.append([round(time.monotonic() - begun, 2)])
                during.append(read(bed, pool, pool.whole, client))
                reads[-1] += [round(time.monotonic() - begun, 2), round(during[-1])]
            process.communicate()
        if process.returncode != 0:
            raise TestbedError(f"the limited recovery ended with {process.returncode}")
        # The client's own link is not limited, and its last read (of a short recovery the only one)
        # outlived the recovery.
        timeline = [(at, got[:client]) for at, got in counted.timeline]
        most, mean, host = busiest(timeline)
        speed, beside = (sum(rows) / len(rows) for rows in (before, during[:-1] or during))
        # At best as long as the limit lets the node that gets all chunks take.
        least = LOST * cell.comparison.chunk_mib * MIB / limit
        return dict(in_memory=pool.state.held.whole, limit=limit, mean_rate=round(mean),
                    most_in_a_second=round(most), busiest_host=host,
                    client_alone=round(speed), client_beside=round(beside),
                    client_kept=round(beside / speed, 3), link=bits_per_second(cell.rate) / 8,
                    seconds=round(counted.wall, 3), bound_seconds=least,
                    limited=[(at, got[host]) for at, got in timeline], reads=reads,
                    **counted.over([0] * bed.hosts), **counted.row())

    def close(self):
        """The test-bed goes with the next one."""
        self.pool.state.held.release()
        self.bench.forget()
