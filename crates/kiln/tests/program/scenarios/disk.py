"""Full and read-only disks. They need a mount: as root directly, else in a user namespace of the
test's own; where neither works the test says SKIPPED."""

import functools
import os
import subprocess
import sys

from rig import same, say, shard, test

# Set in the process that runs inside a namespace of its own.
INSIDE = "KILN_TEST_INSIDE_NAMESPACE"


def succeeds(*words):
    return subprocess.run(words, capture_output=True).returncode == 0


def mounted(test):
    """Runs a test where mounting works, with a function that mounts a tmpfs and gives another one,
    which unmounts it. What is left is unmounted at the end."""
    @functools.wraps(test)
    def run(rig):
        mounts = []

        def mount(name, options):
            path = rig / name
            path.mkdir(exist_ok=True)
            if not succeeds("mount", "-t", "tmpfs", "-o", options, "tmpfs", path):
                raise PermissionError
            mounts.append(path)
            return lambda: (mounts.remove(path), succeeds("umount", path))

        try:
            mount("probe", "size=1m")()
        except PermissionError:
            return inside(test)
        try:
            test(rig, mount)
        finally:
            for path in mounts:
                succeeds("umount", "--lazy", path)

    del run.__wrapped__
    return run


def inside(test):
    """Runs a test once more in a namespace of its own."""
    if INSIDE in os.environ or not succeeds("unshare", "-Urm", "true"):
        say(f"SKIPPED: {test.__name__} needs to mount a tmpfs, as root or with unshare -Urm")
        return
    words = ["unshare", "-Urm", sys.executable, sys.argv[0], test.__module__, test.__name__]
    subprocess.run(words, env={**os.environ, INSIDE: "1"}, check=True)


@test
@mounted
def full_disk(rig, mount):
    unmount, bytes_ = mount("small", "size=2m"), rig.data("object", 6 << 20)
    for flags in ("", "--sub-chunk 4KiB"):
        ended = rig.kiln(f"encode object -c rs:2+1 -o small/shards {flags}")
        ended.fails(4, "small/shards", "space")
        same(rig.names("small"), [], "nothing stays on a full disk")
    rig.kiln("encode object -c rs:2+1 -o ok1 -o small/shards -o ok2").fails(4, "space")
    assert not (rig / "ok1").exists() and not (rig / "ok2").exists(), "nor on the others"

    rig.kiln("encode object -c rs:2+1 -o shards -q").ok()
    before = rig.snapshot("shards")
    rig.kiln("decode shards -o small/back").fails(4, "space")
    rig.remove(shard(0))
    rig.kiln("repair shards --to small").fails(4, "space")
    same(rig.names("small"), [], "nothing stays on a full disk")
    assert rig.snapshot("shards") == before[1:]
    unmount()
    rig.kiln("repair shards").ok()
    assert rig.snapshot("shards") == before
    rig.decodes_to(bytes_)


@test
@mounted
def read_only_disk(rig, mount):
    mount("fixed", "size=20m")
    bytes_ = rig.data("object", 1 << 20)
    rig.kiln("encode object -c clay:4+2 -o fixed/shards -q").ok()
    rig.remove("fixed/shards/object.02.kiln")
    assert succeeds("mount", "-o", "remount,bind,ro", rig / "fixed")
    rig.kiln("encode object -c rs:2+1 -o fixed/new").fails(4, "fixed/new")
    for words in ("encode object -c rs:2+1 -o fixed", "decode fixed/shards -o fixed/back",
                  "repair fixed/shards"):
        rig.kiln(words).fails(4, "fixed")
    # Reading is still possible, and so is repair to another place.
    rig.kiln("verify fixed/shards").exits(1)
    rig.kiln("decode fixed/shards -o back -q").ok()
    assert rig.read("back") == bytes_
    rig.kiln("repair fixed/shards --to other").ok()
    rig.kiln("verify fixed/shards other --deep").ok()


@test
@mounted
def full_node_of_a_pool(rig, mount):
    mount("d01", "size=2m")
    rig.pool("rs:2+1", 3)
    old = rig.data("old", 1 << 20, 1)
    rig.kiln("put old object -q").ok()
    rig.data("new", 8 << 20, 2)
    rig.kiln("put new object --force").fails(5, "no room on n01")
    rig.kiln("get object -o back -q").ok()
    assert rig.read("back") == old, "the old version stays"
    rig.kiln("scrub --grace 0").ok()
    same(list(rig.folder.glob("d0?/*.part")), [], "nothing is left of the new one")


@test
@mounted
def a_node_that_became_read_only_is_passed_over(rig, mount):
    mount("d01", "size=40m")
    rig.pool("rs:2+1", 5)
    objects = {f"o{at}": rig.data(f"o{at}", size, at) for at, size in
               enumerate((300, 70_000, 1 << 20, 300_000, 900))}
    for name in objects:
        rig.kiln(f"put {name} -q").ok()
    mode = lambda how: succeeds("mount", "-o", f"remount,bind,{how}", rig / "d01")
    assert mode("ro")
    objects["o1"] = rig.data("o1", 80_000, 11)
    rig.kiln("put o1 --force -q").ok()
    for at in range(8):
        objects[f"n{at}"] = rig.data(f"n{at}", 100 + at % 2 * 70_000, 20 + at)
        rig.kiln(f"put n{at} -q").ok()
    rig.kiln("rm o3 -q").ok()
    del objects["o3"]
    assert any(line.startswith("n01") and "full" in line
               for line in rig.kiln("status").stdout.splitlines())
    # Files that it should lose stay there, and are seen.
    rig.kiln("scrub --grace 0").exits(1)
    rig.remove("d02")
    (rig / "d02").mkdir()
    rig.kiln("pool add-node n02 --replace").ok()
    rig.kiln("repair").ok()
    assert mode("rw")
    for _ in range(2):
        rig.kiln("scrub --grace 0 -q").ok()
    rig.remove("d03")
    for name, bytes_ in objects.items():
        rig.kiln(f"get {name} -o back --force -q").ok()
        assert rig.read("back") == bytes_, name
    rig.kiln("get o3 -o back --force -q").exits(7)
