"""Furniture of the scenarios: a temporary place, the program, data that depends on its position."""

import json
import os
import random
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from threading import Thread

PROGRAM = os.environ.get("KILN_PROGRAM", "kiln")


def test(run):
    """Marks a function that takes a rig as a test."""
    run.is_test = True
    return run


class Ended:
    """Outcome of a run of the program."""

    def __init__(self, code, stdout, stderr):
        self.code, self.stdout, self.stderr = code, stdout, stderr

    def ok(self):
        """Expects success."""
        return self.exits(0)

    def exits(self, code):
        """Expects an exit code."""
        assert self.code == code, f"{self.code}, not {code}\n{self.stdout}\n{self.stderr}"
        return self

    def fails(self, code, *words):
        """Expects failure in the house style: this exit code, nothing on stdout but a report, and
        beside warnings exactly one line on stderr, with these words in it."""
        self.exits(code)
        if self.stdout:
            same(self.json()["exit"], code)
        lines = [line for line in self.stderr.splitlines() if not line.startswith("kiln: warning:")]
        assert len(lines) == 1 and lines[0].startswith("kiln: "), self.stderr
        holds(lines[0], *words)
        return self

    def json(self):
        """The JSON report."""
        return json.loads(self.stdout)


class Rig:
    """A temporary folder in which the program runs. All that it started is killed at the end."""

    def __enter__(self):
        self.folder = Path(tempfile.mkdtemp(prefix="kiln-"))
        self.started = []
        return self

    def __exit__(self, *_):
        for child in self.started:
            child.kill()
            child.wait()
        shutil.rmtree(self.folder, ignore_errors=True)

    def __truediv__(self, name):
        return self.folder / name

    def kiln(self, words, *more):
        """Runs the program; words are split at blanks, those of `more` are not."""
        ended = subprocess.run([PROGRAM, *words.split(), *more], cwd=self.folder,
                               stdin=subprocess.DEVNULL, capture_output=True)
        return Ended(ended.returncode, ended.stdout.decode(errors="replace"),
                     ended.stderr.decode(errors="replace"))

    def start(self, words, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
              stdin=subprocess.DEVNULL):
        """Starts the program."""
        child = subprocess.Popen([PROGRAM, *words.split()], cwd=self.folder, stdin=stdin,
                                 stdout=stdout, stderr=stderr)
        self.started.append(child)
        return child

    def data(self, name, size, seed=1):
        """A file of position-dependent bytes; returns them."""
        (self / name).write_bytes(data(size, seed))
        return data(size, seed)

    def read(self, name):
        return (self / name).read_bytes()

    def remove(self, name):
        path = self / name
        shutil.rmtree(path) if path.is_dir() else path.unlink()

    def names(self, folder):
        """File names in a folder, sorted."""
        return sorted(os.listdir(self / folder))

    def snapshot(self, folder):
        """Every file below a folder with its bytes: to see that nothing was touched."""
        return sorted((path, path.read_bytes()) for path in (self / folder).rglob("*")
                      if path.is_file())

    def encoded(self, spec, flags, size):
        """Encodes `size` bytes, the result, as the object "object" in the folder "shards"."""
        bytes_ = self.data("object", size, size)
        self.kiln(f"encode object -c {spec} -o shards -q {flags}").ok()
        return bytes_

    def decodes_to(self, bytes_):
        """Expects that a decode of "shards" gives these bytes."""
        self.kiln("decode shards -o back --force -q").ok()
        assert self.read("back") == bytes_, "the decoded bytes differ"

    def pool(self, code, nodes):
        """A pool of so many folders d00, d01, ... described by pool.toml."""
        places = " ".join(f"--node d{at:02}" for at in range(nodes))
        self.kiln(f"pool create -c {code} {places}").ok()


def shard(index):
    """The shard file of an index in the folder "shards"."""
    return f"shards/object.{index:02}.kiln"


def data(size, seed=1):
    """Bytes of a seed: a shifted, swapped or repeated block never looks right."""
    return random.Random(seed).randbytes(size)


def flip(path, at, bit=3):
    """Flips one bit of a file."""
    bytes_ = bytearray(path.read_bytes())
    bytes_[at] ^= 1 << bit
    path.write_bytes(bytes_)


def seeded(test):
    """A generator of the choices of a random test: from KILN_SEED, else the clock; it is said."""
    seed = int(os.environ.get("KILN_SEED") or time.time_ns() // 1000)
    say(f"{test}: KILN_SEED={seed}")
    return random.Random(seed), seed


def say(line):
    """Prints past what captures the output of tests: skips and seeds must not go unseen."""
    print(line, file=sys.stderr, flush=True)


def same(found, wanted, about=""):
    assert found == wanted, f"{about}: {found!r} is not {wanted!r}"


def holds(text, *words):
    """Expects words in a text."""
    for word in words:
        assert word in text, f"{word!r} expected in: {text}"


def until(what, is_so, seconds=60):
    """Waits until something is so, and returns it."""
    end = time.monotonic() + seconds
    while True:
        found = is_so()
        if found:
            return found
        assert time.monotonic() < end, what
        time.sleep(0.02)


def drained(stream):
    """Reads a pipe to its end beside: a full one must not stop the program. Gives a function that
    waits for the text."""
    texts = []
    thread = Thread(target=lambda: texts.append(stream.read().decode()), daemon=True)
    thread.start()
    return lambda: (thread.join(), texts[0])[1]


def asked(host, path):
    """What a server of HTTP answers, with its head."""
    name, port = host.rsplit(":", 1)
    with socket.create_connection((name, int(port))) as stream:
        stream.sendall(f"GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
        return stream.makefile("rb").read().decode()


def metric(answer, name, label):
    """The value of a metric with one label."""
    wanted = f"{name}{{{label}}} "
    found = [line for line in answer.splitlines() if line.startswith(wanted)]
    assert found, f"{name}: {answer}"
    return int(found[0].removeprefix(wanted))
