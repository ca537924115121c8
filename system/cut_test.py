#!/usr/bin/env python3
"""Links that are cut for half a minute while repairs run, as part of `make test`.

    cut_test.py FOLDER --kiln PATH [--seconds 30]

Four repairs at once on one test-bed: the link of a helper is cut, that of the agent which gets the
shard, that of the coordinator; and in a pool that is recovered, those of a helper and of its
coordinator, one after the other. Every repair must end right by itself. Exit code 3: this machine
or user cannot have a test-bed; the reason is on standard error.
"""

import argparse
import filecmp
import json
import os
import subprocess
import time
from pathlib import Path

from lab.rig.testbed import Testbed, TestbedError, program

MIB = 1 << 20
RATE = "20mbit"  # slow, so that what is cut is under way
CODE, SHARDS, CHUNK = "clay:2+2", 4, 12 * MIB
GROUP = SHARDS + 2  # four shards, the agent that gets one, the host of the coordinator
POOL_NODES, OBJECTS = 5, 2
LATEST = 300  # seconds after which a repair counts as stuck


def check(holds, words):
    """A test that fails says what it is about."""
    if not holds:
        raise TestbedError(words)


class Repair:
    """One object on hosts of its own, and the link that is cut while a shard is rebuilt."""

    def __init__(self, bed, name, first, cut):
        self.bed, self.name, self.cut = bed, name, first + cut
        self.hosts = range(first, first + SHARDS)
        self.spare, self.client = first + SHARDS, first + SHARDS + 1
        path = bed.folder / name
        path.write_bytes(os.urandom(2 * CHUNK))
        outputs = [word for host in self.hosts for word in ["-o", bed.disk(host)]]
        done = subprocess.run([bed.kiln, "encode", path, "-c", CODE, *outputs, "-q"], check=False)
        check(done.returncode == 0, f"{name}: not encoded")
        self.kept = bed.disk(first).joinpath(f"{name}.00.kiln").rename(bed.folder / f"{name}.00")

    def start(self):
        agents = [self.bed.address(host) for host in self.hosts]
        words = self.bed.command("coordinator", *agents, "--to", self.bed.address(self.spare),
                                 "--json", host=self.client)
        self.process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                        text=True)

    def check(self):
        out, said = ended(self.process, self.name)
        report = json.loads(out)
        check(report["verified"], f"{self.name}: not verified: {report}")
        rebuilt = self.bed.disk(self.spare) / f"{self.name}.00.kiln"
        check(filecmp.cmp(rebuilt, self.kept, shallow=False), f"{self.name}: bytes differ")
        print(f"{self.name}: right after {report['seconds']:.0f} s, "
              f"planned again {len(report['replanned'])} times")


class Pool:
    """A pool that is recovered while first a helper's link and then the coordinator's is cut."""

    def __init__(self, bed, first):
        self.bed, self.first, self.client = bed, first, first + POOL_NODES
        self.file = bed.folder / "pool.toml"
        nodes = [word for node in range(POOL_NODES)
                 for word in ["--node", f"{bed.address(first + node)},id=n{node}"]]
        for node in range(POOL_NODES + 1):
            bed.shape(first + node, "10gbit")
        bed.ask("pool", "create", self.file, "-c", CODE, *nodes)
        homes = []
        for number in range(OBJECTS):
            path = bed.folder / f"pooled-{number}"
            path.write_bytes(os.urandom(2 * CHUNK))
            homes.append(bed.ask("put", path, path.name, "--pool", self.file)["nodes"])
        for node in range(POOL_NODES + 1):
            bed.shape(first + node, RATE)
        # A new disk in a node that is there: nothing has to be waited for.
        self.lost = int(homes[0][0][1:])
        self.helper = int(homes[0][1][1:])
        for path in bed.disk(first + self.lost).glob("*.kiln"):
            path.unlink()

    def start(self):
        words = self.bed.command("coordinator", "--pool", self.file, "--json", host=self.client)
        self.process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                        text=True)

    def scrub(self):
        """What a scrub finds, also where that is something."""
        words = self.bed.command("scrub", "--pool", self.file, "--json")
        done = subprocess.run(words, capture_output=True, text=True, timeout=LATEST)
        check(done.returncode in (0, 1),
              f"pool: scrub: exit {done.returncode}: {done.stderr[-300:]}")
        return json.loads(done.stdout)

    def check(self):
        out, said = ended(self.process, "pool")
        report = json.loads(out)
        check(not report["failed"], f"pool: {report['failed']}")
        done = self.scrub()
        if done["thin"]:
            # A node that was cut off while a manifest was replaced may have kept the old one.
            # Enough others have the new one; a scrub finds the old one, and a repair renews it.
            check(done["unreadable"] == 0 and done["damaged"] == done["thin"]
                  and not any(finding["lost"] for finding in done["findings"]), f"pool: {done}")
            self.bed.ask("repair", "--pool", self.file)
            done = self.scrub()
        check(done["clean"], f"pool: not clean: {done}")
        for number in range(OBJECTS):
            back = self.bed.folder / f"back-{number}"
            self.bed.ask("get", f"pooled-{number}", "-o", back, "--pool", self.file)
            check(filecmp.cmp(back, self.bed.folder / f"pooled-{number}", shallow=False),
                  f"pooled-{number} differs")
        status = self.bed.ask("pool", "status", "--pool", self.file)
        check(status["whole"] == OBJECTS, f"pool: not whole: {status} {done}")
        print(f"pool: whole after {report['seconds']:.0f} s, "
              f"planned again {report['replanned_count']} times")


def ended(process, name):
    """What a coordinator says when it has ended well, in time."""
    try:
        out, said = process.communicate(timeout=LATEST)
    except subprocess.TimeoutExpired as late:
        process.kill()
        raise TestbedError(f"{name}: stuck, {process.communicate()[1][-300:]}") from late
    check(process.returncode == 0, f"{name}: exit {process.returncode}: {said[-300:]}{out[-300:]}")
    return out, said


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--kiln", type=Path, required=True)
    parser.add_argument("--seconds", type=float, default=30, help="how long links are cut")
    options = parser.parse_args()
    bed = Testbed(options.folder)
    try:
        bed.make(3 * GROUP + POOL_NODES + 1, RATE, options.kiln)
        repairs = [Repair(bed, name, number * GROUP, cut) for number, (name, cut) in
                   enumerate([("helper", 1), ("target", SHARDS), ("coordinator", SHARDS + 1)])]
        pool = Pool(bed, 3 * GROUP)
        for repair in [*repairs, pool]:
            repair.start()
        time.sleep(2)
        check(all(each.process.poll() is None for each in [*repairs, pool]), "too fast to be cut")
        cut = [repair.cut for repair in repairs]
        for host in [*cut, pool.first + pool.helper]:
            bed.cut(host)
        time.sleep(options.seconds / 2)
        bed.cut(pool.client)
        time.sleep(options.seconds / 2)
        for host in [*cut, pool.first + pool.helper]:
            bed.cut(host, whole=True)
        for repair in repairs[:2]:
            repair.check()
        time.sleep(options.seconds / 2)
        bed.cut(pool.client, whole=True)
        for repair in [*repairs[2:], pool]:
            repair.check()
    finally:
        bed.down()


if __name__ == "__main__":
    program(main, "cut_test", unable="test-bed: SKIPPED")
