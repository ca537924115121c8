"""Where and with what something was measured, for benches that are written in Python."""

import os
import subprocess
import tempfile
from pathlib import Path


def told(*command):
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return ""
    return done.stdout.strip()


def of_builder(key, *command):
    """What a program says of the sources and of the compiler. Where Ceph is of another release
    there are none of these programs, and whoever built says it in a variable."""
    return os.environ.get(f"BENCH_{key}") or told(*command) or "?"


def about(program):
    """Machine, commit and load; `program` lies in the folder of its profile."""
    cpu = next((line.split(":")[1].strip() for line in Path("/proc/cpuinfo").read_text()
                .splitlines() if line.startswith("model name")), "?")
    profiles = {"debug": "dev", "release": "release"}
    profile = next((profiles[part] for part in program.resolve().parts if part in profiles), "?")
    return dict(cpu=cpu, cores=os.cpu_count(), kernel=os.uname().release,
                rustc=of_builder("RUSTC", "rustc", "--version"), profile=profile,
                load=os.getloadavg(),
                commit=of_builder("COMMIT", "git", "-C", Path(__file__).parent, "describe",
                                  "--always", "--dirty=+"),
                files=told("stat", "-f", "-c", "%T", tempfile.gettempdir()))


def machine_cpu():
    """Ticks that processors were busy, and all ticks."""
    fields = [int(word) for word in Path("/proc/stat").read_text().split("\n")[0].split()[1:9]]
    return sum(fields) - fields[3] - fields[4], sum(fields)
