#!/usr/bin/env python3
"""A mounted pool under the tools and calls that people use files with: trees copied in and out,
reads at random, nodes lost, kills, full disks, other clients, signals; and a table of POSIX.

    mount_test.py FOLDER --kiln PROGRAM [--only WORD]

FOLDER is made, and emptied before. Where nothing can be mounted it says so and ends with exit
code 3.
"""

import argparse
import contextlib
import errno
import mmap
import os
import random
import shutil
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path

from lab.rig.tools import Failed, Unable, run

NODES, LOST = 7, 2
MIB = 1 << 20


def check(holds, words):
    """A test that fails says what it is about."""
    if not holds:
        raise Failed(words)


def wait_for(what, is_so, seconds=60):
    """Waits until something is so."""
    end = time.monotonic() + seconds
    while not is_so():
        check(time.monotonic() < end, f"{what}: not within {seconds} s")
        time.sleep(0.05)


def fails(code, call, *words, **options):
    """A call fails with this number."""
    try:
        call(*words, **options)
    except OSError as error:
        check(error.errno == code, f"{call.__name__}{words}: {error}, not {errno.errorcode[code]}")
    else:
        raise Failed(f"{call.__name__}{words}: no {errno.errorcode[code]}")


class Mounted:
    """A pool of folders, and the process that shows it."""

    def __init__(self, folder, kiln, code="rs:4+2"):
        self.folder, self.program, self.server = folder, kiln, None
        self.at = folder / "mounted"
        self.parts = folder / "parts"
        for path in [self.at, self.parts, *(folder / f"d{at}" for at in range(NODES))]:
            path.mkdir(parents=True)
        self.kiln("pool", "create", "-c", code, *(f"--node=d{at}" for at in range(NODES)))

    def kiln(self, *words):
        """Runs kiln beside the pool."""
        return run(self.program, "-q", *words, cwd=self.folder)

    def mount(self, *words):
        """Shows the pool."""
        command = [self.program, "mount", self.at, "--parts", self.parts, *words]
        self.server = subprocess.Popen([str(word) for word in command], cwd=self.folder,
                                       stdout=subprocess.PIPE, text=True)
        line = self.server.stdout.readline()
        check(line.startswith("mounted at"), f"the mount says {line!r}")

    def unmount(self):
        """Ends it as people do."""
        run("fusermount", "-u", self.at)
        check(self.server.wait(120) == 0, f"the mount ended with {self.server.returncode}")

    def again(self, *words):
        """Nothing is remembered."""
        self.unmount()
        self.mount(*words)

    def kill(self):
        """Ends it at once."""
        self.server.kill()
        self.server.wait()
        run("fusermount", "-u", "-z", self.at)

    def end(self):
        """Whatever is left is ended."""
        if self.server is not None and self.server.poll() is None:
            self.server.kill()
            self.server.wait()
        subprocess.run(["fusermount", "-u", "-z", self.at], check=False, capture_output=True)

    @contextlib.contextmanager
    def away(self, nodes):
        """Nodes that are away for a time."""
        for at in nodes:
            (self.folder / f"d{at}").rename(self.folder / f"away{at}")
        try:
            yield
        finally:
            for at in nodes:
                (self.folder / f"away{at}").rename(self.folder / f"d{at}")


def seen(path):
    """What a tree is: kinds, modes, times, sizes, targets and attributes by name."""
    found = {}
    path = os.fsencode(path)
    for folder, folders, files in os.walk(path):
        for name in folders + files:
            full = os.path.join(folder, name)
            about = os.lstat(full)
            row = [stat.S_IFMT(about.st_mode)]
            if stat.S_ISLNK(about.st_mode):
                row.append(os.readlink(full))
            else:
                row += [about.st_mode, about.st_mtime_ns, about.st_uid]
                row.append(sorted((one, os.getxattr(full, one)) for one in os.listxattr(full)
                                  if one.startswith("user.")))
            if stat.S_ISREG(about.st_mode):
                with open(full, "rb") as file:
                    row += [about.st_size, hash(file.read())]
            found[os.path.relpath(full, path)] = row
    return found


def same(one, other, words):
    """Two trees are the same."""
    one, other = seen(one), seen(other)
    for name in sorted(one.keys() | other.keys()):
        check(one.get(name) == other.get(name),
              f"{words}: {name}: {one.get(name)} and {other.get(name)}")


def tree(path, seed):
    """Files of all sizes and names, links, folders."""
    chance = random.Random(seed)
    names = [b"plain", b"two words", b"-dash", "größe".encode(), b"raw\xff\xfe", b"new\nline",
             b"x" * 255, b"star*", b".hidden", b"a0", b"a.b"]
    path = os.fsencode(path)
    os.mkdir(path)
    folders = [path]
    for name in (b"f", b"f!", b"f0", b"deep \xe9"):
        folder = os.path.join(chance.choice(folders), name)
        if not os.path.exists(folder):
            os.mkdir(folder)
            folders.append(folder)
    os.mkdir(os.path.join(path, b"empty"))
    for folder in folders:
        for name in chance.sample(names, 5):
            full = os.path.join(folder, name)
            size = chance.choice([0, 1, 5000, 70_000, 1_200_000])
            with open(full, "wb") as file:
                file.write(chance.randbytes(size))
            os.chmod(full, chance.choice([0o600, 0o644, 0o755, 0o440]))
            with contextlib.suppress(OSError):
                os.setxattr(full, "user.note", name)
            os.utime(full, ns=(0, chance.randrange(10**18)))
        os.symlink(b"no\xffwhere/" + name, os.path.join(folder, b"link"))
    for folder in reversed(folders):
        os.chmod(folder, chance.choice([0o700, 0o755]))
        os.utime(folder, ns=(0, chance.randrange(10**18)))


def copies(pool):
    """A tree goes in and out."""
    tree(pool.folder / "tree", 1)
    pool.mount()
    run("cp", "-a", pool.folder / "tree", pool.at / "in")
    same(pool.folder / "tree", pool.at / "in", "just copied in")
    pool.again()
    same(pool.folder / "tree", pool.at / "in", "mounted again")
    run("cp", "-a", pool.at / "in", pool.folder / "out")
    same(pool.folder / "tree", pool.folder / "out", "copied out by cp")
    pool.kiln("cp", "pool:in", "got")
    same(pool.folder / "tree", pool.folder / "got", "copied out by kiln")
    pool.kiln("cp", "tree", "pool:by/kiln")
    wait_for("what kiln copied", lambda: (pool.at / "by/kiln/empty").is_dir())
    same(pool.folder / "tree", pool.at / "by/kiln", "copied in by kiln")
    os.rename(pool.at / "by/kiln", pool.at / "moved")
    same(pool.folder / "tree", pool.at / "moved", "renamed")
    pool.again()
    same(pool.folder / "tree", pool.at / "moved", "renamed, and mounted again")
    shutil.rmtree(os.fsencode(pool.at / "moved"))
    check(sorted(os.listdir(pool.at)) == ["by", "in"], f"after rm: {os.listdir(pool.at)}")
    pool.unmount()
    left = pool.kiln("ls", "moved")
    check(left == "", f"left after rm -r: {left}")


def at_random(pool, plain, path, chance):
    """Reads at random places, as a plain file has them."""
    with open(path, "rb") as file, open(plain, "rb") as copy:
        size = os.fstat(copy.fileno()).st_size
        check(os.fstat(file.fileno()).st_size == size, "another size")
        for _ in range(60):
            at, count = chance.randrange(size + 5000), chance.choice([1, 4096, 70_000, 2_000_000])
            got, want = (os.pread(one.fileno(), count, at) for one in (file, copy))
            check(got == want, f"{count} bytes at {at}")
        with mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as mapped:
            for _ in range(20):
                at = chance.randrange(size)
                check(mapped[at:at + 999] == os.pread(copy.fileno(), 999, at), f"mapped at {at}")


def reads(pool):
    """Reads at random, also while m nodes are away, and past ends."""
    chance = random.Random(2)
    sizes = [1, 4096, 5 * MIB + 7, 23 * MIB]
    for size in sizes:
        (pool.folder / f"f{size}").write_bytes(chance.randbytes(size))
        pool.kiln("put", pool.folder / f"f{size}", f"all/f{size}")
    pool.mount()
    for size in sizes:
        at_random(pool, pool.folder / f"f{size}", pool.at / f"all/f{size}", chance)
    with pool.away([0, 3]):
        pool.again()
        for size in sizes:
            at_random(pool, pool.folder / f"f{size}", pool.at / f"all/f{size}", chance)
        (pool.at / "all/new").write_bytes(b"written while nodes are away")
    # They go while a file is open.
    with open(pool.at / f"all/f{sizes[-1]}", "rb") as file, pool.away([1, 2]):
        want = (pool.folder / f"f{sizes[-1]}").read_bytes()
        check(file.read() == want, "read while nodes go")
    # Too many: a part is not taken for the whole, nor what cannot be read for nothing.
    os.chmod(pool.at / "all", 0o751)
    folder = os.open(pool.at, os.O_RDONLY)
    os.fsync(folder)
    os.close(folder)
    # The index knows of it, too.
    check(os.listdir(pool.at) == ["all"], "other files")
    with pool.away([0, 1, 2, 3, 4]):
        pool.again()
        fails(errno.EIO, os.listdir, pool.at)
        fails(errno.EIO, os.stat, pool.at / "none")
        pool.unmount()
        ended = subprocess.run([pool.program, "mount", pool.at, "all"], cwd=pool.folder, timeout=60,
                               capture_output=True, text=True, check=False)
        check(ended.returncode == 4, f"mount all: {ended.returncode} {ended.stderr}")
        pool.mount()
    pool.again()
    check(os.listdir(pool.at) == ["all"], "nodes are back, and files are not")
    pool.again("--read-only", "all")
    check((pool.at / "new").read_bytes() == b"written while nodes are away", "another content")
    fails(errno.EROFS, os.mkdir, pool.at / "no")
    pool.unmount()


def writes(pool):
    """Writes, reads and truncations at random of one open file, as a plain file has them."""
    chance = random.Random(3)
    pool.mount()
    for begin in (b"", chance.randbytes(3 * MIB)):
        plain, path = pool.folder / "plain", pool.at / "file"
        plain.write_bytes(begin)
        path.write_bytes(begin)
        for _ in range(4):
            with open(plain, "r+b") as copy, open(path, "r+b") as file:
                for _ in range(40):
                    at, count = chance.randrange(4 * MIB), chance.randrange(300_000)
                    match chance.randrange(4):
                        case 0 | 1:
                            data = chance.randbytes(count)
                            for one in (copy, file):
                                os.pwrite(one.fileno(), data, at)
                        case 2:
                            got, want = (os.pread(one.fileno(), count, at) for one in (file, copy))
                            check(got == want, f"{count} bytes at {at} of a file being written")
                        case 3:
                            for one in (copy, file):
                                os.ftruncate(one.fileno(), at)
            check(path.read_bytes() == plain.read_bytes(), "written at random")
        os.truncate(path, 1000)
        with open(path, "ab") as file:
            file.write(b"the end")
        pool.again()
        check(path.read_bytes() == plain.read_bytes()[:1000].ljust(1000, b"\0") + b"the end",
              "truncated and appended")
    left = os.listdir(pool.parts)
    check(not left, f"parts are left: {left}")
    pool.unmount()


def killed(pool):
    """The process is killed: a file is as it was, or whole."""
    old, new = b"old" * 100_000, os.urandom(8 * MIB)
    pool.mount()
    (pool.at / "kept").write_bytes(old)
    for seconds in (0, 0.01, 0.05, 0.2, 0.5):
        file = os.open(pool.at / "kept", os.O_WRONLY | os.O_TRUNC)
        for at in range(0, len(new), MIB):
            os.write(file, new[at:at + MIB])
        syncing = subprocess.Popen([sys.executable, "-c", "import os; os.fsync(0)"], stdin=file,
                                   stderr=subprocess.DEVNULL)
        time.sleep(seconds)
        pool.kill()
        acknowledged = syncing.wait() == 0
        with contextlib.suppress(OSError):
            os.close(file)
        pool.mount()
        now = (pool.at / "kept").read_bytes()
        check(now == new or now == old and not acknowledged,
              f"killed after {seconds} s: {len(now)} bytes, acknowledged: {acknowledged}")
        (pool.at / "kept").write_bytes(old)
    check(not os.listdir(pool.parts), "parts are left")
    pool.unmount()


def full(pool):
    """Full disks are said, and change nothing."""
    if os.geteuid() != 0:
        print("mount: full disks: SKIPPED: only root can make small ones", file=sys.stderr)
        return
    small = pool.folder / "small"
    small.mkdir()
    run("mount", "-t", "tmpfs", "-o", "size=20m", "tmpfs", small)
    try:
        pool.parts = small
        pool.mount()
        (pool.at / "kept").write_bytes(b"kept")
        fails(errno.ENOSPC, (pool.at / "large").write_bytes, bytes(30 * MIB))
        fails(errno.ENOSPC, (pool.at / "kept").write_bytes, bytes(30 * MIB))
        check(run("df", "--output=used", small).split()[-1] == "0", "parts stay")
        pool.unmount()
    finally:
        run("umount", "-l", small)
    pool.parts = pool.folder / "parts"
    for at in range(NODES):
        run("mount", "-t", "tmpfs", "-o", "size=24m", "tmpfs", pool.folder / f"d{at}")
    try:
        (pool.folder / "pool.toml").unlink()
        pool.kiln("pool", "create", "-c", "rs:4+2", *(f"--node=d{at}" for at in range(NODES)))
        pool.mount()
        (pool.at / "kept").write_bytes(b"kept" * 1000)
        fails(errno.ENOSPC, (pool.at / "large").write_bytes, os.urandom(150 * MIB))
        (pool.at / "other").write_bytes(b"goes on")
        pool.again()
        check((pool.at / "kept").read_bytes() == b"kept" * 1000, "another content")
        check((pool.at / "other").read_bytes() == b"goes on", "nothing goes on")
        pool.unmount()
    finally:
        for at in range(NODES):
            run("umount", "-l", pool.folder / f"d{at}")


def posix(pool):
    """Calls and their numbers, as a table."""
    pool.mount()
    root = pool.at
    (root / "f").write_bytes(b"file")
    (root / "dir/inner").mkdir(parents=True)
    os.symlink("f", root / "link")
    os.symlink("loop", root / "loop")
    long = "y" * 256
    deep = root / "/".join(["z" * 200] * 5)
    rows = [
        (errno.ENOENT, os.stat, root / "none"),
        (errno.ENOENT, os.open, root / "none", os.O_RDWR),
        (errno.EEXIST, os.open, root / "f", os.O_CREAT | os.O_EXCL | os.O_WRONLY),
        (errno.EEXIST, os.mkdir, root / "f"),
        (errno.EEXIST, os.mkdir, root / "dir"),
        (errno.EEXIST, os.symlink, "x", root / "f"),
        (errno.ENOTDIR, os.mkdir, root / "f/in"),
        (errno.ENOTDIR, os.rmdir, root / "f"),
        (errno.ENOTDIR, os.rmdir, root / "link"),
        (errno.ENOTEMPTY, os.rmdir, root / "dir"),
        (errno.EISDIR, os.unlink, root / "dir"),
        (errno.EISDIR, os.open, root / "dir", os.O_WRONLY),
        (errno.EISDIR, os.rename, root / "f", root / "dir"),
        (errno.ENOTDIR, os.rename, root / "dir", root / "f"),
        (errno.ENOTEMPTY, os.rename, root / "dir/inner", root / "dir"),
        (errno.EINVAL, os.rename, root / "dir", root / "dir/inner/in"),
        (errno.ENOENT, os.rename, root / "none", root / "x"),
        (errno.ELOOP, os.stat, root / "loop"),
        (errno.EINVAL, os.readlink, root / "f"),
        (errno.ENAMETOOLONG, os.mkdir, root / long),
        (errno.ENAMETOOLONG, os.makedirs, deep / "q" / ("z" * 100)),
        (errno.EOPNOTSUPP, os.link, root / "f", root / "hard"),
        (errno.EPERM, os.mkfifo, root / "fifo"),
        (errno.EPERM, os.mknod, root / "dev", stat.S_IFCHR | 0o600, os.makedev(1, 3)),
        (errno.EPERM, os.mkdir, root / ".kiln-attributes"),
        (errno.EPERM, os.mkdir, root / ".volumes"),
        (errno.EPERM, os.rename, root / "f", root / ".s3"),
        (errno.ENODATA, os.getxattr, root / "f", "user.none"),
        (errno.EOPNOTSUPP, os.setxattr, root / "f", "security.selinux", b"x"),
    ]
    for row in rows:
        fails(*row)
    os.setxattr(root / "f", "user.a", b"b")
    fails(errno.EEXIST, os.setxattr, root / "f", "user.a", b"c", os.XATTR_CREATE)
    check(os.listxattr(root / "f") == ["user.a"], "other attributes")
    os.removexattr(root / "f", "user.a")
    # Modes, masks, owners, times.
    mask = os.umask(0o027)
    os.mkdir(root / "masked", 0o777)
    os.close(os.open(root / "masked/f", os.O_CREAT | os.O_WRONLY, 0o666))
    os.umask(mask)
    check(os.stat(root / "masked").st_mode & 0o7777 == 0o750, "the mask of a folder")
    check(os.stat(root / "masked/f").st_mode & 0o7777 == 0o640, "the mask of a file")
    os.utime(root / "f", ns=(5, 123_456_789_012_345_678))
    os.chmod(root / "f", 0o4711)
    check(os.stat(root / "f").st_mtime_ns == 123_456_789_012_345_678, "the time that was set")
    check(os.stat(root / "f").st_mode & 0o7777 == 0o4711, "the mode that was set")
    before = os.stat(root / "dir").st_mtime_ns
    (root / "dir/new").write_bytes(b"")
    check(os.stat(root / "dir").st_mtime_ns > before, "a folder's time of change")
    # A rename over a file replaces it; one that is open stays to be written.
    (root / "over").write_bytes(b"over")
    with open(root / "open", "wb") as file:
        file.write(b"open")
        file.flush()
        os.rename(root / "open", root / "over")
        file.write(b" and on")
    check((root / "over").read_bytes() == b"open and on", "a rename of an open file")
    file = os.open(root / "gone", os.O_CREAT | os.O_RDWR)
    os.write(file, b"gone")
    os.unlink(root / "gone")
    check(os.pread(file, 9, 0) == b"gone", "a file that was unlinked while it is written")
    os.close(file)
    fails(errno.ENOENT, os.stat, root / "gone")
    # Names in a folder that is read, and rewound.
    for at in range(500):
        os.mkdir(root / f"dir/many{at}")
    check(len(os.listdir(root / "dir")) == 502, "names of a large folder")
    space = os.statvfs(root)
    check(space.f_bavail > 0 and space.f_namemax == 255, "no space")
    pool.again()
    check(len(os.listdir(root / "dir")) == 502, "names of a large folder, again")
    check(os.stat(root / "f").st_mode & 0o7777 == 0o4711, "the mode that was set, again")
    shutil.rmtree(root / "dir")
    pool.unmount()


def others(pool):
    """Other clients, the past, and a map that changes."""
    pool.kiln("pool", "keep", "", "--last", "5")
    pool.mount()
    first, second = pool.folder / "first", pool.folder / "second"
    first.write_bytes(os.urandom(5 * MIB))
    second.write_bytes(os.urandom(3 * MIB))
    pool.kiln("put", first, "a/f")
    wait_for("an object of another client", (pool.at / "a/f").exists)
    file = os.open(pool.at / "a/f", os.O_RDONLY)
    check(os.pread(file, 99, 0) == first.read_bytes()[:99], "the first bytes")
    then = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(time.time() + 1))
    time.sleep(2)
    pool.kiln("put", "--force", second, "a/f")
    check((pool.at / "a/f").read_bytes() == second.read_bytes(), "opened after the put")
    try:
        got = os.pread(file, 99, 4 * MIB)
        check(got == first.read_bytes()[4 * MIB:4 * MIB + 99], "bytes of two versions")
    except OSError as error:
        check(error.errno in (errno.ESTALE, errno.EIO), f"reading a replaced file: {error}")
    os.close(file)
    # A change of what was read by now, by both.
    file = os.open(pool.at / "a/f", os.O_RDWR)
    os.pwrite(file, b"mine", 0)
    pool.kiln("put", "--force", first, "a/f")
    fails(errno.ESTALE, os.close, file)
    wait_for("theirs", lambda: (pool.at / "a/f").stat().st_size == 5 * MIB)
    check((pool.at / "a/f").read_bytes() == first.read_bytes(), "a change of another is lost")
    (pool.folder / "d7").mkdir()
    pool.kiln("pool", "add-node", "n07", "d7")
    pool.kiln("pool", "drain", "n00")
    (pool.at / "a/new").write_bytes(b"after the map changed")
    check((pool.at / "a/f").read_bytes() == first.read_bytes(), "after the map changed")
    pool.kiln("rm", "a/f")
    wait_for("a removal", lambda: os.listdir(pool.at / "a") == ["new"])
    pool.unmount()
    pool.mount("a", "--at", then)
    check(os.listdir(pool.at) == ["f"], f"then: {os.listdir(pool.at)}")
    check((pool.at / "f").read_bytes() == first.read_bytes(), "the content of then")
    fails(errno.EROFS, (pool.at / "f").write_bytes, b"")
    pool.unmount()


def beside(pool):
    """Copies of another client into the folder in which this one makes links and modes."""
    shutil.copy(pool.folder / "pool.toml", pool.folder / "other.toml")
    source = pool.folder / "source"
    pool.mount()
    (pool.at / "d").mkdir()
    for turn in range(12):
        source.mkdir()
        for at in range(4):
            (source / f"theirs{turn}.{at}").write_bytes(b"%d" % turn)
            (source / f"theirs{turn}.{at}").chmod(0o611 + at)
            (source / f"to{turn}.{at}").symlink_to(f"theirs{turn}.{at}")
        words = [pool.program, "-q", "cp", source, "pool:d", "--pool", "other.toml"]
        copy = subprocess.Popen([str(word) for word in words], cwd=pool.folder)
        for at in range(10):
            (pool.at / "d" / f"mine{turn}.{at}").symlink_to("nowhere")
            (pool.at / "d" / f"file{turn}.{at}").write_bytes(b"mine")
            (pool.at / "d" / f"file{turn}.{at}").chmod(0o600 + at)
            file = os.open(pool.at / "d", os.O_RDONLY)
            os.fsync(file)
            os.close(file)
        check(copy.wait(60) == 0, f"the copy of round {turn}")
        shutil.rmtree(source)
    pool.unmount()
    pool.kiln("cp", "pool:d", "out")
    for turn in range(12):
        for at in range(4):
            mode = (pool.folder / f"out/theirs{turn}.{at}").stat().st_mode & 0o777
            check(mode == 0o611 + at, f"theirs{turn}.{at}: {mode:o}")
            check((pool.folder / f"out/to{turn}.{at}").is_symlink(), f"to{turn}.{at}")
        for at in range(10):
            mode = (pool.folder / f"out/file{turn}.{at}").stat().st_mode & 0o777
            check(mode == 0o600 + at, f"file{turn}.{at}: {mode:o}")
            check((pool.folder / f"out/mine{turn}.{at}").is_symlink(), f"mine{turn}.{at}")


def signals(pool):
    """Signals end it cleanly; places that cannot be are refused."""
    for how in (signal.SIGTERM, signal.SIGINT):
        pool.mount()
        (pool.at / "f").write_bytes(b"f")
        os.chmod(pool.at / "f", 0o711)
        pool.server.send_signal(how)
        check(pool.server.wait(60) == 0, "another exit code")
        check(not os.path.ismount(pool.at), "still mounted")
    pool.mount()
    check(os.stat(pool.at / "f").st_mode & 0o777 == 0o711, "a mode of the last moment")
    with open(pool.at / "late", "wb") as file:
        file.write(b"late")
        pool.server.terminate()
        wait_for("the unmount", lambda: not os.path.ismount(pool.at))
        check(pool.server.poll() is None, "it ended while a file was open")
    check(pool.server.wait(60) == 0, "another exit code")
    pool.mount()
    check((pool.at / "late").read_bytes() == b"late", "what was written at the end is lost")
    pool.unmount()
    if os.geteuid() == 0:
        pool.mount()
        with subprocess.Popen(["unshare", "--mount", "sh", "-c", "echo; exec sleep 600"],
                              stdout=subprocess.PIPE) as container:
            container.stdout.readline()
            pool.server.terminate()
            wait_for("the unmount", lambda: not os.path.ismount(pool.at))
            time.sleep(0.5)
            check(pool.server.poll() is None, "it ended while a container had the mount")
            container.kill()
        check(pool.server.wait(60) == 0, "another exit code")
    for words in [("d0",), (".",), (pool.folder,), ("nowhere",), (pool.at, "none")]:
        ended = subprocess.run([pool.program, "mount", *words], cwd=pool.folder, check=False,
                               capture_output=True, text=True, timeout=60)
        check(ended.returncode in (3, 4, 7), f"mount {words}: {ended.returncode} {ended.stderr}")


PARTS = [copies, reads, writes, killed, full, posix, others, beside, signals]


def main():
    """Runs all of it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--kiln", type=Path, required=True)
    parser.add_argument("--only", default="")
    options = parser.parse_args()
    if os.geteuid() == 0 and "MOUNTS_OF_OWN" not in os.environ:
        # Network namespaces that other tests begin meanwhile would keep these mounts.
        os.execvpe("unshare", ["unshare", "--mount", sys.executable, *sys.orig_argv[1:]],
                   os.environ | {"MOUNTS_OF_OWN": "1"})
    if not os.access("/dev/fuse", os.R_OK | os.W_OK):
        raise Unable("/dev/fuse is not here")
    if shutil.which("fusermount") is None:
        raise Unable("fusermount is not here")
    folder, kiln = options.folder.resolve(), options.kiln.resolve()
    shutil.rmtree(folder, ignore_errors=True)
    for part in PARTS:
        if options.only not in part.__name__:
            continue
        pool = Mounted(folder / part.__name__, kiln)
        try:
            part(pool)
        finally:
            pool.end()
        print(f"mount: {part.__name__}: {part.__doc__}")
        shutil.rmtree(folder)


if __name__ == "__main__":
    try:
        main()
    except Unable as why:
        print(f"mount: SKIPPED: {why}", file=sys.stderr)
        sys.exit(3)
