"""Disks that are emulated: the kernel's block controller (cgroup v1) limits what OSDs read."""

import os
import re
from pathlib import Path

from lab.rig.tools import Unable

GROUPS = Path("/sys/fs/cgroup/blkio")
# Reads and bytes a second, as in bench-devices.
LIMITS = {"seek": (150, 150 << 20)}


def able():
    """Says clearly why there can be no such disks here, if so."""
    if not GROUPS.is_dir():
        raise Unable("emulated disks need the block controller of cgroup v1")


class Slow:
    """A group of processes that read each device no faster than a limit."""

    def __init__(self, names):
        self.group = GROUPS / f"kiln-clay-{os.getpid()}"
        numbers = [Path(f"/sys/block/{name}/dev").read_text().strip() for name in names]
        self.devices = [number for number in numbers if re.fullmatch(r"\d+:\d+", number)]

    def begin(self, disk, processes):
        """From now on these processes have such disks."""
        if disk not in LIMITS:
            return
        self.group.mkdir(exist_ok=True)
        for process in processes:
            (self.group / "cgroup.procs").write_text(str(process))
        self.limit(*LIMITS[disk])

    def limit(self, reads, bytes_):
        """For each device; 0: none."""
        for device in self.devices:
            for what, limit in (("iops", reads), ("bps", bytes_)):
                file = self.group / f"blkio.throttle.read_{what}_device"
                file.write_text(f"{device} {limit}")

    def end(self):
        """No limit any more."""
        if not self.group.exists():
            return
        self.limit(0, 0)
        for process in (self.group / "cgroup.procs").read_text().split():
            (GROUPS / "cgroup.procs").write_text(process)
        self.group.rmdir()
