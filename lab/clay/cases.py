"""What is measured: codes, the plugins that have them, workloads, and what the paper found."""

from dataclasses import dataclass, field

MIB = 1 << 20
VAN = "technique=reed_sol_van"
PLUGINS = {
    "rs": f"plugin=isa {{km}} {VAN}",
    "stock clay": f"plugin=clay {{km}} scalar_mds=isa {VAN}",
    "kiln clay": "plugin=kiln code=clay {km}",
}
# Where runs are shorter than a block of a disk, kiln's plugin asks for whole chunks, unless told
# that disks read less at a time: then it spares the links, as Ceph's does.
SPARING = "kiln clay, links first"
GRAY = "kiln clay gray"
WORDS = PLUGINS | {SPARING: "plugin=kiln code=clay {km} read_block=64",
                   GRAY: "plugin=kiln code=clay {km} order=gray"}


@dataclass(frozen=True)
class Code:
    """One of the papers' codes, with bytes of a chunk in a stripe of each workload.

    The Clay paper's stripes have 64 MiB and 1 MiB. Chunks here are multiples of 4096 bytes, and of
    32 bytes for each of the alpha sub-chunks, so with nine or ten data chunks they have 57 to 62.6
    and 2.8 MiB.
    """

    name: str
    k: int
    m: int
    alpha: int
    units: dict = field(hash=False)
    d: int = 0  # helpers of a repair; 0: all that are left

    @property
    def n(self):
        """Chunks of a stripe."""
        return self.k + self.m

    def profile(self, plugin, workload):
        """The words of a pool's profile."""
        km = f"k={self.k} m={self.m}" + f" d={self.d}" * (self.d > 0 and plugin != "rs")
        return f"{WORDS[plugin].format(km=km)} stripe_unit={self.units[workload]}"

    def stripe(self, workload):
        """Bytes of data in a stripe."""
        return self.k * self.units[workload]

    def sizes(self, workload, lost_mib):
        """Sizes of objects that lose about so much with one chunk each: all of a stripe, or as the
        Clay paper's W2 mixes them: 82.5% of 64 MiB, 10% of 32 MiB, 7.5% of 1 MiB."""
        if workload != "W2":
            return [self.stripe(workload)] * max(2, round(lost_mib * MIB / self.units[workload]))
        count = max(2, round(lost_mib * MIB / (64 * MIB / self.k)))
        small, middle = max(1, round(count * 0.075)), max(1, round(count * 0.1))
        return [64 * MIB] * max(1, count - small - middle) + [32 * MIB] * middle + [MIB] * small

    def stripes(self, workload, size):
        """Stripes of an object, the last of which may be padded."""
        return -(-size // self.stripe(workload))

    def lost(self, workload, size):
        """Bytes of one chunk of an object, padding of the last stripe included."""
        return self.stripes(workload, size) * self.units[workload]


C1 = Code("C1", 4, 2, 8, {"W1": 16 * MIB, "W2": 256 << 10})
C2 = Code("C2", 9, 3, 81, {"W1": 81 * 88 << 10, "W2": 81 * 4096})
C3 = Code("C3", 16, 4, 1024, {"W1": 4 * MIB, "W2": 64 << 10})
C4 = Code("C4", 10, 4, 128, {"W1": 6 * MIB}, d=11)
C5 = Code("C5", 10, 4, 243, {"W1": 243 * 24 << 10}, d=12)
C6 = Code("C6", 10, 4, 256, {"W1": 6 * MIB}, d=13)


@dataclass(frozen=True)
class Case:
    """A loss: of which shard, and how many OSDs from there on, in pools of how many placement
    groups; or clients beside one. Where there are several groups, they lose what they have on the
    OSDs that the first one loses."""

    code: Code
    plugin: str
    workload: str = "W1"
    groups: int = 1
    shard: int = 1
    clients: str = ""
    losses: int = 1
    disk: str = ""  # what a disk is emulated to be

    @property
    def key(self):
        """What rounds of it have in common."""
        shards = f"shard {self.shard}"
        if self.losses > 1:
            shards = f"{self.losses} OSDs"
        words = [self.code.name, self.plugin, self.workload, f"{self.groups} groups",
                 shards, self.clients, self.disk]
        return ", ".join(filter(None, words))

    @property
    def pool(self):
        """What cases in one pool have in common. Elsewhere OSDs may remember what they read."""
        shared = self.clients or self.disk
        return (self.code, self.plugin, self.workload, self.groups,
                *(() if shared else (self.shard, self.losses)), bool(self.clients))


def cases(codes, groups, several=()):
    """All of them, the most wanted first."""
    found = [Case(code, plugin) for code in codes for plugin in PLUGINS]
    found += [Case(code, plugin, groups=groups) for code in codes for plugin in PLUGINS]
    # RS is the same for all that lose several.
    found += [Case(code, plugin, groups=groups, losses=2) for plugin in PLUGINS
              for code in (several[-1:] if plugin == "rs" else several)]
    # Of a parity that is lost pieces are as short as they can be.
    last, worst = codes[-1], codes[-1].n - 1
    found += [Case(last, plugin, "W2") for plugin in PLUGINS]
    found += [Case(last, plugin, "W2", shard=worst) for plugin in (*PLUGINS, SPARING)
              if plugin != "rs"]
    found += [Case(code, plugin, "W2") for code in codes[:-1] for plugin in PLUGINS]
    # Readers first, in the same pool: writers add objects to it.
    found += [Case(last, plugin, clients=work) for plugin in PLUGINS for work in ("read", "write")]
    return found


# What the paper says, by code: parts of RS's that Clay saves.
PAPER = {
    "network_saved": {"C1": 0.25, "C2": 0.52, "C3": 0.66},
    "disk_saved": {"C1": 0.375, "C2": 0.593, "C3": 0.702},
    "times_faster": {"C3": 3.0},
    "write_beside": {"C3": 2.06},
    "read_beside": {"C3": 1.27},
    # Chunks that are read when two of 10+4 are lost, in the mean of all pairs: by its appendix.
    "two_losses_chunks": {"C4": 8.385, "C5": 6.857, "C6": 9.165},
}
