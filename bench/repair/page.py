"""The page of bench-repair: Markdown from its rows; kiln-bench draws the pictures."""

from tables import table

MIB = 1 << 20


def groups(rows):
    """Rows of one cell together, in their order."""
    cells = {}
    for row in rows:
        key = (row["kind"], row["code"].split(":")[1], row["label"], row["code"],
               row["chunk_mib"], row.get("window_kib"))
        cells.setdefault(key, []).append(row)
    return cells


def cells_table(rows):
    """Mean, least and most seconds of each cell."""
    head = ["what", "code", "chunk", "seconds (least to most)", "load bound", "over it",
            "sent, plan", "streams over plan", "interface", "agents' cores"]
    lines = []
    for (_, _, label, code, chunk, window), cell in groups(rows).items():
        times = [row["seconds"] for row in cell]
        mean, bound = sum(times) / len(times), cell[0]["bound_seconds"]
        spread = f" ({min(times):.2f} to {max(times):.2f})" if len(times) > 1 else ""
        name = f"{label}, {window} KiB" if window else label
        most = {what: max(row[what] for row in cell)
                for what in ["traffic_over_plan", "interface_over_plan", "agent_cores",
                             "machine_cores"]}
        lines.append([name, code, f"{chunk} MiB", f"{mean:.2f}{spread}", f"{bound:.2f}",
                      f"{mean / bound:.2f}", f"{cell[0]['planned_sent'] / MIB:.0f} MiB",
                      f"{most['traffic_over_plan']:.3f}", f"{most['interface_over_plan']:.3f}",
                      f"{most['agent_cores']:.2f} of {most['machine_cores']:.2f}"])
    return table(head, lines)


def write(report, folder, name):
    """The page, with links to the pictures that kiln-bench draws."""
    rows, where = report["rows"], report["about"]
    lines = [f"{where['cpu']}, {where['cores']} cores, Linux {where['kernel']}, "
             f"{where['rustc']}, profile {where['profile']}, commit {where['commit']}; links of "
             f"{where['rate']}.", ""]
    lines += ["```", *(f"{key}: {value}" for key, value in report["headline"].items()), "```", ""]
    kinds = {"degraded": "Degraded read", "window": "Windows", "chunk": "Chunk sizes",
             "encode": "Encode", "recovery": "Full-node recovery",
             "read": "Degraded read by a client"}
    for kind, title in kinds.items():
        found = [row for row in rows if row["kind"] == kind]
        if not found:
            continue
        lines += [f"## {title}", "", *cells_table(found), ""]
        pictures = [kind]
        if kind in ("degraded", "recovery"):
            pictures.append(f"{kind}-nodes")
        if any(row.get("timeline") for row in found):
            pictures.append(f"{kind}-time")
        for picture in pictures:
            lines += [f"![{title}]({name}-{picture}.svg)", ""]
    throttled = [row for row in rows if row["kind"] == "throttle"]
    if throttled:
        names = ["limit", "mean_rate", "most_in_a_second", "client_alone", "client_beside"]
        head = ["limit", "busiest host, mean", "its busiest second", "client alone",
                "client beside", "kept"]
        cells = [[*(f"{row[key] / 1e6:.1f} MB/s" for key in names), f"{row['client_kept']:.2f}"]
                 for row in throttled]
        lines += ["## Limited", "", *table(head, cells), "", f"![limited]({name}-limited.svg)", ""]
    (folder / f"{name}.md").write_text("\n".join(lines))
