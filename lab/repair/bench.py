#!/usr/bin/env python3
"""Repairs over a real network: agents on hosts of their own, links of one rate (ParaRC's E2 to E4).

    bench.py FOLDER --kiln PATH --out DIR [--quick] [--fresh] [--only KIND] [--minutes N]

Degraded read: a lost chunk is rebuilt on a host that stores nothing of its stripe. Recovery: a node
that is lost with a chunk of 20 objects, to one replacement or spread over the survivors. Times are
those that the program reports, from its start to the shard in place; traffic is read from the
interfaces of the hosts and compared with the plan: `traffic_over_plan` is what the streams of TCP
carried at the worst host (payload, TLS, frames, answers, handshakes, orders, whatever was sent
twice), headers of packets taken off. One machine computes for all hosts, so links are slow enough
that processors are not the limit; how busy they were is in every row. FOLDER is made and removed.

What is compared is measured in turns, round by round (`cells.py`). The row of every cell of a full
run is kept in DIR/repair-cells, and a run that was interrupted, or had too few --minutes, goes on;
--fresh begins anew. About how long it takes is said first; with --estimate that is all.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

from lab.repair import meter
from lab.repair import objects
from lab.repair import reading
from lab.repair import recovery
from lab.repair import throttle
from lab.repair.cells import ASKED, FULL, WORDS, QUICK, chosen
from lab.repair.estimate import Estimate, setup
from lab.repair.kept import Kept, compact
from lab.repair.plans import Plans
from lab.repair.summary import headline
from lab.rig.about import about
from lab.rig.testbed import Testbed, TestbedError, able, program

MIB = 1 << 20
# What measures the cells of a kind: made of a bench and a comparison, with `measure` and `close`.
KINDS = dict(degraded=objects.Objects, window=objects.Objects, chunk=objects.Objects,
             encode=objects.Storing, recovery=recovery.Pools, read=reading.Objects,
             throttle=throttle.Limited)
FAILED_MOST = 3  # cells that fail one after the other until the run ends


class Bench:
    """A run: the test-bed, what is there, and what has to be measured."""

    def __init__(self, bed, plan, kept, plans, options):
        self.bed, self.plan, self.kept, self.plans, self.options = bed, plan, kept, plans, options
        self.estimate, self.begin = Estimate(plan), time.monotonic()
        self.ready, self.stored, self.bed_is = None, None, None
        self.left, self.failed, self.in_row = [], [], 0
        # Hosts for bare agents: a stripe, and one that stores nothing of it.
        self.hosts = 1 + max(sum(of.shape) for of in plan.comparisons)

    def bed_for(self, what, hosts, comparison):
        """A test-bed, unless the one that is there is for the same."""
        if self.bed_is != what:
            self.bed_is = what
            self.bed.make(hosts, self.plan.rate_of(comparison), self.options.kiln)
        return self.bed

    def material(self, size):
        """A file of random bytes, made once for what needs it."""
        path = self.bed.folder.parent / f"{self.bed.folder.name}-data-{size}"
        if not path.exists():
            with open(path, "wb") as out:
                for at in range(0, size, 16 * MIB):
                    out.write(os.urandom(min(16 * MIB, size - at)))
        return path

    def forget(self):
        """Removes the files of random bytes: memory is for what agents read."""
        for path in self.bed.folder.parent.glob(f"{self.bed.folder.name}-data-*"):
            path.unlink()

    def settle(self):
        """Waits for the disk: what is written behind would be in somebody's time."""
        if not self.options.tiny:
            os.sync()

    def took(self):
        """Seconds since the beginning."""
        return time.monotonic() - self.begin

    def fits(self, need):
        """Whether something of so many seconds ends in time."""
        minutes = self.options.minutes
        return minutes is None or self.took() + need <= 60 * minutes

    def prepare(self, comparison):
        """What the comparison needs, unless it is there from the one before."""
        if self.stored != comparison.stored:
            self.close()
            self.ready = KINDS[comparison.kind](self, comparison)
            self.stored = comparison.stored

    def close(self):
        """Removes what was there for the comparison before."""
        ready, self.ready, self.stored = self.ready, None, None
        if ready:
            ready.close()

    def compare(self, comparison):
        """All cells of a comparison that were not measured yet."""
        for cell in self.estimate.cells(comparison):
            if self.kept.has(cell):
                continue
            need = self.estimate.wall(cell)
            if self.stored != comparison.stored:
                need += setup(comparison)
            if not self.fits(need):
                self.left.append(cell.name)
                continue
            self.prepare(comparison)
            try:
                row = self.ready.measure(cell)
            except (TestbedError, subprocess.SubprocessError) as error:
                self.fail(cell, error)
                continue
            self.in_row = 0
            row = {**cell.row, **row, "commit": self.options.commit,
                   "at": time.strftime("%Y-%m-%d %H:%M:%S")}
            self.kept.keep(cell, row)
            meter.say(row, self.took())

    def fail(self, cell, error):
        """A cell that failed is said, and missing; the others may do well."""
        self.failed.append(f"{cell.name}: {error}")
        print(self.failed[-1], file=sys.stderr, flush=True)
        self.in_row += 1
        if self.in_row == FAILED_MOST:
            raise TestbedError(f"{FAILED_MOST} cells failed one after the other")


def parsed():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--kiln", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--quick", action="store_true", help="12+4 only, in about five minutes")
    parser.add_argument("--only", action="append", choices=WORDS,
                        help=f"only this; {', '.join(ASKED)} only if asked for")
    parser.add_argument("--minutes", type=float,
                        help="begin nothing that would end later; the next run goes on")
    parser.add_argument("--estimate", action="store_true",
                        help="say what there is to measure and how long it takes, and end")
    parser.add_argument("--fresh", action="store_true", help="forget what an earlier run measured")
    parser.add_argument("--rate", help="of every link, each way, e.g. 200mbit")
    parser.add_argument("--tiny", action="store_true",
                        help="chunks of 1 MiB and a round of each: whether all of it runs")
    return parser.parse_args()


def measure(bench):
    """All of the plan; what was measured is kept, whatever ends the run."""
    try:
        for comparison in bench.plan.comparisons:
            bench.compare(comparison)
        bench.close()
    finally:
        bench.bed.down()
        bench.forget()


def report(bench, everything, where):
    """The report of all rows that there are, in the order of the plan; also of runs before."""
    cells = [cell for of in everything.comparisons for cell in Estimate(everything).cells(of)]
    rows = [bench.kept.row(cell) for cell in cells if bench.kept.has(cell)]
    return dict(about=dict(where, rate=bench.plan.rate), left=bench.left, failed=bench.failed,
                plans=bench.plans.rows, headline=headline(rows), rows=rows)


def main():
    options = parsed()
    if not options.estimate:
        able()
    where = about(options.kiln)
    options.commit = where["commit"]
    name = "repair-quick" if options.quick else "repair-tiny" if options.tiny else "repair"
    lasting = None if options.quick or options.tiny else options.out / "repair-cells"
    if options.fresh and lasting and not options.estimate:
        shutil.rmtree(lasting, ignore_errors=True)
    kept, base = Kept(lasting, where), QUICK if options.quick else FULL
    plan, everything = (chosen(base, only, options.rate, options.tiny)
                        for only in (options.only, WORDS))
    if not plan.comparisons:
        raise TestbedError(f"a quick run has nothing of {', '.join(options.only)}")
    for line in Estimate(plan).lines(kept.has):
        print(line, file=sys.stderr, flush=True)
    if options.estimate:
        return
    bench = Bench(Testbed(options.folder), plan, kept,
                  Plans(options.kiln, options.out / "repair-plans"), options)
    try:
        measure(bench)
    finally:
        found = report(bench, everything, where)
        options.out.mkdir(parents=True, exist_ok=True)
        (options.out / f"{name}.json").write_text(compact(found))
    print(json.dumps(found["headline"]))
    if bench.left:
        print(f"{len(bench.left)} cells are left for the next run", file=sys.stderr)
    if bench.failed:
        raise TestbedError(f"{len(bench.failed)} cells failed")


if __name__ == "__main__":
    program(main, "bench-repair", unable="== bench-repair: SKIPPED")
