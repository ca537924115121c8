"""Coding speed: the worst of its cells for each promise.

A ratio is the median of the ratios of single rounds, as the bench itself prints it. Reports from
before the samples of rounds were kept give the ratio of medians, which differs in the third digit.
"""

from .rows import paired, worst

PEERS = {
    "klauspost": ("klauspost", "klauspost-2"),
    "isal": ("isal",),
    "isal next": ("isal-next",),
    "any": ("klauspost", "klauspost-2", "isal", "isal-next", "isal-cauchy", "jerasure",
            "ceph-isa"),
    "ceph clay": ("ceph-clay-isa",),
    "kiln": ("kiln",),
}
LISTED, WIDE, TEN = ((6, 3), (10, 4), (16, 4)), ((8, 4), (10, 4), (16, 4)), ((10, 4),)
SMALL, HUGE, DRAM = ("DRAM, 64 KiB", "DRAM, 1 MiB"), ("DRAM, 16 MiB",), ("DRAM",)
CACHE = ("cache",)


def rates(cell, family, engines):
    return [rate for rate in cell["rates"]
            if rate["engine"] in engines and rate["code"].split()[0] == family]


def kiln_over(peers, theirs, family, operation, places, codes=None, form="kiln"):
    """kiln (or a form of it) over the fastest of some engines with their family of codes, in all
    cells of a kind."""
    def ratios(report):
        for cell in report["cells"]:
            job = cell["job"]
            kind = (job["family"], job["operation"]) == (family, operation)
            wanted = codes is None or (job["k"], job["m"]) in codes
            if not (kind and wanted and cell["footprint"].startswith(places)):
                continue
            ours, best = rates(cell, family, (form,)), rates(cell, theirs, PEERS[peers])
            if ours and best:
                best = max(best, key=lambda rate: rate["rate"]["median"])
                yield paired(ours[0], best), f"{job['k']}+{job['m']}, {cell['footprint']}"

    return lambda report: worst(ratios(report))


def rs(peers, places, codes):
    return kiln_over(peers, "rs", "rs", "encode", places, codes)


def clay(peers, theirs, places, codes):
    return kiln_over(peers, theirs, "clay", "encode", places, codes)


# What is promised, and cells of the same run that no promise covers.
QUICK = {
    "rs_dram_over_klauspost": rs("klauspost", SMALL, LISTED),
    "rs_dram_over_isal": rs("isal", SMALL, LISTED),
    "rs_cache_over_best_peer": rs("any", CACHE, LISTED),
    "clay_dram_over_klauspost_rs": clay("klauspost", "rs", SMALL, WIDE),
    "clay_16mib_over_klauspost_rs": clay("klauspost", "rs", HUGE, WIDE),
    "clay_over_ceph_clay": clay("ceph clay", "clay", SMALL, TEN),
    "clay_16mib_over_ceph_clay": clay("ceph clay", "clay", HUGE, TEN),
    "clay_cache_over_own_rs": clay("kiln", "rs", CACHE, TEN),
    "clay_dram_over_own_rs": clay("kiln", "rs", DRAM, TEN),
    "clay_repair_over_rs_decode": kiln_over("kiln", "rs", "clay", "repair 1", SMALL, WIDE),
    "two_threads": lambda report: worst((row["ratio"], row["code"]) for row in report["threads"]),
}
# The same ratios over every code and place of the full matrix.
FULL = {
    "rs_dram_over_klauspost": rs("klauspost", DRAM, None),
    "rs_dram_over_isal": rs("isal", DRAM, None),
    "rs_cache_over_best_peer": rs("any", CACHE, None),
    "clay_dram_over_klauspost_rs": clay("klauspost", "rs", DRAM, None),
    "clay_over_ceph_clay": clay("ceph clay", "clay", DRAM, None),
    "clay_cache_over_own_rs": clay("kiln", "rs", CACHE, None),
    "clay_repair_over_rs_decode": kiln_over("kiln", "rs", "clay", "repair 1", DRAM),
}
# Where Debian's next ISA-L ran beside its own.
NEXT = QUICK | {"rs_dram_over_isal_next": rs("isal next", SMALL, LISTED)}
HELD = {name: NEXT[name] for name in NEXT
        if name not in ("rs_dram_over_isal", "two_threads") and "klauspost_rs" not in name}
# With ordinary stores only, as peers have them: reports since 2026-11-27.
TEMPORAL = {
    "rs_dram_over_isal": QUICK["rs_dram_over_isal"],
    "rs_temporal_over_klauspost":
        kiln_over("klauspost", "rs", "rs", "encode", SMALL, LISTED, "kiln-temporal"),
    "rs_temporal_over_isal":
        kiln_over("isal", "rs", "rs", "encode", SMALL, LISTED, "kiln-temporal"),
    "clay_temporal_over_ceph_clay":
        kiln_over("ceph clay", "clay", "clay", "encode", SMALL, TEN, "kiln-temporal"),
}
NUMBERS = {"bench-core-quick.json": QUICK, "bench-core.json": FULL,
           "bench-core-quick-zen4.json": NEXT, "bench-core-quick-avx2-zen4.json": HELD,
           "bench-core-quick-avx2.json": HELD | TEMPORAL}
