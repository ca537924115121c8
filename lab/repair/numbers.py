"""Numbers from rows of bench-repair: cells, medians over their rounds, ratios within rounds."""

from statistics import median

WINDOWS, CHUNKS = (16, 32, 64, 128, 256), (16, 64, 128, 256, 512)


def only(rows, **wanted):
    """Rows whose members are what is wanted; a member that is not there is None."""
    return [row for row in rows if all(row.get(key) == value for key, value in wanted.items())]


def cell_key(row):
    """What is the same in all rounds of a cell."""
    return (row["kind"], row.get("label", ""), row.get("to", ""), row["code"], row["chunk_mib"],
            row.get("window_kib", 0))


def cells(rows):
    """Rounds of a cell together, in the order in which cells come first."""
    found = {}
    for row in rows:
        found.setdefault(cell_key(row), []).append(row)
    return list(found.values())


def cell(report, kind, label, code, largest=True, **wanted):
    """The rounds of one cell; of several sizes of a chunk those of the largest (or the least)."""
    found = only(report["rows"], kind=kind, label=label, code=code, **wanted)
    if not found:
        raise KeyError(f"no row {kind} {label} {code} {wanted}")
    sizes = [row["chunk_mib"] for row in found]
    size = max(sizes) if largest else min(sizes)
    return [row for row in found if row["chunk_mib"] == size]


def in_rounds(ours, theirs, key):
    """How many times one has what another has: the median of the ratios within rounds where both
    have the same rounds, else the ratio of medians."""
    numbers = [{row.get("round"): row[key] for row in rows} for rows in (ours, theirs)]
    if None not in numbers[0] and numbers[0].keys() == numbers[1].keys():
        return median(numbers[0][at] / numbers[1][at] for at in numbers[0])
    return median(row[key] for row in ours) / median(row[key] for row in theirs)


def time(report, kind, label, code, **wanted):
    """The median seconds of a cell."""
    return median(row["seconds"] for row in cell(report, kind, label, code, **wanted))


def most_traffic(report, *kinds):
    """Streams over plan at the worst host of any round."""
    return max(row["traffic_over_plan"] for row in report["rows"] if row["kind"] in kinds)
