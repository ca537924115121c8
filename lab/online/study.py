"""The study's loop: samples in turns of rounds, cells and targets; what is there is kept."""

import json
import time
import zlib
from contextlib import nullcontext
from pathlib import Path

from lab.rig.disks import drop_caches

from lab.online import cells
from lab.online import files
from lab.online import settling
from lab.online import summary
from lab.online import traces
from lab.online.targets import BY_NAME
from lab.rig import fio
from lab.rig import meters


class Samples:
    """What was measured, one line of a file each, so that a run that was cut off goes on."""

    def __init__(self, path, key):
        self.path, self.found = path, {}
        lines = path.read_text().splitlines() if path.exists() else []
        if not lines or lines[0] != json.dumps(key):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(json.dumps(key) + "\n")
            lines = []
        for line in lines[1:]:
            try:
                row = json.loads(line)
            except ValueError:
                continue  # it was cut off within this one
            self.keep(row["cell"], row["target"], row["round"], row["sample"])

    def keep(self, cell, target, number, sample):
        """Notes a sample in memory."""
        self.found.setdefault(cell, {}).setdefault(target, {})[number] = sample

    def has(self, cell, target, number):
        """Whether it is there."""
        return number in self.found.get(cell, {}).get(target, {})

    def add(self, cell, target, number, sample):
        """Notes a sample, in the file too."""
        self.keep(cell, target, number, sample)
        row = dict(cell=cell, target=target, round=number, sample=sample)
        with open(self.path, "a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")

    def all(self):
        """{cell: {target: [sample, ...]}}, in order of rounds."""
        return {cell: {target: [rounds[number] for number in sorted(rounds)]
                       for target, rounds in by_target.items()}
                for cell, by_target in self.found.items()}


def wanted(kind, only):
    """(cell, target) of a run, with the targets that were asked for alone if any were."""
    return [(cell, BY_NAME[name]) for cell in cells.cells(kind) for name in cell.targets
            if not only or name in only]


def key_of(target, on_files=False):
    """Which system a target is in: all pools are in one cluster, each volume is one of its own, and
    another one where it has a file system."""
    if target.kind == "ceph":
        return "ceph"
    return f"{target.name} files" if on_files else target.name


def seed_of(cell, number):
    """Its own for each cell and round, else reads would ask for what was written just before; the
    same for all targets."""
    return zlib.crc32(f"{cell.name} {number}".encode())


class Study:
    """A run over systems, which are started when the first cell needs them."""

    def __init__(self, options, kind, samples, make_system, say):
        self.options, self.kind, self.samples, self.say = options, kind, samples, say
        self.make_system, self.systems, self.idle, self.left_out = make_system, {}, {}, []
        self.status, self.end, self.hurt = {}, time.monotonic() + options.minutes * 60, set()
        todo = [(number, cell, target) for number in range(kind.rounds)
                for cell, target in wanted(kind, options.target)
                if not samples.has(cell.name, target.name, number)]
        # A host that is gone stays so until the end.
        self.todo = sorted(todo, key=lambda one: one[1].degraded)

    def system(self, target, on_files=False):
        """The system of a target, running and calm, with all images and folders that the run
        needs."""
        key = key_of(target, on_files)
        if key not in self.systems:
            self.say(f"{key}: starting")
            system = self.systems[key] = self.make_system(target, on_files)
            system.start()
            others = {(other.name, bool(cell.processes)) for _, cell, other in self.todo
                      if key_of(other, bool(cell.processes)) == key}
            for name, mounted in sorted(others):
                if system.able_to(BY_NAME[name]):
                    settling.look_for_room(self.options.folder, self.systems.values())
                    self.say(f"{name}: {'a folder' if mounted else 'filling an image'}")
                    system.prepare(BY_NAME[name], mounted)
            self.make_files(key, system)
            settling.settle(system)
            self.idle[key] = settling.idle(system, self.kind.idle)
        return self.systems[key], self.idle[key]

    def make_files(self, key, system):
        """The files of all cells that have any."""
        made = {(cell.name, other.name): (cell, other) for _, cell, other in self.todo
                if cell.processes and key_of(other, True) == key}
        for cell, other in made.values():
            files.run_cell(self.options.mixer, system.image(other, cell, 0), cell, 0,
                           self.options.folder, 0)

    def without_one(self, target):
        """The same with one of its hosts gone."""
        key = key_of(target)
        system, _ = self.system(target)
        if key not in self.hurt:
            self.say(f"{key}: one host goes")
            self.hurt.add(key)
            system.lose()
            settling.settle(system)
            self.idle[f"{key} degraded"] = settling.idle(system, self.kind.idle)
        return system, self.idle[f"{key} degraded"]

    def run(self):
        """All samples that are not there yet."""
        for number, cell, target in self.todo:
            if time.monotonic() > self.end:
                self.left_out.append([cell.name, target.name, number])
            else:
                self.one(cell, target, number)

    def one(self, cell, target, number):
        """One sample."""
        settling.look_for_room(self.options.folder, self.systems.values())
        system, idle = self.system(target, bool(cell.processes))
        if not system.able_to(target):
            return
        if cell.degraded:
            system, idle = self.without_one(target)
        image = system.image(target, cell, number)
        if not cell.fresh:
            drop_caches()
        start = time.monotonic()
        sample, requests = self.measure(system, idle, cell, image, number)
        self.samples.add(cell.name, target.name, number, sample)
        self.trace(cell, target, number, requests)
        if cell.fresh:
            system.drop(target, image)
            settling.settle(system, 3)
        self.say(f"round {number} {cell.name} {target.name}: {sample['iops']:.0f} a second, "
                 f"{sample['mean_us']:.0f} us, CPU {sample['cpu_us']:.0f} us, private "
                 f"{sample['private_amp']:.2f} ({time.monotonic() - start:.1f} s)")

    def measure(self, system, idle, cell, image, number):
        """Counters before and after a run of fio, with what is done behind it."""
        seconds = (self.kind.series if cell.series else
                   self.kind.steady_seconds if cell.steady else self.kind.seconds)
        before = meters.look(system)
        with meters.Sampler(system) if cell.series else nullcontext() as sampler:
            client, requests = self.client(system, cell, image, seconds, seed_of(cell, number))
        settling.settle(system, 3)
        found = meters.without_idle(meters.between(before, meters.look(system)), idle)
        sample = summary.per_operation(found | client | fio.latencies(requests))
        sample["requests"] = fio.sizes(requests)
        if sampler:
            sample["series"] = sampler.rows
            sample["bytes_over_time"] = fio.bins(requests, cells.BIN)
        return sample, requests

    def client(self, system, cell, image, seconds, seed):
        """Runs what asks: fio on an image, processes on the files of a folder."""
        folder = self.options.folder
        if cell.processes:
            return files.run_cell(self.options.mixer, image, cell, seconds, folder, seed)
        return fio.run_cell(system.engine(image), cell, seconds, folder, seed,
                            system.environment())

    def trace(self, cell, target, number, requests):
        """Keeps all requests beside the report."""
        size = sum(one["count"] * one["files"] * one["file_bytes"] for one in cell.processes)
        about = dict(cell=cell.name, target=target.name, code=target.coded(self.kind.k, self.kind.m)
                     or "3 replicas", round=number,
                     image_bytes=size or self.kind.image_mib << 20,
                     depth=sum(job.depth for job in cell.jobs),
                     jobs=[job.name for job in cell.jobs],
                     recorded_by="kiln-bench mix" if cell.processes else "fio")
        folder = Path(self.options.traces)
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{cell.name}-{target.image}-{number}.trace"
        path.write_text(traces.text_of(about, requests))

    def finish(self):
        """What the systems say of themselves at the end."""
        for key, system in self.systems.items():
            self.status[key] = system.status()

    def close(self):
        """Ends all systems, the last one first."""
        for system in reversed(list(self.systems.values())):
            system.end()
