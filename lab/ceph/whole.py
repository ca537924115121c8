"""What a GiB costs the OSDs in all: CPU seconds of all their processes for writes, reads, reads and
recovery without one of them; messages, checksums, BlueStore and coding together."""

import itertools
import random
import statistics
import time
from concurrent.futures import ThreadPoolExecutor

from lab.ceph.meter import cpu_seconds
from lab.rig import ceph as clusters
from lab.rig.ceph import Cluster, ClusterError

MIB, GIB = 1 << 20, 1 << 30
CODES = ["kiln rs", "stock isa", "kiln clay", "kiln clay gray", "stock clay"]
# k, m, stripe unit in KiB.
SIZES = [(10, 4, 1024), (10, 4, 64), (6, 3, 108)]
QUICK, CODES_QUICK = [(4, 2, 64)], ["kiln rs", "kiln clay"]
WORK = ["write", "read", "degraded", "recovery"]
OBJECT = 4 * MIB  # about; a whole number of stripes
UNDER_WAY = 8
# Rounds (at least, however late), and bytes of objects in each turn.
ROUNDS, LEAST, BYTES = 5, 3, GIB
ROUNDS_QUICK, BYTES_QUICK = 2, 64 * MIB
# Files of OSDs hold one code's objects at a time.
DISK = 1536 * MIB
FLAGS = ["norecover", "nobackfill"]


class Whole:
    """A cluster in which the codes take turns, each with a new pool: of what another pool left
    behind, an OSD that comes back would have to know too. It has as many OSDs as the code has
    chunks, and a pool as many placement groups, in which shards take turns on the OSDs: whichever
    OSD is lost, every shard is lost once."""

    def __init__(self, cluster, size, quick):
        self.cluster, self.size = cluster, size
        self.k, self.m, self.unit = size[0], size[1], size[2] * 1024
        self.osds = self.k + self.m
        stripe = self.k * self.unit
        self.object = stripe * max(1, round(OBJECT / stripe))
        self.each = max(1, round((BYTES_QUICK if quick else BYTES) / self.object / self.osds))
        self.bytes = self.each * self.osds * self.object
        self.codes = CODES_QUICK if quick else CODES
        self.seen = {name: {work: [] for work in WORK} for name in self.codes}
        self.turns = itertools.count()
        self.lost = itertools.cycle(range(self.osds))
        # Every object is a piece of this, from another place.
        self.source = random.Random(8).randbytes(self.object + MIB)
        self.idle = 0.0

    def prepare(self, profile_of):
        """Chooses names of objects and measures what the idle cluster takes."""
        self.profiles = {name: f"{profile_of(name, self.k, self.m)} stripe_unit={self.unit}"
                         for name in self.codes}
        self.pool(self.codes[0])
        self.names = self.spread()
        self.calm(60)
        start, begin = self.cpu(), time.monotonic()
        time.sleep(20)
        self.idle = (self.cpu() - start) / (time.monotonic() - begin)
        self.drop()

    def drop(self):
        self.cluster.drop_pool(self.name)
        self.cluster.command("osd erasure-code-profile rm", name=self.name)
        # Objects leave the disks when groups are removed, in the background.
        self.calm(30)

    def pool(self, name):
        """A new pool of a code, with its shards spread. It has a name of its own, since clients
        know pools by name for a while."""
        self.name = f"whole-{next(self.turns)}"
        self.cluster.pool(self.name, self.profiles[name], pgs=self.osds)
        number = self.cluster.connection.pool_lookup(self.name)
        for group in range(self.osds):
            turned = [(group + shard) % self.osds for shard in range(self.osds)]
            self.cluster.command("osd pg-upmap", pgid=f"{number}.{group:x}", id=turned)
        self.cluster.settle()

    def spread(self):
        """Names of objects, as many in each placement group of any such pool."""
        found = {}
        for number in itertools.count():
            name = f"object-{number}"
            place = self.cluster.command("osd map", pool=self.name, object=name)
            group = place["pgid"].split(".")[1]
            found.setdefault(group, [])
            if len(found[group]) < self.each:
                found[group].append(name)
            if sum(map(len, found.values())) == self.each * self.osds:
                return sorted(itertools.chain(*found.values()))

    def cpu(self):
        """CPU seconds of all OSDs that run."""
        return sum(cpu_seconds(self.cluster.pid(f"osd.{osd}")) for osd in range(self.osds)
                   if self.cluster.pid(f"osd.{osd}"))

    def calm(self, seconds):
        """Waits until the OSDs do little more than nothing, and as long as given at most."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            start = self.cpu()
            time.sleep(2)
            if self.cpu() - start < 2 * max(2 * self.idle, 0.1):
                return

    def spent(self, work):
        """CPU seconds that something takes all OSDs, its aftermath included, the idle cluster's
        taken off."""
        start, begin = self.cpu(), time.monotonic()
        work()
        self.calm(30)
        return self.cpu() - start - self.idle * (time.monotonic() - begin)

    def turn(self, name):
        """Everything once for one code."""
        self.pool(name)
        io = self.cluster.connection.open_ioctx(self.name)
        self.calm(30)
        per_gib = GIB / self.bytes
        seen = {"write": self.spent(lambda: self.all(io, self.write)) * per_gib}
        seen["read"] = self.spent(lambda: self.all(io, self.read)) * per_gib
        osd = next(self.lost)
        self.check_turned(osd)
        self.cluster.lose_osd(osd)
        self.calm(30)
        seen["degraded"] = self.spent(lambda: self.all(io, self.read)) * per_gib
        # Nothing is recovered before the new OSD has joined.
        for flag in FLAGS:
            self.cluster.command("osd set", key=flag)
        self.cluster.replace_osd(osd)
        self.cluster.wait_for(lambda: self.cluster.up() == self.osds, "the new OSD to be up")
        self.calm(30)
        seen["recovery"] = self.spent(self.recover) * per_gib * self.k
        io.close()
        self.drop()
        return seen

    def recover(self):
        for flag in FLAGS:
            self.cluster.command("osd unset", key=flag)
        self.cluster.settle()

    def check_turned(self, osd):
        """Losing the OSD must lose every shard once."""
        number = self.cluster.connection.pool_lookup(self.name)
        sets = [self.cluster.command("pg map", pgid=f"{number}.{group:x}")["acting"]
                for group in range(self.osds)]
        if sorted(acting.index(osd) for acting in sets) != list(range(self.osds)):
            raise ClusterError(f"whole: shards are not spread as they should be: {sets}")

    def all(self, io, work):
        """Something for every object, some at a time."""
        with ThreadPoolExecutor(UNDER_WAY) as threads:
            for _ in threads.map(lambda number: work(io, number), range(len(self.names))):
                pass

    def content(self, number):
        at = number * 4099 % MIB
        return self.source[at:at + self.object]

    def write(self, io, number):
        io.write_full(self.names[number], self.content(number))

    def read(self, io, number):
        if io.read(self.names[number], self.object + 1) != self.content(number):
            raise ClusterError(f"whole: {self.names[number]} reads back wrong")

    def rows(self):
        """First quarter, median and third quarter of the rounds, for each code."""
        def quarters(values):
            return [round(part, 4) for part in statistics.quantiles(values, n=4,
                                                                    method="inclusive")]
        return [dict(code=name, k=self.k, m=self.m, stripe_unit_kib=self.size[2],
                     object_bytes=self.object, bytes=self.bytes, idle_cpu=round(self.idle, 4),
                     rounds=len(seen["write"]),
                     **{f"{work}_cpu_s_per_gib": quarters(seen[work]) for work in WORK})
                for name, seen in self.seen.items() if len(seen["write"]) > 1]


def whole(options, wanted, profile_of, say, rows):
    """Adds rows for each size, which has a cluster of its own."""
    disk, clusters.DISK = clusters.DISK, DISK
    try:
        for size in QUICK if options.quick else SIZES:
            if wanted(size[0], size[1]):
                measure(options, size, profile_of, say, rows)
    finally:
        clusters.DISK = disk


def measure(options, size, profile_of, say, rows):
    """Adds the rows of one size: of what was measured when the time is up or the run ends."""
    end = time.monotonic() + options.minutes * 60
    cluster = Cluster(options.folder)
    if cluster.conf.exists():
        cluster.down()
    bench = Whole(cluster, size, options.quick)
    try:
        cluster.make(size[0] + size[1], options.plugins)
        bench.prepare(profile_of)
        say(f"idle: {bench.idle:.3f} CPU s/s; {bench.bytes >> 20} MiB a turn in objects of "
            f"{bench.object >> 10} KiB")
        for number in range(ROUNDS_QUICK if options.quick else ROUNDS):
            for name in bench.codes:
                if number >= LEAST and time.monotonic() > end:
                    return
                begin = time.monotonic()
                seen = bench.turn(name)
                say(f"{size} round {number}, {time.monotonic() - begin:.0f} s: {name}: "
                    + ", ".join(f"{work} {value:.2f}" for work, value in seen.items()))
                for work, value in seen.items():
                    bench.seen[name][work].append(value)
    finally:
        rows += bench.rows()
        if cluster.conf.exists():
            cluster.down()
