"""A limited recovery for bench-repair, with a client that reads meanwhile."""

import subprocess
import time

import recovery
from testbed import TestbedError, bits_per_second

MIB = 1 << 20
LIMIT = 20_000_000  # bytes a second for each node
READS = 3  # before the recovery, to compare with
EVERY, SPAN = 0.1, 1.0  # seconds between samples; over which a rate is taken


def read(bed, pool, name, client):
    """Bytes a second of one read of an object that has lost nothing."""
    out = bed.folder / "read"
    start = time.monotonic()
    bed.ask("get", name, "-o", out, "--force", "--pool", pool.file, host=client)
    return out.stat().st_size / (time.monotonic() - start)


def busiest(timeline):
    """The most that any host received in any second, and the mean of the busiest one while most
    of the bytes moved, in bytes a second."""
    most, sums, moments = 0, [0] * len(timeline[0][1]), []
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
    mean = (inner[-1][1] - inner[0][1]) / (inner[-1][0] - inner[0][0])
    return most, mean, host


def case(bed, kiln, rate, chunk_mib, meter_of, material, say):
    """A row: what the limit does to a recovery, and the recovery to a client's reads."""
    bed.make(recovery.NODES + 2, rate, kiln)
    pool = recovery.Pool(bed, "clay:12+4", chunk_mib, material, rate)
    client = recovery.NODES + 1
    pool.restore(True)
    if pool.whole is None:
        raise TestbedError("no object without a chunk on the lost node")
    before = [read(bed, pool, pool.whole, client) for _ in range(READS)]
    words = bed.command("coordinator", "--pool", pool.file, "--to", f"n{recovery.NODES}",
                        "--wait", 0, "--jobs", recovery.AT_ONCE, "--limit-rate", LIMIT, "--json")
    during, reads = [], []
    with meter_of(bed, sample_seconds=EVERY) as meter:
        process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        begun = time.monotonic()
        while process.poll() is None:
            reads.append([round(time.monotonic() - begun, 2)])
            during.append(read(bed, pool, pool.whole, client))
            reads[-1] += [round(time.monotonic() - begun, 2), round(during[-1])]
        process.communicate()
    if process.returncode != 0 or len(during) < 2:
        raise TestbedError(f"the limited recovery ended with {process.returncode}")
    # The client's own link is not limited, and its last read outlived the recovery.
    timeline = [(at, got[:client]) for at, got in meter.timeline]
    most, mean, host = busiest(timeline)
    speed, beside = (sum(rows) / len(rows) for rows in (before, during[:-1]))
    row = dict(kind="throttle", label="joint, one node, 20 MB/s", code="clay:12+4",
               chunk_mib=chunk_mib, limit=LIMIT, mean_rate=round(mean),
               most_in_a_second=round(most), busiest_host=host,
               client_alone=round(speed), client_beside=round(beside),
               client_kept=round(beside / speed, 3), link=bits_per_second(rate) / 8,
               seconds=meter.wall, bound_seconds=recovery.LOST * chunk_mib * MIB / LIMIT,
               limited=[(at, got[host]) for at, got in timeline], reads=reads,
               **meter.over([0] * bed.hosts), **meter.row())
    say(row)
    return row
