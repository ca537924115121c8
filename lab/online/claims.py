"""What the paper says in numbers, and the same from a run: ratios over cells. Pure.

Its numbers stand in `claims.json`, by figure: of its text, as RS(6,3) over three replicas unless
the words say otherwise; those that follow from two of its numbers say so, and of some the paper
has a picture alone. Of several cells the mean is taken, or the largest where the paper has "up to".
Processor time: the paper has shares of all cores; for one request it is their ratio over the ratio
of rates.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Callable

from lab.online.cells import application, name_of

KIB = 1 << 10
RS, REP = "ceph:rs", "ceph:rep"


@dataclass(frozen=True)
class Claim:
    """One number of the paper. `pairs` gives what is over what, as ((cell, target), (cell,
    target)); with nothing below, the number itself is meant."""

    key: str
    words: str
    paper: float | None
    metric: str
    pairs: Callable
    largest: bool = False

    def here(self, medians, kind):
        """The same number of a run; `None` where it was not measured."""
        found = [number(medians, self.metric, *pair) for pair in self.pairs(kind)]
        found = [value for value in found if value is not None]
        if not found:
            return None
        return max(found) if self.largest else sum(found) / len(found)


def number(medians, metric, top, bottom):
    """One ratio, or one number."""
    if bottom is None:
        found = medians.spread(*top, metric)
        return found[0] if found else None
    return medians.ratio(metric, top, bottom)


def sizes(patterns, top=RS, bottom=REP, least=0, most=1 << 30):
    """Pairs for sizes of requests of patterns."""
    def pairs(kind):
        return [((name_of(pattern, size, kind.depth), top),
                 bottom and (name_of(pattern, size, kind.depth), bottom))
                for pattern in patterns for size in kind.sizes if least <= size <= most]
    return pairs


def new():
    """Pairs of a new image over a full one, on RS."""
    def pairs(kind):
        names = [name_of("seqwrite", 16 * KIB, kind.depth),
                 name_of("randwrite", 4 * KIB, kind.depth)]
        return [((f"{name}-fresh", RS), (name, RS)) for name in names]
    return pairs


def full():
    """The same the other way round."""
    return lambda kind: [(bottom, top) for top, bottom in new()(kind)]


def untouched():
    """Pairs for random 4 KiB writes to new images. The paper's random writes met objects that
    nobody had written to."""
    def pairs(kind):
        name = name_of("randwrite", 4 * KIB, kind.depth, fresh=True)
        return [((name, RS), (name, REP))]
    return pairs


def apps(names, bottom=REP):
    """Pairs for all numbers of processes of applications."""
    def pairs(kind):
        cells = [application(app, count, ()).name
                 for app in names for count in kind.processes.get(app, ())]
        return [((cell, RS), bottom and (cell, bottom)) for cell in cells]
    return pairs


FORMS = {"sizes": sizes, "new": new, "full": full, "untouched": untouched, "apps": apps}


def read(key, words, paper, metric, cells, largest=False):
    """A claim of the file."""
    return Claim(key, words, paper, metric, FORMS[cells.pop("of")](**cells), largest)


CLAIMS = {int(figure): [read(**row) for row in rows] for figure, rows in
          json.loads(Path(__file__).with_suffix(".json").read_text()).items()}
