"""What the tests share: where truth is, data that depends on its place, erasures of codes."""

import itertools
import json
import os
import random
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
# Chunks and repair plans that Ceph made.
VECTORS = ROOT / "crates/code/tests/vectors"
# The program of the same source, where the caller built it.
PROGRAM = os.environ.get("KILN_PROGRAM")


def position_bytes(length, seed=1):
    """Bytes that differ from place to place and from seed to seed."""
    return random.Random(seed).randbytes(length)


def stripe(codec, chunk_len, seed=1):
    """Data chunks and parity chunks of one stripe."""
    data = [position_bytes(chunk_len, (seed, j).__hash__()) for j in range(codec.k)]
    return [*data, *codec.encode(data)]


def losses(codec, rng, most=12):
    """Patterns of losses that the code survives: all of them, or a sample."""
    patterns = [
        list(lost)
        for count in range(1, codec.m + 1)
        for lost in itertools.combinations(range(codec.n), count)
    ]
    patterns = [lost for lost in patterns if codec.tolerates(lost)]
    return patterns if len(patterns) <= most else rng.sample(patterns, most)


def program(*words):
    """Runs the program with --json: its exit code and what it said."""
    done = subprocess.run(
        [PROGRAM, *map(str, words), "--json"], capture_output=True, text=True, check=False
    )
    return done.returncode, json.loads(done.stdout)
