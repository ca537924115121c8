"""Repairs over shaped links: medians over the rounds of a cell, ratios within rounds."""

from statistics import median

from .rows import ends, only

SIZES = ("8+4", "10+4", "12+4", "10+2")
WINDOWS, CHUNKS = (16, 32, 64, 128, 256), (16, 64, 128, 256, 512)
# What keys call a rival: its label, its code. kiln's own is the hub, for Butterfly the chain; of a
# whole node what it plans jointly.
CLAY = {"rs": ("RS central", "rs"), "pipelining": ("RS pipelining", "rs"),
        "central": ("Clay central", "clay"), "plan": ("Clay, ParaRC's plan", "clay"),
        "hub": ("Clay hub", "clay")}
BUTTERFLY = {"rs": ("RS central", "rs"), "pipelining": ("RS pipelining", "rs"),
             "central": ("Butterfly central", "butterfly"),
             "plan": ("Butterfly, ParaRC's plan", "butterfly"),
             "chain": ("Butterfly chain", "butterfly")}
HEURISTIC = {"heuristic": ("Clay, ParaRC's heuristic", "clay")}


def cell_key(row):
    """What is the same in all rounds of a cell."""
    return (row["kind"], row.get("label", ""), row.get("to", ""), row["code"], row["chunk_mib"],
            row.get("window_kib", 0))


def cells(rows):
    """Rounds of a cell together, in the order in which cells come first."""
    found = {}
    for row in rows:
        found.setdefault(cell_key(row), []).append(row)
    return list(found.values())


def cell(report, kind, label, code, largest=True, **wanted):
    """The rounds of one cell; of several sizes of a chunk those of the largest (or the least)."""
    found = only(report["rows"], kind=kind, label=label, code=code, **wanted)
    if not found:
        raise KeyError(f"no row {kind} {label} {code} {wanted}")
    sizes = [row["chunk_mib"] for row in found]
    size = max(sizes) if largest else min(sizes)
    return [row for row in found if row["chunk_mib"] == size]


def in_rounds(ours, theirs, key):
    """How many times one has what another has: the median of the ratios within rounds where both
    have the same rounds, else the ratio of medians."""
    numbers = [{row.get("round"): row[key] for row in rows} for rows in (ours, theirs)]
    if None not in numbers[0] and numbers[0].keys() == numbers[1].keys():
        return median(numbers[0][at] / numbers[1][at] for at in numbers[0])
    return median(row[key] for row in ours) / median(row[key] for row in theirs)


def time(kind, label, code, **wanted):
    return lambda report: median(row["seconds"] for row in
                                 cell(report, kind, label, code, **wanted))


def ratio(kind, ours, theirs, key="seconds", **wanted):
    """How many times one (a label and a code) takes what another takes."""
    return lambda report: in_rounds(cell(report, kind, *ours, **wanted),
                                    cell(report, kind, *theirs, **wanted), key)


def saved(kind, ours, theirs, key="seconds", **wanted):
    """How much less one takes than another."""
    found = ratio(kind, ours, theirs, key, **wanted)
    return lambda report: 1 - found(report)


def over_bound(kind, **wanted):
    """The least and the most of all cells."""
    return lambda report: ends(median(row["over_bound"] for row in rounds) for rounds in
                               cells(only(report["rows"], kind=kind, **wanted)))


def clay_over_bound(to):
    """Of the recoveries of 12+4, with the largest chunks; RS left out."""
    def number(report):
        rows = only(report["rows"], kind="recovery", code="clay:12+4")
        size = max(row["chunk_mib"] for row in rows)
        return over_bound("recovery", to=to, code="clay:12+4", chunk_mib=size)(report)
    return number


def most_traffic(*kinds):
    """Streams over plan at the worst host of any round."""
    return lambda report: max(row["traffic_over_plan"] for row in report["rows"]
                              if row["kind"] in kinds)


def limited(key, unit=1):
    """Of a limited recovery; all rows are rounds of one cell."""
    return lambda report: median(row[key] for row in only(report["rows"], kind="throttle")) / unit


def of(rival, size):
    """A rival's label and its code of some size."""
    return rival[0], f"{rival[1]}:{size}"


# What a repair takes beside time.
COSTS = {"seconds": "seconds", "sent": "planned_sent", "read": "bytes_read",
         "cpu": "cpu_seconds"}


def compared(start, kind, rivals, size, own, **wanted):
    """Seconds of all rivals, what kiln's own saves against the others, and ParaRC's plan against
    what the paper compares it with."""
    found = {f"{start}_{name}": time(kind, *of(rival, size), **wanted)
             for name, rival in rivals.items()}
    pairs = [(own, "", [name for name in rivals if name != own]),
             ("plan", "plan_", [name for name in ("rs", "pipelining", "central")
                                if name in rivals])]
    for ours, word, others in pairs:
        for other in others:
            found[f"{start}_{word}saved_vs_{other}"] = saved(
                kind, of(rivals[ours], size), of(rivals[other], size), **wanted)
    return found


def pipelining_takes(start, kind, rivals, size, own, **wanted):
    """What repair pipelining takes for what kiln's own takes: where hubs win, and where not."""
    return {f"{start}_{name}": ratio(kind, of(rivals["pipelining"], size), of(rivals[own], size),
                                     key, **wanted) for name, key in COSTS.items()}


def degraded():
    """Fig. 8a."""
    found = {}
    for size in SIZES:
        key = size.replace("+", "_")
        rivals, own = (BUTTERFLY, "chain") if size == "10+2" else (CLAY | HEURISTIC, "hub")
        found |= compared(f"degraded_{key}", "degraded", rivals, size, own)
        found |= pipelining_takes(f"pipelining_{key}", "degraded", rivals, size, own)
    for name in ("rs", "pipelining", "central", "plan"):
        found[f"butterfly_saved_vs_{name}"] = found[f"degraded_10_2_saved_vs_{name}"]
    found["butterfly_chain_over_pipelining"] = lambda report: -found[
        "butterfly_saved_vs_pipelining"](report)
    return found


def recovery():
    """Fig. 8b: of all codes in the size of a chunk that all have; without a code in its name 12+4
    with the largest chunks there are."""
    found = {}
    for size in SIZES:
        key = size.replace("+", "_")
        rivals, family = (BUTTERFLY, "butterfly") if size == "10+2" else (CLAY, "clay")
        rivals = rivals | {"joint": ("joint", family)}
        one, spread = (dict(to=to, largest=False) for to in ("one", "spread"))
        found |= compared(f"recovery_{key}", "recovery", rivals, size, "joint", **one)
        for name in ("central", "pipelining", "joint"):
            found[f"recovery_{key}_{name}_spread"] = time("recovery", *of(rivals[name], size),
                                                          **spread)
        for wanted, word in ((one, "recovery"), (spread, "spread")):
            found |= pipelining_takes(f"pipelining_{word}_{key}", "recovery", rivals, size,
                                      "joint", **wanted)
    central, hub, joint = (("Clay central", "clay:12+4"), ("Clay hub", "clay:12+4"),
                           ("joint", "clay:12+4"))
    for name, rival in (("central", central), ("hub", hub), ("joint", joint)):
        found[f"recovery_{name}"] = time("recovery", *rival, to="one")
    found |= {"recovery_central_spread": time("recovery", *central, to="spread"),
              "recovery_spread": time("recovery", *joint, to="spread"),
              "recovery_saved_vs_central": saved("recovery", joint, central, to="one"),
              "recovery_hub_saved_vs_central": saved("recovery", hub, central, to="one"),
              "spread_over_one": lambda report: found["recovery_joint"](report) / found[
                  "recovery_spread"](report),
              "recovery_over_bound": over_bound("recovery")}
    return found


def swept():
    """Fig. 9 and 10: by window, by size of a chunk."""
    found = {}
    # Sub-chunks of Butterfly 10+2 can be no longer than 170 KiB, and windows no longer than those.
    for start, all_of, size, own, windows in (
            ("", CLAY, "10+4", "hub", WINDOWS),
            ("butterfly_", BUTTERFLY, "10+2", "chain", WINDOWS[:-1])):
        # Who receives everything has no use for windows: central RS is among the sizes.
        rivals = {name: rival for name, rival in all_of.items() if name != "rs"}
        for kib in windows:
            found |= compared(f"{start}window_{kib}", "window", rivals, size, own, window_kib=kib)
        for mib in CHUNKS:
            found |= compared(f"{start}chunk_{mib}", "chunk", all_of, size, own, chunk_mib=mib)
    return found


MEASURED = {
    "traffic_over_plan": most_traffic("degraded", "recovery"),
    "degraded_traffic_over_plan": most_traffic("degraded"),
    "recovery_traffic_over_plan": most_traffic("recovery"),
    "hub_over_bound": over_bound("degraded", label="Clay hub"),
    "recovery_one_over_bound": over_bound("recovery", to="one"),
    "recovery_spread_over_bound": over_bound("recovery", to="spread"),
    "recovery_12_4_one_over_bound": clay_over_bound("one"),
    "recovery_12_4_spread_over_bound": clay_over_bound("spread"),
    **degraded(), **recovery(), **swept(),
    "client_computes": time("read", "client", "clay:12+4"),
    "agents_compute": time("read", "agents, hub", "clay:12+4"),
    "limited_mb_s": limited("mean_rate", 1e6),
    "client_kept": limited("client_kept"),
}
NUMBERS = {"repair.json": MEASURED}
