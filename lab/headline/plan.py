"""Where repairs are computed: loads and traffic that were counted from checked plans, in MiB."""

from .rows import ends, one


def code(report, name):
    return one(report["codes"], code=name)


def blocks(name, key, last=None):
    """The least and the most over the lost blocks of a code, or of those before the last ones."""
    return lambda report: ends(block[key] for block in code(report, name)["blocks"][:last])


def first(name, key):
    return lambda report: code(report, name)["blocks"][0][key]


def other(name, strategy, key):
    return lambda report: one(code(report, name)["others"], name=strategy)[key]


def above_bound(name):
    return lambda report: max(block["bandwidth_mib"] / block["bound_mib"] - 1
                              for block in code(report, name)["blocks"])


def placements(report, name):
    """Least load among all placements of whole sub-chunks, and the traffic there, in MiB."""
    small = one(report["small"], code=name)
    return [sub_chunks * 256 / small["alpha"] for sub_chunks in small["frontier"][0]]


def recovery(key, **wanted):
    def number(report):
        row = one(report["recoveries"], **wanted)
        return min(load for _, load in row["alone_mib"]) if key == "alone" else row[key]
    return number


SPREAD = dict(code="clay:10+4", stripes=100, new=0)
COUNTED = {
    "blocks_above_load_256": lambda report: sum(
        block["load_mib"] > 256 for row in report["codes"] for block in row["blocks"]),
    "blocks": lambda report: sum(len(row["blocks"]) for row in report["codes"]),
    "butterfly_4_2_traffic": blocks("butterfly:4+2", "bandwidth_mib", -1),
    "butterfly_10_2_traffic": blocks("butterfly:10+2", "bandwidth_mib", -1),
    "plan_ms_10_4": lambda report: max(block["dag_ms"] + block["plan_ms"]
                                       for block in code(report, "clay:10+4")["blocks"]),
    "clay_2_2_placements": lambda report: placements(report, "clay:2+2")[1],
    "butterfly_4_2_placements": lambda report: placements(report, "butterfly:4+2")[1],
    "butterfly_4_2_below_pipelining": lambda report: 1 - placements(
        report, "butterfly:4+2")[1] / 1024,
    "recovery": recovery("makespan_mib", **SPREAD),
    "recovery_bound": recovery("bound_mib", **SPREAD),
    "recovery_alone": recovery("alone", **SPREAD),
    "load_10_4_below_central": lambda report: 1 - first("clay:10+4", "load_mib")(report) / other(
        "clay:10+4", "central", "load_mib")(report),
    "traffic_10_4_below_pipelining": lambda report: 1 - first("clay:10+4", "bandwidth_mib")(
        report) / (10 * 256),
}
COUNTED["heuristic_200s_load"] = other("clay:10+4", "pareto, 200 s", "load_mib")
COUNTED["heuristic_200s_traffic"] = other("clay:10+4", "pareto, 200 s", "bandwidth_mib")
for name in ("clay:2+2", "clay:8+4", "clay:10+4", "clay:12+4", "butterfly:4+2", "butterfly:10+2"):
    key = name.replace(":", "_").replace("+", "_")
    COUNTED[f"load_{key}"] = first(name, "load_mib")
    COUNTED[f"traffic_{key}"] = first(name, "bandwidth_mib")
    COUNTED[f"heuristic_{key}_load"] = other(name, "pareto", "load_mib")
    COUNTED[f"heuristic_{key}_traffic"] = other(name, "pareto", "bandwidth_mib")
    COUNTED[f"central_{key}"] = other(name, "central", "load_mib")
for name in ("17+3", "10+2", "12+2", "16+2"):
    COUNTED[f"above_bound_{name.replace('+', '_')}"] = above_bound(f"clay:{name}")
NUMBERS = {"plan.json": COUNTED}


def average(code, lost, key="mean_chunks"):
    return lambda report: one(report["averages"], code=code, failures=lost)[key]


AVERAGES = {}
for spec, d in (("clay:10+4,d=11", 11), ("clay:10+4,d=12", 12), ("clay:10+4", 13)):
    for failures in (1, 2, 3, 4):
        AVERAGES[f"d{d}_f{failures}"] = average(spec, failures)
for k, m in ((4, 2), (9, 3), (16, 4)):
    # Against RS, which reads k chunks; the rebuilt chunk is sent once more, and the node that
    # rebuilds it is a helper, as in the paper's testbed.
    AVERAGES[f"disk_saved_{k}_{m}"] = lambda report, k=k, m=m: 1 - average(
        f"clay:{k}+{m}", 1)(report) / k
    AVERAGES[f"network_saved_{k}_{m}"] = lambda report, k=k, m=m: 1 - (
        average(f"clay:{k}+{m}", 1)(report) * (k + m - 2) / (k + m - 1) + 1) / k
NUMBERS["plan-average.json"] = AVERAGES
