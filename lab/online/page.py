#!/usr/bin/env python3
"""Parts of the page about a run, as Markdown.

    page.py REPORT.json [REPORT.json]

Prints the table of bars, the table of what the paper says
beside what was seen, tables of 4 KiB requests on all targets, and the pictures. Of two reports (two
releases of Ceph): their bars and their requests side by side.
"""

import json
import sys
from pathlib import Path

from lab.rig.tables import table

FOUR = [("iops", "a second"), ("mean_us", "mean us"), ("p99_us", "99% us"), ("cpu_us", "CPU us"),
        ("switches", "switches"), ("device_amp", "device bytes"), ("network_amp", "network bytes")]


def digits(value):
    """A number as pages show it: three digits that count, or all before the point."""
    if abs(value) >= 100 or isinstance(value, int):
        return f"{value:.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"


def cell_of(value):
    """A number, or a dash where there is none."""
    return "-" if value is None else digits(value)


def bars(report):
    """A row for each key of the line."""
    rows = []
    for key, value in report["headline"].items():
        kind, bar = report["bars"].get(key, ("", None))
        met = "" if bar is None or value is None else (
            "met" if (value <= bar if kind == "at most" else value >= bar) else "missed")
        words = f"{kind} {bar:.3g}" if bar is not None else ""
        rows.append([f"`{key}`", words, cell_of(value), met])
    return table(["key", "bar", "measured", ""], rows)


def said(report):
    """A row for each number of the paper."""
    rows = [[claim["figure"], claim["words"],
             "in its picture" if claim["paper"] is None else digits(claim["paper"]),
             cell_of(claim["here"])]
            for key, claim in report["claims"].items()]
    return table(["figure", "what", "the paper", "here"], rows)


def four(report, cell):
    """Medians of 4 KiB requests for each target."""
    rows = []
    for target, numbers in report["four"].get(cell, {}).items():
        rows.append([report["targets"][target]["words"],
                     *(cell_of(numbers[key]) for key, _ in FOUR)])
    return table(["", *(words for _, words in FOUR)], rows)


SHORT = [("iops", "a second"), ("cpu_us", "CPU us"), ("switches", "switches"),
         ("device_amp", "device bytes"), ("network_amp", "network bytes")]


def short(release):
    """A release's first two numbers."""
    return ".".join(release.split(".")[:2])


def side_by_side(reports, cell):
    """Medians of 4 KiB requests for each target, of all reports; they are (file, report)."""
    names = []
    for _, report in reports:
        names += [name for name in report["four"].get(cell, {}) if name not in names]
    order = list(reports[0][1]["targets"])
    rows = []
    for name in sorted(names, key=order.index):
        cells = []
        for _, report in reports:
            numbers = report["four"].get(cell, {}).get(name)
            cells += [cell_of(numbers[key]) if numbers else "-"
                      for key, _ in SHORT]
        rows.append([reports[0][1]["targets"][name]["words"], *cells])
    head = [f"{short(report['ceph'])}: {words}" if at == 0 else words
            for _, report in reports for at, (_, words) in enumerate(SHORT)]
    return table(["", *head], rows)


def both_bars(reports):
    """The keys of two lines."""
    rows = []
    bars = reports[0][1]["bars"]
    keys = [key for _, report in reports for key, value in report["headline"].items()
            if value is not None]
    for key in dict.fromkeys(keys):
        values = [report["headline"].get(key) for _, report in reports]
        kind, bar = bars.get(key, ("", None))
        met = [value <= bar if kind == "at most" else value >= bar
               for value in values if bar is not None and value is not None]
        rows.append([f"`{key}`", f"{kind} {bar:.3g}" if bar is not None else "",
                     *(cell_of(value)
                       for value in values),
                     "" if not met else "met" if all(met) else "missed"])
    return table(["key", "bar", *(short(report["ceph"]) for _, report in reports), ""], rows)


def pictures(report, name):
    """All pictures."""
    return [f"![{one['figure']['title']}]({name}-{one['end']}.svg)\n"
            for one in report["exhibits"]]


def main():
    if len(sys.argv) > 2:
        reports = [(Path(path).name, json.loads(Path(path).read_text())) for path in sys.argv[1:]]
        lines = [*both_bars(reports), ""]
        for cell in reports[0][1]["four"]:
            lines += [f"**{cell}**", "", *side_by_side(reports, cell), ""]
        print("\n".join(lines))
        return
    path = Path(sys.argv[1])
    report = json.loads(path.read_text())
    lines = ["## Bars", "", *bars(report), "", "## The paper's numbers", "",
             *said(report), ""]
    for cell in report["four"]:
        lines += [f"### {cell}", "", *four(report, cell), ""]
    print("\n".join([*lines, *pictures(report, path.stem)]))


if __name__ == "__main__":
    main()
