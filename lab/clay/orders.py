"""G-Clay's evaluation: a repair whose helpers read sub-chunks in natural order, or in Gray's.

Ceph's own plugin is the paper's unpatched Clay, `order=gray` in kiln's profile what its patched OSD
does. Each OSD is on an emulated disk: *seek* grants a process 150 reads and 150 MiB a second,
*plain* is a loop device as it is.
"""

from lab.clay.cases import GRAY, MIB, Case, Code

NATURAL = "kiln clay"
ORDERS = (NATURAL, GRAY)
# By lost chunk they are alike in pairs with m = 2, so the paper draws the odd ones, and so do we.
G16 = Code("16+2", 16, 2, 512, {"2 MiB": 2 * MIB})
G14 = Code("14+2", 14, 2, 256, {"1 MiB": MIB})
G9 = Code("9+3", 9, 3, 81, {"324 KiB": 324 << 10})
SEEK, PLAIN = "seek", "plain"


def cases(codes, _groups=1, _several=()):
    """All of them, the most wanted first; those of one pool are neighbours."""
    found = []

    def add(code, plugin, disk, *shards):
        if code in codes:
            workload = next(iter(code.units))
            found.extend(Case(code, plugin, workload, shard=shard, disk=disk) for shard in shards)

    for plugin in ORDERS:
        add(G16, plugin, SEEK, *range(17, 0, -2))
        add(G16, plugin, PLAIN, 17)
    add(G16, "stock clay", SEEK, 17, 9, 1)
    add(G16, "rs", SEEK, 17)
    for code, shards in ((G9, (11, 10, 9, 7, 4, 1)), (G14, (15, 11, 7))):
        for plugin in ORDERS:
            add(code, plugin, SEEK, *shards)
    if codes[0].name == "C1":  # tiny
        add(codes[0], "stock clay", SEEK, 5, 1)
    return found


PAPER = {
    # Of the time that helpers read, in sum over all lost chunks.
    "read_seconds_saved": {"16+2, 2 MiB, disk": 0.402, "16+2, 2 MiB, SSD": 0.456,
                           "9+3, 324 KiB, SSD": 0.265},
    "seconds_saved": {"16+2, 2 MiB, disk": 0.37},
    "runs": {"16+2, natural": [1, 2, 4, 8, 16, 32, 64, 128, 256],
             "16+2, gray": [1, 1, 2, 4, 8, 16, 32, 64, 128]},
}


def headline(rows, codes, _groups=1, _several=()):
    """What Gray's order saves of what natural order takes, in sum over the chunks lost."""
    found = {}
    for code in codes:
        mine = [row for row in rows if row["code"] == code.name]
        for disk in (SEEK, PLAIN):
            pairs = paired(mine, disk)
            words = code.name.replace("+", "_") + f"_{disk}"
            for name, some in (("all", pairs), ("last", pairs[:1])):
                for key in ("seconds_per_mib", "moving_per_mib", "reads_each"):
                    natural, gray = (sum(pair[at][key] for pair in some) for at in (0, 1))
                    if natural:
                        found[f"{words}_{name}_{key.split('_')[0]}_saved"] = 1 - gray / natural
    return found


def paired(rows, disk):
    """Natural and Gray's order, for each shard that both lost, the last one first."""
    by = {(row["plugin"], row["shard"]): row for row in rows if row["disk_is"] == disk}
    shards = sorted({shard for _, shard in by}, reverse=True)
    return [tuple(by[order, shard] for order in ORDERS) for shard in shards
            if all((order, shard) in by for order in ORDERS)]
