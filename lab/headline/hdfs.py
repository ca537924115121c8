"""Pools in HDFS beside HDFS's own erasure coding: medians over rounds."""

from statistics import median

from .rows import ends, only

LABELS = {
    "encode": {"hdfs": "HDFS-RS", "clay": "kiln Clay", "rs": "kiln RS"},
    "recovery": {"hdfs": "HDFS-RS", "hdfs_spread": "HDFS-RS, spread", "rs_central": "RS central",
                 "rs_pipelining": "RS pipelining", "central": "Clay central", "hub": "Clay hub",
                 "spread": "joint, spread"},
}


def of(kind, label, key, how):
    def number(report):
        found = [row[key] for row in only(report["hdfs"], kind=kind, label=label)]
        if not found:
            raise KeyError(f"no row {kind} {label}")
        return how(found)
    return number


MEASURED = {
    "load": lambda report: ends(row["load"] for row in report["hdfs"]),
    "cores": lambda report: ends(row["machine_cores"] for row in report["hdfs"]),
}
for kind, labels in LABELS.items():
    for name, label in labels.items():
        MEASURED[f"{kind}_{name}"] = of(kind, label, "seconds", median)
        MEASURED[f"{kind}_{name}_ends"] = of(kind, label, "seconds", ends)
        MEASURED[f"{kind}_{name}_bytes"] = of(kind, label, "bytes_per_lost", median)
        MEASURED[f"{kind}_{name}_bound"] = of(kind, label, "bound_seconds", median)
NUMBERS = {"hdfs-quick.json": MEASURED, "hdfs.json": MEASURED}
