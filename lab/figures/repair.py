"""Pictures of repairs over shaped links, which `lab/repair` measured."""

from lab.figures.figure import Axis, Figure, Mark, Panel, Rule
from lab.figures.reading import groups, middle, number, rows_of, word

# Kinds of rows with the title of their pictures.
KINDS = {"degraded": "Degraded read", "window": "Degraded read by window",
         "chunk": "Degraded read by size of a chunk", "encode": "Encode",
         "recovery": "Full-node recovery", "read": "Degraded read by a client"}
NOTE = ("Median, least and most of the rounds. Thick line: the load bound, the largest load by the "
        "link's rate.")
MIB = float(1 << 20)
# What a repair takes beside time: member of a row, title, its unit, what of it a mark is.
COSTS = (("cpu_seconds", "processor time of the agents", "CPU seconds", 1.0),
         ("bytes_read", "read by the agents", "MiB read", MIB),
         ("network_bytes", "sent by all hosts, headers and all", "MiB sent", MIB))
# Seconds of a recovery that are shown over time: who is slower goes on as he began.
SHOWN = 60.0


def figures(report):
    """All pictures; a cell is the rounds of the same repair."""
    for kind, title in KINDS.items():
        rows = [row for row in rows_of(report, "rows") if row["kind"] == kind]
        cells = list(groups(rows, lambda row: (word(row, "to"), row["chunk_mib"], *names(row)))
                     .values())
        if not cells:
            continue
        chunk = cells[0][0]["chunk_mib"]
        if all(rows[0]["chunk_mib"] == chunk for rows in cells):
            title += f", chunks of {chunk} MiB"

        def figure(what, rows, panels, columns=0, note=""):
            return Figure(f"{title}: {what}", conditions(report, rows), columns, panels, note)

        every = [row for rows in cells for row in rows]
        panels = seconds(kind, cells)
        yield kind, figure("seconds", every, panels, min(len(panels), 2), NOTE)
        if kind in ("degraded", "recovery"):
            yield from more(kind, cells, figure)
    for row in rows_of(report, "rows"):
        if rows_of(row, "limited"):
            title = "A limited recovery, and a client that reads beside it"
            yield "limited", Figure(title, conditions(report, [row]), 0, [limited(row)])
            break


def conditions(report, rows):
    """Where rows were measured, each place once: what a row says of that goes before what the
    report says."""
    def place(row):
        cpu, kernel, commit, rate = (word(row, key) or word(report["about"], key)
                                     for key in ("cpu", "kernel", "commit", "rate"))
        return f"{cpu}, Linux {kernel}, commit {commit}; links of {rate}"

    return "; ".join(sorted(set(map(place, rows))))


def more(kind, cells, figure):
    """What it costs beside time, by host, and over time: where it was counted."""
    every = [row for rows in cells for row in rows]
    if any(rows[0].get("cpu_seconds") is not None for rows in cells):
        yield f"{kind}-cost", figure("what it takes", every, [taken(cost, cells) for cost in COSTS],
                                     3, "Medians of the rounds.")
    # The widest code stands for all, in the first round of each of its cells.
    first = [rows[0] for rows in cells if rows[0]["code"].endswith(":12+4")]
    first = [row for row in first if row["chunk_mib"] == first[0]["chunk_mib"]]
    if any(rows_of(row, "interface") for row in first):
        panels = [hosts("sent, MiB", 0, first), hosts("received, MiB", 1, first)]
        yield f"{kind}-nodes", figure("bytes by host, 12+4", first, panels)
    timed = [row for row in first if rows_of(row, "timeline")]
    if timed:
        panels = [timelines(to, rows) for to, rows in groups(timed, goes).items()]
        yield f"{kind}-time", figure("what all hosts receive, over time, 12+4", timed, panels, 2,
                                     f"The first round, up to {SHOWN:.0f} s.")


def names(row):
    """Where the bar of a row stands and what it is called."""
    size = row["code"].split(":")[-1]
    place = {"window": f"{size}, {row.get('window_kib')} KiB",
             "recovery": f"{size}, {row['chunk_mib']} MiB", "read": row["code"]}
    return place.get(row["kind"], size), word(row, "label")


def goes(row):
    """Where a recovery puts what it rebuilds."""
    spread = word(row, "to") == "spread"
    return "spread over the nodes left" if spread else "to one node"


def seconds(kind, cells):
    """Seconds: of recoveries by where they go, of chunks by their size, each on a scale of its
    own."""
    def part(rows):
        return {"recovery": goes(rows[0]), "chunk": f"{rows[0]['chunk_mib']} MiB"}.get(kind, "")

    panels = []
    for title, some in groups(cells, part).items():
        panels.append(Panel(title, "bars", Axis(f"seconds, {title}" if title else "seconds")))
        for rows in some:
            place, name = names(rows[0])
            times = [number(row["seconds"]) for row in rows]
            # A row may be the mean of several runs of which only the ends are known.
            ends = [row[key] for row in rows for key in ("least", "most")
                    if row.get(key) is not None]
            panels[-1].add(name, place, middle(times), (min(times + ends), max(times + ends)),
                           rows[0].get("bound_seconds"))
    return panels


def taken(cost, cells):
    """One of `COSTS` in all cells."""
    key, title, unit, part = cost
    panel = Panel(title, "bars", Axis(unit))
    for rows in cells:
        place, name = names(rows[0])
        place += ", spread" if word(rows[0], "to") == "spread" else ""
        panel.add(name, place, middle([number(row.get(key)) / part for row in rows]))
    return panel


def hosts(title, side, rows):
    """Bytes through the interface of each host."""
    panel = Panel(title, "cells", Axis("MiB"), Axis("host"))
    for row in rows:
        to = ", spread" if word(row, "to") == "spread" else ""
        for host, both in enumerate(rows_of(row, "interface")):
            panel.add(f"{row['label']}{to}", str(host), number(both[side]) / MIB)
    return panel


def timelines(to, rows):
    """What all hosts together receive."""
    panel = Panel(to, "xy", Axis("MB/s"), Axis(f"seconds, {to}"))
    for row in rows:
        last = 0.0
        for at, got in row["timeline"]:
            if at <= SHOWN:
                rate = got / max(at - last, 1e-3) / 1e6
                panel.marks(row["label"]).append(Mark(float(at), rate))
            last = at
    return panel.joined()


def limited(row):
    """What the busiest host received in the second before each moment, and a client's reads
    beside."""
    panel = Panel(row["label"], "xy", Axis("MB/s"), Axis("seconds"))
    sums = [(0.0, 0.0)]
    for at, got in row["limited"]:
        before = sums[-1][1]
        since = next((one for one in reversed(sums) if one[0] <= at - 1), (0.0, 0.0))
        sums.append((at, before + got))
        rate = (before + got - since[1]) / max(at - since[0], 1.0) / 1e6
        panel.marks("the busiest host").append(Mark(float(at), rate))
    end = sums[-1][0]
    panel.joined()
    for begin, until, rate in rows_of(row, "reads"):
        if begin < end:
            middle_at = (begin + min(until, end)) / 2
            panel.marks("a read of the client").append(Mark(middle_at, rate / 1e6))
    panel.rules = [Rule("the limit", number(row["limit"]) / 1e6),
                   Rule("the client alone", number(row["client_alone"]) / 1e6)]
    return panel
