"""Looks at an HDFS while something happens: what links carry, and how many blocks DataNodes have.

    watch.py HOSTS EVERY [NAMENODE]      in the namespace of the switch, until its input ends

Prints a line of JSON for each look: the seconds of the monotonic clock, bytes that each host sent
and received, and, where a NameNode (host:port of HTTP) is named, blocks by DataNode. `Watch` runs
it beside something and keeps what it prints.
"""

import http.client
import json
import os
import select
import subprocess
import sys
import threading
import time
from pathlib import Path

from lab.rig.about import machine_cpu

FIRST = 30  # seconds that the first look may take


def links(hosts):
    """Bytes that each host sent and received, by the ports of the switch."""
    def of(host, way):
        return int(Path(f"/sys/class/net/p{host}/statistics/{way}_bytes").read_text())

    # What a port of the switch receives its host has sent.
    return [(of(host, "rx"), of(host, "tx")) for host in range(hosts)]


def blocks(connection):
    """How many blocks each DataNode that lives has told the NameNode of, by its address."""
    connection.request("GET", "/jmx?qry=Hadoop:service=NameNode,name=NameNodeInfo")
    beans = json.loads(connection.getresponse().read())["beans"]
    live = json.loads(beans[0]["LiveNodes"])
    return {node["xferaddr"].split(":")[0]: node["numBlocks"] for node in live.values()}


def main():
    hosts, every = int(sys.argv[1]), float(sys.argv[2])
    namenode = http.client.HTTPConnection(sys.argv[3], timeout=30) if len(sys.argv) > 3 else None
    while True:
        # Blocks first: bytes that are counted here were on the way before.
        found = blocks(namenode) if namenode else None
        print(json.dumps([time.monotonic(), links(hosts), found]), flush=True)
        if select.select([sys.stdin], [], [], every)[0]:
            return


class Watch:
    """Looks at an HDFS inside of a `with`."""

    def __init__(self, hdfs, every=0.1, counting=False):
        self.hdfs, self.every, self.counting, self.looks = hdfs, every, counting, []

    def __enter__(self):
        namenode = [self.hdfs.namenode] if self.counting else []
        words = ["ip", "netns", "exec", self.hdfs.switch, sys.executable, "-m", __name__,
                 str(self.hdfs.hosts), str(self.every), *namenode]
        self.process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        text=True)
        self.thread = threading.Thread(target=self.read, daemon=True)
        self.thread.start()
        self.until(lambda: self.looks, "a first look at the links", FIRST)
        self.ticks, self.since = machine_cpu(), time.monotonic()
        return self

    def read(self):
        for line in self.process.stdout:
            self.looks.append(json.loads(line))

    def until(self, what, words, longest):
        """Waits until `what()` holds."""
        end = time.monotonic() + longest
        while not what():
            if time.monotonic() > end or self.process.poll() is not None:
                raise TimeoutError(f"waited for {words}")
            time.sleep(0.02)

    def __exit__(self, *_):
        seconds = time.monotonic() - self.since
        busy, whole = (now - old for now, old in zip(machine_cpu(), self.ticks))
        # Cores that anybody used, and what waited for one.
        self.machine_cores = round(busy / max(whole, 1) * os.cpu_count(), 2)
        self.load, self.wall = os.getloadavg()[0], seconds
        self.process.stdin.close()
        self.process.wait(FIRST)
        self.thread.join(FIRST)

    def at(self, moment):
        """The last look before a moment."""
        return max((look for look in self.looks if look[0] <= moment), default=self.looks[0],
                   key=lambda look: look[0])

    def begins(self, host, way, most, since):
        """When more than `most` bytes had passed a host's link since a moment."""
        before = self.at(since)[1][host][way]
        for look in self.looks:
            if look[0] >= since and look[1][host][way] - before > most:
                return look[0]
        raise TimeoutError(f"nothing passed the link of host {host}")

    def passed(self, since, until):
        """Bytes that each host sent and received between two moments."""
        old, new = self.at(since)[1], self.at(until)[1]
        return [(sent - was[0], got - was[1]) for (sent, got), was in zip(new, old)]

    def counted(self, hosts, moment=None):
        """Blocks on these hosts at the last look, or at a moment."""
        look = self.looks[-1] if moment is None else self.at(moment)
        return sum(look[2].get(self.hdfs.ip(host), 0) for host in hosts)


if __name__ == "__main__":
    main()
