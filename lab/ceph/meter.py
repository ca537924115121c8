"""Counters of a cluster's OSDs, and what happened between two moments."""

import json
import os
import time
from pathlib import Path

from lab.rig.ceph import ClusterError


def cpu_seconds(pid):
    """What a process has taken, in its own code and in the kernel."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(") ", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Meter:
    """Counters of some OSDs at one moment."""

    def __init__(self, cluster, osds):
        self.at = time.monotonic()
        self.network = self.reads = self.disk = 0
        self.cpu = 0.0
        for osd in osds:
            code, out, _ = cluster.connection.osd_command(
                osd, json.dumps({"prefix": "perf dump"}), b"")
            if code != 0:
                raise ClusterError(f"osd.{osd}: no perf counters")
            dump = json.loads(out)
            self.network += sum(worker["msgr_recv_bytes"] for name, worker in dump.items()
                                if name.startswith("AsyncMessenger::Worker"))
            self.reads += dump["bluestore"]["read_lat"]["avgcount"]
            pid = cluster.pid(f"osd.{osd}")
            io = dict(line.split(": ") for line in
                      Path(f"/proc/{pid}/io").read_text().splitlines())
            self.disk += int(io["read_bytes"])
            self.cpu += cpu_seconds(pid)


NOTHING = dict(network=0, disk=0, reads=0, cpu=0)


def between(start, end, idle):
    """What happened from one meter to the next, without what an idle cluster does meanwhile."""
    seconds = end.at - start.at
    return {name: getattr(end, name) - getattr(start, name) - idle[name] * seconds
            for name in NOTHING}


def measure_idle(cluster, osds, seconds):
    """What an idle cluster does in a second."""
    start = Meter(cluster, osds)
    time.sleep(seconds)
    end = Meter(cluster, osds)
    return {name: value / (end.at - start.at)
            for name, value in between(start, end, NOTHING).items()}
