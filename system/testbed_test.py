#!/usr/bin/env python3
"""One small test-bed, as part of `make test`: a lost chunk rebuilt over shaped links.

    testbed_test.py FOLDER --kiln PATH

Exit code 3: this machine or user cannot have a test-bed; the reason is on standard error.
"""

import argparse
import filecmp
import os
from pathlib import Path

from lab.rig.testbed import Testbed, TestbedError, program, run

MIB = 1 << 20
CODE, HOSTS = "clay:2+2", 6
SPARE = 4  # stores nothing of the object; host 5 is the client


def check(holds, words):
    """A test that fails says what it is about."""
    if not holds:
        raise TestbedError(words)


def data(folder):
    """A file whose bytes depend on where they are."""
    path = folder / "object"
    path.write_bytes(b"".join((i * 2654435761 % 2**32).to_bytes(4, "big")
                              for i in range(MIB)))
    return path


def degraded_read(bed):
    """Puts an object through the agents, loses a shard, has it rebuilt elsewhere."""
    agents = [bed.address(host) for host in range(4)]
    path = data(bed.folder)
    outputs = [word for agent in agents for word in ["-o", agent]]
    bed.ask("encode", path, "-c", CODE, *outputs, host=5)
    lost = bed.disk(0) / "object.00.kiln"
    kept = lost.rename(bed.folder / "lost")
    before = bed.counters()
    report = bed.ask("coordinator", *agents, "--to", bed.address(SPARE))
    moved = [max(sent[0] - old[0], sent[1] - old[1])
             for sent, old in zip(bed.counters(), before)]
    check(report["lost"] == [0] and report["verified"], f"not repaired: {report}")
    check(filecmp.cmp(bed.disk(SPARE) / "object.00.kiln", kept, shallow=False),
          "the rebuilt shard differs")
    load = report["planned_max_node_load"]
    check(load <= max(moved) < load * 1.2 + 65536,
          f"the busiest link carried {max(moved)} bytes where the plan says {load}")
    print(f"rebuilt in {report['seconds']:.2f} s; busiest link {max(moved)} bytes, plan {load}")


def shaped(bed):
    """A host's link has the rate that it was given, both ways."""
    bed.shape(5, "20mbit")
    load = bed.folder / "load"
    load.write_bytes(os.urandom(2 * MIB))
    agents = [bed.address(0), bed.address(5)]
    for way, host in [("sends", 5), ("receives", None)]:
        # Two shards of 2 MiB; from host 5 only the first one crosses its link.
        report = bed.ask("encode", load, "-c", "rs:1+1", "-o", agents[0], "-o", agents[1],
                         "--name", way, host=host)
        rate = 8e-6 * load.stat().st_size / report["seconds"]
        check(rate < 25, f"host 5 {way} {rate:.0f} Mbit/s where 20 are allowed")
        print(f"host 5 {way} {rate:.1f} of 20 Mbit/s")


def cleaned(bed, folder):
    """Down ends everything, from another process's view, after a crash, and twice."""
    bed.kill(1)
    again = Testbed(folder)
    again.down()
    again.down()
    left = [line for line in run("ip", "netns", "list").stdout.splitlines()
            if line.startswith(bed.tag)]
    check(not left, f"namespaces are left: {left}")
    check(not folder.exists(), f"{folder} is left")
    check(all(bed.pid(host) is None for host in range(HOSTS)), "agents are left")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--kiln", type=Path, required=True)
    options = parser.parse_args()
    bed = Testbed(options.folder)
    try:
        bed.make(HOSTS, "200mbit", options.kiln)
        degraded_read(bed)
        shaped(bed)
        cleaned(bed, options.folder)
    finally:
        bed.down()


if __name__ == "__main__":
    program(main, "testbed_test", unable="test-bed: SKIPPED")
