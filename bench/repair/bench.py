#!/usr/bin/env python3
"""Repairs over a real network: agents on hosts of their own, links of one rate (ParaRC's E2 to E5).

    bench.py FOLDER --kiln PATH --out DIR [--quick] [--fresh] [--only KIND]

Degraded read: a lost chunk is rebuilt on a host that stores nothing of its stripe. Recovery: a node
that is lost with a chunk of 20 objects, to one replacement or spread over the survivors. Times are
those that the program reports, from its start to the shard in place; traffic is read from the
interfaces of the hosts and compared with the plan: `traffic_over_plan` is what the streams of TCP
carried at the worst host (payload, TLS, frames, answers, handshakes, orders, whatever was sent
twice), headers of packets taken off. One machine computes for all hosts, so links are slow enough
that processors are not the limit; how busy they were is in every row. FOLDER is made and removed.

The result of every cell of a full run is kept in DIR/repair-cells, and a run that was interrupted
goes on; --fresh begins anew.
"""

import argparse
import json
import os
import shutil
import statistics
import sys
import threading
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "testbed"))
sys.path.append(str(HERE.parent))

import page  # noqa: E402
import reading  # noqa: E402
import recovery  # noqa: E402
import throttle  # noqa: E402
from where import about, machine_cpu  # noqa: E402
from testbed import HEADERS, Testbed, TestbedError, bits_per_second, program, run  # noqa: E402

MIB = 1 << 20
# What is compared for a code k+m: label, family, strategy. The first two are the baselines of the
# bars, the last one is kiln's own choice.
MDS = [("RS central", "rs", "central"), ("Clay central", "clay", "central"),
       ("RS pipelining", "rs", "pipeline"), ("Clay, ParaRC's heuristic", "clay", "pareto"),
       ("Clay hub", "clay", "hub")]
BUTTERFLY = [("RS central", "rs", "central"), ("Butterfly central", "butterfly", "central"),
             ("RS pipelining", "rs", "pipeline"),
             ("Butterfly, ParaRC's heuristic", "butterfly", "pareto"),
             ("Butterfly chain", "butterfly", "chain")]
# Code, what is compared, MiB of a chunk. Lost chunks; runs of what the bars are about.
QUICK = dict(rate="100mbit", degraded=[("12+4", MDS, 64)], windows=[], chunks=[],
             encode=[("12+4", 4)], recovery=[("12+4", recovery.QUICK, 8)], lost=[0],
             often=("Clay hub",))
FULL = dict(rate="100mbit",
            degraded=[("12+4", MDS, 64), ("10+4", MDS, 64), ("8+4", MDS, 64),
                      ("10+2", BUTTERFLY, 64)],
            # KiB of each sub-chunk that travel together, as in the paper with chunks of 256 MiB;
            # MiB of a chunk.
            windows=[16, 64, 256], chunks=[16, 256], encode=[("10+4", 16), ("12+4", 16)],
            recovery=[("12+4", recovery.LARGE, 64), ("10+4", recovery.FULL, 16)], lost=[0, 5],
            often=("Clay hub", "Clay central"))
TIMES = 3
# A limit of 160 Mbit/s for each node, on links that have room for clients beside it.
THROTTLE = dict(rate="400mbit", chunk_mib=16)
KINDS = ["degraded", "encode", "recovery", "throttle", "read"]
READ = [("12+4", 64), ("10+4", 64)]  # code, MiB of a chunk


class Meter:
    """What hosts and processors did between two moments."""

    def __init__(self, bed, sample_seconds=0.0):
        self.bed, self.timeline, self.every = bed, [], sample_seconds
        self.stop = threading.Event()

    def __enter__(self):
        self.before, self.cpu = self.bed.interfaces(), self.bed.cpu_seconds()
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
        passed = [[{what: now[what] - old[what] for what in ("bytes", "packets")}
                   for now, old in zip(*pair)]
                  for pair in zip(self.bed.interfaces(), self.before)]
        self.traffic = [tuple(way["bytes"] for way in ways) for ways in passed]
        self.streams = [tuple(way["bytes"] - HEADERS * way["packets"] for way in ways)
                        for ways in passed]
        busy, whole = (now - old for now, old in zip(machine_cpu(), self.machine))
        # Cores that agents used, and cores that anybody used.
        self.cores = (self.bed.cpu_seconds() - self.cpu) / self.wall
        self.machine_cores = busy / whole * os.cpu_count()

    def row(self):
        return dict(agent_cores=round(self.cores, 2), machine_cores=round(self.machine_cores, 2),
                    wall_seconds=round(self.wall, 3), interface=self.traffic,
                    load=os.getloadavg()[0])

    def over(self, planned):
        """Streams and interface of the worst host by what it was to carry, given for each host;
        a host that was to carry little is left out, since orders alone are more."""
        def worst(counted):
            return max((max(pair) / load for pair, load in zip(counted, planned)
                        if load > MIB), default=1.0)
        return dict(traffic_over_plan=round(worst(self.streams), 4),
                    interface_over_plan=round(worst(self.traffic), 4))


def material(folder, size):
    """A file of random bytes, made once for each size."""
    path = folder.parent / f"{folder.name}-data-{size}"
    if not path.exists():
        with open(path, "wb") as out:
            for at in range(0, size, 16 * MIB):
                out.write(os.urandom(min(16 * MIB, size - at)))
    return path


class Degraded:
    """Objects of one code at a time; each strategy rebuilds the same lost chunk."""

    def __init__(self, bed, rate):
        self.bed, self.rate, self.stored = bed, bits_per_second(rate) / 8, None

    def store(self, code, chunk_mib, sub_chunk):
        """Puts one object of k chunks straight into the folders of the hosts."""
        wanted = (code, chunk_mib, sub_chunk)
        if self.stored == wanted:
            return
        k, m = map(int, code.split(":")[1].split("+"))
        for host in range(self.bed.hosts):
            for path in self.bed.disk(host).iterdir():
                path.unlink()
        outputs = [w for host in range(k + m) for w in ["-o", self.bed.disk(host)]]
        extra = ["--sub-chunk", sub_chunk] if sub_chunk else []
        run(self.bed.kiln, "encode", material(self.bed.folder, k * chunk_mib * MIB), "-c", code,
            *outputs, *extra, "--name", "object", "-q")
        self.stored = wanted

    def read(self, label, family, size, strategy, chunk_mib, lost, flags=(), sub_chunk=None):
        """One lost chunk, rebuilt and compared."""
        code = f"{family}:{size}"
        self.store(code, chunk_mib, sub_chunk)
        k, m = map(int, size.split("+"))
        spare, name = k + m, f"object.{lost:02}.kiln"
        kept = self.bed.folder / name
        (self.bed.disk(lost) / name).rename(kept)
        try:
            with Meter(self.bed) as meter:
                report = self.bed.ask(
                    "coordinator", *(self.bed.address(host) for host in range(k + m)), "--to",
                    self.bed.address(spare), "--strategy", strategy, *flags, timeout=1800)
            if run("cmp", kept, self.bed.disk(spare) / name, check=False).returncode != 0:
                raise TestbedError(f"{label} {size}: the rebuilt shard differs")
        finally:
            kept.rename(self.bed.disk(lost) / name)
            (self.bed.disk(spare) / name).unlink(missing_ok=True)
        row = dict(kind="degraded", label=label, code=code, strategy=strategy, lost=lost,
                   chunk_mib=chunk_mib, flags=list(flags), seconds=report["seconds"],
                   **loads(report, meter, self.rate), **meter.row())
        say(row)
        return row


def loads(report, meter, rate):
    """What the plan says beside what the program and the interfaces counted."""
    places = {row["node"]: max(row["bytes_sent"], row["bytes_received"])
              for row in report["nodes"]}
    planned = [places.get(meter.bed.address(host), 0) for host in range(meter.bed.hosts)]
    load = report["planned_max_node_load"]
    return dict(planned_load=load, planned_sent=report["planned_sent"],
                metered_load=report["max_node_load"], metered_sent=report["bytes_sent"],
                **meter.over(planned), bound_seconds=load / rate,
                over_bound=round(report["seconds"] / (load / rate), 3))


def encode(bed, family, size, chunk_mib, rate):
    """What storing one object costs a client with a link as the others'."""
    k, m = map(int, size.split("+"))
    outputs = [w for host in range(k + m) for w in ["-o", bed.address(host)]]
    path = material(bed.folder, k * chunk_mib * MIB)
    with Meter(bed) as meter:
        report = bed.ask("encode", path, "-c", f"{family}:{size}", *outputs, "--name",
                         f"stored-{family}", "--force", host=k + m)
    planned = (k + m) * chunk_mib * MIB
    loads = [planned if host == k + m else 0 for host in range(bed.hosts)]
    row = dict(kind="encode", label=f"{family} encode", code=f"{family}:{size}",
               chunk_mib=chunk_mib, seconds=report["seconds"], planned_sent=planned,
               **meter.over(loads), bound_seconds=planned / (bits_per_second(rate) / 8),
               **meter.row())
    say(row)
    return row


def say(row):
    """One line of progress for people."""
    text = f"{row['kind']:9} {row['code']:15} {row['label']:30} {row['chunk_mib']:4} MiB " \
           f"{row['seconds']:7.2f} s (bound {row['bound_seconds']:.2f}), " \
           f"{row['traffic_over_plan']:.3f} of the plan, " \
           f"agents {row['agent_cores']:.2f} cores of {row['machine_cores']:.2f}"
    print(text, file=sys.stderr, flush=True)


class Cells:
    """Rows, each measured unless an interrupted run has it already."""

    def __init__(self, folder):
        self.folder, self.rows = folder, []
        if folder:
            folder.mkdir(parents=True, exist_ok=True)

    def missing(self, keys):
        """Whether any of these cells has still to be measured."""
        return not self.folder or not all(self.path(key).exists() for key in keys)

    def path(self, key):
        return self.folder / ("-".join(map(str, key)).replace(" ", "_").replace(":", "_") + ".json")

    def add(self, key, measure):
        """The row of a key (words), which `measure` gives if it is not there."""
        if not self.missing([key]):
            self.rows.append(json.loads(self.path(key).read_text()))
            return
        row = measure()
        self.rows.append(row)
        if self.folder:
            part = self.path(key).with_suffix(".part")
            part.write_text(json.dumps(row))
            part.rename(self.path(key))


def degraded_cells(cells, bed, plan):
    reads = Degraded(bed, plan["rate"])

    def cell(key, extra, *words):
        cells.add([*key, plan["rate"]], lambda: dict(reads.read(*words), **extra))

    for size, compared, chunk in plan["degraded"]:
        for family in dict.fromkeys(row[1] for row in compared):
            for label, _, strategy in [row for row in compared if row[1] == family]:
                for lost in plan["lost"]:
                    for time_ in range(TIMES if label in plan["often"] else 1):
                        cell(["degraded", label, size, chunk, lost, time_], {}, label, family,
                             size, strategy, chunk, lost)
    for chunk in plan["chunks"]:
        for label, family, strategy in sorted(MDS[1:], key=lambda row: row[1]):
            cell(["chunk", label, chunk], dict(kind="chunk"), label, family, "10+4", strategy,
                 chunk, 0)
    # Sub-chunks must be as long as the longest window.
    for label, family, strategy in sorted(MDS[1:], key=lambda row: row[1]):
        for kib in plan["windows"]:
            cell(["window", label, kib], dict(kind="window", window_kib=kib), label, family,
                 "10+4", strategy, 256, 0, ["--window", f"{kib}KiB"], "256KiB")


def headline(rows, quick):
    """The numbers that the bars are about."""
    def median(kind, label, **wanted):
        found = [row["seconds"] for row in rows if row["kind"] == kind and row["label"] == label
                 and all(row[key] == value for key, value in wanted.items())]
        return statistics.median(found) if found else None

    def saved(kind, base, ours, **wanted):
        old, new = median(kind, base, **wanted), median(kind, ours, **wanted)
        return round(1 - new / old, 4) if old and new else None

    rs, clay = dict(lost=0), dict(lost=0)
    # The bars are for large chunks; a quick run has only small ones for recoveries.
    counted = [row for row in rows if row["kind"] not in ("encode", "throttle", "read")]
    counted = [row for row in counted if row["chunk_mib"] >= 64 or quick]
    rows = [row for row in counted if row["code"].endswith(":12+4")]
    single, spread = median("recovery", "joint, one node"), median("recovery", "joint, spread")
    traffic = [row["traffic_over_plan"] for row in counted]
    return dict(
        degraded_saved_vs_clay_central=saved("degraded", "Clay central", "Clay hub", **clay),
        degraded_saved_vs_rs_central=saved("degraded", "RS central", "Clay hub", **rs),
        recovery_saved_vs_clay_central=saved("recovery", "Clay central, one node",
                                             "joint, one node"),
        spread_over_single=round(single / spread, 3) if single and spread else None,
        traffic_over_plan=max(traffic, default=None))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--kiln", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--quick", action="store_true", help="12+4 only, in about five minutes")
    parser.add_argument("--only", action="append", choices=KINDS)
    parser.add_argument("--fresh", action="store_true", help="forget what an earlier run measured")
    parser.add_argument("--rate", help="of every link, each way, e.g. 200mbit")
    options = parser.parse_args()
    plan = dict(QUICK if options.quick else FULL)
    plan["rate"] = options.rate or plan["rate"]
    wanted = options.only or (KINDS[:3] if options.quick else KINDS)
    bed = Testbed(options.folder)
    kept = None if options.quick else options.out / "repair-cells"
    if kept and options.fresh:
        shutil.rmtree(kept, ignore_errors=True)
    cells = Cells(kept)
    report = dict(about=dict(about(options.kiln), rate=plan["rate"]), rows=cells.rows)
    try:
        if "degraded" in wanted or "encode" in wanted:
            hosts = 1 + max(sum(map(int, cell[0].split("+"))) for cell in plan["degraded"])
            bed.make(hosts, plan["rate"], options.kiln)
        if "degraded" in wanted:
            degraded_cells(cells, bed, plan)
        if "encode" in wanted:
            for size, chunk_mib in plan["encode"]:
                for family in ["rs", "clay"]:
                    cells.add(["encode", family, size, chunk_mib, plan["rate"]],
                              lambda: encode(bed, family, size, chunk_mib, plan["rate"]))
        if "recovery" in wanted:
            for size, compared, chunk_mib in plan["recovery"]:
                recovery.cells(cells, bed, options.kiln, plan["rate"], size, chunk_mib, compared,
                               Meter, material, say)
        if "read" in wanted:
            for size, chunk_mib in READ:
                reading.cells(cells, bed, options.kiln, plan["rate"], size, chunk_mib, 2, Meter,
                              material, say)
        if "throttle" in wanted:
            cells.add(["throttle", *THROTTLE.values()], lambda: throttle.case(
                bed, options.kiln, **THROTTLE, meter_of=Meter, material=material, say=say))
    finally:
        # What was measured is kept, whatever ended the run.
        bed.down()
        for path in options.folder.parent.glob(f"{options.folder.name}-data-*"):
            path.unlink()
        report["headline"] = headline(report["rows"], options.quick)
        options.out.mkdir(parents=True, exist_ok=True)
        name = "repair-quick" if options.quick else "repair"
        (options.out / f"{name}.json").write_text(json.dumps(report, indent=1) + "\n")
        page.write(report, options.out, name)
    print(json.dumps(report["headline"]))


if __name__ == "__main__":
    program(main, "bench-repair")
