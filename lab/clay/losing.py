"""A cluster of Ceph whose OSDs have devices and links of their own; what it costs to lose one."""

import time
from pathlib import Path

from lab.clay.pools import MIB, Pool, WrongData
from lab.clay.slow import Slow
from lab.online import osds
from lab.rig.disks import device_of
from lab.rig.links import ShapedLinks, Watch
from lab.rig.tools import run

FLAGS = ("norecover", "nobackfill")
DEVICE_MIB = 4096
CLIENTS = 4  # objects that clients write or read
# Chunks lie on disks as Ceph lays them there, and what was read once is read again.
AS_ON_DISKS = """\
[osd]
bluestore_max_blob_size = 524288
bluestore_default_buffered_read = false
"""


class Cluster(osds.Osds):
    """OSDs on devices that are empty when they get them, also when another one had them before."""

    more = ""

    def settings(self):
        return super().settings() + self.more

    def place_osd(self, osd):
        run("blkdiscard", "-f", self.devices.loops[osd])
        super().place_osd(osd)


class Losing:
    """The cluster, and one case after the other."""

    def __init__(self, options):
        self.options = options
        self.links = ShapedLinks(options.folder / "hosts")
        self.plugins = options.plugins or osds.stock_plugins()
        self.disks = self.cluster = self.pool = self.slow = None
        self.turn = 0
        self.wrong = options.wrong  # what did not read back, of any plugin

    def start(self):
        """All daemons, and what they send while nothing is done."""
        count = self.options.osds
        self.links.make(count, "10gbit", "/bin/true", agents=False)
        self.disks = osds.Devices(self.options.folder / "disks", count, DEVICE_MIB * MIB)
        self.slow = Slow(self.disks.names())
        self.links.enter()
        self.cluster = Cluster(self.options.folder / "ceph", self.links, self.disks)
        self.cluster.more = AS_ON_DISKS if self.options.as_on_disks else ""
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
        if self.slow:
            self.slow.end()
        osds.end_all(self.cluster, self.links, self.disks)

    def case(self, case):
        """One round of a case: what it found."""
        if self.pool is None or self.pool.case.pool != case.pool:
            self.leave()
            self.turn += 1
            self.pool = Pool(self.cluster, f"c{self.turn}", case, self.options.osds,
                             self.options.lost_mib)
        pool, lost = self.pool, self.pool.holders(case)
        found = {"osds": lost, "objects": len(pool.sizes), "bytes": sum(pool.sizes),
                 "stripes": pool.stripes(), "lost_bytes": pool.lost_bytes(lost)}
        if case.groups > 1:
            found["lost_shards"] = pool.lost_shards(lost)
        try:
            if case.clients:
                self.links.limit(self.options.rate)
                found["alone"] = self.clients(case, "a")
                self.links.limit(None)
            return found | self.recovery(case, lost)
        finally:
            self.links.limit(None)
            self.slow.end()

    def leave(self):
        """Reads the pool back that there is, and removes it."""
        pool, self.pool = self.pool, None
        try:
            if pool:
                pool.end()
        except WrongData as error:
            self.wrong.append(str(error))

    def recovery(self, case, lost):
        """OSDs get empty disks: what it takes to fill them again."""
        for flag in FLAGS:
            self.cluster.command("osd set", key=flag)
        for osd in lost:
            self.cluster.lose_osd(osd)
        for osd in lost:
            self.cluster.replace_osd(osd)
        self.cluster.wait_for(lambda: self.cluster.up() == self.options.osds, "the new OSD")
        self.links.limit(self.options.rate)
        time.sleep(self.options.calm)
        self.slow.begin(case.disk, [self.cluster.pid(f"osd.{osd}")
                                    for osd in range(self.options.osds)])
        before, found = self.reads(), {}
        with Watch(self.links, lambda: sum(bytes_ for _, bytes_ in self.reads())) as watch:
            for flag in FLAGS:
                self.cluster.command("osd unset", key=flag)
            if case.clients:
                found["beside"] = self.clients(case, "b")
            self.cluster.settle()
        after = self.reads()
        self.links.limit(None)
        # By shard where there is one group, else by OSD.
        at = self.pool.acting[0] if case.groups == 1 else range(self.options.osds)
        moved = [[now - then for now, then in zip(after[osd], before[osd])] for osd in at
                 if osd not in lost]
        return found | {"network_bytes": watch.moved(self.idle),
                        "seconds": watch.seconds(self.idle), "begun": watch.begun(),
                        "disk_bytes": sum(row[1] for row in moved),
                        "helper_reads": [row[0] for row in moved],
                        "helper_bytes": [row[1] for row in moved], "looks": len(watch.looks)}

    def clients(self, case, names):
        """Bytes a second of clients that write new objects, or read those that are there."""
        pool, begin = self.pool, time.monotonic()
        if case.clients == "write":
            pool.write([f"{names}{number}" for number in range(CLIENTS)])
        else:
            pool.read(pool.names[:CLIENTS])
        return sum(pool.sizes[:CLIENTS]) / (time.monotonic() - begin)

    def reads(self):
        """Reads of each OSD's device so far, and bytes that it has read."""
        stats = [Path(f"/sys/block/{name}/stat") for name in self.disks.names()]
        return [device_of(stat.read_text())[:2] for stat in stats]
