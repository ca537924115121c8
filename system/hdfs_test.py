"""A pool on a real HDFS: each of 14 places is one DataNode, one of which is killed.

    hdfs_test.py FOLDER --kiln PROGRAM --cache DIR [--battery PROGRAM]

With --battery the tests of crates/remote run over the same HDFS. Exit code 3: there can be none
here, which is said.
"""

import argparse
import json
import os
import random
import subprocess
import threading
import time
from pathlib import Path

from lab.rig.hdfs import Hdfs, program, run
from lab.rig.testbed import TestbedError

NODES = 14
LOST = 5
# Which DataNode HDFS empties by itself, and which place loses its shards.
MOVED, HOLE = 3, 7
# What objects of the pool have in bytes: copies, a small code, the pool's code, several stripes.
SIZES = (10, 3_000, 400_000, 9_000_000, 30_000_000)
LONGEST = 300  # seconds that one command may take


class Failed(Exception):
    """A command that ended with an error."""


class Rig:
    """kiln at the switch of an HDFS, in a folder of its own."""

    def __init__(self, hdfs, restart):
        self.hdfs, self.folder, self.restart = hdfs, hdfs.folder / "work", restart
        self.folder.mkdir()
        self.environment = dict(os.environ, HOME=str(self.folder), XDG_STATE_HOME=str(self.folder),
                                XDG_CACHE_HOME=str(self.folder))
        self.environment.pop("HADOOP_USER_NAME", None)

    def run(self, *words, code=0):
        """Runs a command that ends with this code; what it printed, or Failed."""
        line = ["ip", "netns", "exec", self.hdfs.switch, self.hdfs.kiln, *map(str, words)]
        ended = subprocess.run(line, cwd=self.folder, env=self.environment, capture_output=True,
                               text=True, check=False, timeout=LONGEST)
        if ended.returncode < 0 or "panicked" in ended.stderr:
            raise TestbedError(f"{words}: {ended.returncode}: {ended.stderr}")
        if ended.returncode != code:
            raise Failed(f"{words[0]}: {ended.returncode}: {ended.stderr.strip()[-600:]}")
        return ended.stdout

    def json(self, *words, code=0):
        """As run, with its report."""
        return json.loads(self.run(*words, "--json", code=code))

    def refused(self, why, *words):
        """A command that must fail with these words."""
        try:
            self.run(*words)
        except Failed as error:
            assert why in str(error), f"{why!r} is not in: {error}"
            return
        raise TestbedError(f"{words} succeeded")

    def write(self, name, size):
        """A file of random bytes; those."""
        data = random.Random(size).randbytes(size)
        (self.folder / name).write_bytes(data)
        return data

    def places(self, path, **more):
        """One place for each DataNode, made."""
        for host in range(NODES):
            self.hdfs.mkdir(f"{path}/d{host}")
        return [self.hdfs.place(host, f"{path}/d{host}", **more) for host in range(NODES)]

    def placed(self, path, hosts=range(NODES)):
        """Every file of the places is on its DataNode and nowhere else; how many there are."""
        count = 0
        for host in hosts:
            for name in self.hdfs.files(f"{path}/d{host}"):
                for block in self.hdfs.hosts_of(f"{path}/d{host}/{name}"):
                    assert block == [self.hdfs.ip(host)], (host, name, block)
                count += 1
        return count


def bad_input(rig):
    """What is wrong is said before anything is written."""
    hdfs = rig.hdfs
    rig.write("in.bin", 100_000)
    hdfs.mkdir("bad")
    good = hdfs.place(0, "bad")

    def encode(place):
        return ["encode", "in.bin", "--code", "rs:1+1", "-o", place, "-o", good]

    rig.refused("hdfs dfs -mkdir -p /nowhere", *encode(hdfs.place(0, "nowhere")))
    rig.refused("HADOOP_USER_NAME", *encode(hdfs.place(0, "bad", user="stranger")))
    rig.refused("the port of Hadoop's RPC",
                *encode(hdfs.place(0, "bad").replace(":9870/", ":8020/")))
    rig.refused("10.7.0.1:1", *encode(f"hdfs://{hdfs.namenode}/bad?datanode=10.7.0.1:1&timeout=1"))
    hdfs.admin("-safemode", "enter")
    rig.refused("safe mode", *encode(hdfs.place(1, "bad")))
    hdfs.admin("-safemode", "leave")
    assert not hdfs.files("bad"), hdfs.files("bad")


def files(rig):
    """A file in 14 places loses a shard; its repair reads what the code says."""
    places = rig.places("files")
    data = rig.write("in.bin", 30_000_000)
    rig.run("encode", "in.bin", "--code", "clay:10+4", *[w for at in places for w in ("-o", at)])
    assert rig.placed("files") == NODES
    assert rig.json("verify", *places)["clean"]
    rig.hdfs.webhdfs("DELETE", "files/d11/in.bin.11.kiln", "DELETE")
    report = rig.json("repair", *places)
    ratio = report["bytes_read"] / report["bytes_written"]
    print(f"files: {report['bytes_read']} bytes read: {ratio:.3f} per lost byte")
    assert report["lost"] == [11] and report["verified"] and ratio <= 3.4, report
    assert rig.placed("files") == NODES
    rig.run("decode", *places, "-o", "out.bin")
    assert (rig.folder / "out.bin").read_bytes() == data


def pool(rig):
    """A pool whose DataNode is killed stays readable, and becomes whole on another folder."""
    hdfs = rig.hdfs
    places = rig.places("pool", timeout=2)
    nodes = [f"--node={place},id=n{at}" for at, place in enumerate(places)]
    rig.run("pool", "create", "--code", "clay:10+4", *nodes)
    data = {}
    for size in SIZES:
        data[f"folder/{size}"] = rig.write("object", size)
        rig.run("put", "object", f"folder/{size}")
    before = rig.placed("pool")
    hdfs.kill_daemon(LOST)
    begin = time.monotonic()
    read(rig, data)
    hdfs.wait_until(lambda: hdfs.live() == NODES - 1, "the NameNode to see the loss")
    print(f"pool: {before} files, all where they belong; read without DataNode {LOST}, which the "
          f"NameNode gave up after {time.monotonic() - begin:.0f} s")
    read(rig, data)
    # An empty DataNode takes its place.
    run("rm", "-r", hdfs.daemon_folder(LOST) / "data")
    hdfs.start_daemon(LOST)
    hdfs.wait_until(lambda: hdfs.live() == NODES, "the DataNode to come back")
    hdfs.mkdir(f"fresh/d{LOST}")
    rig.run("pool", "add-node", f"n{LOST}", hdfs.place(LOST, f"fresh/d{LOST}", timeout=2),
            "--replace")
    report = rig.json("repair")
    print(f"pool: repaired: {json.dumps(report)[:200]}")
    scrub = rig.json("scrub")
    assert scrub["clean"], scrub
    rig.placed("pool", [host for host in range(NODES) if host != LOST])
    assert rig.placed("fresh", [LOST]) > 0
    read(rig, data)
    moved(rig, data)
    if rig.restart:
        restarted(rig, data)
    rig.run("rm", f"folder/{SIZES[0]}")
    assert f"folder/{SIZES[0]}\n" not in rig.run("ls")


def moved(rig, data):
    """What HDFS moves by itself is read, told of, and brought back."""
    hdfs, begin = rig.hdfs, time.monotonic()
    # All that it has is copied to others; then it comes back with nothing.
    hdfs.exclude([MOVED])
    hdfs.wait_until(lambda: hdfs.state().get("NumDecomLiveDataNodes") == 1,
                    "a DataNode to be taken out of service")
    hdfs.kill_daemon(MOVED)
    run("rm", "-r", hdfs.daemon_folder(MOVED) / "data")
    # Before it is in service again, or HDFS would count what it had and remove the copies.
    killed = time.monotonic() + 1
    hdfs.start_daemon(MOVED)
    hdfs.wait_until(lambda: hdfs.hears_of(MOVED, killed), "the DataNode to come back")
    hdfs.exclude([])
    hdfs.wait_until(lambda: not hdfs.state()["NumDecomLiveDataNodes"], "it to be in service")

    def away():
        kept = [name for name in hdfs.files(f"pool/d{MOVED}") if name != ".kiln-changes"]
        return [name for name in kept if [hdfs.ip(MOVED)] not in
                hdfs.hosts_of(f"pool/d{MOVED}/{name}")]

    there = len(away())
    assert there > len(data), there
    read(rig, data)
    status = rig.json("status")
    assert status["whole"] == status["objects"], status
    dry = rig.json("scrub", "--dry-run", code=1)
    assert dry["astray"] == there and dry["damaged"] == 0 and len(away()) == there, dry
    scrub = rig.json("scrub")
    assert scrub["clean"] and scrub["brought_back"] == there and not away(), scrub
    read(rig, data)
    print(f"moved: HDFS moved {there} files of a place, a scrub brought them back; "
          f"{time.monotonic() - begin:.0f} s")


def told(hdfs, *words):
    """Whether the NameNode could be told so: it answers HTTP before it takes orders."""
    try:
        hdfs.admin(*words)
    except TestbedError:
        return False
    return True


def together(*calls):
    """Carries these out at the same time."""
    threads = [threading.Thread(target=call) for call in calls]
    for each in threads:
        each.start()
    return threads


def restarted(rig, data):
    """The NameNode is killed and comes back, first in safe mode, during puts and a repair."""
    hdfs, begin = rig.hdfs, time.monotonic()
    for name in hdfs.files(f"pool/d{HOLE}"):
        if name.endswith(".kiln"):
            hdfs.webhdfs("DELETE", f"pool/d{HOLE}/{name}", "DELETE")
    fresh = {f"late/{at}": rig.write(f"late{at}", 2_000_000 + at) for at in range(3)}
    acknowledged, said, one = {}, [], threading.Event()

    def attempt(*words):
        try:
            rig.run(*words)
            return True
        except Failed as error:
            said.append(str(error))
            return False

    def put(name):
        if attempt("put", name.replace("/", ""), name):
            acknowledged[name] = fresh[name]
            one.set()
        return name in acknowledged

    work = together(lambda: all(put(name) for name in fresh), lambda: attempt("repair"))
    # In the middle of the second put.
    assert one.wait(LONGEST)
    time.sleep(0.3)
    hdfs.kill_daemon(hdfs.datanodes)
    hdfs.start_daemon(hdfs.datanodes)
    hdfs.wait_until(lambda: told(hdfs, "-safemode", "enter"), "the NameNode to start")
    hdfs.wait_until(lambda: hdfs.live() == NODES, "all DataNodes to report")
    for each in work:
        each.join()
    read(rig, {f"folder/{SIZES[1]}": data[f"folder/{SIZES[1]}"]} | acknowledged)
    rig.refused("safe mode", "put", "late0", "late/safe")
    hdfs.admin("-safemode", "leave")
    clear = ("safe mode", "starting again", "refused", "onnection", "pipe", "unavailable")
    assert all(any(words in each for words in clear) for each in said), said
    before, failed = len(acknowledged), len(said)
    # What was not done is done now, once locks are surely nobody's, and nothing that was is lost.
    again = [name for name in fresh if name not in acknowledged]
    late = [lambda name=name: put(name) for name in again]
    for each in together(lambda: attempt("repair"), *late):
        each.join()
    assert len(said) == failed and len(acknowledged) == len(fresh), said[failed:]
    scrub = rig.json("scrub")
    assert scrub["damaged"] + scrub["unreadable"] == 0 and not scrub["away"], scrub
    read(rig, data | fresh)
    print(f"restarted: {before} of {len(fresh)} puts were acknowledged while the NameNode went "
          f"away, {failed} commands said why not; {time.monotonic() - begin:.0f} s")


def read(rig, data):
    """Every object has its bytes."""
    for name, expected in data.items():
        rig.run("get", name, "-o", "out", "--force")
        assert (rig.folder / "out").read_bytes() == expected, name


def direct(rig):
    """An agent beside a DataNode reads its block files, and what is not there through HDFS."""
    hdfs = rig.hdfs
    hdfs.mkdir("direct")
    rig.write("in.bin", 3_000_000)
    local = hdfs.place(0, "direct", blocks=hdfs.daemon_folder(0) / "data")
    other = hdfs.place(1, "other")
    hdfs.mkdir("other")
    rig.run("encode", "in.bin", "--code", "rs:1+1", "-o", local, "-o", other)
    sent = hdfs.at_switch()[0][0]
    rig.run("verify", local, other)
    sent = hdfs.at_switch()[0][0] - sent
    assert sent < 100_000, f"DataNode 0 sent {sent} bytes"
    through = hdfs.at_switch()[0][0]
    rig.run("verify", hdfs.place(0, "direct"), other)
    through = hdfs.at_switch()[0][0] - through
    assert through > 3_000_000, through
    print(f"direct: {sent} bytes over the link instead of {through}")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder")
    parser.add_argument("--kiln", required=True, type=Path)
    parser.add_argument("--cache", required=True)
    parser.add_argument("--battery", help="the HDFS tests of crates/remote, built")
    parser.add_argument("--restart", action="store_true",
                        help="with a NameNode that is killed; needs idle cores")
    options = parser.parse_args()
    hdfs = Hdfs(options.folder)
    hdfs.down()
    hdfs = Hdfs(options.folder, options.cache)
    try:
        hdfs.make_hdfs(NODES, "1gbit", options.kiln)
        rig = Rig(hdfs, options.restart)
        for part in [bad_input, files, direct, pool]:
            begin = time.monotonic()
            part(rig)
            print(f"{part.__name__}: {time.monotonic() - begin:.0f} s", flush=True)
        if options.battery:
            where = f"{hdfs.namenode} {hdfs.ip(0)}:9864"
            done = subprocess.run(
                ["ip", "netns", "exec", hdfs.switch, options.battery, "--test-threads", "4"],
                env=dict(os.environ, KILN_HDFS=where), check=False, timeout=LONGEST)
            if done.returncode != 0:
                raise TestbedError("the HDFS tests of crates/remote fail over it")
    finally:
        hdfs.down()
    print("hdfs: all is well")


if __name__ == "__main__":
    program(main, "hdfs", unable="== hdfs: SKIPPED")
