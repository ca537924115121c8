"""The sections of bench-volume: each gives its rounds, in turns of the volumes that it compares."""

import json
import shutil
import subprocess
import time

from lab.rig.disks import Disks, drop_caches
from lab.rig.served import Dropping, Served, cell, measured
from lab.rig.tools import MIB, Failed, run

NODES = 10
CODE, REPLICAS = "clay:6+3", "rep:3"
PLANNED = 8 / 3  # bytes read for a byte rebuilt: each of 8 helpers of clay:6+3 gives a third
RANDOM = ["--rw=randwrite", "--bs=4k"]
UNIFORM = [*RANDOM, "--iodepth=32", "--norandommap=1"]
ZIPF = [*UNIFORM, "--random_distribution=zipf:0.99"]
FIRST_ROUNDS = 7
ONE = [*RANDOM, "--iodepth=1", "--norandommap=1", "--time_based"]


class Volumes:
    """The volumes that are compared, each with disks of its own."""

    def __init__(self, folder, kiln, size_mib, segment):
        self.all, self.size = {}, size_mib
        try:
            for code in (CODE, REPLICAS):
                where = folder / code.replace(":", "-").replace("+", "-")
                disks = Disks(where, NODES, size_mib * 4 * MIB)
                self.all[code] = [disks, None]
                pool = ["-c", code, *disks.nodes()]
                self.all[code][1] = Served(where, kiln, pool, size_mib, segment)
        except BaseException:
            self.end()
            raise

    def __getitem__(self, code):
        return self.all[code]

    def each(self, run_one, codes=(CODE, REPLICAS)):
        """What one round gives for each volume."""
        found = {}
        for code in codes:
            disks, volume = self.all[code]
            found[code] = run_one(disks, volume)
            # What is left to do behind clients is not the other volume's.
            volume.settle(disks)
        return found

    def end(self):
        """Ends and removes everything, whatever has become of it."""
        for disks, volume in self.all.values():
            if volume:
                volume.kill()
            disks.end()


def first(volumes, options):
    """Blocks that were never written, and the same ones overwritten; nothing is cleaned yet. One
    round before those that count: of a server that has just begun all memory is new. A job takes
    less than a second, so there are more rounds than elsewhere."""
    def region(at):
        size = options.first
        return ["--norandommap=0", f"--size={size}m", f"--offset={at * size}m", "--iodepth=32"]

    disks, volume = volumes[CODE]
    rounds = []
    for at in range(min(FIRST_ROUNDS + 1, volumes.size // options.first)):
        pair = [measured(disks, volume, True, *RANDOM, *region(at)) for _ in range(2)]
        rounds.append(dict(zip(("first", "overwrite"), pair)))
    volume.settle(disks)
    return rounds[1:]


def sequential(volumes, options):
    """Sequential writes of 1 MiB, and puts of as many bytes into the same pool: of a file, and of
    what another program gives, as a volume's client does."""
    disks, volume = volumes[CODE]
    source = disks.folder / "input"
    with open(source, "wb") as file, open("/dev/urandom", "rb") as numbers:
        for _ in range(volumes.size):
            file.write(numbers.read(MIB))
    rounds = []
    for _ in range(options.rounds):
        job = ["--rw=write", "--bs=1m", "--iodepth=32", f"--size={volumes.size}m"]
        found = measured(disks, volume, True, *job)
        volume.settle(disks)
        seconds = []
        for put in (lambda: volume.kiln("put", source, "put"),
                    lambda: volume.put_from(source, "put")):
            start = time.monotonic()
            put()
            seconds.append(time.monotonic() - start)
            volume.kiln("rm", "put")
        rounds.append(found | {"put_seconds": seconds[0], "put_from_pipe_seconds": seconds[1],
                               "over_put": seconds[0] / found["seconds"]})
    source.unlink()
    # The other volume is full as well when they are compared.
    other = volumes[REPLICAS][1]
    other.fio("--rw=write", "--bs=1m", "--iodepth=32", f"--size={volumes.size}m")
    return rounds


def overwrites(volumes, options, flags, warm):
    """Random overwrites, after so many times the volume that cleaning is as it stays."""
    whole = [*flags, f"--size={volumes.size}m"]
    for code in (CODE, REPLICAS):
        volumes[code][1].fio(*whole, f"--io_size={round(volumes.size * warm)}m")
    part = f"--io_size={options.part}m"
    with Dropping():
        return [volumes.each(lambda disks, volume: measured(disks, volume, True, *whole, part))
                for _ in range(options.rounds)]


def one_by_one(volumes, options):
    """Writes one after the other: latency."""
    job = [*ONE, f"--size={volumes.size}m", f"--runtime={options.seconds}"]
    return [volumes.each(lambda _, volume: cell(volume.fio(*job), True))
            for _ in range(options.rounds)]


def reads(volumes, options):
    """Random reads with nothing in memory."""
    job = ["--rw=randread", "--bs=4k", "--iodepth=32", "--norandommap=0",
           f"--size={volumes.size}m", f"--io_size={options.short}m"]
    rounds = []
    for _ in range(options.rounds):
        drop_caches()
        rounds.append(volumes.each(lambda d, v: measured(d, v, False, *job), codes=(CODE,))[CODE])
    return rounds


def recovery(volumes, options):
    """A node loses its disk and is rebuilt while a client writes and reads."""
    disks, volume = volumes[CODE]
    job = volume.job("--rw=randrw", "--rwmixread=50", "--bs=4k", "--iodepth=4", "--norandommap=1",
                     f"--size={volumes.size}m", "--time_based")
    rounds = []
    for at in range(options.rounds):
        before = both(volume, job, options.seconds)
        new_disk(disks.folder / f"d{at}" / "node", f"n{at:02}", volume)
        client = subprocess.Popen([*job, "--runtime=600"], cwd=disks.folder, text=True,
                                  stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        read, start = disks.counted()[0], time.monotonic()
        words = ["--json", "repair", "--limit-rate", options.limit]
        report = json.loads(volume.kiln(*words))
        seconds, read = time.monotonic() - start, disks.counted()[0] - read
        client.terminate()
        said = client.communicate(timeout=60)[0]
        iops = iops_of(json.loads(said[said.index("{"):])["jobs"][0])
        rounds.append({
            "bytes_read": report["bytes_read"], "bytes_written": report["bytes_written"],
            "over_planned": report["bytes_read"] / report["bytes_written"] / PLANNED,
            "devices_read": read, "seconds": seconds, "iops_before": before, "iops_during": iops,
            "keeps": iops / before, "failed": report["failed_count"]})
    return rounds


def new_disk(node, name, volume):
    """An empty folder takes the place of a node's. Whoever serves the volume may write into it
    before the pool has taken it, which refuses what is not empty: then it is emptied again."""
    for left in range(4, -1, -1):
        gone = node.with_name("gone")
        node.rename(gone)
        node.mkdir()
        # Whoever serves the volume may still make and remove files there meanwhile.
        for _ in range(100):
            shutil.rmtree(gone, ignore_errors=True)
            if not gone.exists():
                break
            time.sleep(0.1)
        try:
            volume.kiln("pool", "add-node", name, "--replace")
            return
        except Failed:
            if left == 0:
                raise
        time.sleep(1)


def both(volume, job, seconds):
    """Reads and writes a second of a client alone."""
    said = run(*job, f"--runtime={seconds}", cwd=volume.folder)
    return iops_of(json.loads(said[said.index("{"):])["jobs"][0])


def iops_of(report):
    """Of reads and writes together."""
    return report["read"]["iops"] + report["write"]["iops"]


def links(folder, kiln, options):
    """Bytes through the links of agents, a namespace each, for each byte of random overwrites."""
    from lab.rig import testbed
    bed = testbed.Testbed(folder / "hosts")
    volume = None
    try:
        bed.make(NODES, "10gbit", kiln)
        where = folder / "agents"
        where.mkdir()
        nodes = [f"--node={bed.address(host)}" for host in range(NODES)]
        prefix = ["ip", "netns", "exec", bed.switch]
        volume = Served(where, kiln, ["-c", CODE, *nodes], options.net, options.segment,
                        prefix=prefix, flags=["--key", str(bed.key)])
        whole = [*UNIFORM, f"--size={options.net}m"]
        volume.fio("--rw=write", "--bs=1m", "--iodepth=32", f"--size={options.net}m")
        volume.fio(*whole, f"--io_size={options.net * 2}m")
        rounds = []
        for _ in range(options.rounds):
            before = sum(map(sum, bed.counters()))
            found = cell(volume.fio(*whole, f"--io_size={options.net}m"), True)
            bytes_moved = sum(map(sum, bed.counters())) - before
            rounds.append(found | {"net_per_byte": bytes_moved / found["bytes"]})
        return rounds
    finally:
        if volume:
            volume.kill()
        bed.down()
