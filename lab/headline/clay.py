"""Clay and G-Clay inside real Ceph: what rows of `lab/clay` say beside each other."""

from .rows import one

SHARES = {"seconds": "seconds_per_mib", "moving": "moving_per_mib", "reads": "reads_each"}


def loss(report, code, plugin, shard, disk="seek"):
    return one(report["losses"], code=code, plugin=plugin, shard=shard, disk_is=disk)


def over(key, ours, theirs):
    """How many times as much one loss takes as another; each as code, plugin, shard."""
    return lambda report: loss(report, *ours)[key] / loss(report, *theirs)[key]


LAST = {name: ("16+2", plugin, 17) for name, plugin in [
    ("natural", "kiln clay"), ("gray", "kiln clay gray"), ("stock", "stock clay"), ("rs", "rs")]}
ORDERS = {f"last_{name}_over_{other}_{word}": over(key, LAST[name], LAST[other])
          for name, other in [("natural", "rs"), ("gray", "rs"), ("natural", "stock")]
          for word, key in SHARES.items()}
ORDERS |= {f"last_{name}_reads": lambda report, name=name: loss(report, *LAST[name])["reads_each"]
           for name in LAST}


def parity(key):
    """Of the last parity of C3 with stripes of 1 MiB: links first over whole chunks."""
    def number(report):
        first, whole = (one(report["losses"], code="C3", plugin=plugin, shard=19)
                        for plugin in ("kiln clay, links first", "kiln clay"))
        return first[key] / whole[key]
    return number


CLAY = {f"links_first_{word}": parity(key)
        for word, key in [("network", "network"), ("disk", "disk"), ("seconds", "seconds_per_mib")]}
NUMBERS = {"clay-orders-quick.json": ORDERS, "clay-quick.json": CLAY}
