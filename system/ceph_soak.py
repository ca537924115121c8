#!/usr/bin/env python3
"""Random work on kiln's pools in a real Ceph cluster while OSDs die: nothing may ever be wrong.

    ceph_soak FOLDER --plugins DIR [--minutes 20] [--seed N] [--wide | --osds 8]

Writes, overwrites, appends, removes and reads objects, kills OSDs, starts them again or gives them
empty disks, all without waiting for recovery, and scrubs deeply in between. What is done is a
function of the seed (when it is done is the cluster's affair). It ends with everything recovered,
scrubbed and compared; any byte, object or scrub that is wrong ends it at once.
"""

import argparse
import collections
import json
import random
import signal
import sys
import time

from lab.rig.ceph import Cluster, ClusterError, rados
from system.ceph_test import MIB, Run, content

LOSSES_MAX = 2  # of 4+2, and of 14+2
WIDE_OSDS = 16
OBJECTS_MAX = 24  # in a pool
# Seconds that the cluster must have been clean before what was lost counts as recovered: the
# manager's view is some seconds old.
CALM = 12


class Soak(Run):
    """The run of random work."""

    def __init__(self, cluster, osds, options):
        super().__init__(cluster, osds, "wide" if options.wide else "small", options.seed)
        self.end = time.monotonic() + options.minutes * 60
        # OSDs that run no more, and those whose chunks may not all be there yet.
        self.dead, self.weak = [], set()
        self.clean_since = None
        self.done = collections.Counter()

    def write(self):
        objects = self.rng.choice(self.pools)
        if len(objects.bytes) < OBJECTS_MAX:
            self.make(objects)
            self.done["written"] += 1

    def make(self, objects):
        """A new object, most of them small."""
        size = min(2 * MIB, int(2 ** self.rng.uniform(0, 21.5)))
        name = f"soak-{objects.rng.randrange(1 << 40):x}"
        objects.bytes[name] = bytearray(content(self.rng, size))
        objects.io.write_full(name, bytes(objects.bytes[name]))

    def overwrite(self):
        objects = self.rng.choice(self.pools)
        self.done["changed"] += objects.change(len(objects.bytes) > OBJECTS_MAX // 2)

    def read(self):
        """One pool, which may be degraded or recovering."""
        objects = self.rng.choice(self.pools)
        objects.compare("during the soak")
        self.done["read back"] += len(objects.bytes)

    def kill(self):
        """An OSD dies; never more at once than the codes bear."""
        alive = [osd for osd in range(self.osds) if osd not in self.dead]
        osd = self.rng.choice(alive)
        if len(self.weak | {osd}) > LOSSES_MAX:
            return
        self.cluster.lose_osd(osd)
        self.dead.append(osd)
        self.weak.add(osd)
        self.done["killed"] += 1
        self.say(f"osd.{osd} killed; chunks of {sorted(self.weak)} are missing or old")

    def back(self):
        """A dead OSD comes back, with its old disk or an empty one."""
        if not self.dead:
            return
        osd = self.dead.pop(0)
        if self.rng.random() < 0.5:
            self.cluster.start(f"osd.{osd}")
            self.done["restarted"] += 1
        else:
            self.cluster.replace_osd(osd)
            self.done["replaced"] += 1
        self.say(f"osd.{osd} is back")
        self.cluster.wait_for(lambda: self.cluster.up() == self.osds - len(self.dead), "an OSD")

    def watch(self):
        """Once the cluster was clean for long enough, nothing is weak any more."""
        if self.dead or not self.cluster.clean():
            self.clean_since = None
        elif self.clean_since is None:
            self.clean_since = time.monotonic()
        elif time.monotonic() - self.clean_since > CALM and self.weak:
            self.say("all recovered")
            self.weak.clear()

    def calm(self):
        """Brings everything back and scrubs it."""
        while self.dead:
            self.back()

        def recovered():
            self.watch()
            return not self.weak
        self.cluster.wait_for(recovered, "recovery")
        self.cluster.settle()
        self.scrub()
        self.done["scrubbed"] += 1
        self.compare("after a scrub")

    def soak(self):
        work = [(self.write, 6), (self.overwrite, 4), (self.read, 2), (self.kill, 1),
                (self.back, 2), (self.calm, 0.3)]
        actions, weights = zip(*work)
        told = time.monotonic()
        while time.monotonic() < self.end:
            self.rng.choices(actions, weights)[0]()
            self.watch()
            if time.monotonic() - told > 30:
                told = time.monotonic()
                self.say(json.dumps(self.done))
        self.calm()
        self.say(json.dumps(self.done))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder")
    parser.add_argument("--plugins", required=True)
    parser.add_argument("--minutes", type=float, default=20)
    parser.add_argument("--osds", type=int, default=8)
    parser.add_argument("--wide", action="store_true", help="codes of 12 to 16 chunks, 16 OSDs")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 32))
    options = parser.parse_args()
    rados()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ceph-soak: terminated"))
    print(f"seed {options.seed}", flush=True)
    cluster = Cluster(options.folder)
    if cluster.conf.exists():
        cluster.down()
    try:
        osds = WIDE_OSDS if options.wide else options.osds
        cluster.make(osds, options.plugins)
        Soak(cluster, osds, options).soak()
    except ClusterError as error:
        raise ClusterError(f"seed {options.seed}: {error}") from None
    finally:
        cluster.down()
    print(f"all well: seed {options.seed}, {options.minutes:g} minutes, no inconsistency")


if __name__ == "__main__":
    try:
        main()
    except (ClusterError, OSError) as error:
        sys.exit(f"ceph-soak: {error}")
