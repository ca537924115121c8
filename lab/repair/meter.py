"""What hosts and processors did while a cell of bench-repair was measured."""

import os
import sys
import threading
import time

from lab.rig.about import machine_cpu
from lab.rig.testbed import HEADERS, bits_per_second

MIB = 1 << 20


class Meter:
    """What hosts and processors did between two moments."""

    def __init__(self, bed, sample_seconds=0.0):
        self.bed, self.timeline, self.every = bed, [], sample_seconds
        self.stop = threading.Event()

    def __enter__(self):
        self.load = os.getloadavg()[0]
        self.before = self.bed.interfaces()
        self.cpu, self.disk = self.bed.cpu_seconds(), self.bed.disk_bytes()
        self.machine, self.at = machine_cpu(), time.monotonic()
        if self.every:
            self.sampler = threading.Thread(target=self.sample)
            self.sampler.start()
        return self

    def sample(self):
        start, last = time.monotonic(), self.bed.at_switch()
        while not self.stop.wait(self.every):
            # The look takes a while, most of it before the counters are read.
            rows, now = self.bed.at_switch(), time.monotonic() - start
            got = [after[1] - before[1] for after, before in zip(rows, last)]
            self.timeline.append((round(now, 2), got))
            last = rows

    def __exit__(self, *_):
        self.stop.set()
        if self.every:
            self.sampler.join()
        self.wall = time.monotonic() - self.at
        self.cpu = self.bed.cpu_seconds() - self.cpu
        self.disk = self.bed.disk_bytes() - self.disk
        busy, whole = (now - old for now, old in zip(machine_cpu(), self.machine))
        self.machine_cores = busy / whole * os.cpu_count()
        passed = [[{what: now[what] - old[what] for what in ("bytes", "packets")}
                   for now, old in zip(*pair)]
                  for pair in zip(self.bed.interfaces(), self.before)]
        self.traffic = [tuple(way["bytes"] for way in ways) for ways in passed]
        self.streams = [tuple(way["bytes"] - HEADERS * way["packets"] for way in ways)
                        for ways in passed]

    def row(self):
        """Cores that agents used, and that anybody used; bytes that agents had from a disk (none
        of what is held in memory); bytes that hosts sent and received."""
        return dict(cpu_seconds=round(self.cpu, 2), agent_cores=round(self.cpu / self.wall, 2),
                    machine_cores=round(self.machine_cores, 2), disk_bytes=self.disk,
                    network_bytes=sum(sent for sent, _ in self.traffic),
                    wall_seconds=round(self.wall, 3), interface=self.traffic,
                    load=round(self.load, 2))

    def over(self, planned):
        """Streams and interface of the worst host by what it was to carry, given for each host;
        a host that was to carry little is left out, since orders alone are more."""
        def worst(counted):
            return max((max(pair) / load for pair, load in zip(counted, planned)
                        if load > MIB), default=1.0)
        return dict(traffic_over_plan=round(worst(self.streams), 4),
                    interface_over_plan=round(worst(self.traffic), 4))


def bound(seconds, load, rate):
    """The load bound: what the busiest link needs for the most that the plan loads any with."""
    least = load / (bits_per_second(rate) / 8)
    return dict(seconds=seconds, bound_seconds=round(least, 4),
                over_bound=round(seconds / least, 4))


def loads(report, meter, planned, rate):
    """What the plan says beside what the program and the interfaces counted; `planned` has bytes
    for each host."""
    load = report["planned_max_node_load"]
    return dict(**bound(report["seconds"], load, rate), planned_load=load,
                planned_sent=report["planned_sent"], metered_load=report["max_node_load"],
                metered_sent=report["bytes_sent"], bytes_read=report["bytes_read"],
                **meter.over(planned), **meter.row())


def say(row, took):
    """One line of progress for people."""
    to = f", {row['to']}" if row.get("to") else ""
    print(f"{took / 60:5.1f} min  {row['kind']:9} {row['code']:15} {row['label'] + to:30} "
          f"{row['chunk_mib']:4} MiB {row['seconds']:7.2f} s (bound {row['bound_seconds']:.2f}), "
          f"{row['traffic_over_plan']:.3f} of the plan, agents {row['agent_cores']:.2f} cores of "
          f"{row['machine_cores']:.2f}", file=sys.stderr, flush=True)
