"""Hosts with two links, both shaped, and how fast bytes go through the private ones."""

import threading
import time

from lab.rig.hosts import TwoLinks
from lab.rig.testbed import limit, run

EVERY = 0.1  # seconds between two looks
DONE = 0.99  # of the bytes of a recovery: what is left is talk


class ShapedLinks(TwoLinks):
    """Two links each, which are as fast as the machine lets them unless `limit` says otherwise."""

    def limit(self, rate):
        """Gives both links of every host a rate in each direction; `None`: none."""
        for host in range(self.hosts):
            for space, device in self.ends(host):
                if rate is None:
                    run("tc", "-n", space, "qdisc", "del", "dev", device, "root", check=False)
                else:
                    limit(space, device, rate)

    def ends(self, host):
        """Where what a host sends and receives can be limited."""
        here = self.space(host)
        there = self.switch
        return [(here, "eth0"), (there, f"p{host}"), (here, "eth1"), (there, f"q{host}")]

    def private(self):
        """What each host sent so far through its private link."""
        ports = self.ports()
        return [ports[f"q{host}"][0] for host in range(self.hosts)]


class Watch:
    """Looks at all private links while it lasts, and at what was read, where that is given."""

    def __init__(self, links, read=lambda: 0):
        self.links, self.read, self.looks, self.ending = links, read, [], threading.Event()

    def __enter__(self):
        self.look()
        self.thread = threading.Thread(target=self.work)
        self.thread.start()
        return self

    def look(self):
        self.looks.append((time.monotonic(), sum(self.links.private()), self.read()))

    def work(self):
        while not self.ending.wait(EVERY):
            self.look()

    def __exit__(self, *_):
        self.ending.set()
        self.thread.join()
        self.look()

    def moved(self, idle):
        """Bytes since it began, without what an idle cluster sends in a second."""
        (start, before, _), (end, after, _) = self.looks[0], self.looks[-1]
        return after - before - idle * (end - start)

    def seconds(self, idle):
        """Until nearly all of them had moved."""
        return seconds([look[:2] for look in self.looks], idle, DONE)

    def begun(self):
        """Until the first bytes were read."""
        return seconds([(at, read) for at, _, read in self.looks], 0, 1 - DONE)


def seconds(looks, idle, share=DONE):
    """From the first look until a share of the bytes had moved that ever did."""
    start, before = looks[0]
    moved = [(at - start, count - before - idle * (at - start)) for at, count in looks]
    enough = share * moved[-1][1]
    return next((at for at, count in moved if count >= enough), moved[-1][0])
