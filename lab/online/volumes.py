"""A kiln volume as one of the systems: agents on loop devices, each in a namespace."""

import os
import shutil

from lab.rig.disks import Disks
from lab.rig.hosts import Hosts
from lab.rig.served import Served
from lab.rig.tools import MIB, Unable, run

from lab.online import settling
from lab.online.files import Mounted
from lab.rig import fio

NEEDED = ("fio", "losetup", "mkfs.ext4", "mount", "ip")
FOR_FILES = ("nbdfuse",)


class Agents(Hosts):
    """Hosts whose agents serve a file system on a device of its own."""

    disks = None

    def disk(self, host):
        return self.disks.folder / f"d{host}" / "node"


def able(needed=NEEDED):
    """Says clearly why there can be no volume here, if so."""
    missing = [tool for tool in needed if shutil.which(tool) is None]
    if missing or os.geteuid() != 0:
        raise Unable(f"volumes on loop devices need {', '.join(missing) or 'root'}")


class VolumeSystem:
    """One volume: a pool of agents, and the program that serves it beside fio."""

    def __init__(self, folder, kind, kiln, target, on_files=False):
        name = target.image + ("-files" if on_files else "")
        self.folder, self.kind, self.kiln = folder / name, kind, kiln
        self.code = target.coded(kind.k, kind.m)
        self.hosts = Agents(self.folder / "hosts")
        self.disks = self.served = self.lost = None
        self.aged, self.files = False, None

    def start(self):
        """Starts agents and server."""
        count = self.kind.osds
        self.disks = Disks(self.folder / "disks", count, self.kind.device_mib * MIB)
        self.hosts.disks = self.disks
        self.hosts.make(count, "10gbit", self.kiln)
        where = self.folder / "pool"
        where.mkdir()
        nodes = [f"--node={self.hosts.address(host)}" for host in range(count)]
        self.served = Served(where, self.kiln, ["-c", self.code, *nodes], self.kind.image_mib,
                             prefix=["ip", "netns", "exec", self.hosts.switch],
                             flags=["--key", str(self.hosts.key)])

    def able_to(self, _target):
        return True

    def prepare(self, _target, on_files):
        """Writes the volume once, then as much at random, so that there is something to clean; or
        mounts a file system on it."""
        if self.aged:
            return
        if on_files:
            self.files = Mounted(self.folder, self.uri())
            self.aged = True
            return
        size = self.kind.image_mib
        for pattern, block, depth in (("write", "1m", 16), ("randwrite", "4k", 32)):
            words = fio.fill_words(self.engine(None), size, pattern, block, depth)
            run(*words, timeout=7200)
        settling.settle(self)
        self.aged = True

    def image(self, _target, cell, _number):
        """There is one, or one folder."""
        return self.files.mount if cell.processes else None

    def drop(self, _target, _image):
        """It stays."""

    def trim(self):
        """Devices give back what their file systems have freed."""
        self.disks.trim()

    def uri(self):
        """Where the volume is served."""
        return f"nbd+unix:///disk?socket={self.served.socket}"

    def engine(self, _image):
        return ["--ioengine=nbd", f"--uri={self.uri()}", f"--size={self.kind.image_mib}m"]

    def environment(self):
        return dict(os.environ)

    def lose(self):
        """The agent of the last host goes."""
        self.lost = self.kind.osds - 1
        self.hosts.kill(self.lost)

    # For meters

    def daemons(self):
        agents = [self.hosts.pid(host) for host in range(self.kind.osds) if host != self.lost]
        return [*agents, self.served.server.pid]

    def helpers(self):
        return [self.files.fuse.pid] if self.files else []

    def traffic(self):
        # Clients are at a socket of the server. All links are between it and the agents.
        return 0, sum(self.hosts.link_bytes())

    def unmount(self):
        """The file system goes before what it is on."""
        if self.files:
            self.files.end()
            self.files = None

    def status(self):
        self.unmount()
        return {"volume": self.served.end()}

    def end(self):
        self.unmount()
        if self.served:
            self.served.kill()
        self.hosts.down()
        if self.disks:
            self.disks.end()
