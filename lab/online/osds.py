"""Ceph as one of the systems: OSDs on loop devices, each in a namespace with two links."""

import os
import shutil
import subprocess
from pathlib import Path

from lab.ceph.clients import make_pool
from lab.rig.ceph import Cluster
from lab.rig.disks import Disks
from lab.rig.hosts import PRIVATE, TwoLinks
from lab.rig.tools import MIB, Unable, run

from lab.online import ceph_files
from lab.online import settling
from lab.rig import fio

META = "images"  # names and headers of all images, in three copies
NEEDED = ("ceph-mon", "ceph-mgr", "ceph-osd", "rbd", "fio", "losetup", "ip")
FOR_FILES = ("ceph-mds", "ceph-fuse")


class Devices(Disks):
    """Loop devices without file systems, which say that they are flash."""

    def make(self, at, size):
        loop = self.attach(at, size)
        Path(f"/sys/block/{Path(loop).name}/queue/rotational").write_text("0")


class Osds(Cluster):
    """A cluster whose OSDs are hosts of their own."""

    address = "10.7.0.254"

    def __init__(self, folder, hosts, devices):
        super().__init__(folder)
        self.hosts, self.devices = hosts, devices

    def settings(self):
        lines = ["[client]", "rbd_cache = false"]
        for osd in range(self.hosts.hosts):
            lines += [f"[osd.{osd}]", f"public_addr = 10.7.0.{osd + 1}",
                      f"cluster_addr = {PRIVATE}.{osd + 1}"]
        return "\n".join(lines) + "\n" + ceph_files.settings(self.folder)

    def prefix(self, name):
        kind, instance = name.split(".")
        if kind != "osd":
            return []
        return ["ip", "netns", "exec", self.hosts.space(int(instance))]

    def place_osd(self, osd):
        (self.folder / f"osd.{osd}" / "block").symlink_to(self.devices.loops[osd])


def release():
    """Ceph's version."""
    return subprocess.run(["ceph-osd", "--version"], capture_output=True, text=True,
                          check=True).stdout.split()[2]


def stock_plugins():
    """The folder of Ceph's own plugins."""
    found = sorted(Path("/usr/lib").glob("*/ceph/erasure-code"))
    if not found:
        raise Unable("Ceph's plugins are not here; on Debian: apt-get install ceph-osd")
    return found[0]


def able(needed=NEEDED):
    """Says clearly why there can be no such cluster here, if so."""
    missing = [tool for tool in needed if shutil.which(tool) is None]
    if missing or os.geteuid() != 0:
        raise Unable(f"a cluster of Ceph here needs {', '.join(missing) or 'root'}")


def end_all(cluster, hosts, disks):
    """Ends and removes a cluster with its hosts and devices, of which some may not be there."""
    if cluster and cluster.conf.exists():
        cluster.down()
    hosts.down()
    if disks:
        disks.end()


class CephSystem:
    """The cluster with a pool for each target."""

    def __init__(self, folder, kind, plugins):
        self.folder, self.kind = folder, kind
        self.plugins = plugins
        self.hosts = TwoLinks(folder / "ceph-hosts")
        self.disks = self.cluster = self.lost = None
        self.images, self.folders, self.files = {}, {}, None

    def start(self):
        """Starts all daemons and waits until they are ready."""
        self.plugins = self.plugins or stock_plugins()
        self.hosts.make(self.kind.osds, "10gbit", "/bin/true", agents=False)
        self.disks = Devices(self.folder / "ceph-disks", self.kind.osds,
                             self.kind.device_mib * MIB)
        self.hosts.enter()
        self.cluster = Osds(self.folder / "ceph", self.hosts, self.disks)
        self.cluster.make(self.kind.osds, self.plugins, partial_reads=True)
        make_pool(self.cluster, META, None, pgs=8)
        run("rbd", "-c", self.cluster.conf, "pool", "init", META)

    def able_to(self, target):
        """Whether this Ceph can have a target."""
        plugin = (self.plugins / "libec_kiln.so").exists()
        return self.cluster.release() >= target.since and (plugin or not target.plugin)

    def prepare(self, target, on_files):
        """A pool of a target with an image that is written once, or with a folder of files."""
        if target.name in (self.folders if on_files else self.images):
            return
        if on_files:
            self.files = self.files or ceph_files.CephFs(self.cluster, self.folder)
            profile = target.coded(self.kind.k, self.kind.m)
            self.folders[target.name] = self.files.folder_of(target, profile, self.kind.groups)
            return
        profile = target.coded(self.kind.k, self.kind.m)
        replicas = 1 if profile else 2
        make_pool(self.cluster, target.image, profile, pgs=self.kind.groups * replicas)
        if target.fast:
            self.cluster.command("osd pool set", pool=target.image, var="allow_ec_optimizations",
                                 val="true")
        self.cluster.settle()
        self.images[target.name] = self.create(target, f"{target.image}-full")
        words = fio.fill_words(self.engine(self.images[target.name]), self.kind.image_mib,
                               "write")
        run(*words, env=self.environment(), timeout=7200)
        settling.settle(self)

    def create(self, target, name):
        """An image that nobody has written to."""
        run("rbd", "-c", self.cluster.conf, "create", "--size", f"{self.kind.image_mib}M",
            "--image-feature", "layering", "--data-pool", target.image, f"{META}/{name}")
        return name

    def image(self, target, cell, number):
        """The image for a sample, or the folder."""
        if cell.processes:
            return self.folders[target.name]
        if cell.fresh:
            return self.create(target, f"{target.image}-{cell.name}-{number}")
        return self.images[target.name]

    def drop(self, _target, image):
        """Removes an image that was made for a sample."""
        run("rbd", "-c", self.cluster.conf, "rm", "--no-progress", f"{META}/{image}")

    def trim(self):
        """OSDs keep what they have freed to themselves."""

    def engine(self, image):
        """fio's words for an image."""
        return ["--ioengine=rbd", "--clientname=admin", f"--pool={META}", f"--rbdname={image}",
                f"--size={self.kind.image_mib}m"]

    def environment(self):
        """Variables that fio needs."""
        return os.environ | {"CEPH_CONF": str(self.cluster.conf)}

    def lose(self):
        """The last OSD goes, and nothing is rebuilt: reads of its chunks decode from then on."""
        for flag in ("noout", "norecover", "nobackfill"):
            self.cluster.command("osd set", key=flag)
        self.cluster.lose_osd(self.kind.osds - 1)
        self.lost = self.kind.osds - 1
        self.cluster.wait_for(self.peered, "placement groups to do without an OSD")

    def peered(self):
        """Whether all groups serve, some of them with an OSD fewer."""
        states = self.cluster.states()
        return (all("active" in name and "peering" not in name for name in states)
                and any("undersized" in name for name in states))

    # For meters

    def daemons(self):
        found = [self.cluster.pid(f"osd.{osd}") for osd in range(self.kind.osds)
                 if osd != self.lost]
        return found + ([self.cluster.pid("mds.a")] if self.files else [])

    def helpers(self):
        found = [self.cluster.pid(name) for name in ("mon.a", "mgr.x")]
        return found + ([self.files.fuse.pid] if self.files else [])

    def traffic(self):
        ports = self.hosts.ports()
        public = sum(sum(ports[f"p{host}"]) for host in range(self.kind.osds))
        # What one OSD sends another receives: counted once.
        return public, sum(ports[f"q{host}"][1] for host in range(self.kind.osds))

    def status(self):
        """What it says of itself at the end."""
        return {"states": self.cluster.states()}

    def end(self):
        """Ends and removes everything, whatever has become of it."""
        if self.files:
            self.files.end()
        end_all(self.cluster, self.hosts, self.disks)
