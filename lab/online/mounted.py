"""Latency at fixed rates, and applications on files: numbers and pictures of such cells. Pure.

The paper drives SPEC SFS on CephFS (its section VI) and measures latency at rates that both
systems hold. Its numbers for applications stand in `claims.json`; here they are compared with cells
whose requests are about names, too.
"""

from lab.online import drawing
from lab.online.cells import at_rate, on_files
from lab.online.claims import REP, RS, Claim

VOLUME, VOLUME_REP = "volume:rs", "volume:rep"
OVER = ((RS, REP, ""), (VOLUME, REP, "volume_over_rep"), (VOLUME, RS, "volume_over_rs"))
# By application: metric, end of the key, words, the paper's number.
PAPER = {
    "EDA": [("iops", "rate", "rate (the paper: at worst)", 1 / 2.1),
            ("mean_us", "latency", "latency (the paper: at worst)", 5),
            ("cpu_us", "cpu", "CPU a request (the paper: of all cores, 3.7)", 3.7),
            ("switches", "switches", "context switches", 3.6),
            ("private_amp", "network", "private network", 1.5),
            ("read_over_read", "reads", "bytes read (the paper: in its picture)", None),
            ("write_over_write", "writes", "bytes written (the paper: in its picture)", None)],
    "VDA": [("iops", "rate", "rate", 1),
            ("mean_us", "latency", "latency (the paper: hardly worse)", 1),
            ("cpu_us", "cpu", "CPU a request (the paper: of all cores, 1.35)", 1.352),
            ("switches", "switches", "context switches", 1.3),
            ("private_amp", "network", "private network", 1 / 1.8),
            ("write_over_write", "writes", "bytes written", 1 / 1.9)],
}
# What volumes are compared by; they have no links of their own for what clients send.
ALSO = ("iops", "mean_us", "cpu_us", "switches", "write_over_write")
FIGURES = {"EDA": 39, "VDA": 43}
APPS = {"EDA": "design automation", "VDA": "video"}
PATTERNS = (("randwrite", "random writes"), ("randread", "random reads"))


def cells_of(app):
    """Names of the cells of an application, for a kind of run."""
    return lambda kind: [on_files(app, count, ()).name for count in kind.on_files.get(app, ())]


def rate_cells(pattern):
    """Names of the cells at fixed rates."""
    return lambda kind: [at_rate(pattern, rate, kind.depth, ()).name for rate in kind.rates]


def over(names, top, bottom):
    """Pairs of one target over another in cells."""
    return lambda kind: [((name, top), (name, bottom)) for name in names(kind)]


def claims():
    """(figure, claim) of everything here."""
    found = []
    for app, rows in PAPER.items():
        for top, bottom, word in OVER:
            for metric, end, words, paper in rows:
                if word and metric not in ALSO:
                    continue
                key = "_".join(part for part in (app.lower(), "files", word, end) if part)
                label = words if not word else words.split(" (")[0]
                who = "RS over 3 replicas" if not word else word.replace("_", " ")
                found.append((FIGURES[app], Claim(
                    key, f"{APPS[app]} on files, {who}: {label}", None if word else paper, metric,
                    over(cells_of(app), top, bottom))))
    for pattern, words in PATTERNS:
        for top, bottom, word in OVER:
            for metric, end in (("mean_us", "mean"), ("p99_us", "p99")):
                key = "_".join(part for part in (pattern, "at_rates", word, end) if part)
                who = "RS over 3 replicas" if not word else word.replace("_", " ")
                found.append((None, Claim(
                    key, f"{words} of 4 KiB at fixed rates, {who}: {end} latency", None, metric,
                    over(rate_cells(pattern), top, bottom))))
    return found


def numbers(medians, kind):
    """All claims by key, as the report has them."""
    return {claim.key: dict(figure=figure, words=claim.words, paper=claim.paper,
                            here=claim.here(medians, kind)) for figure, claim in claims()}


def shown(end, title, panels, note, columns=2):
    """A picture, if anything of it was measured."""
    panels = [panel for panel in panels if drawing.has_marks(panel)]
    figure = {"title": title, "subtitle": "", "columns": columns, "panels": panels, "note": note}
    return [{"end": end, "figure": figure}] if panels else []


def pictures(medians, kind):
    """Latency by rate; each application by its processes."""
    note = "Medians, least and most of rounds."
    columns = {pattern: [(at_rate(pattern, rate, kind.depth, ()).name, str(rate))
                         for rate in kind.rates] for pattern, _ in PATTERNS}
    panels = [drawing.over(medians, kind, words, metric, columns[pattern], kind.mounted,
                           "requests a second")
              for metric in ("mean_us", "p99_us") for pattern, words in PATTERNS]
    found = shown("rates", "4 KiB requests at fixed rates", panels, note)
    for app, words in APPS.items():
        cells = [(on_files(app, count, ()).name, str(count))
                 for count in kind.on_files.get(app, ())]
        metrics = ("iops", "data_us", "names_us", "cpu_us", "switches", "network_amp",
                   "read_over_read", "write_over_write")
        panels = [drawing.over(medians, kind, "", metric, cells, kind.mounted, "processes")
                  for metric in metrics]
        found += shown(f"{app}-files".lower(), f"{words} on files".capitalize(), panels, note, 3)
    return found
