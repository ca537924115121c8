"""Requests of commands to places that are far away, counted at a small server of HDFS, and what
they do when it moves files."""

import subprocess
import sys
from collections import Counter
from pathlib import Path

from rig import same, test

sys.path.append(str(Path(__file__).parents[4] / "remote/tests/hdfs"))
from fake import Fake  # noqa: E402 (of another crate's tests)


def places():
    """Six folders in one HDFS, each of a DataNode."""
    hdfs = Fake()
    for at in range(6):
        hdfs.mkdir(f"/d{at}")
    return hdfs, [f"hdfs://{hdfs.authority}/d{at}?datanode={hdfs.authority}&user=kiln"
                  for at in range(6)]


def create(rig, nodes):
    """A pool of these places."""
    nodes = " ".join(f"--node {place},id=n{at}" for at, place in enumerate(nodes))
    rig.kiln(f"pool create -c rs:4+2 {nodes}").ok()


def served(rig, place):
    """The address of an agent of a place."""
    words = f"agent --dir {place} --listen 127.0.0.1:0 --plain"
    agent = rig.start(words, stderr=subprocess.DEVNULL)
    line = agent.stdout.readline().decode()
    return next(word for word in line.split() if word.startswith("kiln"))


@test
def a_put_asks_few_times(rig):
    """A put looks at its name and at what is above it once before its data is written, and once
    under its locks, which is what keeps it safe. The numbers may become smaller."""
    hdfs, nodes = places()
    create(rig, nodes)
    hdfs.taken()
    bytes_ = rig.data("data", 3_000_000)
    for put, code, most in [
            ("put data a", 0, 156),
            ("put data b", 0, 157),
            ("put data b --force", 0, 165),
            # Two folders' own objects are looked for, and one is made.
            ("put data folder/one", 0, 255),
            ("put data folder/two", 0, 184),
            # Existing objects are refused before anything is written.
            ("put data folder/two", 5, 76)]:
        rig.kiln(put).exits(code)
        log, _ = hdfs.taken()
        counts = Counter(line.split()[1] for line in log)
        assert len(log) <= most, f"{put}: {len(log)} requests, {counts}"
        same("CREATE" in counts, code == 0, put)
    for name in ["a", "b", "folder/one", "folder/two"]:
        rig.kiln(f"get {name} -o back --force -q").ok()
        assert rig.read("back") == bytes_, name
    # The logs of changes have one block each, however many changes there were.
    parts = {hdfs.parts_of(f"/d{at}/.kiln-changes") for at in range(6)}
    assert max(parts) == 1, parts


@test
def a_scrub_brings_back_what_hdfs_moved(rig):
    """A block that HDFS moved to another DataNode is read; a scrub says so, and brings it back."""
    hdfs, nodes = places()
    create(rig, nodes)
    is_brought_back(rig, hdfs)


@test
def agents_bring_back_what_hdfs_moved(rig):
    """So do agents that serve such folders: each copies what belongs to its DataNode."""
    hdfs, nodes = places()
    create(rig, [served(rig, place) for place in nodes])
    is_brought_back(rig, hdfs)


def is_brought_back(rig, hdfs):
    bytes_ = rig.data("data", 3_000_000)
    rig.kiln("put data a").ok()
    moved = hdfs.moved("/d1", ".kiln")
    assert moved > 0
    rig.kiln("get a -o back -q").ok()
    assert rig.read("back") == bytes_
    dry = rig.kiln("scrub --dry-run --json").exits(1).json()
    same((dry["astray"], dry["damaged"]), (moved, 0), dry)
    same(hdfs.moved("/d1"), moved)
    said = rig.kiln("scrub").ok().stdout
    assert f"{moved} file" in said and "brought back" in said, said
    same(hdfs.moved("/d1"), 0)
    assert rig.kiln("scrub --json").ok().json().get("astray") is None
    rig.kiln("get a -o back --force -q").ok()
    assert rig.read("back") == bytes_
