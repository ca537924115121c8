"""Parity beside files: kills at any moment, files that change meanwhile, full disks."""

import os
import shutil
import signal
import time

from disk import mounted
from rig import data, same, seeded, test

ROUNDS = int(os.environ.get("KILN_HAVOC_ROUNDS", 60)) // 5


def tree(rig, folder="root"):
    """All files but the protection's own."""
    found = {str(path.relative_to(rig / folder)): path.read_bytes()
             for path in (rig / folder).rglob("*") if path.is_file()}
    return {name: text for name, text in found.items() if not name.startswith(".kiln-protect")}


def filled(rig, count=40, size=60_000):
    (rig / "root").mkdir()
    for at in range(count):
        (rig / "root" / f"f{at:02}").write_bytes(data(size + at * 500, at))


def rot(path, at, to=None):
    """Changes bytes as a bad disk does: the time stays."""
    times, bytes_ = path.stat(), path.read_bytes()
    to = at + 5000 if to is None else to
    damaged = bytes(byte ^ 255 for byte in bytes_[at:to])
    path.write_bytes(bytes_[:at] + damaged + bytes_[at + len(damaged):])
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))


def killed(rig, words, random, longest):
    """Starts the program and ends it at some moment."""
    child = rig.start(words)
    time.sleep(random.random() * longest)
    child.send_signal(random.choice([signal.SIGKILL, signal.SIGINT]))
    child.communicate()


def timed(rig, words):
    begun = time.monotonic()
    rig.kiln(words).ok()
    return time.monotonic() - begun


@test
def a_kill_leaves_the_old_or_the_new_parity_and_files_old_or_restored(rig):
    random, _ = seeded("protect")
    filled(rig)
    longest = timed(rig, "protect root -q")
    for turn in range(ROUNDS):
        for at in random.sample(range(40), 5):
            changed = data(random.randrange(100_000), turn * 40 + at)
            (rig / "root" / f"f{at:02}").write_bytes(changed)
        killed(rig, "protect root -q", random, longest)
        found = rig.kiln("protect root --verify --json").json()
        same((found["parity_lost"], found["index_lost"], found.get("lost"), found.get("damaged")),
             (0, 0, None, None), turn)
        rig.kiln("protect root -q").ok()
        before = tree(rig)
        some = random.sample(sorted(name for name in before if before[name]), 3)
        (rig / "root" / some[0]).unlink()
        for name in some[1:]:
            rot(rig / "root" / name, random.randrange(len(before[name])))
        damaged = tree(rig)
        killed(rig, "protect root --repair -q", random, longest)
        for name, text in tree(rig).items():
            if not name.endswith(".kiln-part"):
                assert text in (before[name], damaged.get(name)), name
        done = rig.kiln("protect root --repair --json")
        # Three damages in one set may be too many for it; they are named then.
        now, lost = tree(rig), done.json().get("lost", [])
        for name in before:
            same(now.get(name), damaged.get(name) if name in lost else before[name], name)
        same(sorted(set(now) - set(before)), [], "a part is left")
        for name in lost:
            (rig / "root" / name).write_bytes(before[name])
        rig.kiln("protect root -q").ok()
        rig.kiln("protect root --verify -q").ok()


@test
def damage_in_a_row_that_is_promised_to_be_survived_comes_back(rig):
    random, _ = seeded("protect")
    for flags in ("", "--parity 20 --losses 2", "--parity 25"):
        filled(rig, 44, random.choice([900, 9000, 60_000]))
        (rig / "root" / "large").write_bytes(data(1_500_000))
        survives = rig.kiln(f"protect root --json {flags}").json()["survives"]
        before, row = tree(rig), survives["bytes_in_a_row"]
        assert row > 1000, survives
        for _ in range(3):
            begin, at = random.randrange(sum(map(len, before.values())) - row), 0
            for name in sorted(before):
                end = at + len(before[name])
                low, high = min(max(begin, at), end), min(max(begin + row, at), end)
                if low < high:
                    rot(rig / "root" / name, low - at, high - at)
                at = end
            rig.kiln("protect root --repair -q").ok()
            assert tree(rig) == before, f"{flags}: {begin}"
            rig.kiln("protect root --verify -q").ok()
        for name in random.sample(sorted(before), survives["files"]):
            (rig / "root" / name).unlink()
        if survives["too_large"] == 0:
            rig.kiln("protect root --repair -q").ok()
            assert tree(rig) == before, flags
        shutil.rmtree(rig / "root")


@test
def files_that_change_meanwhile_are_read_again_or_named(rig):
    filled(rig, 100, 40_000)
    rig.kiln("protect root -q").ok()
    child = rig.start("protect root --json --limit-rate 4MiB")
    for at in range(100):
        (rig / "root" / f"f{at:02}").write_bytes(data(60_000, at))
    turn = 0
    while child.poll() is None:
        (rig / "root" / "f50").write_bytes(data(60_000 + turn, turn))
        turn += 1
    child.communicate()
    rig.kiln("protect root -q").ok()
    before = tree(rig)
    (rig / "root" / "f50").unlink()
    rig.kiln("protect root --repair -q").ok()
    assert tree(rig) == before


@test
@mounted
def a_full_disk_leaves_the_parity_in_force(rig, mount):
    mount("small", "size=4m")
    filled(rig)
    shutil.copytree(rig / "root", rig / "small/root")
    shutil.rmtree(rig / "root")
    rig.kiln("protect small/root -q").ok()
    for at in range(40):
        (rig / "small/root" / f"f{at:02}").write_bytes(data(60_000 + at * 500, at + 100))
    rest = os.statvfs(rig / "small")
    (rig / "small/fill").write_bytes(bytes(rest.f_bfree * rest.f_frsize - 16384))
    rig.kiln("protect small/root").fails(4, "space")
    found = rig.kiln("protect small/root --verify --json").json()
    same((found["parity_lost"], found["index_lost"], len(found["changed"])), (0, 0, 40))
    (rig / "small/fill").unlink()
    rig.kiln("protect small/root -q").ok()
    (rig / "small" / "root" / "f07").unlink()
    rig.kiln("protect small/root --repair -q").ok()
    same((rig / "small" / "root" / "f07").read_bytes(), data(63_500, 107))
