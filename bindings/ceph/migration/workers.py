"""Several threads that take one object after the other, at a limited rate, with progress."""

import collections
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor, wait

from migration.errors import Broken, Stopped

FAILURES_MAX = 10  # after which a run ends: it is not about single objects then
WINDOW = 30  # seconds of which progress is told
TERMINAL, LOG = 0.5, 30  # seconds between two words of progress


class Limit:
    """At most so many bytes a second, of all threads together; nothing for no limit."""

    def __init__(self, rate, clock=time.monotonic):
        self.rate, self.clock = rate, clock
        self.lock, self.free = threading.Lock(), clock()

    def reserve(self, length):
        """The seconds to wait before these bytes may be moved."""
        if not self.rate:
            return 0
        with self.lock:
            now = self.clock()
            start = max(now, self.free)
            self.free = start + length / self.rate
            return start - now


class Progress:
    """How far a pass has come. Threads count, one of them tells."""

    def __init__(self, what, of, clock=time.monotonic):
        self.what, self.of, self.clock = what, of, clock
        self.lock = threading.Lock()
        self.objects = self.bytes = 0
        self.marks = collections.deque([(clock(), 0, 0)])

    def count(self, objects=0, length=0):
        with self.lock:
            self.objects, self.bytes = self.objects + objects, self.bytes + length

    def words(self):
        """Rates of the last half minute, and what is left at these."""
        with self.lock:
            now = (self.clock(), self.objects, self.bytes)
        while len(self.marks) > 1 and now[0] - self.marks[1][0] > WINDOW:
            self.marks.popleft()
        self.marks.append(now)
        first = self.marks[0]
        seconds = max(now[0] - first[0], 1e-3)
        objects, length = (now[1] - first[1]) / seconds, (now[2] - first[2]) / seconds
        left = f"{time_of((self.of - now[1]) / objects)} left" if objects else "waiting"
        return (f"{self.what}: {now[1]} of {self.of} objects, {objects:.0f} a second, "
                f"{length / 1e6:.1f} MB/s, {left}")


def time_of(seconds):
    """A time, short."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02} min" if hours else f"{minutes} min {rest:02} s"


class WorkerPool:
    """Threads, each with a hand of its own (connections cannot be shared). `errors` are those that
    concern one object only: they are told and kept, and the others go on."""

    def __init__(self, workers, errors, stop=None, out=None):
        self.workers, self.errors, self.out = workers, errors, out or sys.stderr
        self.stop = stop or threading.Event()
        self.failures = []
        self.lock = threading.Lock()

    def each(self, keys, work, progress):
        """Calls `work(hand, key)` for every key; the sum of what it returns."""
        todo = iter(keys)
        with ThreadPoolExecutor(len(self.workers)) as threads:
            futures = [threads.submit(self.work_off, copier, todo, work, progress)
                       for copier in self.workers]
            self.watch(futures, progress)
            return sum(future.result() for future in futures)

    def work_off(self, copier, todo, work, progress):
        """One thread."""
        total = 0
        while not self.stop.is_set():
            with self.lock:
                key = next(todo, None)
            if key is None:
                break
            try:
                total += work(copier, key)
            except Stopped:
                break
            except Exception as error:
                if isinstance(error, Broken) or not isinstance(error, self.errors):
                    self.stop.set()
                    raise
                self.fail(key, error)
            progress.count(objects=1)
        return total

    def fail(self, key, error):
        with self.lock:
            self.failures.append((key, error))
            enough = len(self.failures) >= FAILURES_MAX
            self.out.write(f"\nmigrate: object {name_of(key)}: {error}\n")
        if enough:
            self.stop.set()

    def watch(self, futures, progress):
        """Tells how far it is, until all threads have ended."""
        live = self.out.isatty()
        told = time.monotonic()
        while wait(futures, timeout=TERMINAL).not_done:
            if time.monotonic() - told >= (TERMINAL if live else LOG):
                told = time.monotonic()
                words = progress.words()
                self.out.write(f"\r{words}\033[K" if live else f"{words}\n")
                self.out.flush()
        if live:
            self.out.write("\r\033[K")


def name_of(key):
    """An object's name, with namespace and locator where it has them."""
    namespace, locator, name = key
    more = [f"{word} {value!r}" for word, value in
            [("namespace", namespace), ("locator", locator)] if value]
    return f"{name!r}" + (f" ({', '.join(more)})" if more else "")
