"""The page of bench-repair: Markdown from its rows; `kiln-bench draw` makes the pictures."""

from statistics import median

from lab.repair.numbers import cells
from lab.rig.tables import table

MIB = 1 << 20
NONE = "–"  # what a row does not say: some are from before it was counted


def most(cell, key, digits):
    """The largest of a cell's rounds."""
    found = [row[key] for row in cell if row.get(key) is not None]
    return f"{max(found):.{digits}f}" if found else NONE


def middle(cell, key, digits, unit=1):
    """The median of a cell's rounds."""
    found = [row[key] / unit for row in cell if row.get(key) is not None]
    return f"{median(found):.{digits}f}" if found else NONE


def what(cell):
    """Who does it, and what else tells a cell from others."""
    row = cell[0]
    to = {"one": ", one node", "spread": ", spread"}.get(row.get("to"), "")
    window = f", {row['window_kib']} KiB" if row.get("window_kib") else ""
    return f"{row['label']}{to}{window}"


def seconds(cell):
    """Median, least and most."""
    times = [row["seconds"] for row in cell]
    least = min(row.get("least", row["seconds"]) for row in cell)
    last = max(row.get("most", row["seconds"]) for row in cell)
    ends = f" ({least:.2f} to {last:.2f})" if len(cell) > 1 or "least" in cell[0] else ""
    return f"{median(times):.2f}{ends}"


def rounds(cell):
    """How many; nothing where only means were kept."""
    return str(len(cell)) if "round" in cell[0] else NONE


def over_bound(row):
    """As it was transcribed, or from what was measured."""
    return row.get("over_bound") or row["seconds"] / row["bound_seconds"]


def cores(cell):
    """What agents used, and what everybody did."""
    ours, all_of = most(cell, "agent_cores", 2), most(cell, "machine_cores", 2)
    return ours if all_of == NONE else f"{ours} of {all_of}"


COLUMNS = {
    "what": what,
    "code": lambda cell: cell[0]["code"],
    "chunk": lambda cell: f"{cell[0]['chunk_mib']} MiB",
    "rounds": rounds,
    "seconds (least to most)": seconds,
    "load bound": lambda cell: middle(cell, "bound_seconds", 2),
    "over it": lambda cell: f"{median(map(over_bound, cell)):.2f}",
    "sent, plan": lambda cell: middle(cell, "planned_sent", 0, MIB) + " MiB",
    "received": lambda cell: middle(cell, "planned_sent", 0, MIB) + " MiB",
    "read, MiB": lambda cell: middle(cell, "bytes_read", 0, MIB),
    "agents' CPU, s": lambda cell: middle(cell, "cpu_seconds", 1),
    "streams over plan": lambda cell: most(cell, "traffic_over_plan", 3),
    "interface": lambda cell: most(cell, "interface_over_plan", 3),
    "agents' cores": cores,
}
# What comes to the client is all that is planned there.
OTHER = {"read": "sent, plan", "": "received"}
TITLES = {"degraded": "Degraded read", "window": "Windows", "chunk": "Sizes of chunks",
          "encode": "Encoding to agents", "recovery": "Full-node recovery",
          "read": "Degraded read by a client"}
LIMIT = ["limit", "busiest host, mean", "its busiest second", "client alone", "client beside",
         "kept"]


def lines(report, kind):
    """The head of a kind's table, and a row for each cell that was measured; columns that nothing
    is known of are left out."""
    found = cells([row for row in report["rows"] if row["kind"] == kind])
    names = [name for name in COLUMNS if name != OTHER.get(kind, OTHER[""])]
    columns = [[name, *(COLUMNS[name](cell) for cell in found)] for name in names]
    shown = [column for column in columns if any(text != NONE for text in column[1:])]
    head, *rows = map(list, zip(*shown))
    return head, rows


def limited(report):
    """Rows of the table of limits."""
    rates = ("limit", "mean_rate", "most_in_a_second", "client_alone", "client_beside")
    found = cells([row for row in report["rows"] if row["kind"] == "throttle"])
    return [[*(f"{middle(cell, key, 1, 1e6)} MB/s" for key in rates),
             middle(cell, "client_kept", 2)] for cell in found]


def conditions(report):
    """Where it was measured, with what, and what was left out."""
    where = report["about"]
    text = [f"{where['cpu']}, {where['cores']} cores, Linux {where['kernel']}, "
            f"{where['rustc']}, profile {where['profile']}, commit {where['commit']}; links of "
            f"{where['rate']}."]
    commits = sorted({row["commit"] for row in report["rows"] if row.get("commit")})
    if commits not in ([], [where["commit"]]):
        text.append(f"Rows are of commits {', '.join(commits)}.")
    if report.get("left"):
        text += ["", f"{len(report['left'])} cells were not measured yet."]
    if report.get("failed"):
        text += ["", f"Failed: {'; '.join(report['failed'])}."]
    return text


def pictures(kind, rows):
    """The ends of the names of a kind's pictures."""
    yield kind
    if kind in ("degraded", "recovery"):
        if any("cpu_seconds" in row for row in rows):
            yield f"{kind}-cost"
        wide = [row for row in rows if row["code"].endswith(":12+4")]
        if any(row.get("interface") for row in wide):
            yield f"{kind}-nodes"
        if any(row.get("timeline") for row in wide):
            yield f"{kind}-time"


def write(report, folder, name):
    """The page, with links to the pictures that kiln-bench draws."""
    text = [*conditions(report), "", "```",
            *(f"{key}: {value}" for key, value in report["headline"].items()), "```", ""]
    for kind, title in TITLES.items():
        rows = [row for row in report["rows"] if row["kind"] == kind]
        if rows:
            text += [f"## {title}", "", *table(*lines(report, kind)), ""]
            for picture in pictures(kind, rows):
                text += [f"![{title}]({name}-{picture}.svg)", ""]
    if limited(report):
        text += ["## A limit", "", *table(LIMIT, limited(report)), "",
                 f"![a limit]({name}-limited.svg)", ""]
    if report.get("plans"):
        text += ["## Plans that were found before", "", *table(
            ["code", "lost", "load, chunks", "sent, chunks", "seconds"],
            [[row["code"], row["lost"], f"{row['load_chunks']:.3f}", f"{row['sent_chunks']:.2f}",
              f"{row['seconds']:.1f}"] for row in report["plans"]]), ""]
    (folder / f"{name}.md").write_text("\n".join(text))
