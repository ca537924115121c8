"""The paper's applications: mixes of requests to a block device, and of processes on files."""

from dataclasses import dataclass

KIB, MIB = 1 << 10, 1 << 20

# The parts of the paper's Table II, as shares of the processes. Sizes of requests are those that
# its text names (its Fig. 30 has no numbers); metadata requests have no counterpart on a block
# device and are left out. The table has logs of databases as reads; its text says that they are
# written, and so they are here.
BLOCKS = {
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


@dataclass(frozen=True)
class Part:
    """One kind of process on files, as Table II has it: its share of all processes, of its requests
    those about names, and of the others those that read and that are random. How many files of
    which size is ours."""

    name: str
    share: float
    names: float
    read: float
    random: float
    size: int
    files: int
    file_bytes: int
    # Microseconds from one request to the next, where a process keeps a pace.
    every_us: int = 0

    def words(self, count):
        """What `kiln-bench mix` is told of so many of them."""
        return dict(name=self.name, count=count, names=self.names, read=self.read,
                    random=self.random, bytes=self.size, files=self.files,
                    file_bytes=self.file_bytes, every_us=self.every_us)


# Design automation and video: the two whose requests are about names to a part that matters (60%
# of a frontend's, 9% of a companion's; of a desktop's 1%, of a database's none).
FILES = {
    "EDA": [
        Part("frontend", 0.667, 0.6, 0.375, 0.425, 64 * KIB, 40, 64 * KIB),
        Part("backend", 0.333, 0.0, 0.5, 0.0, 64 * KIB, 2, 4 * MIB),
    ],
    "VDA": [
        Part("stream", 0.9, 0.0, 0.0, 0.0, 512 * KIB, 1, 8 * MIB,
             round(512 * KIB / STREAM_BYTES * 1e6)),
        Part("companion", 0.1, 0.09, 0.989, 0.945, 512 * KIB, 2, 8 * MIB, 100_000),
    ],
}


def count_of(share, processes):
    """How many of so many processes are of a part."""
    return max(1, round(processes * share))


def on_blocks(app, processes):
    """(name, fio's flags, how many) for each part of an application."""
    found = []
    for name, share, words in BLOCKS[app]:
        count = count_of(share, processes)
        flags = [*words.split(), "norandommap=1"]
        if name == "stream":
            flags.append(f"rate={count * STREAM_BYTES}")
        found.append((name, tuple(flags), count))
    return found


def on_files(app, processes):
    """What `kiln-bench mix` is told of an application."""
    return tuple(part.words(count_of(part.share, processes)) for part in FILES[app])
