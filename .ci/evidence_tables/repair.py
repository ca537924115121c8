"""repair.md: repairs over a network."""

from headline.rows import one, only

from .page import Rule, Unchecked

FILE = ("repair.json",)
MIB = 1 << 20


def name(row):
    """Windows that were measured again say of which commit and profile they are."""
    if not row.get("window_kib"):
        return row["label"]
    again = f" ({row['commit']}, {row['profile']})" if row.get("profile") == "release" else ""
    return f"{row['label']}, {row['window_kib']} KiB{again}"


def over_bound(cell):
    """As it was transcribed, or from the seconds of the repetitions."""
    mean = sum(row["seconds"] for row in cell) / len(cell)
    return cell[0].get("over_bound", mean / cell[0]["bound_seconds"])


def cells(kind):
    """Repetitions of a cell in one row: rows of the data are one each, or the mean of all with
    the least and the most."""
    def rows(data):
        found = {}
        for row in only(data["rows"], kind=kind):
            found.setdefault((name(row), row["code"], row["chunk_mib"]), []).append(row)
        for (label, code, chunk), cell in found.items():
            mean = sum(row["seconds"] for row in cell) / len(cell)
            least = min(row.get("least", row["seconds"]) for row in cell)
            most = max(row.get("most", row["seconds"]) for row in cell)
            many = len(cell) > 1 or "least" in cell[0]
            top = {key: max(row[key] for row in cell) for key in
                   ("traffic_over_plan", "interface_over_plan", "agent_cores", "machine_cores")}
            yield [label, code, f"{chunk} MiB",
                   f"{mean:.2f}" + (f" ({least:.2f} to {most:.2f})" if many else ""),
                   f"{cell[0]['bound_seconds']:.2f}", f"{over_bound(cell):.2f}",
                   f"{cell[0]['planned_sent'] / MIB:.0f} MiB",
                   f"{top['traffic_over_plan']:.3f}", f"{top['interface_over_plan']:.3f}",
                   f"{top['agent_cores']:.2f} of {top['machine_cores']:.2f}"]
    return rows


def reads(data):
    """Both reads of a cell in one row."""
    found = {}
    for row in only(data["rows"], kind="read"):
        found.setdefault((row["code"], row["chunk_mib"], row["label"]), []).append(row)
    for (code, chunk, who), both in found.items():
        times, bound = [row["seconds"] for row in both], both[0]["bound_seconds"]
        yield [f"{code}, {chunk} MiB", who, ", ".join(f"{time:.2f}" for time in times),
               f"{both[0]['received_mib']} MiB", f"{bound:.2f}",
               f"{sum(times) / len(times) / bound:.2f}", f"{both[0]['agent_cores']:.2f}"]


def encode(data):
    for row in only(data["rows"], kind="encode"):
        yield [row["code"], f"{row['seconds']:.2f}", f"{row['bound_seconds']:.2f}",
               f"{row['over_bound']:.2f}", f"{row['planned_sent'] / MIB:.0f} MiB",
               f"{row['traffic_over_plan']:.3f}"]


def limit(data):
    for row in only(data["rows"], kind="throttle"):
        rates = ("limit", "mean_rate", "most_in_a_second", "client_alone", "client_beside")
        yield [*(f"{row[key] / 1e6:.1f} MB/s" for key in rates), f"{row['client_kept']:.2f}"]


def degraded_bars(data):
    """The two first are of chunk 0 alone; the data has the mean of both chunks, which is linked."""
    def over(kind, code, chunk):
        row = one(data["rows"], kind=kind, label="Clay hub", code=code, chunk_mib=chunk)
        return f"{row['over_bound']:.2f}"

    others = ", ".join([*(f"{size}: {over('degraded', f'clay:{size}', 64)}"
                          for size in ("8+4", "10+4")),
                        f"256 MiB: {over('chunk', 'clay:10+4', 256)}"])
    most = max(row["traffic_over_plan"] for row in only(data["rows"], kind="degraded"))
    yield [None, None, None]
    yield [None, None, None]
    yield [None, None, f"{over('degraded', 'clay:12+4', 64)} ({others})"]
    yield [None, None, f"{most:.3f}"]


def recovery_bars(data):
    rows = {row["label"]: row for row in only(data["rows"], kind="recovery")}
    seconds = {label: row["seconds"] for label, row in rows.items()}
    joint, hub = (1 - seconds[f"{how}, one node"] / seconds["Clay central, one node"]
                  for how in ("joint", "Clay hub"))
    single = [row["over_bound"] for label, row in rows.items() if label.endswith("one node")]
    most = max(row["traffic_over_plan"] for row in rows.values())
    found = [f"{joint:.3f} (hub {hub:.3f})",
             f"{seconds['joint, one node'] / seconds['joint, spread']:.2f}",
             f"{min(single):.2f} to {max(single):.2f}",
             f"{rows['joint, spread']['over_bound']:.2f}, not met", f"{most:.3f}"]
    yield from ([None, None, text] for text in found)


def page(_folder):
    bars = "bars are what was wanted; chunk 0 alone is not in the data"
    cell, sizes = "what | code | chunk", "Windows and sizes"
    return [
        Rule(cell, "Degraded read", "", FILE, cells("degraded")),
        Rule("bar, 12+4, 64 MiB | wanted", "Degraded read", "", FILE, degraded_bars, bars),
        Rule("code, chunk | who computes", "Degraded read by a client", "", FILE, reads),
        Unchecked("chunk | links", "Degraded read by a client",
                  why="times of single reads, of which no data was kept"),
        Rule(cell, sizes, "", FILE, cells("window")),
        Rule(cell, sizes, "", FILE, cells("chunk")),
        Rule(cell, "Full-node recovery", "", FILE, cells("recovery")),
        Rule("bar, 12+4, 64 MiB, 20 objects", "Full-node recovery", "", FILE, recovery_bars, bars),
        Rule("code | seconds", "Encoding to agents", "", FILE, encode),
        Rule("limit | busiest host", "A limit", "", FILE, limit),
        Unchecked("link of | ends right after", "Links that are cut",
                  why="what a test printed once; it writes no data")]
