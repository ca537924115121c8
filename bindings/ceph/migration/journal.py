"""What was verified, on disk: a line of JSON for an object, of which the last one counts."""

import fcntl
import json
import os
import threading

from migration.errors import Broken, MigrationError


class Journal:
    """Lines that are only ever added to, by several threads of one process.

    `known` has what stands on disk for each object: `state=None` for one that is being copied, its
    state and digest when its copy was verified. Lines of several threads share a sync of the disk.
    """

    def __init__(self, path, about=None):
        self.known = {}
        self.about = None
        new = not os.path.exists(path)
        self.file = open(path, "a+b")
        try:
            fcntl.flock(self.file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            self.file.close()
            raise MigrationError(f"{path}: another run is using it") from None
        self.turn = threading.Condition()
        self.waiting, self.busy, self.broken = [], False, None
        self.added = self.written = 0
        if new:
            sync_folder(path)
        self.file.seek(0)
        for line in self.file:
            self.take(line)
        self.check(path, about)

    def check(self, path, about):
        """A journal of other pools says nothing about these. Older ones do not name theirs."""
        if self.about not in (None, about):
            self.file.close()
            raise MigrationError(f"{path} is of other pools than these; name another file "
                          "with --journal")
        if self.about is None and about is not None:
            self.write([json.dumps(dict(about=about))])

    def take(self, line):
        """A line of an earlier run; one that was cut, as that run was killed, says nothing."""
        try:
            entry = json.loads(line)
            if "about" in entry:
                self.about = entry["about"]
                return
            self.learn(tuple(entry["object"]), entry["found"])
        except (ValueError, KeyError, TypeError):
            return

    def learn(self, key, found):
        if found is None:
            self.known.pop(key, None)
        else:
            self.known[key] = found

    def add(self, key, found):
        """Returns when it stands on disk."""
        with self.turn:
            self.waiting.append((key, found))
            self.added += 1
            mine = self.added
            while self.written < mine:
                if self.broken:
                    raise Broken(f"journal: {self.broken}; run this again")
                if self.busy:
                    self.turn.wait()
                else:
                    self.flush()

    def flush(self):
        """Writes what waits, for all threads that wait, while others add more."""
        entries, self.waiting, self.busy = self.waiting, [], True
        self.turn.release()
        error = None
        try:
            self.write([json.dumps(dict(object=key, found=found)) for key, found in entries])
        except OSError as refused:
            error = refused
        finally:
            self.turn.acquire()
            self.busy = False
            self.turn.notify_all()
        if error:
            # What stands there now is unknown: nothing may be said to be verified any more.
            self.broken = error
            return
        for key, found in entries:
            self.learn(key, found)
        self.written += len(entries)

    def write(self, lines):
        """A newline first: the last line of an earlier run may have been cut."""
        self.file.write("".join(f"\n{line}" for line in lines).encode())
        self.file.flush()
        os.fsync(self.file.fileno())

    def close(self):
        self.file.close()


def sync_folder(path):
    """Makes the name of a new file last."""
    folder = os.open(os.path.dirname(os.path.abspath(path)), os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
