"""Passes over all objects, until none changes any more."""

from migration.trouble import Stopped, Trouble
from migration.workers import Progress, name_of

PASSES = 5  # over objects that clients keep changing


class Passes:
    """Copies a pool to another with a crew whose hands know both."""

    def __init__(self, crew, journal, reread):
        self.crew, self.journal, self.reread = crew, journal, reread
        self.source, self.target = crew.hands[0].source, crew.hands[0].target

    def moved(self):
        """Objects and bytes whose copies were verified by this run."""
        hands = self.crew.hands
        return sum(hand.copied for hand in hands), sum(hand.bytes for hand in hands)

    def run(self):
        """The number of objects that are the same in both pools in the end."""
        self.refuse(set(self.target.objects()) - set(self.journal.known))
        for _ in range(PASSES):
            objects = self.source.objects()
            changed = self.all(objects, "copying", lambda hand, key, told: hand.move(key, told))
            gone = sorted(set(self.journal.known) - set(objects))
            self.all(gone, "removing", lambda hand, key, told: hand.forget(key))
            if not changed and not gone:
                return self.compare(objects)
        raise Trouble(f"clients keep changing {self.source.name}; stop them and run this again")

    def refuse(self, strange):
        """Objects in the target that somebody else wrote."""
        if strange:
            raise Trouble(f"pool {self.target.name} has {len(strange)} objects that are not from "
                          f"here, such as {name_of(min(strange))}")

    def all(self, objects, what, work):
        """Something for each object; the number of those for which there was something to do."""
        progress = Progress(what, len(objects))
        done = self.crew.each(objects, lambda hand, key: work(hand, key, progress), progress)
        self.end()
        return done

    def end(self):
        """Ends the run where objects failed, or where somebody wants it to end."""
        failures = self.crew.failures
        if failures:
            key, error = failures[0]
            raise Trouble(f"{len(failures)} objects failed, the first of them {name_of(key)}: "
                          f"{error} (what was verified stands in the journal)")
        if self.crew.stop.is_set():
            raise Stopped

    def compare(self, objects):
        """Both pools have the same objects; with --reread the same bytes."""
        copies = set(self.target.objects())
        lacking, strange = set(objects) - copies, copies - set(objects)
        for key in lacking:
            self.journal.add(key, dict(state=None))
        if lacking:
            raise Trouble(f"{self.target.name} lacks {len(lacking)} objects that were copied, such "
                          f"as {name_of(min(lacking))}; the next run copies them again")
        self.refuse(strange)
        if self.reread:
            self.all(objects, "comparing", lambda hand, key, told: hand.reread(key, told))
        return len(objects)
