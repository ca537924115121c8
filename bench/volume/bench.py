#!/usr/bin/env python3
"""What volumes cost: bytes at devices, latency and rate, by counters of loop devices under fio.

    bench.py FOLDER --kiln PROGRAM --out FOLDER [--quick]

Every node of the pool is an ext4 on a loop device of its own, all on one disk of this machine:
bytes are counted exactly, times are those of a shared disk and say something as ratios only. As
root. One JSON object with every round goes to OUT, its headline numbers as one line to standard
output.
"""

import argparse
import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import time
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1]))

from tools import Unable, run  # noqa: E402
from where import about  # noqa: E402

NODES = 10
MIB = 1 << 20
TOOLS = ("fio", "losetup", "mkfs.ext4", "mount")


class Disks:
    """Loop devices with a file system each."""

    def __init__(self, folder, size):
        self.folder, self.loops = folder, []
        for at in range(NODES):
            image, mount = folder / f"image{at}", folder / f"d{at}"
            mount.mkdir(parents=True)
            with open(image, "wb") as file:
                file.truncate(size)
            loop = run("losetup", "--find", "--show", image).strip()
            self.loops.append(loop)
            run("mkfs.ext4", "-q", "-F", "-E", "lazy_itable_init=0,lazy_journal_init=0", loop)
            run("mount", "-o", "noatime", loop, mount)

    def counted(self):
        """Bytes read and written at all devices so far, with nothing left to write."""
        run("sync")
        read = written = 0
        for loop in self.loops:
            fields = Path(f"/sys/block/{Path(loop).name}/stat").read_text().split()
            read, written = read + int(fields[2]) * 512, written + int(fields[6]) * 512
        return read, written

    def drop(self):
        """Nothing stays in memory that was read or written."""
        run("sync")
        Path("/proc/sys/vm/drop_caches").write_text("3")

    def end(self):
        """Unmounts and removes everything."""
        for at, loop in enumerate(self.loops):
            subprocess.run(["umount", "-l", str(self.folder / f"d{at}")], check=False)
            subprocess.run(["losetup", "-d", loop], check=False)
        shutil.rmtree(self.folder, ignore_errors=True)


class Volume:
    """A volume on such disks, and the program that serves it."""

    def __init__(self, folder, kiln, code, size):
        self.folder, self.program, self.server = folder, kiln, None
        self.socket, self.ended = folder / "disk.sock", None
        nodes = [f"--node=d{at}/node" for at in range(NODES)]
        self.kiln("pool", "create", "-c", code, *nodes)
        self.kiln("volume", "create", "disk", size)
        words = [str(kiln), "--json", "nbd", "disk", "--socket", str(self.socket)]
        self.server = subprocess.Popen(words, cwd=folder, stdout=subprocess.PIPE, text=True)
        while not self.socket.exists():
            if self.server.poll() is not None:
                raise SystemExit("bench-volume: the server ended")
            time.sleep(0.05)
        time.sleep(1)

    def kiln(self, *words):
        """Runs kiln in the pool's folder."""
        return run(self.program, "-q", *words, cwd=self.folder)

    def fio(self, *flags):
        """Runs fio to its end; its one job's report."""
        uri = f"nbd+unix:///disk?socket={self.socket}"
        report = run("fio", "--name=a", "--ioengine=nbd", f"--uri={uri}", "--randrepeat=0",
                     "--norandommap=1", "--output-format=json", *flags, cwd=self.folder)
        return json.loads(report[report.index("{"):])["jobs"][0]

    def end(self):
        """Ends the server; what it did."""
        self.server.send_signal(signal.SIGTERM)
        said, _ = self.server.communicate(timeout=300)
        decoder, objects, at = json.JSONDecoder(), [], 0
        while at < len(said):
            found, at = decoder.raw_decode(said, at)
            objects.append(found)
            while at < len(said) and said[at].isspace():
                at += 1
        return objects[-1]["status"]


def measured(disks, volume, wrote, *flags):
    """Bytes at devices for each byte that fio moved, and its report."""
    before = disks.counted()
    report = volume.fio(*flags)
    after = disks.counted()
    side = report["write" if wrote else "read"]
    moved = max(side["io_bytes"], 1)
    return {
        "bytes": moved,
        "read_per_byte": (after[0] - before[0]) / moved,
        "written_per_byte": (after[1] - before[1]) / moved,
        "iops": side["iops"],
        "mean_us": side["lat_ns"]["mean"] / 1000,
        "p99_us": side["clat_ns"].get("percentile", {}).get("99.000000", 0) / 1000,
    }


def one(options, code, rounds):
    """All that is measured of a volume with one code."""
    folder = options.folder / code.replace(":", "-").replace("+", "-")
    size = options.size
    disks = Disks(folder, size * 4 if code.startswith("rep") else size * 2)
    cells = {}
    try:
        volume = Volume(folder, options.kiln, code, f"{size // MIB}MiB")
        whole = [f"--size={size // MIB}m"]
        short = [f"--io_size={options.short // MIB}m"]
        random_writes = ["--rw=randwrite", "--bs=4k", *whole]
        first = measured(disks, volume, True, *random_writes, "--iodepth=32", *short)
        cells["first"] = [first]
        start = time.monotonic()
        volume.fio("--rw=write", "--bs=1m", "--iodepth=8", *whole)
        cells["sequential_seconds"] = time.monotonic() - start
        # Until cleaning is as it stays.
        volume.fio(*random_writes, "--iodepth=32", f"--io_size={2 * size // MIB}m")
        for name, flags in (
                ("uniform", ["--iodepth=32"]),
                ("zipf", ["--iodepth=32", "--random_distribution=zipf:0.99"]),
                ("depth1", ["--iodepth=1", f"--runtime={options.seconds}", "--time_based"])):
            io_size = [] if name == "depth1" else [f"--io_size={size // MIB}m"]
            cells[name] = [measured(disks, volume, True, *random_writes, *flags, *io_size)
                           for _ in range(rounds)]
        disks.drop()
        cells["read"] = [measured(disks, volume, False, "--rw=randread", "--bs=4k", *whole,
                                  "--iodepth=32", *short) for _ in range(rounds)]
        cells["status"] = volume.end()
    finally:
        if "status" not in cells and "volume" in locals():
            volume.server.kill()
            volume.server.wait()
        disks.end()
    return cells


def put(options, code, size):
    """Seconds of a put of as many bytes."""
    folder = options.folder / "put"
    disks = Disks(folder, size * 2)
    try:
        nodes = [f"--node=d{at}/node" for at in range(NODES)]
        run(options.kiln, "-q", "pool", "create", "-c", code, *nodes, cwd=folder)
        with open(folder / "input", "wb") as file:
            for _ in range(size // MIB):
                file.write(os.urandom(MIB))
        start = time.monotonic()
        run(options.kiln, "-q", "put", "input", cwd=folder)
        return time.monotonic() - start
    finally:
        disks.end()


def median(cells, name, key):
    """The median of all rounds."""
    return statistics.median(cell[key] for cell in cells[name])


def headline(found, seconds):
    """The numbers that bars are about."""
    clay, rep = found["clay:6+3"], found["rep:3"]
    return {
        "write_bytes_per_byte_uniform": median(clay, "uniform", "written_per_byte"),
        "write_bytes_per_byte_zipf": median(clay, "zipf", "written_per_byte"),
        "read_bytes_per_byte_write": median(clay, "uniform", "read_per_byte"),
        "read_amplification_4k": median(clay, "read", "read_per_byte"),
        "first_write_over_overwrite":
            median(clay, "first", "mean_us") / median(clay, "uniform", "mean_us"),
        "q1_latency_over_rep": median(clay, "depth1", "mean_us") / median(rep, "depth1", "mean_us"),
        "iops_over_rep_uniform": median(clay, "uniform", "iops") / median(rep, "uniform", "iops"),
        "iops_over_rep_zipf": median(clay, "zipf", "iops") / median(rep, "zipf", "iops"),
        "sealed_over_clay": seconds / clay["sequential_seconds"],
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", metavar="FOLDER", type=Path)
    parser.add_argument("--kiln", metavar="PROGRAM", type=Path, required=True)
    parser.add_argument("--out", metavar="FOLDER", type=Path, required=True)
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    missing = [tool for tool in TOOLS if shutil.which(tool) is None]
    if missing or os.geteuid() != 0:
        raise Unable(f"it needs {', '.join(missing) or 'root'}")
    options.folder, options.kiln = options.folder.absolute(), options.kiln.absolute()
    shutil.rmtree(options.folder, ignore_errors=True)
    options.size = (512 if options.quick else 4096) * MIB
    options.short = (64 if options.quick else 512) * MIB
    options.seconds, rounds = (10, 2) if options.quick else (30, 5)
    before = about(options.kiln)
    found = {code: one(options, code, rounds) for code in ("clay:6+3", "rep:3")}
    seconds = put(options, "clay:6+3", options.size)
    numbers = headline(found, seconds)
    report = {"bench": "volume", "quick": options.quick, "machine": before,
              "end": about(options.kiln), "put_seconds": seconds, "cells": found,
              "headline": numbers}
    options.out.mkdir(parents=True, exist_ok=True)
    name = "volume-quick.json" if options.quick else "volume.json"
    (options.out / name).write_text(json.dumps(report, indent=1) + "\n")
    print(json.dumps({key: round(value, 3) for key, value in numbers.items()}))


if __name__ == "__main__":
    try:
        main()
    except Unable as why:
        print(f"bench-volume: {why}", file=sys.stderr)
        sys.exit(3)
