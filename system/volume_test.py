#!/usr/bin/env python3
"""Volumes under the tools that people use them with: nbdinfo, nbdcopy, qemu-img, fio, and as a
file system (nbdfuse, a loop device, ext4, SQLite), killed and with nodes lost in between.

    volume_test.py FOLDER --kiln PROGRAM

FOLDER is made, and emptied before. Without the tools, or where nothing can be mounted, it says so
and ends with exit code 3.
"""

import argparse
import hashlib
import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

from lab.rig.tools import Unable, run

NODES = 9
LOST = 2
TOOLS = ("nbdinfo", "nbdcopy", "nbdfuse", "qemu-img", "fio", "losetup", "mkfs.ext4")
MIB = 1 << 20


def wait_for(what, is_there, seconds=60):
    """Waits until something is so."""
    end = time.monotonic() + seconds
    while not is_there():
        if time.monotonic() > end:
            raise SystemExit(f"volume_test: {what}: not within {seconds} s")
        time.sleep(0.05)


class Volume:
    """A pool of folders with a volume, and the program that serves it."""

    def __init__(self, folder, kiln, size):
        self.folder, self.program, self.server = folder, kiln, None
        self.socket = folder / "disk.sock"
        self.uri = f"nbd+unix:///disk?socket={self.socket}"
        nodes = [f"--node=d{at}" for at in range(NODES)]
        self.kiln("pool", "create", "-c", "clay:4+2", *nodes)
        self.kiln("volume", "create", "disk", size, "--segment", "4MiB")

    def kiln(self, *words):
        """Runs kiln in the pool's folder."""
        return run(self.program, "-q", *words, cwd=self.folder)

    def serve(self):
        """Starts the server and waits until it serves."""
        words = [str(self.program), "-q", "nbd", "disk", "--socket", str(self.socket)]
        self.server = subprocess.Popen(
            words, cwd=self.folder, stdout=subprocess.PIPE, text=True)
        line = self.server.stdout.readline()
        if not line.startswith("serving nbd+unix"):
            raise SystemExit(f"volume_test: the server says {line!r}")

    def end(self, how=signal.SIGTERM):
        """Ends the server by a signal."""
        self.server.send_signal(how)
        code = self.server.wait(120)
        if how == signal.SIGTERM and code != 0:
            raise SystemExit(f"volume_test: the server ended with {code}")

    def lose(self, *nodes):
        """Empties the disks of some nodes for good, takes new ones in, and repairs."""
        for node in nodes:
            shutil.rmtree(self.folder / f"d{node}")

    def replace(self, *nodes):
        """New disks in place of lost ones; everything is repaired."""
        for node in nodes:
            (self.folder / f"d{node}").mkdir()
            self.kiln("pool", "add-node", f"n{node:02}", "--replace")
        self.kiln("repair")


def images(volume):
    """An image goes in by nbdcopy and out by qemu-img."""
    image, back = volume.folder / "image", volume.folder / "back"
    numbers = random.Random(7)
    with open(image, "wb") as file:
        for at in range(24):
            file.seek(at * 4 * MIB)
            file.write(numbers.randbytes(MIB))
        file.truncate(96 * MIB)
    volume.serve()
    info = run("nbdinfo", volume.uri)
    for word in ("structured packets", "can_trim: true", "can_multi_conn: true"):
        if word not in info:
            raise SystemExit(f"volume_test: nbdinfo does not say {word!r}:\n{info}")
    run("nbdcopy", image, volume.uri)
    run("qemu-img", "convert", "-f", "raw", "-O", "raw", volume.uri, back)
    with open(image, "rb") as a, open(back, "rb") as b:
        if a.read() != b.read(96 * MIB):
            raise SystemExit("volume_test: what came back is not what went in")
    run("qemu-img", "compare", "-f", "raw", "-F", "raw", volume.uri, volume.uri)
    extents = run("nbdinfo", "--map", volume.uri).splitlines()
    if sum("hole,zero" in line for line in extents) < 20:
        raise SystemExit(f"volume_test: holes are not told: {extents}")
    volume.end()
    print("images: in by nbdcopy, out by qemu-img, holes as holes")


def verified(volume):
    """fio writes at random and reads all of it back, over a kill and with nodes lost."""
    job = ["fio", "--name=verify", "--ioengine=nbd", f"--uri={volume.uri}", "--size=48m",
           "--bssplit=4k/70:16k/20:1k/10", "--iodepth=16", "--verify=crc32c", "--randseed=5",
           "--norandommap=0", "--minimal"]
    volume.serve()
    run(*job, "--rw=randwrite", "--do_verify=0", cwd=volume.folder)
    volume.end(signal.SIGKILL)
    lost = random.sample(range(NODES), LOST)
    volume.lose(*lost)
    volume.serve()
    run(*job, "--rw=randread", "--verify_only", cwd=volume.folder)
    volume.end()
    volume.replace(*lost)
    print(f"fio: written, killed, {LOST} nodes lost, all verified")


class Mounted:
    """The volume as a file system."""

    def __init__(self, volume):
        self.volume, self.mount = volume, volume.folder / "mnt"
        self.fuse, self.loop, self.process = volume.folder / "fuse", None, None
        for folder in (self.mount, self.fuse):
            folder.mkdir(exist_ok=True)

    def up(self, make=False):
        """Mounts it."""
        file = self.fuse / "disk"
        # It complains by an assertion when its server is killed.
        self.process = subprocess.Popen(
            ["nbdfuse", str(file), self.volume.uri], stderr=subprocess.DEVNULL)
        wait_for("nbdfuse", file.exists)
        self.loop = run("losetup", "--find", "--show", file).strip()
        if make:
            run("mkfs.ext4", "-q", "-F", self.loop)
        run("mount", self.loop, self.mount)

    def down(self, checked=True):
        """Unmounts it, whatever has become of the server."""
        if self.process is None:
            return
        for words in (["umount", self.mount], ["losetup", "-d", self.loop]):
            ended = subprocess.run([str(word) for word in words], capture_output=True, check=False)
            if checked and ended.returncode != 0:
                raise SystemExit(f"volume_test: {words}: {ended.stderr.decode()}")
        subprocess.run(["umount", "-l", str(self.fuse)], capture_output=True, check=False)
        self.process.terminate()
        self.process.wait(30)
        self.process = None


def databases(volume):
    """SQLite on ext4 on the volume: what was committed is there after a kill of everything."""
    if not Path("/dev/fuse").exists() or os.geteuid() != 0:
        raise Unable("nothing can be mounted here (no /dev/fuse, or not root)")
    mounted = Mounted(volume)
    try:
        commit(volume, mounted)
    finally:
        mounted.down(checked=False)


def commit(volume, mounted):
    """Commits, kills, mounts again and looks, three times."""
    numbers, committed = random.Random(3), {}
    volume.serve()
    mounted.up(make=True)
    for turn in range(3):
        database = sqlite3.connect(mounted.mount / "data.db")
        # With less the end of its journal may be undone, and with it the last commit.
        database.execute("pragma synchronous = extra")
        database.execute("create table if not exists rows (key integer primary key, value blob)")
        for key in range(turn * 40, turn * 40 + 40):
            value = numbers.randbytes(numbers.randrange(1, 20_000))
            database.execute("insert into rows values (?, ?)", (key, value))
            database.commit()
            committed[key] = hashlib.sha256(value).digest()
        # Everything ends at once: the server, and what the kernel has not written.
        volume.end(signal.SIGKILL)
        lost = random.sample(range(NODES), LOST)
        volume.lose(*lost)
        try:
            database.close()
        except sqlite3.Error:
            pass
        mounted.down(checked=False)
        volume.serve()
        mounted.up()
        database = sqlite3.connect(mounted.mount / "data.db")
        state = database.execute("pragma integrity_check").fetchone()[0]
        if state != "ok":
            raise SystemExit(f"volume_test: the database is damaged: {state}")
        found = {key: hashlib.sha256(value).digest()
                 for key, value in database.execute("select key, value from rows")}
        for key, digest in committed.items():
            if found.get(key) != digest:
                raise SystemExit(f"volume_test: row {key} was committed and is not there")
        database.close()
        volume.replace(*lost)
    mounted.down()
    volume.end()
    print(f"SQLite: {len(committed)} commits, 3 kills, {LOST} nodes lost at each, all there")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", metavar="FOLDER", type=Path)
    parser.add_argument("--kiln", metavar="PROGRAM", type=Path, required=True)
    options = parser.parse_args()
    missing = [tool for tool in TOOLS if shutil.which(tool) is None]
    if missing:
        raise Unable(f"there is no {', '.join(missing)}")
    folder = options.folder.absolute()
    kiln = options.kiln.absolute()
    for part in (images, verified, databases):
        place = folder / part.__name__
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir(parents=True)
        volume = Volume(place, kiln, "256MiB")
        try:
            part(volume)
            report = volume.kiln("volume", "check", "disk")
            if "all as they were written" not in report:
                raise SystemExit(f"volume_test: {report}")
        finally:
            if volume.server is not None and volume.server.poll() is None:
                volume.server.kill()
                volume.server.wait()
        shutil.rmtree(place)


if __name__ == "__main__":
    try:
        main()
    except Unable as why:
        print(f"volumes: SKIPPED: {why}", file=sys.stderr)
        sys.exit(3)
