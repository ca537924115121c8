"""Pages whose numbers are links to data, and pages of which no data is kept."""

from .page import Linked, Unchecked

WANTED = "the others are what was wanted, or the paper's"


def online(_folder):
    four = "a second | mean us"
    return [
        Linked("key | bar", "Keys", columns=(2, 3), why=WANTED),
        *(Linked(f" | {four}", "", title, columns=tuple(range(1, 8)))
          for title in ("Random writes, depth 32", "Random writes, one by one",
                        "Random reads, depth 32", "Random reads, one by one")),
        Linked("figure | what", "The paper's numbers", columns=(3,), why=WANTED)]


def peers(_folder):
    return [
        Linked("key | bar", "Keys", columns=(2, 3), why=WANTED),
        *(Linked(" | 16.2: a second", "All numbers", title, columns=tuple(range(1, 11)))
          for title in ("Random writes, depth 32, six seconds",
                        "Random writes, depth 32, a host gone", "Random writes, depth 32",
                        "Random writes, one by one", "Random reads, depth 32, a host gone",
                        "Random reads, depth 32", "Random reads, one by one")),
        Linked(" | first run", "With a host gone", columns=tuple(range(1, 7)))]


def files(_folder):
    return [
        *(Linked(" | 25 a second", "Requests", title, columns=tuple(range(1, 7)))
          for title in ("Writes", "Reads")),
        *(Linked(" | a second | data", "Applications", title, columns=tuple(range(1, 8)))
          for title in ("Design automation, 4 processes", "Design automation, 16 processes",
                        "Video, 2 processes", "Video, 4 processes")),
        Linked("figure | what", "The paper's numbers", columns=(3,), why=WANTED)]


def hdfs(_folder):
    return [
        Linked(" | bar | full", columns=(2, 3), why=WANTED),
        *(Linked(" | seconds", section, columns=(1, 2, 3))
          for section in ("The full form", "The quick form"))]


def clay(_folder):
    return [
        *(Linked("code | workload", section, columns=(3, 4, 5))
          for section in ("One placement group", "The last parity")),
        *(Linked("code | plugin", section, columns=(2, 3, 4))
          for section in ("Sixteen placement groups", "Two OSDs")),
        Linked("C3, four objects", columns=(2, 3))]


def clay_orders(_folder):
    return [Linked("lost | plugin", section, columns=(2, 3, 4, 5, 6))
            for section in ("16+2", "9+3", "14+2", "Disks as they are")]


def s3(_folder):
    return [Linked(" | bar | found", columns=(2,), why=WANTED)]


def neon(_folder):
    return [Linked(" | kiln, code made", columns=(1, 2, 3, 4, 5))]


def volumes(_folder):
    return [Linked("key | bar", columns=(2,), why=WANTED)]


def trust(_folder):
    return [
        Unchecked("promise | how it is tested",
                  why="prose: what has data is a link, seeds of the simulator have none"),
        Linked("round | into the pool", "Small files", columns=(1, 2, 3, 4))]


def pool(_folder):
    return [Unchecked(" | 10,000 objects", why="no data, as the page says; smaller pools have")]


def agent(_folder):
    old = "earlier runs, of which no data is kept, as the page says"
    return [Unchecked("TLS copy | into a file", "How, and earlier runs", why=old)
            for _ in range(2)]


def house(_folder):
    why = "counted from two commits by .ci/house.py and by hand: no data"
    return [Unchecked("part | before: code", "Lines", why=why),
            Unchecked("crate | before", "Circles", why=why),
            Unchecked("to add | before", "What one must touch", why=why)]
