"""Reads of repairs on emulated disks."""

from .rows import ends, one, worst

KIB, MIB = 1 << 10, 1 << 20
WINDOWS = ("natural, windows", "gray, windows", "RS, windows")


def rows(report):
    return one(report["sections"], name="device")["json"]["rows"]


def saved(way="gray", k=16, m=2, experiment="7", **cell):
    """How much less long the reads of a way take than those of natural order."""
    def number(report):
        both = [one(rows(report), k=k, m=m, experiment=experiment, way=name, **cell)["overall"]
                for name in (way, "natural")]
        return 1 - both[0] / both[1]
    return number


def over(ways, **cells):
    """The least and the most of several cells."""
    return lambda report: ends(saved(way, **cells)(report) for way in ways)


def by_sub_chunk(device, sub, *ks):
    def cell(k):
        return saved(device=device, k=k, chunk=sub << (k // 2 + 1), experiment="5")
    if len(ks) == 1:
        return cell(ks[0])
    return lambda report: ends(cell(k)(report) for k in ks)


def places(report, device):
    """All ways of each cell."""
    cells = {}
    for row in rows(report):
        if row["device"] == device and row["experiment"] != "3":
            key = (row["k"], row["m"], row["chunk"], row["experiment"])
            cells.setdefault(key, {})[row["way"]] = row
    return cells


def planned(device, same, windows=True):
    """The worst cell of planned reads over the best of natural, gray and RS's whole chunk, each by
    stripes and in the windows that the planner has; `same`: where it asks for the reads of gray."""
    def number(report):
        found = []
        for (k, m, chunk, _), ways in places(report, device).items():
            ours, gray = ways["gray, planned"], ways["gray"]
            alike = all(ours[key] == gray[key]
                        for key in ("reads_per_stripe", "read_amplification"))
            if alike != same:
                continue
            rivals = ["natural", "gray", "RS, whole chunk", *(WINDOWS if windows else ())]
            best = min(ways[way]["overall"] for way in rivals if way in ways)
            size = f"{chunk // MIB} MiB" if chunk % MIB == 0 else f"{chunk // KIB} KiB"
            found.append((ours["overall"] / best, f"{k}+{m}, {size}"))
        return worst(found, max)
    return number


def whole(device, chunk):
    """How much less long reading, sending and computing take with Gray's order."""
    def number(report):
        section = one(report["sections"], name="device")["json"]["whole"]
        both = [one(section, device=device, chunk=chunk, way=way)["together"]
                for way in ("gray", "natural")]
        return 1 - both[0] / both[1]
    return number


def last_over_rs(device):
    """Reads of the last chunk's repair over those of a whole chunk of RS."""
    def number(report):
        clay, rs = [one(rows(report), k=16, m=2, experiment="7", chunk=2 * MIB, device=device,
                        way=way)["seconds"][-1] for way in ("natural", "RS, whole chunk")]
        return clay / rs
    return number


def agreeing(report):
    return sum((row["issued_reads"], row["issued_bytes"])
               == (row["counted_reads"], row["counted_bytes"]) for row in rows(report))


MEASURED = {
    "seek_2mib_planned_saves": saved("gray, planned", device="seek", chunk=2 * MIB),
    "reads_agree": agreeing,
    "cells": lambda report: len(rows(report)),
}
SPECIAL = ("special 1", "special 2", "balanced")
K = (4, 6, 8, 12, 16)
for device in ("seek", "volume"):
    for size in (2, 16, 64, 256):
        MEASURED[f"{device}_{size}mib_gray_saves"] = saved(device=device, chunk=size * MIB)
    MEASURED |= {
        f"{device}_256kib_gray_saves": saved(device=device, chunk=256 * KIB),
        f"{device}_4mib_gray_saves": saved(device=device, chunk=4 * MIB),
        f"{device}_32mib_other_codes_save": over(
            SPECIAL, device=device, chunk=32 * MIB, experiment="3"),
        f"{device}_9_3_gray_saves": saved(device=device, k=9, m=3, chunk=324 * KIB,
                                          experiment="4"),
        f"{device}_sub_2kib_k16": by_sub_chunk(device, 2 * KIB, 16),
        f"{device}_sub_2kib_k4": by_sub_chunk(device, 2 * KIB, 4),
        f"{device}_sub_512kib": by_sub_chunk(device, 512 * KIB, *K),
        f"{device}_2mib_last_over_rs": last_over_rs(device),
        f"{device}_256kib_whole_saves": whole(device, 256 * KIB),
        f"{device}_4mib_whole_saves": whole(device, 4 * MIB),
        f"{device}_planned_over_best": planned(device, False),
        f"{device}_planned_as_gray": planned(device, True),
    }
NUMBERS = {"order-devices.json": MEASURED}
