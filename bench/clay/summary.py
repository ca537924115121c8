"""What rounds of cases say together, and beside the paper."""

import statistics

from cases import PLUGINS, Case, cases

CLAYS = [plugin for plugin in PLUGINS if plugin != "rs"]


def over(one, what):
    """A number of a round for each byte that was lost."""
    return one[what] / one["lost_bytes"]


WAYS = {
    "network": lambda one: over(one, "network_bytes"),
    "disk": lambda one: over(one, "disk_bytes"),
    "seconds_per_mib": lambda one: over(one, "seconds") * 2**20,
    "least_helper": lambda one: min(one["helper_bytes"]) / one["lost_bytes"],
    "most_helper": lambda one: max(one["helper_bytes"]) / one["lost_bytes"],
}
# Of clients, in MiB a second: bytes that they move are in what links and devices counted.
BESIDE = {name: lambda one, name=name: one[name] / 2**20 for name in ("alone", "beside")}


def row(case, rounds):
    """Medians of a case's rounds, with them."""
    found = {"case": case.key, "code": case.code.name, "plugin": case.plugin,
             "workload": case.workload, "groups": case.groups, "shard": case.shard,
             "clients": case.clients, "rounds": rounds}
    for name, way in (BESIDE if case.clients else WAYS).items():
        found[name] = statistics.median(way(one) for one in rounds)
    return found


def headline(rows, codes, groups):
    """What Clay saves of RS's, by code and plugin: numbers that the paper has too."""
    by = {one["case"]: one for one in rows}
    found = {}

    def pair(case):
        rs = by.get(Case(case.code, "rs", case.workload, case.groups, 1, case.clients).key)
        return by.get(case.key), rs

    for case in cases(codes, groups):
        clay, rs = pair(case)
        if case.shard != 1 and clay:
            short = case.plugin.replace(", ", "_").split()
            name = "_".join([case.code.name.lower(), short[0], *short[2:]])
            found[f"{name}_parity_network"], found[f"{name}_parity_disk"] = (
                clay["network"], clay["disk"])
        if case.plugin not in CLAYS or not clay or not rs or case.shard != 1:
            continue
        words = [case.code.name.lower(), case.plugin.split()[0], case.workload.lower()]
        words += ["groups"] * (case.groups > 1)
        name = "_".join(words)
        if case.clients:
            name = f"{case.code.name.lower()}_{case.plugin.split()[0]}_{case.clients}"
            found[f"{name}_beside_over_rs"] = clay["beside"] / rs["beside"]
            found[f"{name}_alone_over_rs"] = clay["alone"] / rs["alone"]
            continue
        found[f"{name}_disk"] = clay["disk"]
        found[f"{name}_network_saved"] = 1 - clay["network"] / rs["network"]
        found[f"{name}_disk_saved"] = 1 - clay["disk"] / rs["disk"]
        found[f"{name}_times_faster"] = rs["seconds_per_mib"] / clay["seconds_per_mib"]
    return found


def short(one):
    """A round in a few words."""
    words = [f"{over(one, 'network_bytes'):.2f} bytes sent and {over(one, 'disk_bytes'):.2f} read "
             f"for each lost one, {one['seconds']:.1f} s for {one['lost_bytes'] / 2**20:.0f} MiB"]
    words += [f"clients {name}: {one[name] / 2**20:.1f} MiB/s" for name in ("alone", "beside")
              if name in one]
    return "; ".join(words)
