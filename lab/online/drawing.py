"""Panels of pictures from medians, as data for the one renderer (crates/figure)."""

from lab.online.cells import application, name_of, size_words
from lab.online.targets import BY_NAME

# What numbers are called, by their key in samples; whether their axis is logarithmic.
METRICS = {
    "mb_s": ("MB/s", True),
    "iops": ("requests a second", True),
    "mean_us": ("mean latency, us", True),
    "p99_us": ("99% of requests within, us", True),
    "data_us": ("mean latency of data, us", True),
    "names_us": ("mean latency of what is about names, us", True),
    "cpu_us": ("CPU of daemons a request, us", True),
    "user_us": ("in programs, us a request", True),
    "system_us": ("in the kernel, us a request", True),
    "switches": ("context switches a request", True),
    "read_amp": ("bytes read at devices for a byte", False),
    "write_amp": ("bytes written at devices for a byte", False),
    "read_over_read": ("bytes read at devices for a byte read", False),
    "write_over_write": ("bytes written at devices for a byte written", False),
    "device_amp": ("bytes of devices for a byte", False),
    "network_amp": ("bytes through all links for a byte", False),
    "private_amp": ("bytes between OSDs for a byte", False),
    "read_share": ("share of requests that read", False),
}


def mark(at, found):
    """A median with the least and the most of the rounds."""
    middle, low, high = found
    return {"at": at, "value": middle, "spread": [low, high]}


def panel(title, kind, value, log=False, at="", **more):
    """A panel without marks."""
    return {"title": title, "kind": kind, "value": {"label": value, "log": log},
            "at": {"label": at}, **more}


def label_of(kind, target):
    """What a target is called."""
    return BY_NAME[target].words(kind.k, kind.m)


def over(medians, kind, title, metric, columns, targets, at):
    """A number over some cells, which are (name, words), with a line for each target."""
    words, log = METRICS[metric]
    series = []
    for target in targets:
        marks = []
        for place, (cell, _) in enumerate(columns):
            found = medians.spread(cell, target, metric)
            # Nothing, or less than an idle system, has no place on a logarithmic axis.
            if found and (not log or found[1] > 0):
                marks.append(mark(place, found))
        if marks:
            series.append({"name": label_of(kind, target), "marks": marks, "join": True})
    return panel(title, "xy", words, log, at, categories=[words for _, words in columns],
                 series=series)


def by_size(medians, kind, pattern, metric, title=""):
    """A number over sizes of requests."""
    columns = [(name_of(pattern, size, kind.depth), size_words(size)) for size in kind.sizes]
    return over(medians, kind, title, metric, columns, kind.swept, "bytes a request")


def by_processes(medians, kind, app, metric, title=""):
    """A number over processes of an application."""
    counts = kind.processes.get(app, ())
    columns = [(application(app, count, ()).name, str(count)) for count in counts]
    return over(medians, kind, title, metric, columns, kind.swept[:2], "processes")


def bars(medians, kind, metric, rows, targets, title=""):
    """A bar for each target in rows of cells, which are (name, words)."""
    series = {}
    for place, (cell, _) in enumerate(rows):
        for target in targets:
            found = medians.spread(cell, target, metric)
            if found:
                series.setdefault(label_of(kind, target), []).append(mark(place, found))
    return panel(title, "bars", METRICS[metric][0], categories=[words for _, words in rows],
                 series=[{"name": name, "marks": marks} for name, marks in series.items()])


def by_target(medians, kind, metric, rows, targets):
    """A bar for each of some cells, which are (name, words), beside every target."""
    targets = [name for name in targets if any(medians.has(cell, name) for cell, _ in rows)]
    series = []
    for cell, words in rows:
        found = [(place, medians.spread(cell, name, metric)) for place, name in enumerate(targets)]
        marks = [mark(place, spread) for place, spread in found if spread]
        if marks:
            series.append({"name": words, "marks": marks})
    return panel("", "bars", METRICS[metric][0],
                 categories=[label_of(kind, name) for name in targets], series=series)


def fresh_bars(medians, kind, metric, cells, title=""):
    """RS alone: new images and full ones."""
    series = []
    for name, suffix in (("new image", "-fresh"), ("full image", "")):
        marks = []
        for place, (cell, _) in enumerate(cells):
            found = medians.spread(cell + suffix, "ceph:rs", metric)
            if found:
                marks.append(mark(place, found))
        if marks:
            series.append({"name": name, "marks": marks})
    return panel(title, "bars", METRICS[metric][0], categories=[words for _, words in cells],
                 series=series)


def rate_over_time(medians, kind, cell, targets, every):
    """What a client got done in each part of a second, in the first round."""
    series = []
    for target in targets:
        rounds = medians.rounds(cell, target)
        if rounds and "bytes_over_time" in rounds[0]:
            # The last part is cut off.
            done = rounds[0]["bytes_over_time"][:-1]
            marks = [{"at": (at + 0.5) * every, "value": size / every / 1e6}
                     for at, size in enumerate(done)]
            series.append({"name": label_of(kind, target), "marks": marks, "join": True})
    return panel("", "xy", "MB/s", at="seconds", series=series)


def counted_over_time(medians, kind, cell, targets, keys, words, scale):
    """The rate at which counters rose between looks, in the first round."""
    series = []
    for target in targets:
        rounds, marks = medians.rounds(cell, target), []
        rows = rounds[0].get("series", []) if rounds else []
        last = dict.fromkeys([*keys, "seconds"], 0)
        for row in rows:
            passed = row["seconds"] - last["seconds"]
            rise = sum(row[key] - last[key] for key in keys)
            if passed > 0:
                marks.append({"at": row["seconds"], "value": max(rise, 0) / passed * scale})
            last = row
        if marks:
            series.append({"name": label_of(kind, target), "marks": marks, "join": True})
    return panel("", "xy", words, at="seconds", series=series)


def requests(medians, apps, target="ceph:rep"):
    """The sizes that requests of applications had."""
    sizes, found = [], {}
    for app, cell in apps:
        for sample in medians.rounds(cell, target)[:1]:
            found[app] = sample["requests"]
            sizes += [int(key[1:]) for key in sample["requests"]]
    sizes = sorted(set(sizes))
    panels = []
    for letter, title in (("r", "reads"), ("w", "writes")):
        series = []
        for app, counts in found.items():
            total = sum(count for key, count in counts.items() if key[0] == letter)
            marks = [{"at": at, "value": 100 * counts.get(f"{letter}{size}", 0) / total}
                     for at, size in enumerate(sizes) if total]
            if marks:
                series.append({"name": app, "marks": marks})
        if series:
            panels.append(panel(title, "cells", "% of requests",
                                categories=[size_words(size) for size in sizes], series=series))
    return panels


def compared(rows):
    """Ratios here beside the paper's; rows are (words, here, the paper's)."""
    series = []
    for name, column in (("here", 1), ("the paper", 2)):
        marks = [{"at": at, "value": row[column]} for at, row in enumerate(rows)
                 if row[column] is not None and row[column] > 0]
        if marks:
            series.append({"name": name, "marks": marks})
    return panel("", "dots", "ratio", True, categories=[row[0] for row in rows], series=series)


def has_marks(found):
    """Whether something is in a panel."""
    return any(series["marks"] for series in found.get("series", []))
