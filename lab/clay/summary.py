"""What rounds of cases say together, and beside the paper."""

import statistics

from lab.clay.cases import C1, C2, C3, C4, C5, C6, cases

KNOWN = (C1, C2, C3, C4, C5, C6)


def over(one, what):
    """A number of a round for each byte that was lost."""
    return one[what] / one["lost_bytes"]


WAYS = {
    "network": lambda one: over(one, "network_bytes"),
    "disk": lambda one: over(one, "disk_bytes"),
    "seconds_per_mib": lambda one: over(one, "seconds") * 2**20,
    # Without what passes before helpers read.
    "moving_per_mib": lambda one: (one["seconds"] - one["begun"]) * 2**20 / one["lost_bytes"],
    "least_helper": lambda one: min(one["helper_bytes"]) / one["lost_bytes"],
    "most_helper": lambda one: max(one["helper_bytes"]) / one["lost_bytes"],
}
# Of a helper: reads of its device for each stripe. Where there are several groups it is none of
# some stripes.
EACH = {"reads_each": lambda one: statistics.median(one["helper_reads"]) / one["stripes"]}
# Of clients, in MiB a second: bytes that they move are in what links and devices counted.
BESIDE = {name: lambda one, name=name: one[name] / 2**20 for name in ("alone", "beside")}


def row(case, rounds):
    """Medians of a case's rounds, with them."""
    found = {"case": case.key, "code": case.code.name, "plugin": case.plugin,
             "workload": case.workload, "groups": case.groups, "shard": case.shard,
             "losses": case.losses, "clients": case.clients, "disk_is": case.disk,
             "rounds": rounds}
    ways = BESIDE if case.clients else WAYS if case.groups > 1 else WAYS | EACH
    for name, way in ways.items():
        found[name] = statistics.median(way(one) for one in rounds)
    return found


def headline(rows, codes, groups, several=()):
    """What Clay saves of RS's, by code and plugin: numbers that the paper has too."""
    by = {one["case"]: one for one in rows}
    found = {}
    for case in cases(codes, groups, several):
        clay = by.get(case.key)
        if case.plugin == "rs" or not clay:
            continue
        name = f"{case.code.name.lower()}_{case.plugin.split()[0]}"
        if case.shard != 1:
            name += "_".join(["", *case.plugin.replace(",", "").split()[2:], "parity"])
            found |= {f"{name}_{what}": clay[what] for what in ("network", "disk")}
            found[f"{name}_seconds"] = clay["seconds_per_mib"]
        elif rs := rs_of(case, rows):
            found |= beside_rs(name, case, clay, rs)
    return found


def rs_of(case, rows):
    """The row of RS with as many chunks, which lost the same; `None`: not measured."""
    wanted = {"plugin": "rs", "workload": case.workload, "groups": case.groups, "shard": case.shard,
              "losses": case.losses, "clients": case.clients}
    codes = {code.name for code in KNOWN if (code.k, code.m) == (case.code.k, case.code.m)}
    return next((row for row in rows if row["code"] in codes
                 and all(row[key] == value for key, value in wanted.items())), None)


def beside_rs(name, case, clay, rs):
    """Numbers of a row beside those of RS."""
    if case.clients:
        name += f"_{case.clients}"
        return {f"{name}_beside_over_rs": clay["beside"] / rs["beside"],
                f"{name}_alone_over_rs": clay["alone"] / rs["alone"]}
    name += f"_{case.workload.lower()}" + "_groups" * (case.groups > 1) + "_two" * (case.losses > 1)
    return {f"{name}_disk": clay["disk"],
            f"{name}_network_saved": 1 - clay["network"] / rs["network"],
            f"{name}_disk_saved": 1 - clay["disk"] / rs["disk"],
            f"{name}_times_faster": rs["seconds_per_mib"] / clay["seconds_per_mib"]}


def short(one):
    """A round in a few words."""
    words = [f"{over(one, 'network_bytes'):.2f} bytes sent and {over(one, 'disk_bytes'):.2f} read "
             f"for each lost one, {one['begun']:.1f} to {one['seconds']:.1f} s for "
             f"{one['lost_bytes'] / 2**20:.0f} MiB, {sum(one['helper_reads'])} reads"]
    words += [f"clients {name}: {one[name] / 2**20:.1f} MiB/s" for name in ("alone", "beside")
              if name in one]
    return "; ".join(words)
