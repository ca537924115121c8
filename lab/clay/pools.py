"""A pool in which cases take place: its objects, where they lie, and that they read back right."""

import itertools
import random
from concurrent.futures import ThreadPoolExecutor

from lab.rig.ceph import ClusterError, rados

MIB = 1 << 20
UNDER_WAY = 4
# Every object is a piece of this, from another place.
SOURCE = random.Random(8).randbytes(66 * MIB)


class WrongData(ClusterError):
    """An object does not read back as it was written, after all that was lost was rebuilt."""


class Pool:
    """Made and filled by whoever makes it."""

    def __init__(self, cluster, name, case, osds, lost_mib):
        self.cluster, self.name, self.case, self.osds = cluster, name, case, osds
        self.code, self.workload = case.code, case.workload
        cluster.pool(name, self.code.profile(case.plugin, case.workload), pgs=case.groups)
        self.number = cluster.connection.pool_lookup(name)
        if case.groups > 1:
            self.place()
        cluster.settle()
        self.acting = [cluster.command("pg map", pgid=f"{self.number}.{group:x}")["acting"]
                       for group in range(case.groups)]
        self.io = cluster.connection.open_ioctx(name)
        if case.groups > 1:
            self.names, self.groups = self.spread()
            self.sizes = [self.code.stripe(self.workload)] * len(self.names)
        else:
            self.sizes = self.code.sizes(self.workload, lost_mib)
            self.names = [f"o{number}" for number in range(len(self.sizes))]
            self.groups = [0] * len(self.names)
        self.write(self.names)

    def place(self):
        """Where the groups lie is drawn from a seed, so that it is the same for all plugins."""
        for group in range(self.case.groups):
            wanted = random.Random(group).sample(range(self.osds), self.code.n)
            self.cluster.command("osd pg-upmap", pgid=f"{self.number}.{group:x}", id=wanted)

    def spread(self):
        """Names of objects, one in each group, and the groups."""
        found = {}
        for number in itertools.count():
            name = f"o{number}"
            place = self.cluster.command("osd map", pool=self.name, object=name)
            found.setdefault(int(place["pgid"].split(".")[1], 16), name)
            if len(found) == self.case.groups:
                return list(found.values()), list(found)

    def holders(self, case):
        """The OSDs that a case loses."""
        return self.acting[0][case.shard:case.shard + case.losses]

    def lost_shards(self, osds):
        """What each group has on some OSDs, by shard."""
        return [[shard for shard, osd in enumerate(acting) if osd in osds]
                for acting in self.acting]

    def lost_bytes(self, osds):
        """Bytes of the chunks that some OSDs have."""
        shards = self.lost_shards(osds)
        return sum(len(shards[group]) * self.code.lost(self.workload, size)
                   for group, size in zip(self.groups, self.sizes))

    def stripes(self):
        """Stripes of all objects."""
        return sum(self.code.stripes(self.workload, size) for size in self.sizes)

    # Its objects, some at a time

    def each(self, names, work):
        with ThreadPoolExecutor(UNDER_WAY) as threads:
            list(threads.map(work, range(len(names)), names, self.sizes))

    def write(self, names):
        """New objects with these names, as long as those that are there."""
        self.each(names, lambda number, name, size: self.io.write_full(name, content(number, size)))

    def read(self, names):
        """Objects, which must be what was written."""
        def one(number, name, size):
            try:
                right = self.io.read(name, size + 1) == content(number, size)
            except rados().Error as error:
                raise WrongData(f"{self.case.key}: {name}: {error}") from error
            if not right:
                raise WrongData(f"{self.case.key}: {name} reads back wrong")
        self.each(names, one)

    def end(self):
        """Everything is read back; then the pool goes."""
        try:
            self.read(self.names)
        finally:
            self.drop()

    def drop(self):
        """Removes it."""
        self.io.close()
        self.cluster.drop_pool(self.name)
        self.cluster.command("osd erasure-code-profile rm", name=self.name)


def content(number, size):
    """What an object has in it."""
    at = number * 4099 % MIB
    return SOURCE[at:at + size]
