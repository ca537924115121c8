"""An agent beside a bare TLS copy: medians over rounds of the ratio within a round."""

from statistics import median

from .rows import ends


def ratio(ours, theirs):
    return lambda report: median(row[ours] / row[theirs] for row in report["rounds"])


def spread(ours, theirs):
    return lambda report: ends(row[ours] / row[theirs] for row in report["rounds"])


MEASURED = {"rounds": lambda report: len(report["rounds"])}
for ours, theirs in (("read", "copy"), ("write", "copy"), ("write", "kept")):
    MEASURED[f"{ours}_over_{theirs}"] = ratio(ours, theirs)
    MEASURED[f"{ours}_over_{theirs}_ends"] = spread(ours, theirs)
NUMBERS = {"agent.json": MEASURED}
