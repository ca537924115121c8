"""kiln over S3 endpoints of this machine: what the test and the bench share."""

import json
import os
import random
import subprocess
import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parent.parent))

import servers  # noqa: E402
from pool_work import Failed  # noqa: E402

# Seconds that one command may take.
LONGEST = 300


class Rig:
    """The program, a folder, and endpoints with a bucket each."""

    def __init__(self, kiln, folder, server, proxy, timeout=20):
        self.kiln, self.folder, self.proxy = os.path.abspath(kiln), folder, proxy
        self.server, self.timeout = server, timeout
        os.makedirs(folder, exist_ok=True)
        self.environment = servers.environment()
        self.environment["HOME"] = folder
        self.environment["XDG_STATE_HOME"] = folder
        self.environment["XDG_CACHE_HOME"] = folder

    def run(self, *words):
        """Runs a command; what it printed, or Failed."""
        ended = subprocess.run(
            [self.kiln, *[str(word) for word in words]], cwd=self.folder, env=self.environment,
            capture_output=True, text=True, check=False, timeout=LONGEST)
        if ended.returncode < 0 or "panicked" in ended.stderr:
            raise SystemExit(f"{words}: {ended.returncode}: {ended.stderr}")
        if ended.returncode != 0:
            raise Failed(f"{words[0]}: {ended.returncode}: {ended.stderr.strip()[-600:]}")
        return ended.stdout

    def json(self, *words):
        """As run, with its report."""
        return json.loads(self.run(*words, "--json"))

    def buckets(self, name, count):
        """New buckets, one at each endpoint."""
        for at in range(count):
            self.server.make_bucket(f"{name}-{at:02}")
        return [f"{name}-{at:02}" for at in range(count)]

    def place(self, at, bucket, prefix):
        """A place at an endpoint."""
        endpoint = self.proxy.endpoint(at)
        return f"s3://{bucket}/{prefix}?endpoint={endpoint}&timeout={self.timeout}"

    def path(self, name):
        return os.path.join(self.folder, name)

    def write(self, name, size, seed):
        """A file of random bytes; those."""
        data = random.Random(seed).randbytes(size)
        with open(self.path(name), "wb") as file:
            file.write(data)
        return data

    def read(self, name):
        with open(self.path(name), "rb") as file:
            return file.read()

    def delete(self, at, path):
        """Removes an object behind kiln's back."""
        servers.delete(f"http://127.0.0.1:{self.server.port}", path)
        del at
