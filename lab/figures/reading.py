"""Numbers and words of reports, as pictures take them."""

import json
import statistics
from collections import defaultdict
from math import nan


def rows_of(value, key):
    """The members of a list; nothing where there is none."""
    found = value.get(key) if isinstance(value, dict) else None
    return found if isinstance(found, list) else []


def word(value, key):
    found = value.get(key) if isinstance(value, dict) else None
    return found if isinstance(found, str) else ""


def number(value):
    """A number, or one that is not drawn."""
    return float(value) if isinstance(value, (int, float)) else nan


def shown(value):
    """A value as JSON has it."""
    return json.dumps(value)


def groups(rows, key):
    """Rows that have the same key, in order of first appearance."""
    found = defaultdict(list)
    for row in rows:
        found[key(row)].append(row)
    return found


def median(spread, unit=1.0):
    """A median and its quarters, as reports have them, in parts of `unit`."""
    part = {key: number(spread[key]) / unit for key in ("median", "p25", "p75")}
    return part["median"], (part["p25"], part["p75"])


def middle(numbers):
    """The median."""
    return statistics.median(numbers) if numbers else 0.0


def rounds(numbers):
    """The median, and the least and most."""
    return middle(numbers), (min(numbers, default=0.0), max(numbers, default=0.0))


def size(count):
    """`64 B`, `1 KiB`, `2 MiB`."""
    if count < 1024:
        return f"{count} B"
    return f"{count >> 10} KiB" if count < 1 << 20 or count % (1 << 20) else f"{count >> 20} MiB"


def machine(report):
    """Where the numbers of a report were measured."""
    about = report.get("machine")
    if not isinstance(about, dict) or "clock" not in about:
        return ""
    held = about.get("held_to")
    held = f", everybody held to {held}" if held else ""
    return (f"{about['cpu']}, {about['cores']} cores, kernel `{about['kernel']}`{held}, Linux "
            f"{about['system']}, {about['compiler']}, commit {about['commit']}, load "
            f"{about['load']}, {about['clock'].capitalize()} clock")
