"""The bench's results as JSON and as tables in Markdown; kiln-bench draws the pictures."""

import json

from lab.rig.tables import table


def size_of(row):
    return f"{row['k']}+{row['m']}, {row['stripe_unit_kib']} KiB"


def lost_of(row):
    lost, away = (" and ".join(map(str, row.get(what, []))) for what in ["lost", "away"])
    return f"{lost}, {away} away" if away else lost


def recovery_table(rows):
    """A row for each loss."""
    head = ["code", "stripe_unit", "lost", "disk: plan", "disk", "network", "reads: plan", "reads"]
    return table(head, (
        [f"{row['code']} {row['k']}+{row['m']}", f"{row['stripe_unit_kib']} KiB", lost_of(row),
         *(f"{row[what]:.2f}" for what in ["planned_per_lost", "disk_per_lost",
                                           "network_per_lost"]),
         row["planned_reads"], row["reads"]]
        for row in rows))


WORK = {"encode_received": "encode", "encode": "encode, from memory", "repair": "repair",
        "read": "degraded read"}


def computing_table(rows):
    """CPU seconds for a GiB. A row for each size and work, a column for each code; where there are
    two codes, a row for each size, with both in a cell."""
    found, codes = {}, {}
    for row in rows:
        size = size_of(row)
        codes.setdefault(size, []).append(row["code"])
        for what in WORK:
            found[size, what, row["code"]] = f"{row[f'{what}_cpu_s_per_gib'][1]:.3f}"
    lines = []
    for names in dict.fromkeys(map(tuple, codes.values())):
        sizes = [size for size in codes if tuple(codes[size]) == names]
        two = len(names) == 2
        heads = [f"{' / '.join(names)}: {words}" for words in WORK.values()] if two else names
        if two:
            cells = [[size, *(" / ".join(found[size, what, name] for name in names)
                              for what in WORK)] for size in sizes]
        else:
            cells = [[f"{size}, {words}", *(found[size, what, name] for name in names)]
                     for size in sizes for what, words in WORK.items()]
        lines += [""] * bool(lines) + table(["", *heads], cells)
    return lines


WHOLE = {"write": "write", "read": "read", "degraded": "degraded read",
         "recovery": "recovery, a GiB of chunk"}


def whole_table(rows):
    """CPU seconds of all OSDs for a GiB, with quarters, and how kiln's clay stands to others."""
    codes = list(dict.fromkeys(row["code"] for row in rows))
    ratios = [(one, two) for one in codes for two in ["kiln rs", "stock isa"]
              if one == "kiln clay" and two in codes]
    heads = ["", *codes, *(f"{one} / {two}" for one, two in ratios)]
    lines = []
    found = {(size_of(row), row["code"]): row for row in rows}
    for size in dict.fromkeys(map(size_of, rows)):
        for what, words in WHOLE.items():
            seen = {code: found[size, code][f"{what}_cpu_s_per_gib"] for code in codes
                    if (size, code) in found}
            cells = ["{1:.2f} ({0:.2f}-{2:.2f})".format(*seen[code]) if code in seen else "-"
                     for code in codes]
            cells += [f"{seen[one][1] / seen[two][1]:.2f}" if one in seen and two in seen else "-"
                      for one, two in ratios]
            lines.append([f"{size}, {words}", *cells])
    return table(heads, lines)


def clients_table(rows):
    """A row for each code."""
    lines = []
    for row in rows:
        iops, late = row.get("random_write_iops", "-"), row.get("random_write_p99_ms")
        lines.append([row["code"], f"{row['write_mb_s']:.0f}", f"{row['read_mb_s']:.0f}", iops,
                      "-" if late is None else f"{late:.0f}"])
    head = ["pool", "write MB/s", "read MB/s", "random 4 KiB writes a second", "p99 ms"]
    return table(head, lines)


def moving_table(rows):
    """A row for each number of workers."""
    lines = []
    for row in rows:
        size, rate = row["object_bytes"], row["objects"] / row["seconds"]
        lines.append([f"{row['objects']} of {size >> 10} KiB", row["workers"],
                      f"{row['seconds']:.1f}", f"{rate:.1f}", f"{rate * size / 1e6:.1f}"])
    return table(["objects", "workers", "seconds", "objects a second", "MB/s"], lines)


def tables(report):
    """The tables of what was measured, as lines."""
    parts = dict(computing=computing_table, recovery=recovery_table, whole=whole_table,
                 clients=clients_table, moving=moving_table)
    lines = []
    for name, rows_of in parts.items():
        if report.get(name):
            lines += [f"## {name}", "", *rows_of(report[name]), ""]
    return lines


def write_report(report, path):
    """JSON at `path`; beside it the tables of what was measured."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(report, indent=1) + "\n")
    path.with_suffix(".md").write_text("\n".join(tables(report)))
