"""What daemons, devices and links counted at one moment, and what happened between two.

Everything here but `look` and `Sampler` is computed from texts and numbers.
"""

import os
import threading
import time
from pathlib import Path

from lab.rig.disks import device_of

TICKS = os.sysconf("SC_CLK_TCK")
# What is measured of an idle system and taken off.
STEADY = ("user", "system", "helpers", "context_switches", "read_bytes", "read_ios", "write_bytes",
          "write_ios", "public", "private")


def cpu_of(text):
    """Seconds in a process's own code and in the kernel, of all its threads, from its `stat`."""
    fields = text.rsplit(") ", 1)[1].split()
    return int(fields[11]) / TICKS, int(fields[12]) / TICKS


def switches_of(text):
    """Context switches of a thread, voluntary or not, from its `status`."""
    return sum(int(line.split()[1]) for line in text.splitlines() if "ctxt_switches" in line)


def between(before, after):
    """What happened from one look to the next. Threads that came meanwhile began at zero; what
    threads did that ended is lost, but for their time."""
    found = {key: after[key] - before[key] for key in
             ("at", "user", "system", "helpers", "read_ios", "read_bytes", "write_ios",
              "write_bytes", "public", "private")}
    found["seconds"] = found.pop("at")
    threads = before["threads"]
    rises = (count - threads.get(thread, 0) for thread, count in after["threads"].items())
    found["context_switches"] = sum(rises)
    return found


def rates(found):
    """The same for a second."""
    return {key: found[key] / found["seconds"] for key in STEADY}


def without_idle(found, idle):
    """What happened without what an idle system does in as long a time."""
    return {key: value - idle[key] * found["seconds"] if key in idle else value
            for key, value in found.items()}


def threads_of(pid):
    """Context switches of each thread of a process that runs."""
    found = {}
    for thread in Path(f"/proc/{pid}/task").iterdir():
        try:
            found[f"{pid}/{thread.name}"] = switches_of((thread / "status").read_text())
        except (FileNotFoundError, ProcessLookupError):
            pass  # it has just ended
    return found


def look(system, threads=True):
    """All counters of a system now. It gives `daemons` (that serve data), `helpers` (monitors),
    both as process ids, `disks` (devices), and `traffic()`: bytes through public and
    through private links so far."""
    found = dict(at=time.monotonic(), user=0.0, system=0.0, helpers=0.0, threads={},
                 read_ios=0, read_bytes=0, write_ios=0, write_bytes=0)
    for pid in system.daemons():
        user, kernel = cpu_of(Path(f"/proc/{pid}/stat").read_text())
        found["user"] += user
        found["system"] += kernel
        if threads:
            found["threads"].update(threads_of(pid))
    for pid in system.helpers():
        found["helpers"] += sum(cpu_of(Path(f"/proc/{pid}/stat").read_text()))
    for name in system.disks.names():
        row = device_of(Path(f"/sys/block/{name}/stat").read_text())
        for key, value in zip(("read_ios", "read_bytes", "write_ios", "write_bytes"), row):
            found[key] += value
    found["public"], found["private"] = system.traffic()
    return found


class Sampler:
    """Looks again and again while it lasts; `rows` are what happened up to each look."""

    def __init__(self, system, every=0.5):
        self.system, self.every, self.rows = system, every, []

    def __enter__(self):
        self.ending, self.start = threading.Event(), look(self.system)
        self.thread = threading.Thread(target=self.work)
        self.thread.start()
        return self

    def work(self):
        while not self.ending.wait(self.every):
            found = between(self.start, look(self.system))
            self.rows.append({key: round(value, 4) for key, value in found.items()})

    def __exit__(self, *_):
        self.ending.set()
        self.thread.join()
