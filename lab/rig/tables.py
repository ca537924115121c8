"""Tables in Markdown: of cells, and of a whole report, whatever it is of.

    python3 -m lab.rig.tables FILE.json...      writes FILE.md beside it
"""

import json
import sys
from pathlib import Path


def table(head, rows):
    """The lines of a table, from the cells of its head and of each row."""
    def line(cells):
        return "|" + "".join(f" {cell} |" if cell else " |" for cell in map(str, cells))

    return [line(head), "|" + "---|" * len(head), *map(line, rows)]


def shown(value):
    """A cell: three digits that count of a number, a dash where there is nothing."""
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:.0f}" if abs(value) >= 100 else f"{value:.3g}"
    if isinstance(value, dict) and "median" in value:
        return shown(value["median"])
    if isinstance(value, list) and len(value) <= 4 and not any(map(deep, value)):
        return ", ".join(map(shown, value))
    return "" if deep(value) else str(value)


def deep(value):
    """Whether a value is none that a cell can show."""
    return isinstance(value, list) or isinstance(value, dict) and "median" not in value


def tables(report, name=""):
    """A section for each list of rows and for each set of single values, at any depth."""
    if isinstance(report, list):
        rows = [row for row in report if isinstance(row, dict)]
        keys = list(dict.fromkeys(key for row in rows for key in row))
        cells = {key: [shown(row.get(key)) for row in rows] for key in keys}
        keys = [key for key in keys if set(cells[key]) - {"", "-"}]
        if rows and keys:
            yield [f"## {name}", "", *table(keys, zip(*(cells[key] for key in keys))), ""]
        named = [row for row in report if isinstance(row, list) and isinstance(row[-1], list)]
        if named:  # columns, with a name each
            cells = zip(*(map(shown, column) for _, column in named))
            yield [f"## {name}", "", *table([head for head, _ in named], cells), ""]
        for row in rows if len(rows) < 30 else []:
            yield from tables({key: value for key, value in row.items() if deep(value)},
                              f"{name}: {next(iter(row.values()))}")
    elif isinstance(report, dict):
        single = [[f"`{key}`", shown(value)] for key, value in report.items()
                  if not isinstance(value, str) and shown(value)]
        if single:
            yield [f"## {name}", "", *table(["", ""], single), ""]
        for key, value in report.items():
            yield from tables(value, f"{name}: {key}" if name else key)


def write(path):
    """The tables of a report, beside it."""
    path = Path(path)
    lines = [line for part in tables(json.loads(path.read_text())) for line in part]
    path.with_suffix(".md").write_text("\n".join([f"# {path.stem}", "", *lines]))


if __name__ == "__main__":
    for file in sys.argv[1:]:
        write(file)
