"""repair.md: repairs over a network."""

from repair import page as bench  # bench/repair, which makes the same tables of a run

from .page import Linked, Rule, Unchecked

FILE = ("repair.json",)


def page(_folder):
    def all_of(kind, section):
        return Rule("what | code | chunk", section, "", FILE,
                    lambda data: bench.lines(data, kind)[1],
                    anew=lambda data: bench.lines(data, kind)[0])

    bars = "bars are what was wanted"
    return [
        all_of("degraded", "Degraded read"),
        Linked("bar, 12+4, 64 MiB | wanted", "Degraded read", columns=(2,), why=bars),
        all_of("read", "Degraded read by a client"),
        Unchecked("chunk | links", "Degraded read by a client",
                  why="times of single reads, of which no data was kept"),
        all_of("window", "Windows"), all_of("chunk", "Sizes of chunks"),
        all_of("recovery", "Full-node recovery"),
        Linked("bar, 12+4", "Full-node recovery", columns=(2,), why=bars),
        all_of("encode", "Encoding to agents"),
        Rule("limit | busiest host", "A limit", "", FILE, bench.limited),
        Unchecked("link of | ends right after", "Links that are cut",
                  why="what a test printed once; it writes no data")]
