"""ceph.md: the tables that `bench/ceph/report.py` makes of the data."""

from ceph import report

from .page import Rule, Unchecked, split

FILE = ("ceph.json",)


def cells(lines):
    """The rows of a table's lines."""
    return [split(line) for line in lines[2:]]


def recovery(data):
    return cells(report.recovery_table(data["recovery"]))


def computing(part):
    """The table of two codes, or that of all."""
    def rows(data):
        lines = report.computing_table(data["computing"])
        middle = lines.index("")
        return cells(lines[:middle] if part == 0 else lines[middle + 1:])
    return rows


def page(_folder):
    return [
        Rule("code | stripe_unit", "Recovery", "", FILE, recovery),
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
