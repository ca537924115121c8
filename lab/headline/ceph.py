"""Inside Ceph: a cluster of one machine."""

from .rows import ends, one, only

CELLS = {
    "clay_10_4": ("kiln clay", 10, 4, 1024, [13]),
    "clay_12_4": ("kiln clay", 12, 4, 1024, [15]),
    "clay_4_2": ("kiln clay", 4, 2, 64, [5]),
    "clay_14_2": ("kiln clay", 14, 2, 1024, [15]),
    "gray_14_2": ("kiln clay gray", 14, 2, 1024, [15]),
    "two_losses": ("kiln clay", 10, 4, 1024, [0, 1]),
    "stock_two_losses": ("stock clay", 10, 4, 1024, [0, 1]),
    "isa_10_4": ("stock isa", 10, 4, 1024, [0]),
}


def recovered(cell, key):
    """For each lost byte, what an empty OSD's recovery cost."""
    code, k, m, kib, lost = CELLS[cell]
    return lambda report: one(report["recovery"], code=code, k=k, m=m, stripe_unit_kib=kib,
                              lost=lost, away=None)[key]


def saved(ours, theirs, key):
    """Against another cell, or against RS, which reads k bytes for each lost one."""
    def number(report):
        other = CELLS[ours][1] if theirs is None else recovered(theirs, key)(report)
        return 1 - recovered(ours, key)(report) / other
    return number


def ratios(report, part, ours, theirs, key, **wanted):
    """CPU seconds of one code over those of another, in every cell that both have."""
    for row in only(report[part], code=ours, **wanted):
        place = {name: row[name] for name in ("k", "m", "stripe_unit_kib")}
        for other in only(report[part], code=theirs, **place):
            yield row[key][1] / other[key][1]


def cpu(part, ours, theirs, key, **wanted):
    def number(report):
        found = list(ratios(report, part, ours, theirs, f"{key}_cpu_s_per_gib", **wanted))
        return found[0] if len(found) == 1 else ends(found)
    return number


def clients(report, code):
    return one(report["clients"], code=code)


def over_replicas(code, key):
    return lambda report: clients(report, "3 replicas")[key] / clients(report, code)[key]


TEN = dict(k=10, m=4)
COUNTED = {
    "two_losses_disk_saved": saved("two_losses", "stock_two_losses", "disk_per_lost"),
    "two_losses_network_saved": saved("two_losses", "stock_two_losses", "network_per_lost"),
    "rs_encode_over_isa": cpu("computing", "kiln rs", "stock isa", "encode_received"),
    "clay_encode_over_stock": cpu("computing", "kiln clay", "stock clay", "encode_received", **TEN),
    "clay_encode_over_rs": cpu("computing", "kiln clay", "kiln rs", "encode_received", **TEN),
    "replicas_over_isa_random_writes": over_replicas("stock isa 6+3", "random_write_iops"),
    "replicas_over_kiln_random_writes": over_replicas("kiln rs 6+3", "random_write_iops"),
    "replicas_over_isa_writes": over_replicas("stock isa 6+3", "write_mb_s"),
    "replicas_over_isa_reads": over_replicas("stock isa 6+3", "read_mb_s"),
    "isa_over_kiln_random_writes": lambda report: clients(report, "stock isa 6+3")[
        "random_write_iops"] / clients(report, "kiln rs 6+3")["random_write_iops"],
}
for name in CELLS:
    COUNTED[f"{name}_disk"] = recovered(name, "disk_per_lost")
    COUNTED[f"{name}_network"] = recovered(name, "network_per_lost")
    COUNTED[f"{name}_reads"] = recovered(name, "reads")
for name in ("clay_4_2", "clay_10_4", "clay_12_4"):
    COUNTED[f"{name}_disk_saved"] = saved(name, None, "disk_per_lost")
    COUNTED[f"{name}_network_saved"] = saved(name, None, "network_per_lost")
for work in ("write", "read", "degraded", "recovery"):
    for kib in (64, 1024):
        place = dict(TEN, stripe_unit_kib=kib)
        COUNTED[f"osd_{work}_{kib}"] = cpu("whole", "kiln clay", "kiln rs", work, **place)
NUMBERS = {"ceph.json": COUNTED}
