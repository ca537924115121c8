"""Passes over all objects, until none changes any more."""

from migration.errors import Stopped, MigrationError
from migration.workers import Progress, name_of

PASSES = 5  # over objects that clients keep changing


class Passes:
    """Copies a pool to another with a pool of workers that know both."""

    def __init__(self, worker_pool, journal, reread):
        self.worker_pool, self.journal, self.reread = worker_pool, journal, reread
        self.source, self.target = worker_pool.workers[0].source, worker_pool.workers[0].target

    def moved(self):
        """Objects and bytes whose copies were verified by this run."""
        workers = self.worker_pool.workers
        return sum(copier.copied for copier in workers), sum(copier.bytes for copier in workers)

    def run(self):
        """The number of objects that are the same in both pools in the end."""
        self.refuse(set(self.target.objects()) - set(self.journal.known))
        for _ in range(PASSES):
            objects = self.source.objects()
            changed = self.all(objects, "copying", lambda copier, key, told: copier.move(key, told))
            gone = sorted(set(self.journal.known) - set(objects))
            self.all(gone, "removing", lambda copier, key, told: copier.forget(key))
            if not changed and not gone:
                return self.compare(objects)
        raise MigrationError(
            f"clients keep changing {self.source.name}; stop them and run this again")

    def refuse(self, strange):
        """Objects in the target that another program wrote."""
        if strange:
            raise MigrationError(
                f"pool {self.target.name} has {len(strange)} objects that are not from "
                f"here, such as {name_of(min(strange))}")

    def all(self, objects, what, work):
        """Something for each object; the number of those for which there was something to do."""
        progress = Progress(what, len(objects))
        done = self.worker_pool.each(
            objects, lambda copier, key: work(copier, key, progress), progress)
        self.end()
        return done

    def end(self):
        """Ends the run where objects failed, or where it was asked to end."""
        failures = self.worker_pool.failures
        if failures:
            key, error = failures[0]
            raise MigrationError(
                f"{len(failures)} objects failed, the first of them {name_of(key)}: "
                f"{error} (what was verified stands in the journal)")
        if self.worker_pool.stop.is_set():
            raise Stopped

    def compare(self, objects):
        """Both pools have the same objects; with --reread the same bytes."""
        copies = set(self.target.objects())
        lacking, strange = set(objects) - copies, copies - set(objects)
        for key in lacking:
            self.journal.add(key, dict(state=None))
        if lacking:
            raise MigrationError(
                f"{self.target.name} lacks {len(lacking)} objects that were copied, such "
                f"as {name_of(min(lacking))}; the next run copies them again")
        self.refuse(strange)
        if self.reread:
            self.all(objects, "comparing", lambda copier, key, told: copier.reread(key, told))
        return len(objects)
