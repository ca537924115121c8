"""The numbers of bench-repair that bars are about, from its rows."""

from lab.repair.numbers import cell, in_rounds, most_traffic, time

# How much less time than what; the seconds of one for the seconds of another.
SAVED = {
    "degraded_saved_vs_clay_central": ("degraded", ("Clay hub", "clay"), ("Clay central", "clay")),
    "degraded_saved_vs_rs_central": ("degraded", ("Clay hub", "clay"), ("RS central", "rs")),
    "recovery_saved_vs_clay_central": ("recovery", ("joint", "clay"), ("Clay central", "clay")),
}
SIZE = "12+4"
COUNTED = ("degraded", "window", "chunk", "recovery")


def found(number, digits=4):
    """A number; nothing where its cells were not measured."""
    try:
        return round(number(), digits)
    except (KeyError, ValueError):
        return None


def headline(rows):
    """All of them, by their names; of recoveries with the largest chunks there are."""
    report = dict(rows=rows)

    def saved(kind, ours, theirs):
        to = dict(to="one") if kind == "recovery" else {}
        cells = [cell(report, kind, label, f"{family}:{SIZE}", **to)
                 for label, family in (ours, theirs)]
        return 1 - in_rounds(*cells, "seconds")

    def spread():
        one, many = (time(report, "recovery", "joint", f"clay:{SIZE}", to=to)
                     for to in ("one", "spread"))
        return one / many

    numbers = {name: found(lambda: saved(*of)) for name, of in SAVED.items()}
    return numbers | dict(spread_over_single=found(spread, 3),
                          traffic_over_plan=found(lambda: most_traffic(report, *COUNTED)))
