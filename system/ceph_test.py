#!/usr/bin/env python3
"""kiln's plugin in a real Ceph cluster: write, overwrite, append, lose OSDs, recover, scrub.

    ceph_test FOLDER --plugins DIR [--osds 8] [--size small|full] [--partial-reads]

Makes a cluster in FOLDER, or uses the one that is there, and says what it did. Every object is
compared by its SHA-256 after every step. Stock pools stand beside kiln's. Ends with the cluster
removed, unless --keep.
"""

import argparse
import hashlib
import json
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

from lab.rig.ceph import Cluster, ClusterError, rados

MIGRATE = Path(__file__).resolve().parents[1] / "bindings" / "ceph" / "migrate.py"
KIB, MIB = 1 << 10, 1 << 20

VAN = "technique=reed_sol_van"
POOLS = {
    "small": {
        "kiln-rs": "plugin=kiln code=rs k=4 m=2 stripe_unit=64K",
        "kiln-natural": "plugin=kiln code=clay k=4 m=2 stripe_unit=64K",
        "kiln-gray": "plugin=kiln code=clay k=4 m=2 order=gray stripe_unit=64K",
        "kiln-as-clay": f"plugin=kiln code=clay k=4 m=2 scalar_mds=isa {VAN} stripe_unit=64K",
        "stock-clay": f"plugin=clay k=4 m=2 scalar_mds=isa {VAN} stripe_unit=64K",
        "stock-cauchy": "plugin=clay k=4 m=2 scalar_mds=jerasure technique=cauchy_orig "
                        "stripe_unit=512K",
        "stock-liber8tion": "plugin=clay k=4 m=2 scalar_mds=jerasure technique=liber8tion "
                            "stripe_unit=512K",
        "stock-shec": "plugin=clay k=4 m=2 scalar_mds=shec technique=single stripe_unit=64K",
    },
    "full": {
        "kiln-rs": "plugin=kiln code=rs k=10 m=4 stripe_unit=64K",
        "kiln-natural": "plugin=kiln code=clay k=10 m=4 stripe_unit=1M",
        "kiln-gray": "plugin=kiln code=clay k=10 m=4 order=gray stripe_unit=1M",
        "kiln-as-clay": f"plugin=kiln code=clay k=6 m=3 scalar_mds=isa {VAN} stripe_unit=110592",
        "stock-clay": f"plugin=clay k=10 m=4 scalar_mds=isa {VAN} stripe_unit=1M",
        "stock-isa": f"plugin=isa k=10 m=4 {VAN} stripe_unit=64K",
        "stock-jerasure": f"plugin=jerasure k=10 m=4 {VAN} stripe_unit=64K",
    },
    # For the soak: codes of many chunks, one with fewer helpers than there are. Short runs are read
    # as if disks had small blocks.
    "wide": {
        "kiln-rs": "plugin=kiln code=rs k=10 m=4 stripe_unit=16K",
        "kiln-natural": "plugin=kiln code=clay k=10 m=4 stripe_unit=16K read_block=64",
        "kiln-gray": "plugin=kiln code=clay k=14 m=2 order=gray stripe_unit=16K read_block=128",
        "kiln-d": "plugin=kiln code=clay k=8 m=4 d=10 stripe_unit=331776",
        "kiln-as-clay": f"plugin=kiln code=clay k=12 m=4 scalar_mds=isa {VAN} stripe_unit=16K "
                        "read_block=64",
    },
}
BAD = {
    "code=turbo k=4 m=2": "known codes",
    "code=clay k=4 m=2 d=9": "d=9",
    "code=rs k=4 m=2 colour=red": "colour",
    "code=rs k=4 m=2 matrix=nothing": "matrix",
}
SIZES = {
    "small": [1, 4095, 4096, 65537, 262144, 300001, 1500000, 4 * MIB],
    "full": [1, 4095, 4096, 65537, 262144, 1500000, 4 * MIB, 20 * MIB + 7, 33 * MIB],
}


def content(rng, size):
    """Bytes that differ from place to place and from object to object."""
    return rng.randbytes(size)


class Objects:
    """What was written to a pool, as it must read back."""

    def __init__(self, cluster, pool, seed):
        self.pool, self.rng = pool, random.Random(f"{seed}/{pool}")
        self.io = cluster.connection.open_ioctx(pool)
        self.bytes = {}

    def write(self, sizes):
        """New objects."""
        for size in sizes:
            name = f"object-{len(self.bytes)}"
            self.bytes[name] = bytearray(content(self.rng, size))
            self.io.write_full(name, bytes(self.bytes[name]))

    def change(self, remove=True):
        """Overwrites a part of some objects, appends to others, and removes some; how many."""
        changed = 0
        for name, old in list(self.bytes.items()):
            kind = self.rng.randrange(4)
            changed += 1
            new = content(self.rng, self.rng.randrange(1, 100_000))
            if kind == 0:
                self.io.append(name, new)
                old.extend(new)
            elif kind == 1:
                at = self.rng.randrange(len(old) or 1)
                self.io.write(name, new, at)
                old[at:at + len(new)] = new
            elif kind == 2 and remove and len(self.bytes) > 4:
                self.io.remove_object(name)
                del self.bytes[name]
            else:
                changed -= 1
        return changed

    def compare(self, when):
        """Reads everything back."""
        names = {listed.key for listed in self.io.list_objects()}
        if names != set(self.bytes):
            raise ClusterError(f"{self.pool}, {when}: other objects than were written")
        for name, expected in self.bytes.items():
            got = self.io.read(name, len(expected) + 1)
            if hashlib.sha256(got).digest() != hashlib.sha256(expected).digest():
                raise ClusterError(f"{self.pool}, {when}: {name} reads back wrong")


class Run:
    """One run over all pools."""

    def __init__(self, cluster, osds, size, seed):
        self.cluster, self.osds, self.size = cluster, osds, size
        self.rng = random.Random(seed)
        self.begin = time.monotonic()
        self.pools = []
        for name, profile in POOLS[size].items():
            advice = cluster.pool(name, profile)
            for line in advice.splitlines():
                if "stripe_unit" in line:
                    print(f"  {name}: {line}")
            self.pools.append(Objects(cluster, name, seed))

    def say(self, words):
        print(f"{time.monotonic() - self.begin:7.1f} s  {words}", flush=True)

    def compare(self, when):
        for objects in self.pools:
            objects.compare(when)
        total = sum(len(objects.bytes) for objects in self.pools)
        self.say(f"{when}: {total} objects read back right")

    def change(self):
        for objects in self.pools:
            objects.change()

    def lose(self, osds):
        """Loses OSDs, reads and writes without them, gives them empty disks, recovers."""
        words = " and ".join(f"osd.{osd}" for osd in osds)
        for osd in osds:
            self.cluster.lose_osd(osd)
        self.compare(f"{words} lost")
        self.change()
        self.compare(f"{words} lost, objects changed")
        for osd in osds:
            self.cluster.replace_osd(osd)
        self.cluster.wait_for(lambda: self.cluster.up() == self.osds, "new OSDs to be up")
        self.cluster.settle()
        self.compare(f"{words} recovered")

    def scrub(self):
        """A deep scrub of everything must find nothing."""
        groups = [group["pgid"] for group in self.groups()]
        before = {group["pgid"]: group["last_deep_scrub_stamp"] for group in self.groups()}
        for group in groups:
            self.cluster.command("pg deep-scrub", pgid=group)

        def done():
            now = {group["pgid"]: group["last_deep_scrub_stamp"] for group in self.groups()}
            return all(now[group] != before[group] for group in groups)
        self.cluster.wait_for(done, "deep scrubs")
        self.cluster.settle()
        bad = [state for state in self.cluster.states() if "inconsistent" in state]
        errors = sum(group["stat_sum"]["num_scrub_errors"] for group in self.groups())
        if bad or errors:
            raise ClusterError(f"deep scrub: {bad} {errors} errors")
        self.say(f"deep scrub of {len(groups)} placement groups: clean")

    def groups(self):
        """Placement groups of the pools under test."""
        dump = self.cluster.command("pg dump", manager=True, dumpcontents=["pgs"])
        own = {self.cluster.connection.pool_lookup(objects.pool) for objects in self.pools}
        return [row for row in dump["pg_stats"] if int(row["pgid"].split(".")[0]) in own]

    def exchange(self, lost):
        """Gives the pools of Ceph's clay to kiln's plugin: their profiles change, their bytes do
        not. OSDs restart by twos; when half of them have, an OSD is lost and the pools work and
        recover with both plugins."""
        clay = {name: words for name, words in POOLS[self.size].items() if "plugin=clay" in words}
        for name, words in clay.items():
            words = words.replace("plugin=clay", "plugin=kiln code=clay")
            self.cluster.command("osd erasure-code-profile set", name=name, force=True,
                                 yes_i_really_mean_it=True, profile=self.cluster.words(words))
        name = ", ".join(clay)
        # OSDs take a pool's plugin when they start.
        half = list(range(self.osds // 2))
        self.restart(half)
        self.compare(f"{name} served by Ceph's plugin on some OSDs, by kiln's on others")
        self.lose([lost])
        self.restart([osd for osd in range(self.osds) if osd not in [*half, lost]])
        self.compare(f"{name} served by kiln's plugin")

    def restart(self, osds):
        """OSDs by twos, while the rest serves."""
        for pair in [osds[at:at + 2] for at in range(0, len(osds), 2)]:
            for osd in pair:
                self.cluster.lose_osd(osd)
                self.cluster.start(f"osd.{osd}")
            self.cluster.wait_for(lambda: self.cluster.up() == self.osds, "OSDs to be up again")
        self.cluster.settle()

    def migrate(self, name):
        """Moves a pool to another code while clients change it, then swaps the names."""
        objects = next(objects for objects in self.pools if objects.pool == name)
        owners = {key: key[::-1].encode() for key in objects.bytes}
        for key, owner in owners.items():
            objects.io.set_xattr(key, "owner", owner)
        journal = self.cluster.folder / "journal"

        def run(*more):
            done = subprocess.run(
                [sys.executable, MIGRATE, name, f"{name}-moved",
                 "--conf", self.cluster.conf, "--journal", journal, "--pgs", "4", *more],
                capture_output=True, text=True, timeout=600)
            if done.returncode != 0:
                raise ClusterError(done.stderr.strip())
            return json.loads(done.stdout)
        size = POOLS[self.size]["kiln-rs"] + " crush-failure-domain=osd"
        first = run("--profile", size)
        again = run()
        objects.change()
        changed = run("--reread", "--swap")
        if first["copied"] != first["objects"] or again["copied"] or not changed["swapped"]:
            raise ClusterError(f"migrate: {first}, then {again}, then {changed}")
        moved = Objects(self.cluster, name, 0)
        moved.bytes = objects.bytes
        moved.compare("moved to another code")
        if any(moved.io.get_xattr(key, "owner") != owners[key] for key in objects.bytes):
            raise ClusterError("migrate: an attribute is lost")
        original = Objects(self.cluster, f"{name}.before", 0)
        original.bytes = objects.bytes
        original.compare("the original of what was moved")
        self.say(f"{name} moved to {POOLS[self.size]['kiln-rs']}: {first['objects']} objects, "
                 f"{changed['copied']} again after changes, the original kept")

    def bad_profiles(self):
        """A profile that cannot be says why, when it is set."""
        for words, says in BAD.items():
            try:
                self.cluster.command("osd erasure-code-profile set", name="bad",
                                     profile=["plugin=kiln", *words.split()])
            except ClusterError as refusal:
                if says in str(refusal):
                    continue
                raise ClusterError(f"{words}: refused, but with '{refusal}'") from None
            raise ClusterError(f"{words}: taken")
        self.cluster.command("osd erasure-code-profile set", name="short", profile=[
            "plugin=kiln", "code=clay", "k=10", "m=4", "stripe_unit=8K"])
        if "stripe_unit=1048576" not in self.cluster.message:
            raise ClusterError(f"no advice for short runs, but '{self.cluster.message}'")
        self.say(f"{len(BAD)} bad profiles refused with their reason, advice for short runs given")

    def wide_pool(self):
        """More than 20 chunks need a rule that serves them; Ceph's ordinary one does not."""
        self.cluster.pool("wide", "plugin=kiln code=rs k=18 m=4", pgs=1)
        rule = self.cluster.command("osd crush rule dump", name="wide")
        self.cluster.drop_pool("wide")
        # Since 17 rules serve any number.
        if rule.get("max_size", 22) != 22:
            raise ClusterError(f"a rule for {rule['max_size']} chunks where 22 are wanted")
        self.say("a pool of 22 chunks was made")

    def all(self):
        self.bad_profiles()
        self.wide_pool()
        self.say(f"{len(self.pools)} pools: {', '.join(POOLS[self.size])}")
        for objects in self.pools:
            objects.write(SIZES[self.size])
        self.compare("written")
        self.change()
        self.compare("overwritten, appended, removed")
        first, second, third = self.rng.sample(range(self.osds), 3)
        self.exchange(first)
        self.lose([second, third])
        self.scrub()
        self.compare("at the end")
        self.migrate("stock-clay")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder")
    parser.add_argument("--plugins", required=True)
    parser.add_argument("--osds", type=int, default=8)
    parser.add_argument("--size", choices=list(SIZES), default="small")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--partial-reads", action="store_true",
                        help="clients read some data chunks alone, 20.2's default")
    parser.add_argument("--keep", action="store_true", help="leave the cluster running")
    options = parser.parse_args()
    rados()
    # Ended from outside, it still takes the cluster down.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ceph-test: terminated"))
    cluster = Cluster(options.folder)
    if cluster.conf.exists() and not options.keep:
        cluster.down()
    try:
        if cluster.conf.exists():
            cluster.restart()
        else:
            cluster.make(options.osds, options.plugins, options.partial_reads)
        osds = len(list(cluster.folder.glob("osd.*")))
        Run(cluster, osds, options.size, options.seed).all()
    finally:
        if not options.keep:
            cluster.down()
    print("all well")


if __name__ == "__main__":
    try:
        main()
    except (ClusterError, OSError) as error:
        sys.exit(f"ceph-test: {error}")
