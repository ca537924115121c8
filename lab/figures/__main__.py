"""Pictures of reports, from their JSON alone: whoever has the data can draw them again.

    python3 -m lab.figures FILE.json... [--out DIR]     beside the files, or in DIR; --links adds
                                                        them to the pages that there are
    python3 -m lab.figures --check                      committed pictures are those of their data
"""

import argparse
import json
import re
import sys
from pathlib import Path

from lab.figures import figures_test, repair, reports
from lab.figures.canvas import escape
from lab.figures.figure import figure_of
from lab.figures.layout import draw
from lab.figures.style import styles

RESULTS = Path(__file__).resolve().parent.parent / "results"
# Drawn by the program itself: `kiln plan --orders --picture`.
NOT_OF_REPORTS = {"order-10-4.svg"}

# Kinds of reports: the member that only it has, and its pictures.
REPORTS = {
    "cells": reports.core, "points": reports.xor, "counts": reports.order,
    "sections": reports.devices, "recoveries": reports.plan, "many": reports.many,
    "rounds": reports.agent, "averages": reports.averages, "pools": reports.pool,
    "osds": reports.ceph, "rows": repair.figures, "volumes": reports.volume,
    "exhibits": reports.online, "losses": reports.clay, "hdfs": reports.hdfs,
    "weighed": reports.s3, "emulator": reports.neon,
    # A figure as it stands.
    "panels": lambda report: [("", figure_of(report))],
}


def pictures(path):
    """The figures of a report by the names of their files."""
    report = json.loads(path.read_text())
    kind = next((member for member in REPORTS if member in report), None)
    if kind is None:
        raise SystemExit(f"{path}: no report that has pictures: none of {', '.join(REPORTS)}")
    name = path.stem.removeprefix("bench-")
    return {f"{name}-{end}.svg" if end else f"{name}.svg": figure
            for end, figure in REPORTS[kind](report)}


def check():
    """Complaints about committed pictures: each is what its data says, and seen at one look; all
    that was measured is in one; a name has one colour."""
    drawn, colours = {}, {}
    for path in sorted(RESULTS.glob("*.json")):
        found = pictures(path)
        drawn |= {name: draw(figure) for name, figure in found.items()}
        everything = "".join(drawn[name] for name in found)
        if not found or "NaN" in everything or "inf" in everything:
            yield f"{path.name}: no pictures, or numbers that are none"
        for name in measured(json.loads(path.read_text())):
            if name not in everything and not name.startswith("ceiling"):
                yield f"{path.name}: {name} is in no picture"
        for name, figure in found.items():
            yield from unclear(name, figure, drawn[name])
            for series, style in styles(figure).items():
                if colours.setdefault(series, style.colour) != style.colour:
                    yield f"{name}: {series} has another colour elsewhere"
    for path in sorted(RESULTS.glob("*.svg")):
        if path.name not in NOT_OF_REPORTS and drawn.get(path.name) != path.read_text():
            yield f"{path.name} is not what the data says: run `make pages`"


def unclear(name, figure, svg):
    """Complaints about a picture that is too high for one look, or lacks a name."""
    height = int(re.search(r'height="(\d+)"', svg)[1])
    if not 100 <= height <= 1080:
        yield f"{name} is {height} high"
    for series in (series for panel in figure.panels for series in panel.series):
        if f">{escape(series.name)}</text>" not in svg:
            yield f"{name}: {series.name} is not named"


def measured(value):
    """Names of engines, contenders and rivals, wherever they are, but for pictures as data."""
    if isinstance(value, dict):
        for key, member in value.items():
            if key in ("engine", "who", "label") and isinstance(member, str):
                yield member
            elif key != "exhibits":
                yield from measured(member)
    elif isinstance(value, list):
        for member in value:
            yield from measured(member)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("files", nargs="*", type=Path)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--links", action="store_true")
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    for path in options.files:
        page = path.with_suffix(".md")
        for name, figure in pictures(path).items():
            ((options.out or path.parent) / name).write_text(draw(figure))
            print(name)
            if options.links and page.exists():
                page.write_text(f"{page.read_text()}\n![{figure.title}]({name})\n")
    if options.check:
        figures_test.all_of_them()
    complaints = list(check()) if options.check else []
    print(*complaints, sep="\n", end="\n" * bool(complaints))
    sys.exit(bool(complaints))


if __name__ == "__main__":
    main()
