#!/usr/bin/env python3
"""Parts of the page about a run, as Markdown with links to its data.

    page.py REPORT.json [REPORT.json]

`.ci/evidence.py` checks the links. Prints the table of bars, the table of what the paper says
beside what was seen, tables of 4 KiB requests on all targets, and the pictures. Of two reports (two
releases of Ceph): their bars and their requests side by side.
"""

import json
import sys
from pathlib import Path
from urllib.parse import quote

from lab.rig.tables import table

FOUR = [("iops", "a second"), ("mean_us", "mean us"), ("p99_us", "99% us"), ("cpu_us", "CPU us"),
        ("switches", "switches"), ("device_amp", "device bytes"), ("network_amp", "network bytes")]


def digits(value):
    """A number as pages show it: three digits that count, or all before the point."""
    if abs(value) >= 100 or isinstance(value, int):
        return f"{value:.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"


def link(value, file, *way):
    """A number that is a link to its place in the data."""
    way = "/".join(quote(str(step), safe="=:") for step in way)
    return "-" if value is None else f"[{digits(value)}]({file}#{way})"


def bars(report, file):
    """A row for each key of the line."""
    rows = []
    for key, value in report["headline"].items():
        kind, bar = report["bars"].get(key, ("", None))
        met = "" if bar is None or value is None else (
            "met" if (value <= bar if kind == "at most" else value >= bar) else "missed")
        words = f"{kind} {bar:.3g}" if bar is not None else ""
        rows.append([f"`{key}`", words, link(value, file, "headline", key), met])
    return table(["key", "bar", "measured", ""], rows)


def said(report, file):
    """A row for each number of the paper."""
    rows = [[claim["figure"], claim["words"],
             "in its picture" if claim["paper"] is None else digits(claim["paper"]),
             link(claim["here"], file, "claims", key, "here")]
            for key, claim in report["claims"].items()]
    return table(["figure", "what", "the paper", "here"], rows)


def four(report, file, cell):
    """Medians of 4 KiB requests for each target."""
    rows = []
    for target, numbers in report["four"].get(cell, {}).items():
        rows.append([report["targets"][target]["words"],
                     *(link(numbers[key], file, "four", cell, target, key) for key, _ in FOUR)])
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
        for file, report in reports:
            numbers = report["four"].get(cell, {}).get(name)
            cells += [link(numbers[key], file, "four", cell, name, key) if numbers else "-"
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
                     *(link(value, file, "headline", key)
                       for value, (file, _) in zip(values, reports)),
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
    lines = ["## Bars", "", *bars(report, path.name), "", "## The paper's numbers", "",
             *said(report, path.name), ""]
    for cell in report["four"]:
        lines += [f"### {cell}", "", *four(report, path.name, cell), ""]
    print("\n".join([*lines, *pictures(report, path.stem)]))


if __name__ == "__main__":
    main()
