"""What bench-repair measures: rivals of a place in an exhibit, in turns, each several times."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace

ROUNDS = 3


@dataclass(frozen=True)
class Rival:
    """Who repairs: what pages call it, the family of its code, its strategy, and of a recovery
    whether to `one` node or `spread`."""

    label: str
    family: str
    strategy: str
    to: str = ""


@dataclass(frozen=True)
class Comparison:
    """Rivals that are measured beside each other."""

    kind: str
    size: str
    chunk_mib: int
    rivals: tuple
    window_kib: int = 0
    # Of an object whose windows are swept; a window is no longer than that.
    sub_chunk_kib: int = 0
    # What --only calls it, where that is not the kind of its rows.
    word: str = ""

    @property
    def only(self):
        """The word for --only."""
        return self.word or self.kind

    @property
    def shape(self):
        """k and m."""
        return tuple(map(int, self.size.split("+")))

    @property
    def stored(self):
        """What has to be there; the same may be there from the comparison before."""
        of_objects = self.kind in ("degraded", "window", "chunk")
        kind = "objects" if of_objects else self.kind
        return (kind, self.size, self.chunk_mib, *self.families, self.sub_chunk_kib)

    @property
    def families(self):
        """Families of codes, each once."""
        return list(dict.fromkeys(rival.family for rival in self.rivals))


@dataclass(frozen=True)
class Cell:
    """A rival in one round, which loses this chunk."""

    comparison: Comparison
    rival: Rival
    round: int
    lost: int
    rate: str

    @property
    def code(self):
        """The spec of the rival's code."""
        return f"{self.rival.family}:{self.comparison.size}"

    @property
    def name(self):
        """For people, and for the file that it is kept in."""
        of, rival = self.comparison, self.rival
        words = [of.kind, rival.label, rival.to, self.code, f"{of.chunk_mib} MiB",
                 f"{of.window_kib} KiB" if of.window_kib else "", self.rate, f"round {self.round}"]
        return " ".join(word for word in words if word)

    @property
    def row(self):
        """What every row of it says."""
        of, rival = self.comparison, self.rival
        to = dict(to=rival.to) if rival.to else {}
        window = dict(window_kib=of.window_kib) if of.window_kib else {}
        return dict(kind=of.kind, label=rival.label, code=self.code, strategy=rival.strategy, **to,
                    chunk_mib=of.chunk_mib, **window, round=self.round)


@dataclass(frozen=True)
class Plan:
    """A run: the rate of links, what is compared in which order, how many rounds there are of what
    takes so long, and which of k data chunks they lose."""

    rate: str
    comparisons: tuple
    rounds: Callable
    lost: Callable
    # Bytes a second of a limited recovery, and the rate of links then.
    limit: dict = field(default_factory=dict)

    def rate_of(self, comparison):
        """Links of a comparison."""
        return self.limit["rate"] if comparison.kind == "throttle" else self.rate


def turns(plan, comparison, seconds):
    """The cells of a comparison in the order in which they are measured: round by round, and each
    time another rival is the first, so that neither drift nor place is anybody's alone. `seconds`
    says about how long a rival takes."""
    rivals, k = comparison.rivals, comparison.shape[0]
    found = []
    for number in range(ROUNDS):
        first = number % len(rivals)
        for rival in (*rivals[first:], *rivals[:first]):
            if number < plan.rounds(comparison, rival, seconds(comparison, rival)):
                found.append(Cell(comparison, rival, number, plan.lost(k)[number],
                                  plan.rate_of(comparison)))
    return found


def by_time(_comparison, _rival, seconds):
    """Three rounds; two of what takes more than 20 seconds, one of what takes more than 60: those
    wait for one full link, and hardly vary."""
    return 1 if seconds > 60 else 2 if seconds > 20 else ROUNDS


def quick_rounds(comparison, rival, _seconds):
    """The hub's time is what bars are about."""
    return ROUNDS if (comparison.kind, rival.label) == ("degraded", "Clay hub") else 1


def along(k):
    """The first, a middle and the last data chunk: the paper takes the mean over all."""
    return 0, k // 2, k - 1


def same(_k):
    """Always the first chunk."""
    return 0, 0, 0


RS = (Rival("RS central", "rs", "central"), Rival("RS pipelining", "rs", "pipeline"))
CLAY, PLAN, HUB = (Rival("Clay central", "clay", "central"),
                   Rival("Clay, ParaRC's plan", "clay", "vertices"),
                   Rival("Clay hub", "clay", "hub"))
HEURISTIC = Rival("Clay, ParaRC's heuristic", "clay", "pareto")
MDS = (*RS, CLAY, PLAN, HEURISTIC, HUB)
SWEPT = (*RS, CLAY, PLAN, HUB)
BUTTERFLY = (*RS, Rival("Butterfly central", "butterfly", "central"),
             Rival("Butterfly, ParaRC's plan", "butterfly", "vertices"),
             Rival("Butterfly chain", "butterfly", "chain"))


def recoveries(rivals, central):
    """The rivals of a recovery: all to one node, then those that are spread."""
    joint = ("joint", central.family, "joint")
    found = [Rival(one.label, one.family, one.strategy, "one") for one in rivals]
    found += [Rival(*joint, "one")]
    found += [Rival(one.label, one.family, one.strategy, "spread") for one in (RS[1], central)]
    return (*found, Rival(*joint, "spread"))


# What the bars are about, and central Clay spread.
LARGE = tuple(Rival(*words) for words in
              [("Clay central", "clay", "central", "one"), ("Clay hub", "clay", "hub", "one"),
               ("joint", "clay", "joint", "one"), ("joint", "clay", "joint", "spread"),
               ("Clay central", "clay", "central", "spread")])
STORED = (Rival("rs encode", "rs", ""), Rival("clay encode", "clay", ""))
READERS = tuple(Rival(label, family, strategy) for family in ("clay", "rs") for label, strategy in
                [("client", "central"), ("agents", "auto")])
LIMITED = (Rival("joint, one node, 20 MB/s", "clay", "joint", "one"),)
# A limit of 160 Mbit/s for each node, on links that have room for clients beside it.
LIMIT = dict(rate="400mbit", bytes_second=20_000_000)
# KiB of each sub-chunk that travel together, with chunks as large as in the paper; MiB of a chunk.
WINDOWS, CHUNKS = (16, 32, 64, 128, 256), (16, 64, 128, 256, 512)


def swept(size, rivals, windows=WINDOWS, word=""):
    """By window, and by size of a chunk. Who receives everything has no use for windows: central
    RS is among the sizes of chunks."""
    return (*(Comparison("window", size, 256, rivals[1:], kib, max(windows), word)
              for kib in windows),
            *(Comparison("chunk", size, mib, rivals, word=word) for mib in CHUNKS))


QUICK = Plan("100mbit", (
    Comparison("degraded", "12+4", 64, (RS[0], CLAY, RS[1], HEURISTIC, HUB)),
    Comparison("encode", "12+4", 4, STORED),
    Comparison("recovery", "12+4", 8, LARGE[:4])), quick_rounds, same)
# A run that has too little time leaves out the last ones.
FULL = Plan("200mbit", (
    *(Comparison("degraded", size, 64, MDS) for size in ("12+4", "10+4", "8+4")),
    Comparison("degraded", "10+2", 64, BUTTERFLY),
    *(Comparison("recovery", size, 16, recoveries(SWEPT, CLAY))
      for size in ("12+4", "10+4", "8+4")),
    Comparison("recovery", "10+2", 16, recoveries(BUTTERFLY, BUTTERFLY[2])),
    *swept("10+4", SWEPT),
    *(Comparison("encode", size, 16, STORED) for size in ("10+4", "12+4")),
    *(Comparison("read", size, 64, READERS) for size in ("12+4", "10+4")),
    Comparison("throttle", "12+4", 16, LIMITED),
    Comparison("recovery", "12+4", 64, LARGE, word="large"),
    # A stripe of Butterfly 10+2 with sub-chunks of 256 KiB would have 1.5 GiB, and no stripe may.
    *swept("10+2", BUTTERFLY, WINDOWS[:-1], "butterfly")), by_time, along, LIMIT)
# Words for --only; what is measured only if it is asked for.
WORDS = tuple(dict.fromkeys(of.only for of in FULL.comparisons))
ASKED = ("large", "butterfly")


def chosen(plan, only=None, rate=None, tiny=False):
    """A plan with some kinds only, with other links, or tiny: of each kind one comparison in one
    round (of degraded reads one for each family), with chunks of 1 MiB."""
    wanted = [of for of in plan.comparisons if of.only in (only or set(WORDS) - set(ASKED))]
    if tiny:
        found = {}
        for of in wanted:
            kib = 4 if of.window_kib else 0
            small = replace(of, chunk_mib=1, window_kib=kib, sub_chunk_kib=kib)
            found.setdefault(of.families[-1] if of.kind == "degraded" else of.kind, small)
        wanted, plan = found.values(), replace(plan, rounds=lambda *_: 1, lost=same)
    return replace(plan, rate=rate or plan.rate, comparisons=tuple(wanted))
