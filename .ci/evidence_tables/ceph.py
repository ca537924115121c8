"""ceph.md: the tables that `bench/ceph/report.py` makes of the data."""

from ceph import report

from .page import Rule, Unchecked, split

FILE = ("ceph.json",)


def cells(lines):
    """The rows of a table's lines."""
    return [split(line) for line in lines[2:]]


def recovery(data):
    """Stripes of 64 and 4 KiB were measured again, with two losses more, and that data was not
    kept: the rows that it replaced are marked in the data."""
    rows = data["recovery"]
    again = any("replaced_by" in row for row in rows)
    for row, line in zip(rows, cells(report.recovery_table(rows))):
        yield [*line[:3], *[None] * 5] if "replaced_by" in row else line
        if again and line[:3] == ["kiln clay 10+4", "64 KiB", "0"]:
            yield from ([*line[:2], lost, *[None] * 5] for lost in ("4", "8"))


def computing(part):
    """The table of two codes, or that of all."""
    def rows(data):
        lines = report.computing_table(data["computing"])
        middle = lines.index("")
        return cells(lines[:middle] if part == 0 else lines[middle + 1:])
    return rows


def page(_folder):
    again = "rows of 64 and 4 KiB are of a later run without data, as the page says"
    return [
        Rule("code | stripe_unit", "Recovery", "", FILE, recovery, again),
        Rule(" | kiln rs / stock isa: encode", "Computing", "", FILE, computing(0)),
        Rule(" | kiln rs | stock isa", "Computing", "", FILE, computing(1)),
        Rule(" | kiln rs | stock isa", "What an OSD spends", "", FILE,
             lambda data: cells(report.whole_table(data["whole"]))),
        Rule("pool | write MB/s", "Clients", "", FILE,
             lambda data: cells(report.clients_table(data["clients"]))),
        Unchecked(" | 16.2.15 | 18.2.7", "Releases",
                  why="seen on three releases in clusters that wrote no data; the page says when"),
        Rule("objects | workers", "Out of Ceph's clay", "", FILE,
             lambda data: cells(report.moving_table(data["moving"])))]
