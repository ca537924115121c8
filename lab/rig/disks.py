"""Loop devices with a file system each, and what they count."""

import shutil
import subprocess
from pathlib import Path

from lab.rig.tools import run

SECTOR = 512  # of the kernel's counters, whatever a device has


def device_of(text):
    """Reads, bytes read, writes and bytes written, from the `stat` of a block device."""
    fields = [int(field) for field in text.split()]
    return fields[0], fields[2] * SECTOR, fields[4], fields[6] * SECTOR


class Disks:
    """Nodes of a pool, each on a loop device of its own: `d0/node` and so on in a folder."""

    def __init__(self, folder, count, size):
        self.folder, self.count, self.loops = folder, count, []
        folder.mkdir(parents=True)
        try:
            for at in range(count):
                self.make(at, size)
        except BaseException:
            self.end()
            raise

    def attach(self, at, size):
        """One device, which does no caching of its own."""
        image = self.folder / f"image{at}"
        with open(image, "wb") as file:
            file.truncate(size)
        loop = run("losetup", "--find", "--show", "--direct-io=on", image).strip()
        self.loops.append(loop)
        return loop

    def make(self, at, size):
        """A device with its file system."""
        loop, mount = self.attach(at, size), self.folder / f"d{at}"
        mount.mkdir()
        run("mkfs.ext4", "-q", "-F", "-E", "lazy_itable_init=0,lazy_journal_init=0", loop)
        run("mount", "-o", "noatime", loop, mount)
        (mount / "node").mkdir()

    def nodes(self):
        """Flags of `kiln pool create`."""
        return [f"--node=d{at}/node" for at in range(self.count)]

    def counted(self):
        """Bytes read and written at all devices so far, with nothing left to write."""
        for at in range(self.count):
            run("sync", "-f", self.folder / f"d{at}")
        return self.so_far()

    def so_far(self):
        """The same without making anybody write."""
        rows = [device_of(Path(f"/sys/block/{name}/stat").read_text()) for name in self.names()]
        return sum(row[1] for row in rows), sum(row[3] for row in rows)

    def trim(self):
        """Gives back what the file systems have freed: image files have holes there."""
        for at in range(self.count):
            run("fstrim", self.folder / f"d{at}")

    def names(self):
        """What the kernel calls the devices."""
        return [Path(loop).name for loop in self.loops]

    def end(self):
        """Unmounts and removes everything."""
        for at, loop in enumerate(self.loops):
            subprocess.run(["umount", "-l", str(self.folder / f"d{at}")], check=False,
                           capture_output=True)
            subprocess.run(["losetup", "-d", loop], check=False)
        shutil.rmtree(self.folder, ignore_errors=True)


def drop_caches():
    """Nothing stays in memory of what is on disks."""
    Path("/proc/sys/vm/drop_caches").write_text("1")
