#!/usr/bin/env python3
"""migrate.py's journal, workers and passes without a cluster: folders play the pools.

Runs are killed at random times, stopped, given pools that spoil, refuse or change objects, and
journals that were cut. What a journal calls verified must be so, whatever ended the run.
"""

import io
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest
from pathlib import Path

from migration.copy import Copier
from migration.journal import Journal
from migration.passes import Passes
from migration.errors import Broken, Stopped, MigrationError
from migration.workers import FAILURES_MAX, WorkerPool, Limit, Progress

PIECE = 1000


class Folder:
    """A pool: a file for each object, its attributes in its first line."""

    def __init__(self, path):
        self.path, self.name, self.gone = Path(path), Path(path).name, FileNotFoundError
        self.path.mkdir(exist_ok=True)

    def objects(self):
        return sorted(("", "", path.name) for path in self.path.iterdir())

    def file(self, key):
        return self.path / key[2]

    def state(self, key):
        try:
            found = self.file(key).stat()
        except FileNotFoundError:
            return None
        return found.st_size, found.st_mtime_ns

    def parts(self, key):
        first, rest = self.file(key).read_bytes().split(b"\n", 1)
        return json.loads(first), rest

    def attributes(self, key):
        return {name: value.encode() for name, value in self.parts(key)[0].items()}

    def pieces(self, key, length):
        rest = self.parts(key)[1]
        for at in range(0, len(rest), length):
            yield rest[at:at + length]

    def write(self, key, piece, first):
        with open(self.file(key), "wb" if first else "ab") as file:
            file.write(b"{}\n" + piece if first else piece)

    def mark(self, key, attributes):
        rest = self.parts(key)[1]
        words = {name: value.decode() for name, value in attributes.items()}
        self.file(key).write_bytes(json.dumps(words).encode() + b"\n" + rest)

    def remove(self, key):
        self.file(key).unlink()


def fill(pool, count, seed=1):
    """Objects of all kinds of sizes, some with attributes."""
    rng = random.Random(seed)
    for number in range(count):
        key = ("", "", f"object-{number}")
        size = rng.choice([0, 1, PIECE - 1, PIECE, PIECE + 1, rng.randrange(20 * PIECE)])
        pool.write(key, rng.randbytes(size), True)
        pool.mark(key, {"owner": f"nobody {number}".encode()} if number % 3 else {})


def passes(source, target, journal, workers=4, stop=None, limit=Limit(0), reread=False, out=None):
    stop = stop or threading.Event()
    workers = [Copier(source, target, PIECE, journal, limit, stop) for _ in range(workers)]
    pool = WorkerPool(workers, (MigrationError, OSError), stop, out or io.StringIO())
    return Passes(pool, journal, reread)


def slow_run(folder):
    """What is killed by the test: a run over folders."""
    class Slow(Folder):
        def write(self, key, piece, first):
            time.sleep(0.002)
            super().write(key, piece, first)
    folder = Path(folder)
    journal = Journal(folder / "journal", ["test"])
    passes(Folder(folder / "from"), Slow(folder / "to"), journal, workers=8).run()


class Case(unittest.TestCase):
    """A test in a folder of its own."""

    def setUp(self):
        place = tempfile.TemporaryDirectory()
        self.addCleanup(place.cleanup)
        self.folder = Path(place.name)
        self.source, self.target = Folder(self.folder / "from"), Folder(self.folder / "to")

    def journal(self, about=None):
        journal = Journal(self.folder / "journal", about)
        self.addCleanup(journal.close)
        return journal

    def check_same(self):
        self.assertEqual(self.source.objects(), self.target.objects())
        for key in self.source.objects():
            self.assertEqual(self.source.parts(key), self.target.parts(key))


class JournalTest(Case):
    def test_threads_share_it(self):
        journal, done = self.journal(), []

        def work(thread):
            for number in range(100):
                key = ("", "", f"{thread}-{number % 10}")
                journal.add(key, dict(state=[number, thread]))
                # What was added stands on disk now.
                done.append(journal.known[key]["state"][0] >= number)
        threads = [threading.Thread(target=work, args=[thread]) for thread in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(done, [True] * 800)
        journal.close()
        again = self.journal()
        self.assertEqual(again.known, journal.known)
        self.assertEqual(len(again.known), 80)
        lines = (self.folder / "journal").read_bytes().split(b"\n")
        self.assertEqual(sum(1 for line in lines if line and json.loads(line)), 800)

    def test_cut_anywhere(self):
        journal = self.journal(["test"])
        for number in range(4):
            journal.add(("", "", f"o{number}"), dict(state=[number, 1], sha256="0" * 8))
        journal.add(("", "", "o0"), None)
        journal.close()
        whole = (self.folder / "journal").read_bytes()
        for length in range(len(whole)):
            (self.folder / "journal").write_bytes(whole[:length] + b"\0" * (length % 3))
            cut = Journal(self.folder / "journal", ["test"])
            for key, found in cut.known.items():
                self.assertEqual(found["state"], [int(key[2][1:]), 1])
            cut.add(("", "", "more"), dict(state=[9, 9]))
            cut.close()
            again = Journal(self.folder / "journal", ["test"])
            self.assertEqual(again.known, cut.known)
            self.assertIn(("", "", "more"), again.known)
            again.close()

    def test_one_run_at_a_time(self):
        self.journal()
        with self.assertRaisesRegex(MigrationError, "another run"):
            self.journal()

    def test_other_pools(self):
        self.journal(["here", 1, 2]).close()
        with self.assertRaisesRegex(MigrationError, "other pools"):
            self.journal(["here", 1, 3])

    def test_full_disk(self):
        journal = self.journal()
        journal.add(("", "", "a"), dict(state=[1, 1]))

        def refuse(_):
            raise OSError(28, "No space left on device")
        journal.write = refuse
        for _ in range(2):
            with self.assertRaisesRegex(Broken, "No space"):
                journal.add(("", "", "b"), dict(state=[1, 1]))
        self.assertEqual(list(journal.known), [("", "", "a")])
        fill(self.source, 3)
        with self.assertRaisesRegex(Broken, "No space"):
            passes(self.source, self.target, journal).run()


class RunTest(Case):
    def test_all_objects(self):
        fill(self.source, 60)
        journal = self.journal()
        run = passes(self.source, self.target, journal, reread=True)
        self.assertEqual(run.run(), 60)
        self.assertEqual(run.moved()[0], 60)
        self.check_same()
        again = passes(self.source, self.target, journal)
        self.assertEqual((again.run(), again.moved()[0]), (60, 0))
        self.source.remove(("", "", "object-7"))
        fill(self.source, 3, seed=2)
        third = passes(self.source, self.target, journal)
        self.assertEqual((third.run(), third.moved()[0]), (59, 3))
        self.check_same()

    def test_killed(self):
        """Whenever it is killed: what the journal calls verified is so."""
        fill(self.source, 120)
        rng, verified = random.Random(5), []
        for _ in range(5):
            path = self.folder / "journal"
            enough = (path.stat().st_size if path.exists() else 0) + rng.randrange(100, 5000)
            child = subprocess.Popen([sys.executable, __file__, "--slow-run", str(self.folder)])
            while child.poll() is None and (not path.exists() or path.stat().st_size < enough):
                time.sleep(0.001)
            child.send_signal(signal.SIGKILL)
            child.wait()
            journal = Journal(self.folder / "journal", ["test"])
            good = [key for key, found in journal.known.items() if found["state"]]
            for key in good:
                self.assertEqual(self.target.parts(key), self.source.parts(key))
            for key in self.target.objects():
                self.assertIn(key, journal.known)
            verified.append(len(good))
            journal.close()
        self.assertEqual(verified, sorted(verified))
        run = passes(self.source, self.target, self.journal(["test"]))
        self.assertEqual(run.run(), 120)
        self.assertEqual(run.moved()[0], 120 - verified[-1])
        self.check_same()

    def test_spoiled(self):
        """Bytes or attributes that come back other than they were written."""
        class Spoils(Folder):
            def write(self, key, piece, first):
                spoiled = key[2] == "object-5" and piece
                super().write(key, piece[:-1] + bytes([piece[-1] ^ 1]) if spoiled else piece, first)

            def mark(self, key, attributes):
                super().mark(key, {} if key[2] == "object-8" else attributes)
        fill(self.source, 20)
        self.source.write(("", "", "object-5"), b"some bytes", True)
        journal, out = self.journal(), io.StringIO()
        with self.assertRaisesRegex(MigrationError, "2 objects failed"):
            passes(self.source, Spoils(self.target.path), journal, out=out).run()
        for name in ["object-5", "object-8"]:
            self.assertIn(f"{name!r}: reads back wrong", out.getvalue())
            self.assertIsNone(journal.known[("", "", name)]["state"])
        self.assertEqual(sum(1 for found in journal.known.values() if found["state"]), 18)
        self.assertEqual(passes(self.source, self.target, journal).run(), 20)
        self.check_same()

    def test_spoiled_later(self):
        """What is lost or changed in the target after it was verified is copied again."""
        fill(self.source, 12)
        journal = self.journal()
        passes(self.source, self.target, journal).run()
        self.target.remove(("", "", "object-2"))
        with self.assertRaisesRegex(MigrationError, "lacks 1 objects.*'object-2'"):
            passes(self.source, self.target, journal).run()
        self.assertEqual(passes(self.source, self.target, journal).run(), 12)
        self.target.write(("", "", "object-3"), b"rot", False)
        with self.assertRaisesRegex(MigrationError, "'object-3': differs"):
            passes(self.source, self.target, journal, reread=True).run()
        run = passes(self.source, self.target, journal, reread=True)
        self.assertEqual((run.run(), run.moved()[0]), (12, 1))
        self.check_same()
        self.target.write(("", "", "stranger"), b"", True)
        with self.assertRaisesRegex(MigrationError, "'stranger'"):
            passes(self.source, self.target, journal).run()

    def test_many_failures_end_it(self):
        class Refuses(Folder):
            def write(self, key, piece, first):
                raise OSError(5, "Input/output error")
        fill(self.source, 100)
        run = passes(self.source, Refuses(self.target.path), self.journal())
        with self.assertRaisesRegex(MigrationError, "Input/output error"):
            run.run()
        self.assertLess(len(run.worker_pool.failures), FAILURES_MAX + 4)

    def test_mistakes_of_our_own_end_it(self):
        class Wrong(Folder):
            def write(self, key, piece, first):
                raise ZeroDivisionError
        fill(self.source, 20)
        with self.assertRaises(ZeroDivisionError):
            passes(self.source, Wrong(self.target.path), self.journal()).run()

    def test_changed_meanwhile(self):
        """An object that changes while it is copied is copied again; one that goes is forgotten."""
        class Changes(Folder):
            left = ["object-3", "object-4"]

            def pieces(self, key, length):
                if key[2] in self.left:
                    self.left.remove(key[2])
                    if key[2] == "object-3":
                        super().write(key, b"other bytes", True)
                    else:
                        self.remove(key)
                yield from super().pieces(key, length)
        fill(self.source, 10)
        run = passes(Changes(self.source.path), self.target, self.journal())
        self.assertEqual(run.run(), 9)
        self.check_same()
        self.assertEqual(self.target.parts(("", "", "object-3"))[1], b"other bytes")

    def test_strange_objects(self):
        fill(self.target, 2)
        with self.assertRaisesRegex(MigrationError, "2 objects that are not from here.*object-0"):
            passes(self.source, self.target, self.journal()).run()

    def test_stopped(self):
        """A run that is stopped says so, calls nothing verified that is not, and can go on."""
        stop = threading.Event()

        class Stops(Folder):
            def write(self, key, piece, first):
                super().write(key, piece, first)
                if len(list(self.path.iterdir())) > 10:
                    stop.set()
        fill(self.source, 60)
        journal = self.journal()
        with self.assertRaises(Stopped):
            passes(self.source, Stops(self.target.path), journal, stop=stop).run()
        self.assertLess(len(self.target.objects()), 20)
        for key, found in journal.known.items():
            if found["state"]:
                self.assertEqual(self.target.parts(key), self.source.parts(key))
        self.assertEqual(passes(self.source, self.target, journal).run(), 60)
        self.check_same()

    def test_pieces_under_way(self):
        """A worker holds one piece at a time, and all workers work."""
        most, now, lock = [0], [0], threading.Lock()

        class Counts(Folder):
            def write(self, key, piece, first):
                with lock:
                    now[0] += 1
                    most[0] = max(most[0], now[0])
                time.sleep(0.002)
                with lock:
                    now[0] -= 1
                super().write(key, piece, first)
        fill(self.source, 40)
        passes(self.source, Counts(self.target.path), self.journal(), workers=5).run()
        self.assertTrue(1 < most[0] <= 5)


class RateTest(unittest.TestCase):
    def test_limit(self):
        """Threads that want more wait their turn; what was not used is not saved up."""
        now = [0.0]
        limit = Limit(100, lambda: now[0])
        self.assertEqual([limit.reserve(50) for _ in range(3)], [0, 0.5, 1.0])
        now[0] = 10.0
        self.assertEqual([limit.reserve(200) for _ in range(2)], [0, 2.0])
        self.assertEqual(Limit(0).reserve(1 << 40), 0)

    def test_progress(self):
        now = [0.0]
        progress = Progress("copying", 100, lambda: now[0])
        self.assertIn("0 of 100 objects", progress.words())
        for second in range(1, 41):
            now[0] = float(second)
            progress.count(1, 1_000_000)
            words = progress.words()
        self.assertIn("40 of 100 objects, 1 a second, 1.0 MB/s, 1 min 00 s left", words)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--slow-run"]:
        slow_run(sys.argv[2])
        os._exit(0)
    unittest.main()
