"""What all of them do with lists of rows."""


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
