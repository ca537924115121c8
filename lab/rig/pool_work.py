"""Random work on a pool while requests go wrong: then everything must be as it was acknowledged.

A rig runs the program and keeps its files; a proxy before the servers injects faults and counts
them. Used over S3 and over HDFS.
"""

import json
import random
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

# Names that each worker has to itself.
NAMES = 4
WORKERS = 3
# Seconds that one command may take.
LONGEST = 300
# Share of requests that go wrong.
SHARE = 0.2


class Failed(Exception):
    """A command that ended with an error."""


class Rig:
    """The program in a folder, which is its home too."""

    def __init__(self, kiln, folder, environment):
        self.kiln, self.folder = Path(kiln).absolute(), Path(folder).absolute()
        self.folder.mkdir(parents=True, exist_ok=True)
        homes = ["HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME"]
        self.environment = environment | dict.fromkeys(homes, str(self.folder))

    def run(self, *words):
        """Runs a command; what it printed, or Failed."""
        ended = subprocess.run(
            [str(self.kiln), *[str(word) for word in words]], cwd=self.folder,
            env=self.environment, capture_output=True, text=True, check=False, timeout=LONGEST)
        if ended.returncode < 0 or "panicked" in ended.stderr:
            raise SystemExit(f"{words}: {ended.returncode}: {ended.stderr}")
        if ended.returncode != 0:
            raise Failed(f"{words[0]}: {ended.returncode}: {ended.stderr.strip()[-600:]}")
        return ended.stdout

    def json(self, *words):
        """As run, with its report."""
        return json.loads(self.run(*words, "--json"))

    def path(self, name):
        return self.folder / name

    def write(self, name, size, seed):
        """A file of random bytes; those."""
        data = random.Random(seed).randbytes(size)
        self.path(name).write_bytes(data)
        return data

    def read(self, name):
        return self.path(name).read_bytes()


class Worker:
    """Does random things with names of its own, and knows what may be found there."""

    def __init__(self, rig, at):
        self.rig, self.at = rig, at
        self.random = random.Random(at)
        self.allowed = {f"w{at}/{name}": {None} for name in range(NAMES)}
        self.wrong, self.done, self.failed, self.serial = [], 0, 0, 0

    def step(self):
        name = self.random.choice(list(self.allowed))
        acts = ["put"] * 4 + ["get"] * 6 + ["rm"] * 2 + ["ls"] * 2
        # One of them also looks after the pool: that reads listings.
        act = self.random.choice(acts + ["tend"] if self.at == 0 else acts)
        self.done += 1
        try:
            getattr(self, act)(name)
        except Failed:
            self.failed += 1
        except subprocess.TimeoutExpired:
            self.wrong.append(f"{act} {name}: no end")

    def put(self, name):
        self.serial += 1
        size = self.random.choice((40, 5_000, 300_000, 1_200_000))
        file = f"in-{self.at}"
        data = self.rig.write(file, size, f"{self.at}/{self.serial}")
        self.allowed[name].add(data)
        self.rig.run("put", file, name, "--force")
        self.allowed[name] = {data}

    def rm(self, name):
        self.allowed[name].add(None)
        try:
            self.rig.run("rm", name)
        except Failed as error:
            if "no object" not in str(error):
                raise
        self.allowed[name] = {None}

    def get(self, name):
        found = f"out-{self.at}"
        try:
            self.rig.run("get", name, "-o", found, "--force")
            data = self.rig.read(found)
        except Failed as error:
            if "no object" not in str(error):
                raise
            data = None
        if data not in self.allowed[name]:
            what = None if data is None else len(data)
            self.wrong.append(f"{name}: {what} bytes that were never put")

    def ls(self, _):
        self.rig.run("ls")

    def tend(self, _):
        self.rig.run(self.random.choice(("repair", "scrub")), "--lock-wait", "40")


def play(rig, proxy, wanted, longest, end_faults=lambda: None):
    """Works until so many faults were injected, or for so many seconds; what was injected, what
    was wrong, and how much was done. `end_faults` ends those that are not the proxy's."""
    workers = [Worker(rig, at) for at in range(WORKERS)]
    end = time.monotonic() + longest
    proxy.faults = SHARE

    def work(worker):
        while sum(proxy.tried.values()) < wanted and time.monotonic() < end:
            worker.step()

    with ThreadPoolExecutor(WORKERS) as threads:
        list(threads.map(work, workers))
    proxy.faults = 0.0
    end_faults()
    tried = dict(proxy.tried)
    counts = {"steps": sum(w.done for w in workers), "refused": sum(w.failed for w in workers)}
    wrong = [text for worker in workers for text in worker.wrong] + settle(rig, workers)
    return tried, wrong, counts


def settle(rig, workers):
    """Nothing goes wrong any more: the pool becomes whole, and has what it should."""
    wrong = []
    # Locks of commands that were cut off are taken over when they were silent for long enough.
    for command in ("scrub", "repair", "scrub"):
        try:
            rig.run(command, "--lock-wait", "120")
        except Failed as error:
            if command != "scrub":
                wrong.append(f"{command} at the end: {error}")
    for worker in workers:
        worker.wrong = []
        for name in worker.allowed:
            try:
                worker.get(name)
            except Failed as error:
                worker.wrong.append(f"{name} at the end: {error}")
        wrong += worker.wrong
    return wrong
