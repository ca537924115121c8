"""What is done to images: cells of the study, for each size of a run."""

from dataclasses import dataclass, field, replace

from lab.online import mixes

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
    # Of processes on files: what `kiln-bench mix` is told of each kind of them.
    processes: tuple = ()

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
    # Requests of 4 KiB at these fixed rates, and applications on files with these processes; on
    # these targets.
    rates: tuple = ()
    on_files: dict = field(default_factory=dict)
    mounted: tuple = ()


# Everything that there is to choose from, where the release and the plugins have it.
PEERS = ("ceph:rep", "ceph:rs", "ceph:isa", "ceph:rs-4-2", "ceph:isa-16k", "ceph:isa-64k",
         "ceph:fast", "ceph:kiln", "ceph:clay", "ceph:kiln-clay", "volume:rep", "volume:rs",
         "volume:clay")
MOUNTED = ("ceph:rep", "ceph:rs", "volume:rep", "volume:rs")
FEW = ("ceph:rep", "ceph:isa", "ceph:fast", "volume:rep", "volume:rs", "volume:clay")

# One run of these and all the rest takes less than ten minutes.
APPS_QUICK = {"DB": (4, 16), "VDI": (4, 16), "EDA": (8,), "VDA": (4,)}
KINDS = {
    "tiny": Kind(2, 1, 4, 16, 1024, 0.5, 1, (4 * KIB,), 8,
                 {"DB": (4,), "VDA": (2,)}, 1, 1, 4, also=("volume:rs",),
                 steady=("volume:rs",), steady_seconds=1, degraded=("ceph:rep", "volume:rs"),
                 rates=(20,), on_files={"EDA": (3,)}, mounted=("ceph:rs", "volume:rs")),
    "peers": Kind(6, 3, 9, 256, 4096, 1, 3, (4 * KIB,), 32, {}, 4, 3, 12, swept=(), also=PEERS,
                  serial=FEW, four_alone=True, steady=FEW, steady_seconds=6, degraded=PEERS),
    "quick": Kind(6, 3, 9, 256, 4096, 1, 3, (4 * KIB, 32 * KIB, 256 * KIB), 32,
                  APPS_QUICK, 4, 3, 16, also=("ceph:isa", "ceph:rs-4-2", "volume:rep", "volume:rs"),
                  serial=("ceph:rep", "ceph:isa", "volume:rs")),
    "files": Kind(6, 3, 9, 256, 4096, 5, 3, (), 32, {}, 4, 5, 16, swept=(), rates=(25, 50, 100),
                  on_files={"EDA": (2, 4, 8, 16), "VDA": (2, 3, 4)}, mounted=MOUNTED),
    "full": Kind(6, 3, 9, 8192, 49152, 15, 3,
                 tuple(KIB << power for power in range(11)), 32,
                 {app: (2, 4, 8, 16, 32, 64) for app in ("DB", "VDI", "EDA")}
                 | {"VDA": (2, 4, 6, 8)}, 20, 60, 32,
                 swept=(*SWEPT, "volume:rs"),
                 also=("ceph:isa", "ceph:rs-4-2", "ceph:isa-16k", "ceph:isa-64k", "ceph:fast",
                       "ceph:kiln", "ceph:clay", "ceph:kiln-clay", "volume:rep", "volume:clay"),
                 serial=("ceph:rep", "ceph:isa", "ceph:fast", "volume:rep", "volume:rs"),
                 deep=SWEPT, rates=(25, 50, 100), mounted=MOUNTED,
                 on_files={"EDA": (2, 4, 8, 16, 32), "VDA": (2, 4, 6, 8)}),
}

# Sizes of a run that may be asked for; those of the full one are the paper's.
SIZES = {"image_mib": "MiB of an image", "device_mib": "MiB of each device",
         "seconds": "seconds of a sample", "series": "seconds of one over time"}


def sized(kind, asked):
    """A kind of run with other sizes; those that are nothing stay as they are."""
    found = {size: int(number) if size.endswith("mib") else number
             for size, number in asked.items() if number}
    return replace(kind, **found)


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
    jobs = tuple(Job(*job) for job in mixes.on_blocks(app, processes))
    return Cell(f"{app}-p{processes}", tuple(targets), jobs, series=app == "VDA")


def on_files(app, processes, targets):
    """The same on the files of a file system, with requests about names."""
    told = mixes.on_files(app, processes)
    jobs = tuple(Job(one["name"], (), one["count"]) for one in told)
    return Cell(f"{app}-files-p{processes}", tuple(targets), jobs, series=app == "VDA",
                processes=told)


def at_rate(pattern, rate, depth, targets):
    """Requests of 4 KiB that come at moments of their own, so many a second."""
    one = simple(pattern, 4 * KIB, depth, targets)
    job = one.jobs[0]
    flags = (*job.flags, f"rate_iops={rate}", "rate_process=poisson")
    return replace(one, name=f"{pattern}-4k-r{rate}", jobs=(replace(job, flags=flags),),
                   series=True)


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


def mounted(kind):
    """Latency at fixed rates, then applications on files."""
    found = [at_rate(pattern, rate, kind.depth, kind.mounted)
             for pattern in ("randwrite", "randread") for rate in kind.rates]
    return found + [on_files(app, count, kind.mounted)
                    for app, counts in kind.on_files.items() for count in counts]


def four_alone(kind):
    """Requests of 4 KiB at random, many at a time and one by one."""
    patterns = ("randread", "randwrite")
    return [simple(pattern, 4 * KIB, depth, targets) for depth, targets in
            ((kind.depth, kind.also), (1, kind.serial)) for pattern in patterns]


def swept(kind):
    """Cells of one pattern and one size each."""
    found = []
    for pattern in ("randread", "seqread", "seqwrite", "randwrite"):
        for size in kind.sizes:
            also = kind.also if size == 4 * KIB and pattern.startswith("rand") else ()
            found.append(simple(pattern, size, kind.depth, (*kind.swept, *also)))
            if kind.deep:
                found.append(simple(pattern, size, 256, kind.deep))
    return found


def cells(kind):
    """All cells of a run, in order: what writes little is before what writes much."""
    if kind.four_alone:
        return four_alone(kind) + longer(kind)
    if not kind.sizes:
        return mounted(kind)
    four, fresh = 4 * KIB, 16 * KIB
    found = [simple("seqwrite", fresh, kind.depth, SWEPT, fresh=True, series=True),
             simple("randwrite", four, kind.depth, SWEPT, fresh=True), *swept(kind)]
    if fresh not in kind.sizes:
        found.append(simple("seqwrite", fresh, kind.depth, SWEPT))
    found += [simple(pattern, four, 1, kind.serial)
              for pattern in ("randread", "randwrite") if kind.serial]
    found += [application(app, count, SWEPT)
              for app, counts in kind.processes.items() for count in counts]
    return found + mounted(kind) + longer(kind)
