"""One object's copy: read, written, read back, compared, and only then said to be verified."""

import hashlib

from migration.errors import Stopped, MigrationError


def close(digest, attributes):
    """The digest of an object whose bytes `digest` has seen."""
    for name in sorted(attributes):
        value = attributes[name]
        digest.update(f"\0{name}\0{len(value)}\0".encode() + value)
    return digest.hexdigest()


class Copier:
    """What one thread works with: pools of its own, and what all share."""

    def __init__(self, source, target, piece, journal, limit, stop):
        self.source, self.target, self.piece = source, target, piece
        self.journal, self.limit, self.stop = journal, limit, stop
        self.copied = self.bytes = 0

    def go_on(self, length):
        """Waits as the limit wants, and ends where it is wanted."""
        if self.stop.wait(self.limit.reserve(length)):
            raise Stopped

    def move(self, key, progress):
        """Copies an object unless its copy was verified; whether it had to."""
        known = self.journal.known.get(key)
        state = self.source.state(key)
        if state is None or (known and known["state"] == list(state)):
            return False
        try:
            wanted = self.copy(key, known, progress)
        except self.source.gone:
            if self.source.state(key) is not None:
                raise
            return True  # removed meanwhile: the next pass forgets it
        if self.source.state(key) != state:
            return True  # changed meanwhile: the next pass copies it
        if self.digest(self.target, key) != wanted:
            raise MigrationError(
                f"reads back wrong from {self.target.name}; the original is as it was")
        self.journal.add(key, dict(state=list(state), sha256=wanted))
        self.copied, self.bytes = self.copied + 1, self.bytes + state[0]
        return True

    def copy(self, key, known, progress):
        """Writes an object to the target; the digest of what it was made of."""
        attributes = self.source.attributes(key)
        if known is None:
            # Named before it is written, so that a run that ends here knows the object as its own.
            self.journal.add(key, dict(state=None))
        else:
            if known["state"] is not None:
                self.journal.add(key, dict(state=None))
            if self.target.state(key) is not None:
                self.target.remove(key)
        digest, first = hashlib.sha256(), True
        for piece in self.source.pieces(key, self.piece):
            self.go_on(len(piece))
            digest.update(piece)
            self.target.write(key, piece, first)
            progress.count(length=len(piece))
            first = False
        if first:
            self.target.write(key, b"", True)
        self.target.mark(key, attributes)
        return close(digest, attributes)

    def digest(self, pool, key):
        """SHA-256 of bytes and attributes, read from a pool."""
        digest = hashlib.sha256()
        for piece in pool.pieces(key, self.piece):
            if self.stop.is_set():
                raise Stopped
            digest.update(piece)
        return close(digest, pool.attributes(key))

    def forget(self, key):
        """An object that clients removed from the original."""
        if self.target.state(key) is not None:
            self.target.remove(key)
        self.journal.add(key, None)
        return 1

    def reread(self, key, progress):
        """Compares all bytes of both pools once more."""
        size, _ = self.source.state(key) or (0, 0)
        self.go_on(size)
        digests = {self.journal.known[key]["sha256"], self.digest(self.source, key),
                   self.digest(self.target, key)}
        if len(digests) != 1:
            self.journal.add(key, dict(state=None))
            raise MigrationError(
                f"differs from what was verified; the next run copies it again from "
                f"{self.source.name}")
        progress.count(length=size)
        return 1
