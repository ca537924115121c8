"""Tables of a page, and what is known of them: a rule that says their rows, or a reason why not.

Each table of a page takes the first rule of the page that fits it and that no table before it took.
A table without a rule and a rule without a table are wrong, so that no table slips in unchecked.
"""

import json
import re
from dataclasses import dataclass
from functools import cache

LINK = re.compile(r"\[([^\]\[]+)\]\((?:[\w./-]+/)?[\w.-]+\.json#[^)\s]+\)")
NUMBER = re.compile(r"\d+(?:\.\d+)?")
SECTION, BOLD = re.compile(r"#+ (.*)"), re.compile(r"\*\*(.+?)\*\*")


@dataclass
class Table:
    """A table of a page: the number of its first line, what stands above it, and its cells."""
    line: int
    section: str
    title: str
    head: list
    rows: list

    def name(self):
        return self.title or self.section


@dataclass
class Known:
    """A table that is known: by the start of its head, its section and the bold title above."""
    head: str
    section: str = ""
    title: str = ""

    def fits(self, table):
        return (" | ".join(table.head).startswith(self.head)
                and table.section.startswith(self.section)
                and (not self.title or table.title == self.title))


@dataclass
class Rule(Known):
    """Rows from data: `rows` gets the reports of `files` and gives cells as they are read; a cell
    that is None is not in the data, and `kept` says why. Where a table has nothing but data, `anew`
    gives its head, and --write makes all of it anew when the data has other rows."""
    files: tuple = ()
    rows: object = None
    kept: str = ""
    anew: object = None

    def problems(self, table, folder):
        reports = [report(folder / file) for file in self.files]
        rows = [[*row] for row in self.rows(*reports)]
        head = self.anew(*reports) if self.anew else table.head
        if len(rows) != len(table.rows):
            said = f"{len(table.rows)} rows, the data has {len(rows)}"
            yield table.line, said, Anew([head, *rows]) if self.anew else None
            return
        if head != table.head:
            yield table.line, "other columns than the data has", Anew([head, *rows])
            return
        for at, (wanted, cells) in enumerate(zip(rows, table.rows)):
            if len(wanted) != len(cells):
                yield table.line + 2 + at, f"{len(cells)} cells, the data has {len(wanted)}", None
                continue
            if None in wanted and not self.kept:
                yield table.line, "cells without data, and nobody says why", None
            right = [put(cell, text) for cell, text in zip(cells, wanted)]
            for cell, text in zip(cells, wanted):
                if not same(plain(cell), text):
                    said = f"{plain(cell)!r}, but {' and '.join(self.files)}: {str(text)!r}"
                    yield table.line + 2 + at, said, right


@dataclass
class Linked(Known):
    """Numbers of these columns are links to data, which are checked by themselves, at least one in
    a row; `why` says what the others are."""
    columns: tuple = ()
    why: str = ""

    def problems(self, table, _folder):
        for at, row in enumerate(table.rows):
            cells = [row[column] for column in self.columns]
            if not LINK.search(" ".join(cells)):
                yield table.line + 2 + at, f"no link to data: {' | '.join(cells)}", None
            for cell in cells:
                if NUMBER.search(LINK.sub("", cell)):
                    yield table.line + 2 + at, f"a number that is no link to data: {cell}", None


@dataclass
class Unchecked(Known):
    """No data: why."""
    why: str = ""

    def problems(self, table, _folder):
        if not self.why:
            yield table.line, "not checked, and nobody says why", None


class Anew(list):
    """The head and all rows of a table, in place of those that it has."""


class Rough(str):
    """A text whose numbers are computed from rounded data: each may be off by its slack."""

    def __new__(cls, text, *slacks):
        self = super().__new__(cls, text)
        self.slacks = slacks
        return self


@cache
def report(path):
    return json.loads(path.read_text())


def plain(cell):
    """A cell as it is read."""
    return BOLD.sub(r"\1", LINK.sub(r"\1", cell)).strip()


def same(text, wanted):
    if wanted is None or text == wanted:
        return True
    if not isinstance(wanted, Rough) or NUMBER.sub("#", text) != NUMBER.sub("#", wanted):
        return False
    ours, theirs = NUMBER.findall(text), NUMBER.findall(wanted)
    if len(ours) != len(wanted.slacks):
        raise ValueError(f"{len(wanted.slacks)} slacks for the numbers of {wanted!r}")
    return all(near(a, b, slack) if slack else a == b
               for a, b, slack in zip(ours, theirs, wanted.slacks))


def near(text, wanted, slack):
    """Both are rounded to the digits of the first."""
    unit = 10.0 ** -len(text.partition(".")[2])
    return abs(float(text) - float(wanted)) <= slack + 1.01 * unit


def put(cell, text):
    """A cell with the data's text in it. Links are put right where links are checked."""
    old = plain(cell)
    if same(old, text) or LINK.search(cell):
        return cell
    if NUMBER.sub("#", old) == NUMBER.sub("#", text):  # Bold words stay bold.
        numbers = iter(NUMBER.findall(text))
        return NUMBER.sub(lambda _: next(numbers), cell)
    return str(text)


def tables(text):
    """All tables of a page."""
    lines, section, title, at = text.splitlines(), "", "", 0
    while at < len(lines):
        line = lines[at]
        if found := SECTION.match(line):
            section, title = found[1], ""
        elif (found := BOLD.match(line)) and at and not lines[at - 1]:
            title = found[1]
        if line.startswith("|"):
            end = at
            while end < len(lines) and lines[end].startswith("|"):
                end += 1
            rows = [split(row) for row in lines[at:end]]
            yield Table(at + 1, section, title, rows[0], rows[2:])
            at = end
        else:
            at += 1


def split(line):
    return [cell.strip() for cell in line.strip()[1:-1].split("|")]


def joined(cells):
    return "|" + "".join(f" {cell} |" if cell else " |" for cell in cells)


def check_tables(path, text, rules, complaints, seen):
    """The page as it should be; what is wrong is added to the complaints, and each table that is
    known to what was seen."""
    lines, left = text.splitlines(), list(rules)
    for table in tables(text):
        rule = next((rule for rule in left if rule.fits(table)), None)
        if rule is None:
            complaints.append(f"lab/results/{path.name}:{table.line}: {table.name()}: a table "
                              "that nothing checks and .ci/evidence_tables does not list")
            continue
        left.remove(rule)
        seen[type(rule)] += 1
        for at, problem, cells in rule.problems(table, path.parent):
            complaints.append(f"lab/results/{path.name}:{at}: {table.name()}: {problem}")
            if isinstance(cells, Anew):
                head, *rows = map(joined, cells)
                parted = "|" + "---|" * len(cells[0])
                lines[table.line - 1] = "\n".join([head, parted, *rows])
                last = table.line + 1 + len(table.rows)
                lines[table.line:last] = [None] * (last - table.line)
            elif cells:
                lines[at - 1] = joined(cells)
    complaints += [f"lab/results/{path.name}: .ci/evidence_tables knows a table {rule.head!r} "
                   f"{rule.title or rule.section!r}, which is not there" for rule in left]
    return "\n".join(line for line in lines if line is not None) + "\n"
