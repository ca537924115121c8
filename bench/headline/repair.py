"""Repairs over shaped links: seconds, means over the repetitions of a cell."""

from .rows import ends, only


def seconds(report, kind, label, code, **wanted):
    found = [row["seconds"] for row in only(report["rows"], kind=kind, label=label, code=code,
                                            **wanted)]
    if not found:
        raise KeyError(f"no row {kind} {label} {code}")
    return sum(found) / len(found)


def time(kind, label, code, **wanted):
    return lambda report: seconds(report, kind, label, code, **wanted)


def saved(kind, ours, theirs, **wanted):
    """How much less time than another takes; each a label and a code."""
    return lambda report: 1 - seconds(report, kind, *ours, **wanted) / seconds(
        report, kind, *theirs, **wanted)


def over_bound(kind):
    return lambda report: ends(row["over_bound"] for row in only(report["rows"], kind=kind))


MEASURED = {"traffic_over_plan": lambda report: max(
    row["traffic_over_plan"] for row in report["rows"]
    if row["kind"] in ("degraded", "recovery"))}
for size in ("8+4", "10+4", "12+4"):
    key, hub = size.replace("+", "_"), ("Clay hub", f"clay:{size}")
    for name, label, family in (("rs", "RS central", "rs"), ("pipelining", "RS pipelining", "rs"),
                                ("central", "Clay central", "clay"),
                                ("heuristic", "Clay, ParaRC's heuristic", "clay")):
        other = (label, f"{family}:{size}")
        MEASURED[f"degraded_{key}_{name}"] = time("degraded", *other)
        MEASURED[f"degraded_{key}_saved_vs_{name}"] = saved("degraded", hub, other)
    MEASURED[f"degraded_{key}_hub"] = time("degraded", *hub)
CHAIN = ("Butterfly chain", "butterfly:10+2")
for name, label, family in (("rs", "RS central", "rs"), ("pipelining", "RS pipelining", "rs"),
                            ("central", "Butterfly central", "butterfly")):
    MEASURED[f"butterfly_saved_vs_{name}"] = saved("degraded", CHAIN, (label, f"{family}:10+2"))
MEASURED["butterfly_chain_over_pipelining"] = lambda report: -MEASURED[
    "butterfly_saved_vs_pipelining"](report)
for kib in (16, 64, 256):
    for name, label, code in (("hub", "Clay hub", "clay:10+4"),
                              ("central", "Clay central", "clay:10+4"),
                              ("pipelining", "RS pipelining", "rs:10+4")):
        MEASURED[f"window_{kib}_{name}"] = time("window", label, code, window_kib=kib)
for mib in (16, 256):
    for name, label, code in (("hub", "Clay hub", "clay:10+4"),
                              ("central", "Clay central", "clay:10+4"),
                              ("pipelining", "RS pipelining", "rs:10+4")):
        MEASURED[f"chunk_{mib}_{name}"] = time("chunk", label, code, chunk_mib=mib)
for name, label in (("central", "Clay central, one node"), ("hub", "Clay hub, one node"),
                    ("joint", "joint, one node"), ("central_spread", "Clay central, spread"),
                    ("spread", "joint, spread")):
    MEASURED[f"recovery_{name}"] = time("recovery", label, "clay:12+4")
MEASURED |= {
    "recovery_saved_vs_central": saved("recovery", ("joint, one node", "clay:12+4"),
                                       ("Clay central, one node", "clay:12+4")),
    "recovery_over_bound": over_bound("recovery"),
    "client_computes": time("read", "client", "clay:12+4"),
    "agents_compute": time("read", "agents, hub", "clay:12+4"),
    "limited_mb_s": lambda report: only(report["rows"], kind="throttle")[0]["mean_rate"] / 1e6,
    "client_kept": lambda report: only(report["rows"], kind="throttle")[0]["client_kept"],
}
NUMBERS = {"repair.json": MEASURED}
