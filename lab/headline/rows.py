"""What all of them do with lists of rows."""

from statistics import median


def only(rows, **wanted):
    """Rows whose members are what is wanted; a member that is not there is None."""
    return [row for row in rows if all(row.get(key) == value for key, value in wanted.items())]


def one(rows, **wanted):
    """The one row whose members are what is wanted."""
    found = only(rows, **wanted)
    if len(found) != 1:
        raise KeyError(f"{len(found)} rows have {wanted}")
    return found[0]


def worst(cells, best=min):
    """The least (or most) of pairs of a number and the name of its cell."""
    return best(cells, key=lambda pair: pair[0])


def ends(numbers):
    """The least and the most."""
    numbers = list(numbers)
    return [min(numbers), max(numbers)]


def paired(ours, theirs):
    """How many times faster one is than another: the median of the rounds' ratios, of bytes a
    second; the ratio of medians where rounds were not kept."""
    if not (ours.get("seconds") and theirs.get("seconds")):
        return ours["rate"]["median"] / theirs["rate"]["median"]
    bytes_of = [rate.get("bytes") or rate["data"] for rate in (ours, theirs)]
    rounds = zip(ours["seconds"], theirs["seconds"])
    return median(b / a for a, b in rounds) * bytes_of[0] / bytes_of[1]
