#!/usr/bin/env python3
"""Parts of the page about a run, as Markdown with links to its data.

    page.py REPORT.json

`.ci/evidence.py` checks the links. Prints the table of bars, the table of what the paper says
beside what was seen, tables of 4 KiB requests on all targets, and the pictures.
"""

import json
import sys
from pathlib import Path
from urllib.parse import quote

sys.path.append(str(Path(__file__).resolve().parent.parent))

from tables import table  # noqa: E402

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


def pictures(report, name):
    """All pictures."""
    return [f"![{one['figure']['title']}]({name}-{one['end']}.svg)\n"
            for one in report["exhibits"]]


def main():
    path = Path(sys.argv[1])
    report = json.loads(path.read_text())
    lines = ["## Bars", "", *bars(report, path.name), "", "## The paper's numbers", "",
             *said(report, path.name), ""]
    for cell in report["four"]:
        lines += [f"### {cell}", "", *four(report, path.name, cell), ""]
    print("\n".join([*lines, *pictures(report, path.stem)]))


if __name__ == "__main__":
    main()
