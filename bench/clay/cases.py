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
WORDS = PLUGINS | {SPARING: "plugin=kiln code=clay {km} read_block=64"}


@dataclass(frozen=True)
class Code:
    """One of the paper's codes, with bytes of a chunk in a stripe of each workload.

    The paper's stripes have 64 MiB and 1 MiB. Chunks here are multiples of 4096 bytes, and of 32
    bytes for each of the alpha sub-chunks, so with nine data chunks they have 62.6 and 2.8 MiB.
    """

    name: str
    k: int
    m: int
    alpha: int
    units: dict = field(hash=False)

    @property
    def n(self):
        """Chunks of a stripe."""
        return self.k + self.m

    def profile(self, plugin, workload):
        """The words of a pool's profile."""
        km = f"k={self.k} m={self.m}"
        return f"{WORDS[plugin].format(km=km)} stripe_unit={self.units[workload]}"

    def stripe(self, workload):
        """Bytes of data in a stripe."""
        return self.k * self.units[workload]

    def sizes(self, workload, lost_mib):
        """Sizes of objects that lose about so much with one chunk each: all of a stripe, or as the
        paper's W2 mixes them: 82.5% of 64 MiB, 10% of 32 MiB, 7.5% of 1 MiB."""
        count = max(2, round(lost_mib * MIB / (64 * MIB / self.k)))
        if workload == "W1":
            return [self.stripe(workload)] * count
        small, middle = max(1, round(count * 0.075)), max(1, round(count * 0.1))
        return [64 * MIB] * max(1, count - small - middle) + [32 * MIB] * middle + [MIB] * small

    def lost(self, workload, size):
        """Bytes of one chunk of an object, padding of the last stripe included."""
        return -(-size // self.stripe(workload)) * self.units[workload]


C1 = Code("C1", 4, 2, 8, {"W1": 16 * MIB, "W2": 256 << 10})
C2 = Code("C2", 9, 3, 81, {"W1": 81 * 88 << 10, "W2": 81 * 4096})
C3 = Code("C3", 16, 4, 1024, {"W1": 4 * MIB, "W2": 64 << 10})


@dataclass(frozen=True)
class Case:
    """One loss: of which shard, in pools of how many placement groups; or clients beside one."""

    code: Code
    plugin: str
    workload: str = "W1"
    groups: int = 1
    shard: int = 1
    clients: str = ""

    @property
    def key(self):
        """What rounds of it have in common."""
        words = [self.code.name, self.plugin, self.workload, f"{self.groups} groups",
                 f"shard {self.shard}", self.clients]
        return ", ".join(filter(None, words))


def cases(codes, groups):
    """All of them, the most wanted first."""
    found = []
    for code in codes:
        found += [Case(code, plugin) for plugin in PLUGINS]
    for code in codes:
        found += [Case(code, plugin, "W2") for plugin in PLUGINS]
    # Of a parity that is lost pieces are as short as they can be.
    last, worst = codes[-1], codes[-1].n - 1
    found += [Case(last, plugin, "W2", shard=worst) for plugin in WORDS if plugin != "rs"]
    found += [Case(last, plugin, clients=work) for work in ("write", "read") for plugin in PLUGINS]
    for code in codes:
        found += [Case(code, plugin, groups=groups) for plugin in PLUGINS]
    return found


# What the paper says, by code: parts of RS's that Clay saves.
PAPER = {
    "network_saved": {"C1": 0.25, "C2": 0.52, "C3": 0.66},
    "disk_saved": {"C1": 0.375, "C2": 0.593, "C3": 0.702},
    "times_faster": {"C3": 3.0},
    "write_beside": {"C3": 2.06},
    "read_beside": {"C3": 1.27},
}
