"""Random trees into a pool and out of it, against a model: after `sync --delete` both sides are the
same, a dry run says what the run does, and nothing else changes."""

import hashlib
import itertools
import os
import random as generators
import shutil
import stat
import time

from rig import Rig, data, same, seeded, test

# Time that the test takes, where the environment gives no seed and no number of them.
SECONDS = 16
ROUNDS = 3

NAMES = [b"a", b"b", b"c", b"d", b"a b", b"-rf", b"--delete", b"new\nline", b"tab\t\x01",
         b"caf\xe9", b"\xff\xfe", "\uef80".encode(), "\u00fcber".encode(), b".hidden", b"x.part",
         b"back\\slash", b"'\"$*", b"pool:x", b"...", b"n" * 200]
TARGETS = [b"a", b"../a", b"/nowhere/\xff", b".", b"x/../y/"]


def attribute(path):
    """An extended attribute of users, where the file system has them."""
    try:
        return os.getxattr(path, "user.model", follow_symlinks=False)
    except OSError:
        return None


def state(root):
    """All that is to be kept of a tree: by path its kind, mode, time, bytes, owner and so on."""
    found, names = {}, {}
    for path in root.rglob("*"):
        name, meta = str(path.relative_to(root)), path.lstat()
        kept = [meta.st_uid, meta.st_gid]
        if path.is_symlink():
            kept += ["link to", os.readlink(path)]
        else:
            kept += [oct(meta.st_mode), meta.st_mtime_ns, attribute(path)]
            if path.is_file():
                names.setdefault(meta.st_ino, []).append(name)
                kept.append(hashlib.sha256(path.read_bytes()).hexdigest())
        found[name] = kept
    for linked in names.values():
        for name in linked if len(linked) > 1 else ():
            found[name].append(min(linked))
    return found


def remove(path):
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


class Tree:
    """A tree that changes at random."""

    def __init__(self, root, random, clock, pipes):
        # Every change gets a time of its own.
        self.root, self.random, self.clock = root, random, clock
        self.kinds = [self.file] * 4 + [
            self.sparse, self.folder, self.folder, self.link, self.hard_link, self.remove,
            self.rename, self.attributes, self.mode, lambda: self.set_time(self.any())]
        # Pipes are not copied.
        self.kinds += [lambda: os.mkfifo(self.free(), 0o600)] if pipes else []

    def change(self):
        self.random.choice(self.kinds)()

    def any(self, folders=False):
        """One of all entries, or None; of folders with the root itself."""
        found = sorted(self.root.rglob("*"))
        if folders:
            found = [self.root, *(path for path in found
                                  if path.is_dir() and not path.is_symlink())]
        return self.random.choice(found) if found else None

    def free(self):
        """A name in some folder, of which nothing has it any more."""
        at = self.random.randrange(2 * len(NAMES))
        name = NAMES[at] if at < len(NAMES) else NAMES[at % 4]
        path = self.any(folders=True) / os.fsdecode(name)
        remove(path)
        return path

    def set_time(self, path):
        if path and not path.is_symlink() and (path.is_file() or path.is_dir()):
            self.clock += 1
            seconds = 1_500_000_000 - self.random.randrange(3_000_000_000)
            time_ns = seconds * 10**9 + self.clock * 7919
            os.utime(path, ns=(time_ns, time_ns))

    def file(self):
        path, about = self.free(), self.random.randrange(12)
        size = [0, 300_000 + self.random.randrange(300_000)][about] if about < 2 else \
            1 + self.random.randrange(5_000)
        self.clock += 1
        path.write_bytes(data(size, self.clock))
        self.set_time(path)
        path.chmod(self.random.choice([0o644, 0o600, 0o755, 0o444, 0o666]))

    def sparse(self):
        path = self.free()
        with open(path, "wb") as file:
            file.truncate(200_000 + self.random.randrange(100_000))
            file.seek(100_000)
            file.write(b"in the middle")
        self.set_time(path)

    def folder(self):
        self.free().mkdir()

    def link(self):
        os.symlink(os.fsdecode(self.random.choice(TARGETS)), self.free())

    def hard_link(self):
        of, to = self.any(), self.free()
        # The free name may have been its own.
        if of and stat.S_ISREG(of.lstat().st_mode if os.path.lexists(of) else 0):
            to.hardlink_to(of)

    def remove(self):
        path = self.any()
        if path:
            remove(path)

    def rename(self):
        of, to = self.any(), self.free()
        if of and os.path.lexists(of) and of not in (to, *to.parents):
            of.rename(to)

    def attributes(self):
        """Owners, where root may, and extended attributes."""
        path = self.any()
        if path and os.geteuid() == 0 and self.random.randrange(2) == 0:
            owner = 1000 + self.random.randrange(3)
            os.lchown(path, owner, owner + 1)
        elif path and not path.is_symlink():
            try:
                os.setxattr(path, "user.model", self.random.randbytes(8))
            except OSError:
                pass

    def mode(self):
        path, mode = self.any(), self.random.choice([0o640, 0o755, 0o700, 0o711, 0o1777])
        if path and not path.is_symlink():
            path.chmod(mode | 0o700 if path.is_dir() else mode & 0o777)


class Scene:
    """A rig with a pool, and the command that is under way."""

    def __init__(self, rig):
        self.rig, self.about = rig, ""

    def report(self, *words):
        ended = self.rig.kiln("", *words, "--json")
        about = f"{self.about}: {words}: {ended.stderr}"
        same(ended.code, 0, about + ended.stdout)
        assert "left out" not in ended.stderr, about
        return ended.json()

    def sync(self, of, to, held):
        """Syncs dry, for real, and once more; `held` gives all that a dry run must not change."""
        def steps(report):
            return sorted(step.replace("would ", "", 1) for step in report.get("steps", []))

        before, words = held(), ["sync", of, to, "--delete", "--max-delete", "1000"]
        dry = self.report(*words, "--dry-run")
        assert held() == before, f"{self.about}: a dry run changed something"
        run, again = self.report(*words), self.report(*words)
        for field in ("copied", "bytes", "removed", "skipped"):
            same(dry.get(field), run.get(field), f"{self.about}: {field} of {of}: {dry} {run}")
        same(steps(dry), steps(run), f"{self.about}: {of} to {to}")
        same((again["copied"], steps(again)), (0, []), f"{self.about}: {of} again")

    def alike(self, source, other, what):
        source, other = state(source), state(other)
        for name in {*source, *other}:
            same(other.get(name), source.get(name), f"{self.about}: {name!r} {what}")


def try_seed(rig, seed):
    random, scene = generators.Random(seed), Scene(rig)
    nodes = " ".join(f"--node n{node}" for node in range(4))
    rig.kiln(f"pool create pool.toml -c rs:2+2 {nodes} -q").ok()
    prefix = random.choice(["p", "p/q r", ""])
    others = ["other/keep", "pp", "p.x"] if prefix else []
    rig.data("keep", 5_000, seed)
    for name in others:
        rig.kiln(f"put keep {name} -q").ok()
    for folder in ("in", "out", "beside"):
        (rig / folder).mkdir()
    (rig / "beside/theirs").write_text("precious")
    source, out, to = rig / "in", rig / "out", f"pool:{prefix}"
    clocks = itertools.count(0, 10_000)
    for turn in range(ROUNDS):
        scene.about = f"KILN_SEED={seed}, round {turn}"
        for root, changes in [(source, 14), (out, 6 if turn else 0)]:
            tree = Tree(root, random, next(clocks), pipes=root == out)
            for _ in range(changes):
                tree.change()
        source.chmod(random.choice([0o700, 0o755, 0o750]))
        was = state(source)
        scene.sync("in", to, lambda: rig.kiln("ls --json").ok().stdout)
        same(state(source), was, f"{scene.about}: the source changed")
        if was:
            fresh = rig / f"fresh{turn}"
            scene.report("cp", to, fresh.name)
            scene.alike(source, fresh, "after cp")
            modes = source.stat().st_mode, fresh.stat().st_mode
            assert not prefix or modes[0] == modes[1], f"{scene.about}: mode of the folder itself"
            scene.sync(to, "out", lambda: state(out))
            scene.alike(source, out, "after sync out")
        same(rig.read("beside/theirs"), b"precious")
        listed = rig.kiln("ls --json").ok().stdout
        assert all(f'"{name}"' in listed for name in others), listed


@test
def both_sides_are_the_same_after_a_sync(rig):
    _, first = seeded("transfer_model")
    seeds = os.environ.get("KILN_MODEL_SEEDS", "1" if "KILN_SEED" in os.environ else None)
    end = time.monotonic() + SECONDS
    for seed in itertools.count(first):
        if seed - first >= int(seeds) if seeds else time.monotonic() > end:
            break
        with Rig() as rig:
            try_seed(rig, seed)
