"""About how long cells of bench-repair take: from what their plans load the busiest link with, and
from what was seen of all that is around them."""

from lab.repair.cells import turns
from lab.rig.testbed import bits_per_second

MIB = 1 << 20
NODES, LOST = 20, 20  # agents of the pool; objects that lose a chunk (as in the paper)
TCP = 1.06  # what headers and the beginning of a repair add
# Bytes a second of what puts data where it is to be read: onto a disk, or through agents.
TO_DISK, TO_AGENTS = 200e6, 120e6
# Seconds of each cell beside what is measured; of a test-bed; of looking for the plans of a code.
AROUND = dict(degraded=1.5, window=1.5, chunk=1.5, recovery=5.0, encode=1.5, read=4.0,
              throttle=12.0)
BED, PLANS = 5.0, 10.0


def chunks_read(family, k, m):
    """Chunks that come to whoever computes alone; codes other than RS have the least there is."""
    return k if family == "rs" else (k + m - 1) / m


def load(comparison, rival):
    """Chunks through the busiest link, of one repair or of all objects of a recovery."""
    k, m = comparison.shape
    if rival.to == "spread":
        # All that is sent, over links none of which has just its share.
        return 1.25 * LOST * chunks_read(rival.family, k, m) / (NODES - 1)
    central = chunks_read(rival.family, k, m)
    one = {"central": central, "pareto": 1.6}.get(rival.strategy, 1.0)
    return LOST * one if rival.to else one


def seconds(rate, comparison, rival, limit=None):
    """What the program will report."""
    link = bits_per_second(rate) / 8
    chunk = comparison.chunk_mib * MIB / link
    if comparison.kind == "encode":
        return chunk * sum(comparison.shape) * TCP
    if comparison.kind == "throttle":
        return LOST * comparison.chunk_mib * MIB / limit + 5
    begin = {"one": 2.0, "spread": 4.0}.get(rival.to, 0.2)
    return chunk * load(comparison, rival) * TCP + begin


def objects(n):
    """Objects until one of the nodes has a chunk of LOST of them."""
    return LOST * NODES / n * 0.9 + 2


def setup(comparison):
    """Seconds until what the first cell needs is there."""
    families = len(comparison.families)
    stripe = sum(comparison.shape) * comparison.chunk_mib * MIB
    if comparison.kind in ("recovery", "throttle"):
        return families * objects(sum(comparison.shape)) * stripe / TO_AGENTS + BED
    if comparison.kind == "read":
        return families * stripe / TO_AGENTS + BED
    if comparison.kind == "encode":
        return 1.0
    # Of the other kinds the plans are known by then.
    return families * stripe / TO_DISK + (PLANS if comparison.kind == "degraded" else 0)


class Estimate:
    """How long the parts of a plan take."""

    def __init__(self, plan):
        self.plan = plan

    def seconds(self, comparison, rival):
        """What the program will report."""
        limit = self.plan.limit.get("bytes_second")
        return seconds(self.plan.rate_of(comparison), comparison, rival, limit)

    def wall(self, cell):
        """Of a cell, with all that is around it."""
        return self.seconds(cell.comparison, cell.rival) + AROUND[cell.comparison.kind]

    def cells(self, comparison):
        """The cells of a comparison, in turns."""
        return turns(self.plan, comparison, self.seconds)

    def lines(self, kept=lambda cell: False):
        """What a run will take, kind by kind, without the cells that are kept."""
        kinds, stored = {}, None
        for comparison in self.plan.comparisons:
            cells = [cell for cell in self.cells(comparison) if not kept(cell)]
            need = sum(map(self.wall, cells))
            if cells and comparison.stored != stored:
                stored = comparison.stored
                need += setup(comparison)
            known = kinds.setdefault(comparison.only, [0, 0.0])
            known[:] = known[0] + len(cells), known[1] + need
        kinds["together"] = [sum(column) for column in zip(*kinds.values())]
        for kind, (count, need) in kinds.items():
            yield f"{kind:9} {count:4} cells, about {need / 60:5.1f} minutes"
