"""What the hosts of a test-bed store, kept to go back to."""

import os
import shutil

from lab.repair.memory import InMemory

MIB = 1 << 20


def copy(source, target):
    """Shards are never changed in place, so links do; the rest is small."""
    def link(old, new):
        (os.link if os.path.getsize(old) > MIB else shutil.copyfile)(old, new)
    shutil.copytree(source, target, copy_function=link)


def stop_all(bed):
    """Ends all agents."""
    for host in range(bed.hosts):
        bed.kill(host)


def start_all(bed, gone=()):
    """Starts all agents but those of hosts that are gone."""
    hosts = [host for host in range(bed.hosts) if host not in gone]
    for host in hosts:
        bed.start(host)
    for host in hosts:
        bed.wait_for(lambda: bed.serving(host), f"host {host} to serve")


def begin_empty(bed):
    """All agents run, with nothing in their folders."""
    stop_all(bed)
    shutil.rmtree(bed.folder / "hosts")
    for host in range(bed.hosts):
        bed.disk(host).mkdir(parents=True)
    start_all(bed)


def create_pool(bed, file, code, hosts):
    """A pool of the first hosts, with nothing in it."""
    nodes = [word for host in range(hosts)
             for word in ["--node", f"{bed.address(host)},id=n{host}"]]
    bed.ask("pool", "create", file, "-c", code, *nodes)


class State:
    """What all hosts store now, without some hosts."""

    def __init__(self, bench, name, gone):
        self.bed = bench.bed
        self.gone, self.folder = gone, self.bed.folder / f"kept-{name}"
        copy(self.bed.folder / "hosts", self.folder)
        bench.settle()
        # The agents get links to these files.
        self.held = InMemory(self.folder)

    def restore(self):
        """Everything as it was."""
        stop_all(self.bed)
        shutil.rmtree(self.bed.folder / "hosts")
        copy(self.folder, self.bed.folder / "hosts")
        start_all(self.bed, self.gone)


def loaded(bed, rate, load):
    """Loading is not what is measured: `load()` runs on links that hold up nobody."""
    for host in range(bed.hosts):
        bed.shape(host, "10gbit")
    try:
        return load()
    finally:
        for host in range(bed.hosts):
            bed.shape(host, rate)
