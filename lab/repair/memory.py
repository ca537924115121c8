"""Files that stay in memory while they are measured."""

import mmap
from pathlib import Path

MIB = 1 << 20
LOCKED = 0x2000  # MAP_LOCKED of Linux, for which Python has no name yet
MOST = 0.75  # of what is free


def free_bytes():
    """What can be had without taking it from programs."""
    lines = Path("/proc/meminfo").read_text().splitlines()
    return 1024 * int(next(line for line in lines if line.startswith("MemAvailable")).split()[1])


class InMemory:
    """Maps the files of a folder and holds them: on one disk the reads of twenty hosts would be in
    each other's way, and what nobody read for a minute may have been dropped, for one rival and
    not for another. Nothing is held where there is too little memory; `whole` says so."""

    def __init__(self, folder):
        self.maps = []
        paths = [path for path in folder.rglob("*") if path.is_file() and path.stat().st_size]
        self.whole = sum(path.stat().st_size for path in paths) <= MOST * free_bytes()
        for path in paths if self.whole else []:
            try:
                with open(path, "rb") as file:
                    self.maps.append(mmap.mmap(file.fileno(), 0, mmap.MAP_SHARED | LOCKED,
                                               mmap.PROT_READ))
            except OSError:
                self.release()
                self.whole = False
                break

    def release(self):
        """They are as other files again."""
        for held in self.maps:
            held.close()
        self.maps = []
