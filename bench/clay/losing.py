"""A cluster of Ceph whose OSDs have devices and links of their own; what it costs to lose one."""

import random
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import osds
from cluster import ClusterError
from disks import device_of
from links import ShapedLinks, Watch
from tools import run

MIB = 1 << 20
FLAGS = ("norecover", "nobackfill")
UNDER_WAY = 4
DEVICE_MIB = 4096
CLIENTS = 6  # objects that clients write or read


class Cluster(osds.Osds):
    """OSDs on devices that are empty when they get them, also when another one had them before."""

    def place_osd(self, osd):
        run("blkdiscard", "-f", self.devices.loops[osd])
        super().place_osd(osd)


class Losing:
    """The cluster, and one case after the other."""

    def __init__(self, options):
        self.options = options
        self.links = ShapedLinks(options.folder / "hosts")
        self.plugins = options.plugins or osds.stock_plugins()
        self.disks = self.cluster = None
        self.source = random.Random(8).randbytes(65 * MIB)
        self.turn = 0

    def start(self):
        """All daemons, and what they send while nothing is done."""
        count = self.options.osds
        self.links.make(count, "10gbit", "/bin/true", agents=False)
        self.disks = osds.Devices(self.options.folder / "disks", count, DEVICE_MIB * MIB)
        self.links.enter()
        self.cluster = Cluster(self.options.folder / "ceph", self.links, self.disks)
        self.cluster.make(count, self.plugins)
        self.cluster.settle()
        with Watch(self.links) as watch:
            time.sleep(self.options.calm)
        self.idle = watch.moved(0) / (watch.looks[-1][0] - watch.looks[0][0])

    def has(self, case):
        """Whether the plugin of a case is there."""
        return "kiln" not in case.plugin or (self.plugins / "libec_kiln.so").exists()

    def end(self):
        """Ends and removes everything, whatever has become of it."""
        osds.end_all(self.cluster, self.links, self.disks)

    def case(self, case):
        """One round of a case: what it found."""
        self.turn += 1
        pool, code = f"c{self.turn}", case.code
        self.cluster.pool(pool, code.profile(case.plugin, case.workload), pgs=case.groups)
        self.cluster.settle()
        io = self.cluster.connection.open_ioctx(pool)
        sizes = code.sizes(case.workload, self.options.lost_mib)
        try:
            self.each(sizes, lambda number, size: self.write(io, f"o{number}", number, size))
            lost = self.cluster.command("pg map", pgid=f"{self.number(pool)}.0")["acting"]
            osd = lost[case.shard]
            found = {"osd": osd, "objects": len(sizes), "bytes": sum(sizes),
                     "lost_bytes": self.lost_bytes(pool, case, sizes, osd)}
            if case.clients:
                self.links.limit(self.options.rate)
                found["alone"] = self.clients(io, case, sizes, "a")
                self.links.limit(None)
            found |= self.recovery(io, case, sizes, osd)
            self.each(sizes, lambda number, size: self.read(io, f"o{number}", number, size))
        finally:
            self.links.limit(None)
            io.close()
            self.cluster.drop_pool(pool)
            self.cluster.command("osd erasure-code-profile rm", name=pool)
        return found

    def recovery(self, io, case, sizes, osd):
        """The OSD gets an empty disk: what it takes to fill it again."""
        for flag in FLAGS:
            self.cluster.command("osd set", key=flag)
        self.cluster.lose_osd(osd)
        self.cluster.replace_osd(osd)
        self.cluster.wait_for(lambda: self.cluster.up() == self.options.osds, "the new OSD")
        self.links.limit(self.options.rate)
        time.sleep(self.options.calm)
        before, found = self.reads(), {}
        with Watch(self.links) as watch:
            for flag in FLAGS:
                self.cluster.command("osd unset", key=flag)
            if case.clients:
                found["beside"] = self.clients(io, case, sizes, "b")
            self.cluster.settle()
        after = self.reads()
        self.links.limit(None)
        helpers = [now - then for at, (now, then) in enumerate(zip(after, before)) if at != osd]
        asked = sorted(helpers)[-(case.code.n - 1):]
        return found | {"network_bytes": watch.moved(self.idle),
                        "seconds": watch.seconds(self.idle), "disk_bytes": sum(helpers),
                        "helper_bytes": asked, "looks": len(watch.looks)}

    def clients(self, io, case, sizes, names):
        """Bytes a second of clients that write new objects, or read those that are there."""
        begin, sizes = time.monotonic(), sizes[:CLIENTS]
        if case.clients == "write":
            self.each(sizes, lambda number, size: self.write(io, f"{names}{number}", number, size))
        else:
            self.each(sizes, lambda number, size: self.read(io, f"o{number}", number, size))
        return sum(sizes) / (time.monotonic() - begin)

    def each(self, sizes, work):
        """Something for every object, some at a time."""
        with ThreadPoolExecutor(UNDER_WAY) as threads:
            list(threads.map(work, range(len(sizes)), sizes))

    def content(self, number, size):
        at = number * 4099 % MIB
        return self.source[at:at + size]

    def write(self, io, name, number, size):
        io.write_full(name, self.content(number, size))

    def read(self, io, name, number, size):
        if io.read(name, size + 1) != self.content(number, size):
            raise ClusterError(f"{name} reads back wrong")

    def number(self, pool):
        return self.cluster.connection.pool_lookup(pool)

    def lost_bytes(self, pool, case, sizes, osd):
        """Bytes of the chunks that an OSD has."""
        found = 0
        for number, size in enumerate(sizes):
            place = self.cluster.command("osd map", pool=pool, object=f"o{number}")
            if osd in place["acting"]:
                found += case.code.lost(case.workload, size)
        return found

    def reads(self):
        """Bytes that each OSD's device has read so far."""
        stats = [Path(f"/sys/block/{name}/stat") for name in self.disks.names()]
        return [device_of(stat.read_text())[1] for stat in stats]
