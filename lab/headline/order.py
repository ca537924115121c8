"""Orders of sub-chunks: runs that were counted, and what an order costs at write and read."""

from .rows import ends, one


def total(table, order):
    """All runs of a table of the paper, over all lost chunks."""
    return lambda report: sum(dict(report["counts"][table]["columns"])[order])


def spread(table, order):
    return lambda report: ends(dict(report["counts"][table]["columns"])[order])


def runs(code, order):
    def number(report):
        return one(one(report["counts"]["codes"], code=code)["orders"], order=order)["s_total"]
    return number


def reduction(m, digits):
    return lambda report: next(share for a, b, share in report["counts"]["reductions"]
                               if (a, b) == (m, digits))


def slower(work, *how):
    """By how much an order is slower than natural order in the same round."""
    def number(report):
        found = [one(report["moving"], work=work, how=name)["slower"] / 100 for name in how]
        return found[0] if len(found) == 1 else ends(found)
    return number


def others(key):
    """What orders other than natural have of its speed."""
    return lambda report: ends(row[key] for row in report["coding"] if row["order"] != "natural")


MOVED = ("moved, 1 thread (paper)", "moved, 8 threads (paper)")
COUNTED = {
    **{f"table_3_{name}": total("table_3", name) for name in ("natural", "gray", "balanced")},
    **{f"table_4_{name}": total("table_4", name) for name in ("natural", "gray", "balanced")},
    "table_4_special_1": total("table_4", "recursive:4:2:165"),
    "table_4_special_2": total("table_4", "recursive:128004:3"),
    "balanced_16_2": spread("table_4", "balanced"),
    "reduction_m2_k16": reduction(2, 9),
    "reduction_m4_k16": reduction(4, 5),
    "reduction_m5_k15": reduction(5, 4),
}
for code in ("4+2", "9+3", "10+4"):
    for order in ("natural", "gray", "fewest"):
        COUNTED[f"{order}_{code.replace('+', '_')}"] = runs(code, order)
del COUNTED["fewest_4_2"], COUNTED["fewest_9_3"]  # The same orders as gray there.
MEASURED = {
    "other_orders_encode": others("encode_over_natural"),
    "other_orders_repair": others("repair_over_natural"),
}
for name, work in [("write", "encode to disk"), ("read", "read from disk"), ("encode", "encode"),
                   ("read_memory", "read")]:
    MEASURED[f"{name}_relabelled"] = slower(work, "relabelled (kiln)")
    MEASURED[f"{name}_moved"] = slower(work, *MOVED)
NUMBERS = {"order.json": COUNTED | MEASURED}
