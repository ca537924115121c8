"""The paper's figures 5 to 46, each drawn from a run: one row a figure. Pure.

A row has what our picture shows, from cells of the run; what the paper's text says in numbers
stands beside it (`claims.json`). Where there are no such numbers the picture says so.
"""

from dataclasses import dataclass, field
from typing import Callable

from lab.online import drawing
from lab.online import mounted
from lab.online.cells import BIN, SWEPT, application, name_of, size_words
from lab.online.claims import CLAIMS

KIB = 1 << 10
COLOURS = 9  # more targets than that are rows, not colours
SHAPE = "The paper's numbers are in its picture alone: compare the shape."
MEDIANS = "Medians, least and most of rounds."


@dataclass(frozen=True)
class Exhibit:
    """One figure of the paper."""

    number: int
    title: str
    panels: Callable
    notes: tuple = field(default=())


def swept(*rows):
    """Panels over sizes; rows are (pattern, metric, title)."""
    return lambda medians, kind: [drawing.by_size(medians, kind, pattern, metric, title)
                                  for pattern, metric, title in rows]


def both(metric, *patterns):
    """The same number for sequential and random requests."""
    titles = {"seqwrite": "sequential", "seqread": "sequential", "randread": "random",
              "randwrite": "random"}
    return swept(*((pattern, metric, titles[pattern]) for pattern in patterns))


def performance(pattern):
    """Throughput and latency."""
    return swept((pattern, "mb_s", ""), (pattern, "mean_us", ""))


def app(name, *metrics):
    """Numbers of an application over its processes."""
    return lambda medians, kind: [drawing.by_processes(medians, kind, name, metric)
                                  for metric in metrics]


def fresh(*metrics):
    """New images beside full ones."""
    def panels(medians, kind):
        cells = [(name_of("seqwrite", 16 * KIB, kind.depth), "sequential 16 KiB"),
                 (name_of("randwrite", 4 * KIB, kind.depth), "random 4 KiB")]
        return [drawing.fresh_bars(medians, kind, metric, cells) for metric in metrics]
    return panels


def random_rows(depth, more=""):
    """Random requests of 4 KiB: cells, and what they are called."""
    return [(name_of(pattern, 4 * KIB, depth), words + more) for pattern, words in
            (("randread", "random read"), ("randwrite", "random write"))]


def codes(targets, *metrics):
    """Codes beside each other at 4 KiB."""
    def panels(medians, kind):
        rows = random_rows(kind.depth)
        return [drawing.bars(medians, kind, metric, rows, targets) for metric in metrics]
    return panels


def nothing(_medians, _kind):
    """What the paper says in numbers is all that there is to show."""
    return []


def initial(medians, kind):
    """What clients get while objects are filled."""
    cell = name_of("seqwrite", 16 * KIB, kind.depth, fresh=True)
    return [drawing.rate_over_time(medians, kind, cell, ("ceph:rs", "ceph:rep"), BIN),
            drawing.counted_over_time(medians, kind, cell, ("ceph:rs", "ceph:rep"), ("private",),
                                      "private network, MB/s", 1e-6)]


def sizes_of_requests(medians, kind):
    """Of the applications."""
    cells = [(name, application(name, counts[-1], ()).name)
             for name, counts in kind.processes.items()]
    return drawing.requests(medians, cells)


def networks(medians, kind):
    """Of virtual desktops and of video."""
    return [drawing.by_processes(medians, kind, name, "private_amp", title)
            for name, title in (("VDI", "virtual desktops"), ("VDA", "video"))]


def video_over_time(medians, kind):
    """Processor, context switches, private network."""
    cell = application("VDA", kind.processes["VDA"][-1], ()).name
    rows = [(("user", "system"), "cores", 1),
            (("context_switches",), "context switches a second", 1),
            (("private",), "private network, MB/s", 1e-6)]
    return [drawing.counted_over_time(medians, kind, cell, ("ceph:rs", "ceph:rep"), *row)
            for row in rows]


PLUGINS = ("ceph:rs", "ceph:isa")
CODES = ("ceph:rs", "ceph:rs-4-2")
SCALED = ("Processes are requests under way, scaled down from the paper's hundreds; the mixes are "
          "its Table II without metadata requests, on block devices instead of files.")
TABLE = [
    Exhibit(5, "RS over 3 replicas, synthetic loads: summary", nothing),
    Exhibit(6, "RS over 3 replicas, applications: summary", nothing, (SCALED,)),
    Exhibit(7, "Sequential writes", performance("seqwrite")),
    Exhibit(8, "Sequential reads", performance("seqread")),
    Exhibit(9, "Random reads", performance("randread")),
    Exhibit(10, "Random writes", performance("randwrite")),
    Exhibit(11, "CPU of writes", both("cpu_us", "seqwrite", "randwrite"),
            ("Two cores are busy in every cell: seconds of the processor for a request, not "
             "utilisation, are compared.",)),
    Exhibit(12, "CPU of reads", both("cpu_us", "seqread", "randread")),
    Exhibit(13, "Context switches of writes", both("switches", "seqwrite", "randwrite")),
    Exhibit(14, "Context switches of reads", both("switches", "seqread", "randread")),
    Exhibit(15, "Amplification of sequential writes",
            swept(("seqwrite", "read_amp", ""), ("seqwrite", "write_amp", ""))),
    Exhibit(16, "Amplification of random writes",
            swept(("randwrite", "read_amp", ""), ("randwrite", "write_amp", ""))),
    Exhibit(17, "Amplification of reads", both("read_amp", "seqread", "randread")),
    Exhibit(18, "Private network, writes", both("private_amp", "seqwrite", "randwrite")),
    Exhibit(19, "Private network, reads", both("private_amp", "seqread", "randread")),
    Exhibit(20, "Objects are filled: sequential writes of 16 KiB to a new image", initial,
            (SHAPE,)),
    Exhibit(21, "New and full images: performance", fresh("mb_s", "mean_us")),
    Exhibit(22, "New and full images: CPU and context switches", fresh("cpu_us", "switches")),
    Exhibit(23, "New and full images: amplification", fresh("read_amp", "write_amp")),
    Exhibit(24, "New and full images: private network", fresh("private_amp")),
    Exhibit(25, "Jerasure and ISA-L at 4 KiB: performance", codes(PLUGINS, "mb_s", "mean_us")),
    Exhibit(26, "Jerasure and ISA-L at 4 KiB: CPU and switches",
            codes(PLUGINS, "cpu_us", "switches")),
    Exhibit(27, "RS 6+3 and RS 4+2 at 4 KiB: performance", codes(CODES, "mb_s", "mean_us")),
    Exhibit(28, "RS 6+3 and RS 4+2 at 4 KiB: amplification",
            codes(CODES, "read_amp", "write_amp")),
    Exhibit(29, "RS 6+3 and RS 4+2 at 4 KiB: private network", codes(CODES, "private_amp")),
    Exhibit(30, "Sizes of requests of the applications", sizes_of_requests,
            ("As asked for here, from the sizes that the paper's text names (database 8 KiB, "
             "desktops 4 KiB, design automation 64 KiB, video 512 KiB); its numbers are in its "
             "picture alone.",)),
    Exhibit(31, "Database: performance", app("DB", "mb_s", "mean_us"), (SCALED,)),
    Exhibit(32, "Database: CPU and switches", app("DB", "cpu_us", "switches"), (SCALED,)),
    Exhibit(33, "Database: network, share of reads", app("DB", "private_amp", "read_share"),
            (SCALED,)),
    Exhibit(34, "Database: amplification", app("DB", "read_over_read", "write_over_write"),
            (SCALED,)),
    Exhibit(35, "Virtual desktops: performance", app("VDI", "mb_s", "mean_us"), (SCALED,)),
    Exhibit(36, "Virtual desktops: CPU and switches", app("VDI", "cpu_us", "switches"), (SCALED,)),
    Exhibit(37, "Virtual desktops: amplification",
            app("VDI", "read_over_read", "write_over_write"), (SCALED,)),
    Exhibit(38, "Virtual desktops, video: private network", networks, (SCALED,)),
    Exhibit(39, "Design automation: performance", app("EDA", "mb_s", "mean_us"), (SCALED,)),
    Exhibit(40, "Design automation: CPU and switches", app("EDA", "cpu_us", "switches"), (SCALED,)),
    Exhibit(41, "Design automation: private network, rate", app("EDA", "private_amp", "iops"),
            (SCALED,)),
    Exhibit(42, "Design automation: amplification",
            app("EDA", "read_over_read", "write_over_write"), (SCALED, SHAPE)),
    Exhibit(43, "Video: performance", app("VDA", "mb_s", "mean_us"), (SCALED,)),
    Exhibit(44, "Video: CPU and switches", app("VDA", "cpu_us", "switches"), (SCALED,)),
    Exhibit(45, "Video: amplification", app("VDA", "read_over_read", "write_over_write"),
            (SCALED,)),
    Exhibit(46, "Video over time", video_over_time, (SCALED, SHAPE)),
]


def drawn(exhibit, medians, kind, claims):
    """The picture of a figure as data; `None` where nothing of it was measured."""
    panels = [panel for panel in exhibit.panels(medians, kind) if drawing.has_marks(panel)]
    rows = [(claim["words"], claim["here"], claim["paper"]) for claim in claims
            if claim["here"] is not None]
    if not panels and not rows:
        return None
    notes = [MEDIANS, *exhibit.notes]
    if rows:
        panels.append(drawing.compared(rows) | {"title": "ratios"})
    return {
        "title": f"{exhibit.title} (the paper's figure {exhibit.number})", "subtitle": "",
        "columns": 2 if len(panels) > 1 else 1, "panels": panels, "note": " ".join(notes),
    }


def all_of(medians, kind):
    """All claims by key, and all pictures that the run has data for."""
    if kind.four_alone:
        return {}, beside(medians, kind, kind.also)
    if not kind.sizes:
        return mounted.numbers(medians, kind), mounted.pictures(medians, kind)
    claims, pictures = {}, []
    for exhibit in TABLE:
        found = [dict(figure=exhibit.number, words=claim.words, paper=claim.paper,
                      here=claim.here(medians, kind), key=claim.key)
                 for claim in CLAIMS.get(exhibit.number, ())]
        claims |= {row["key"]: {key: row[key] for key in ("figure", "words", "paper", "here")}
                   for row in found}
        picture = drawn(exhibit, medians, kind, found)
        if picture:
            pictures.append({"end": f"{exhibit.number:02}", "figure": picture})
    if kind.mounted:
        claims |= mounted.numbers(medians, kind)
    return claims, pictures + beyond(medians, kind) + mounted.pictures(medians, kind)


def beyond(medians, kind):
    """What the paper does not have: volumes, other codes, sizes of stripe units."""
    targets = tuple(dict.fromkeys((*SWEPT, *kind.also, *kind.swept)))
    if len(targets) > COLOURS:
        return beside(medians, kind, targets, "4k-")
    rows, serial = random_rows(kind.depth), random_rows(1, ", one by one")
    pictures = []
    for end, title, metrics in (("4k-rates", "4 KiB requests: rates and latency",
                                 ["iops", "mean_us"]),
                                ("4k-cost", "4 KiB requests: what one costs",
                                 ["cpu_us", "switches", "device_amp", "network_amp"])):
        panels = [drawing.bars(medians, kind, metric, rows + serial * (metric == "iops"), targets)
                  for metric in metrics]
        panels = [panel for panel in panels if drawing.has_marks(panel)]
        if panels:
            pictures.append({"end": end, "figure": {
                "title": f"{title} ({size_words(4 * KIB)}, depth {kind.depth})", "subtitle": "",
                "columns": 2, "panels": panels, "note": MEDIANS}})
    return pictures


def beside(medians, kind, targets, prefix=""):
    """All targets beside each other: many requests at a time, one by one, for longer, and with a
    host gone."""
    rows, serial = random_rows(kind.depth), random_rows(1, ", one by one")
    steady = [(f"{rows[1][0]}-steady", "random write, for longer")]
    gone = [(f"{cell}-degraded", f"{words}, a host gone") for cell, words in rows]
    cost, pictures = ["cpu_us", "switches", "device_amp", "network_amp"], []
    for end, title, cells, metrics in (
            ("rates", f"rates, depth {kind.depth}", rows, ["iops", "mean_us"]),
            ("serial", "rates, one by one", serial, ["iops", "mean_us"]),
            ("cost", "what a write costs", [(rows[1][0], "a random write")], cost),
            ("cost-read", "what a read costs", [(rows[0][0], "a random read")], cost),
            ("steady", "random writes for longer", steady, ["iops", *cost]),
            ("degraded", "with a host gone", rows + gone, ["iops", "cpu_us"])):
        if end == "degraded" and not any(cell in medians.samples for cell, _ in gone):
            continue
        panels = [drawing.by_target(medians, kind, metric, cells, targets) for metric in metrics]
        panels = [panel for panel in panels if drawing.has_marks(panel)]
        if panels:
            pictures.append({"end": prefix + end, "figure": {
                "title": f"4 KiB requests: {title}", "subtitle": "", "columns": 2,
                "panels": panels, "note": MEDIANS}})
    return pictures
