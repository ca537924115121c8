#!/usr/bin/env python3
"""E5 of the ParaRC paper: pools in a real HDFS beside HDFS's own RS-10-4 (its Fig. 11).

    bench.py FOLDER --kiln PATH --cache DIR --out DIR [--quick] [--rate RATE] [--block-mib N]

A NameNode and 20 DataNodes, each a JVM in a network namespace with a shaped link; 14 of them store
20 stripes of 10 data blocks, so each has a block of every stripe. A DataNode is killed with its 20
blocks; they are rebuilt on one spare DataNode, or spread over six.

- HDFS-RS: HDFS's client writes with the policy RS-10-4-1024k, and its NameNode has the spare
  DataNodes rebuild. Recovery counts from the first bytes on a spare one's link (without the 13 s
  in which the death becomes known) to the last block that the NameNode knows of. Bytes count from
  the kill on.
- kiln: an agent beside each DataNode reads block files and writes through that DataNode; `kiln
  coordinator` counts from its start to its end.

Both put four files at a time; encoding counts from the first bytes on the client's link (so without
Java's start, and without that of `kiln put`) to the end of the last client.

Clients and coordinator run on the NameNode's host, behind a link as all others. Bytes are what all
hosts received, by the counters of the switch. Prints one line of JSON; --out has every sample.
FOLDER is made and removed. Exit code 3: there can be no HDFS here, which is said.
"""

import argparse
import json
import os
import statistics
import sys
import time
from pathlib import Path

from lab.hdfs import native
from lab.hdfs import pools
from lab.rig.about import about
from lab.rig.hdfs import Hdfs, program
from lab.rig.testbed import bits_per_second

MIB = 1 << 20
STRIPES, DATA, SPARES = 20, 10, 6
NODES = pools.NODES
# Rounds of what bars are about, and of everything else.
# Two cores stand for 21 machines: the links are so slow that they, and not the cores, set the time,
# and blocks so large that what is said once for each object weighs little.
QUICK = dict(rate="700mbit", block_mib=32, rounds=2, others=1)
FULL = dict(rate="1gbit", block_mib=64, rounds=5, others=3)
HDFS_RS, CENTRAL, HUB = "HDFS-RS", "Clay central", "Clay hub"
# As published; its figure has no numbers for the others.
PAPER = {"encode_seconds": {"HDFS-RS": 131.1, "ParaRC-Clay": 129.7},
         "recovery_time_over_hdfs_rs": 0.286, "recovery_gib": {"HDFS-RS": 50, "ParaRC-Clay": 16.25},
         "setting": "blocks of 256 MiB, 20 agents, 10 Gbit/s, Hadoop 3.3.4"}
BARS = {"recovery_bytes_over_hdfs_rs": 0.325, "recovery_time_over_hdfs_rs": 0.286,
        "encode_time_over_hdfs_rs": 1.0}


class Bench:
    """One run: rows as they are measured."""

    def __init__(self, hdfs, plan):
        self.hdfs, self.plan, self.rows, self.serial = hdfs, plan, [], 0
        self.begin = time.monotonic()

    def note(self, kind, label, code, number, row):
        """Keeps a sample, with what links allow at best."""
        blocks = STRIPES * self.plan["block_mib"] * MIB
        # The client sends all blocks; the spare one gets what it computes from.
        least = NODES * blocks if kind == "encode" else max(got for _, got in row["links"])
        row = dict(kind=kind, label=label, code=code, round=number, lost_bytes=blocks,
                   bound_seconds=least / (bits_per_second(self.plan["rate"]) / 8),
                   bytes_per_lost=round(row["bytes"] / blocks, 4), **row)
        self.rows.append(row)
        print(f"{time.monotonic() - self.begin:5.0f} s {kind:8} {label:24} "
              f"{row['seconds']:7.2f} s (links {row['bound_seconds']:.2f}), "
              f"{row['bytes_per_lost']:.3f} bytes a byte, {row['machine_cores']:.2f} cores, "
              f"load {row['load']:.1f}", file=sys.stderr, flush=True)

    def material(self):
        """The files, which are one: nobody looks for equal ones."""
        folder = self.hdfs.folder / "stripes"
        folder.mkdir()
        with open(folder / "stripe-00", "wb") as out:
            for _ in range(DATA * self.plan["block_mib"]):
                out.write(os.urandom(MIB))
        for at in range(1, STRIPES):
            os.link(folder / "stripe-00", folder / f"stripe-{at:02}")
        return sorted(folder.iterdir())

    def pool(self, family):
        """A new pool."""
        self.serial += 1
        return pools.Pool(self.agents, f"{family}:10+4", self.serial)

    def all(self):
        hdfs, plan = self.hdfs, self.plan
        files = self.material()
        self.agents = pools.Agents(hdfs)
        last = plan["rounds"] - 1
        for number in range(plan["rounds"]):
            row = native.encode(hdfs, files)
            self.note("encode", HDFS_RS, "rs:10+4", number, row)
            if number < last:
                hdfs.webhdfs("DELETE", native.FOLDER, "DELETE", recursive="true")
                self.encode("clay", number, files)
                self.agents.clear()
                native.settle(hdfs, NODES)
        self.natively(files[-1])
        pool = self.encode("clay", last, files)
        self.clay(pool)
        pool.compare(files[-1])
        self.agents.clear()
        self.all_live()
        self.rs(files)

    def encode(self, family, number, files):
        """A pool with the stripes."""
        pool = self.pool(family)
        row = pool.encode(files)
        label = "kiln RS" if family == "rs" else "kiln Clay"
        self.note("encode", label, f"{family}:10+4", number, row)
        return pool

    def natively(self, file):
        """Recoveries of HDFS: to the one DataNode that is spare, then to six."""
        hdfs, spare = self.hdfs, NODES
        hdfs.start_daemon(spare)
        for number in range(self.plan["rounds"]):
            native.settle(hdfs, NODES + 1)
            row = native.recover(hdfs, number, [spare], STRIPES)
            self.note("recovery", HDFS_RS, "rs:10+4", number, row)
            # The one that was killed is the next spare one.
            native.renew(hdfs, number)
            spare = number
        for host in range(NODES + 1, hdfs.datanodes):
            hdfs.start_daemon(host)
        spares = [spare, *range(NODES + 1, hdfs.datanodes)]
        for number in range(self.plan["others"]):
            lost = self.plan["rounds"] + number
            native.settle(hdfs, hdfs.datanodes - number)
            row = native.recover(hdfs, lost, spares, STRIPES)
            self.note("recovery", f"{HDFS_RS}, spread", "rs:10+4", number, row)
        native.compare(hdfs, file)
        hdfs.webhdfs("DELETE", native.FOLDER, "DELETE", recursive="true")
        self.all_live()

    def all_live(self):
        """Every DataNode that was killed comes back empty."""
        for host in range(self.hdfs.datanodes):
            if self.hdfs.daemon_pid(host) is None:
                native.renew(self.hdfs, host)
        native.settle(self.hdfs, self.hdfs.datanodes)

    def to_one(self, pool, rows):
        """Recoveries to one spare DataNode each: label, strategy, round."""
        spares = []
        for at, (label, strategy, number) in enumerate(rows):
            if not spares:
                self.all_live()
                used = set(pool.homes.values())
                spares = [host for host in range(self.hdfs.datanodes) if host not in used]
            pool.replace(f"n{at % NODES}", spares.pop(0))
            row = pool.recover(strategy, STRIPES)
            self.note("recovery", label, pool.code, number, row)

    def clay(self, pool):
        rounds = range(self.plan["rounds"])
        self.to_one(pool, [(label, strategy, number) for number in rounds for label, strategy in
                           [(CENTRAL, "central"), (HUB, "hub")]])
        self.all_live()
        used = set(pool.homes.values())
        spares = [host for host in range(self.hdfs.datanodes) if host not in used]
        for at, host in enumerate(spares):
            pool.add(f"n{NODES + at}", host)
        for number in range(self.plan["others"]):
            lost = f"n{NODES - 1 - number}"
            pool.lose(lost)
            row = pool.recover("joint", STRIPES, spread=True)
            self.note("recovery", "joint, spread", pool.code, number, row)
            pool.forget(lost)

    def rs(self, files):
        pool = self.encode("rs", 0, files)
        self.to_one(pool, [(label, strategy, number) for number in range(self.plan["others"])
                           for label, strategy in
                           [("RS central", "central"), ("RS pipelining", "pipeline")]])


def median(rows, key, **wanted):
    """The median of a cell's samples; nothing if there is none."""
    found = [row[key] for row in rows if all(row[name] == value for name, value in wanted.items())]
    return statistics.median(found) if found else None


def headline(rows):
    """The numbers that the bars are about, and what they hide: which strategy gives which."""
    def over(key, kind, ours, theirs=HDFS_RS):
        mine = median(rows, key, kind=kind, label=ours)
        other = median(rows, key, kind=kind, label=theirs)
        return round(mine / other, 4) if mine and other else None

    return dict(
        recovery_bytes_over_hdfs_rs=over("bytes", "recovery", CENTRAL),
        recovery_time_over_hdfs_rs=over("seconds", "recovery", HUB),
        encode_time_over_hdfs_rs=over("seconds", "encode", "kiln Clay"),
        central_time_over_hdfs_rs=over("seconds", "recovery", CENTRAL),
        hub_bytes_over_hdfs_rs=over("bytes", "recovery", HUB),
        spread_time_over_hdfs_rs_spread=over("seconds", "recovery", "joint, spread",
                                             f"{HDFS_RS}, spread"),
        spread_bytes_over_hdfs_rs_spread=over("bytes", "recovery", "joint, spread",
                                              f"{HDFS_RS}, spread"))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--kiln", type=Path, required=True)
    parser.add_argument("--cache", required=True, help="where the list of Hadoop's jars is kept")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--quick", action="store_true", help="smaller blocks and fewer rounds")
    parser.add_argument("--rate", help="of every link, each way, e.g. 1gbit")
    parser.add_argument("--block-mib", type=int, help="MiB of a block")
    parser.add_argument("--rounds", type=int)
    options = parser.parse_args()
    plan = dict(QUICK if options.quick else FULL)
    plan.update({key: value for key, value in vars(options).items()
                 if key in plan and value is not None})
    Hdfs(options.folder).down()
    hdfs = Hdfs(options.folder, options.cache)
    report = dict(about=dict(about(options.kiln), rate=plan["rate"]), plan=plan, paper=PAPER,
                  bars=BARS, hdfs=[])
    try:
        hdfs.make_hdfs(NODES + SPARES, plan["rate"], options.kiln, plan["block_mib"], first=NODES)
        bench = Bench(hdfs, plan)
        report["hdfs"] = bench.rows
        bench.all()
    finally:
        # What was measured is kept, whatever ended the run.
        hdfs.down()
        report["headline"] = headline(report["hdfs"])
        options.out.mkdir(parents=True, exist_ok=True)
        name = "hdfs-quick" if options.quick else "hdfs"
        (options.out / f"{name}.json").write_text(json.dumps(report, indent=1) + "\n")
    print(json.dumps(report["headline"]))


if __name__ == "__main__":
    program(main, "bench-hdfs", unable="== bench-hdfs: SKIPPED")
