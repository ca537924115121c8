"""What is done to images: cells of the study, for each size of a run."""

from dataclasses import dataclass, replace

KIB, MIB = 1 << 10, 1 << 20
BIN = 0.25  # seconds: what clients get is kept over time in such parts
SWEPT = ("ceph:rep", "ceph:rs")
PATTERNS = {"seqwrite": "write", "seqread": "read", "randread": "randread",
            "randwrite": "randwrite"}


@dataclass(frozen=True)
class Job:
    """One kind of process: fio's flags, and how many requests it has under way."""

    name: str
    flags: tuple
    depth: int


@dataclass(frozen=True)
class Cell:
    """Something that is measured on some targets."""

    name: str
    targets: tuple
    jobs: tuple
    # On an image that nobody has written to; else on one that is full.
    fresh: bool = False
    # With looks at all counters over time; such cells last longer.
    series: bool = False
    # Lasts until what is done behind clients is as it stays.
    steady: bool = False
    # With one OSD or agent gone.
    degraded: bool = False

    @property
    def reads_only(self):
        """Whether nothing is written."""
        return all("rw=read" in job.flags or "rw=randread" in job.flags for job in self.jobs)


@dataclass(frozen=True)
class Kind:
    """The size of a run."""

    k: int
    m: int
    osds: int
    image_mib: int
    device_mib: int
    seconds: float
    rounds: int
    sizes: tuple
    depth: int
    processes: dict
    # Longer looks: idle systems, cells over time.
    idle: float
    series: float
    groups: int
    # Where all sizes are measured, where 4 KiB only, and where depth 1 too.
    swept: tuple = SWEPT
    also: tuple = ()
    serial: tuple = ()
    deep: tuple = ()
    # Requests of 4 KiB alone, on these for longer and on those with a host gone.
    four_alone: bool = False
    steady: tuple = ()
    steady_seconds: float = 0
    degraded: tuple = ()


# Everything that there is to choose from, where the release and the plugins have it.
PEERS = ("ceph:rep", "ceph:rs", "ceph:isa", "ceph:rs-4-2", "ceph:isa-16k", "ceph:isa-64k",
         "ceph:fast", "ceph:kiln", "ceph:clay", "ceph:kiln-clay", "volume:rep", "volume:rs",
         "volume:clay")
FEW = ("ceph:rep", "ceph:isa", "ceph:fast", "volume:rep", "volume:rs", "volume:clay")

# One run of these and all the rest takes less than ten minutes.
APPS_QUICK = {"DB": (4, 16), "VDI": (4, 16), "EDA": (8,), "VDA": (4,)}
KINDS = {
    "tiny": Kind(2, 1, 4, 16, 1024, 0.5, 1, (4 * KIB,), 8,
                 {"DB": (4,), "VDA": (2,)}, 1, 1, 4, also=("volume:rs",),
                 steady=("volume:rs",), steady_seconds=1, degraded=("ceph:rep", "volume:rs")),
    "peers": Kind(6, 3, 9, 256, 4096, 1, 3, (4 * KIB,), 32, {}, 4, 3, 12, swept=(), also=PEERS,
                  serial=FEW, four_alone=True, steady=FEW, steady_seconds=6, degraded=PEERS),
    "quick": Kind(6, 3, 9, 256, 4096, 1, 3, (4 * KIB, 32 * KIB, 256 * KIB), 32,
                  APPS_QUICK, 4, 3, 16, also=("ceph:isa", "ceph:rs-4-2", "volume:rep", "volume:rs"),
                  serial=("ceph:rep", "ceph:isa", "volume:rs")),
    "full": Kind(6, 3, 9, 8192, 49152, 15, 3,
                 tuple(KIB << power for power in range(11)), 32,
                 {app: (2, 4, 8, 16, 32, 64) for app in ("DB", "VDI", "EDA")}
                 | {"VDA": (2, 4, 6, 8)}, 20, 60, 32,
                 swept=(*SWEPT, "volume:rs"),
                 also=("ceph:isa", "ceph:rs-4-2", "ceph:isa-16k", "ceph:isa-64k", "ceph:fast",
                       "ceph:kiln", "ceph:clay", "ceph:kiln-clay", "volume:rep", "volume:clay"),
                 serial=("ceph:rep", "ceph:isa", "ceph:fast", "volume:rep", "volume:rs"),
                 deep=SWEPT),
}

# The parts of the paper's Table II, as shares of the processes. Sizes of requests are those that
# its text names (its Fig. 30 has no numbers); metadata requests have no counterpart on a block
# device and are left out. The table has logs of databases as reads; its text says that they are
# written, and so they are here.
MIXES = {
    "DB": [
        ("table", 0.833, "rw=randrw rwmixread=80 bs=8k percentage_random=99"),
        ("log", 0.167, "rw=randwrite bs=8k percentage_random=20"),
    ],
    "VDI": [("desktop", 1.0, "rw=randrw rwmixread=26 bssplit=4k/70:16k/20:64k/10 "
             "percentage_random=85")],
    "EDA": [
        ("frontend", 0.667, "rw=randrw rwmixread=38 bs=64k percentage_random=58"),
        ("backend", 0.333, "rw=rw rwmixread=50 bs=64k"),
    ],
    # A stream has 36 Mbit/s; its companions ask for nothing more while one answer is due.
    "VDA": [
        ("stream", 0.9, "rw=write bs=512k"),
        ("companion", 0.1, "rw=randrw rwmixread=99 bs=512k percentage_random=95 "
         "rate_iops=10"),
    ],
}
STREAM_BYTES = 4_500_000


def size_words(size):
    """`4k` as fio and names have it, `1m` from a MiB on."""
    return f"{size // MIB}m" if size >= MIB else f"{size // KIB}k"


def name_of(pattern, size, depth, fresh=False):
    """The name of a cell of one pattern."""
    return f"{pattern}-{size_words(size)}-q{depth}" + ("-fresh" if fresh else "")


def simple(pattern, size, depth, targets, fresh=False, series=False):
    """One pattern, one size, one depth."""
    # On an image that is full a block may be written twice; each new one is touched once.
    once = fresh or pattern in ("seqread", "seqwrite", "randread")
    flags = (f"rw={PATTERNS[pattern]}", f"bs={size_words(size)}",
             f"norandommap={0 if once else 1}")
    return Cell(name_of(pattern, size, depth, fresh), tuple(targets), (Job("a", flags, depth),),
                fresh, series)


def application(app, processes, targets):
    """The mix of an application with so many processes, each with one request under way."""
    jobs = []
    for name, share, words in MIXES[app]:
        count = max(1, round(processes * share))
        flags = [*words.split(), "norandommap=1"]
        if name == "stream":
            flags.append(f"rate={count * STREAM_BYTES}")
        jobs.append(Job(name, tuple(flags), count))
    return Cell(f"{app}-p{processes}", tuple(targets), tuple(jobs), series=app == "VDA")


def longer(kind):
    """Cells of 4 KiB that last until cleaning is as it stays, and those with a host gone."""
    four, depth, found = 4 * KIB, kind.depth, []
    if kind.steady:
        one = simple("randwrite", four, depth, kind.steady)
        found.append(replace(one, name=f"{one.name}-steady", steady=True))
    for pattern in ("randread", "randwrite") if kind.degraded else ():
        one = simple(pattern, four, depth, kind.degraded)
        found.append(replace(one, name=f"{one.name}-degraded", degraded=True))
    return found


def four_alone(kind):
    """Requests of 4 KiB at random, many at a time and one by one."""
    patterns = ("randread", "randwrite")
    return [simple(pattern, 4 * KIB, depth, targets) for depth, targets in
            ((kind.depth, kind.also), (1, kind.serial)) for pattern in patterns]


def cells(kind):
    """All cells of a run, in order: what writes little is before what writes much."""
    if kind.four_alone:
        return four_alone(kind) + longer(kind)
    four, swept = 4 * KIB, kind.swept
    fresh = 16 * KIB
    found = [simple("seqwrite", fresh, kind.depth, SWEPT, fresh=True, series=True),
             simple("randwrite", four, kind.depth, SWEPT, fresh=True)]
    for pattern in ("randread", "seqread", "seqwrite", "randwrite"):
        for size in kind.sizes:
            also = kind.also if size == four and pattern.startswith("rand") else ()
            found.append(simple(pattern, size, kind.depth, (*swept, *also)))
            if kind.deep:
                found.append(simple(pattern, size, 256, kind.deep))
    if fresh not in kind.sizes:
        found.append(simple("seqwrite", fresh, kind.depth, SWEPT))
    found += [simple(pattern, four, 1, kind.serial)
              for pattern in ("randread", "randwrite") if kind.serial]
    found += [application(app, count, SWEPT)
              for app, counts in kind.processes.items() for count in counts]
    return found + longer(kind)
