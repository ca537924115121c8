"""order-devices.md: reads of repairs on emulated disks."""

from statistics import median

from headline.devices import rows as rows_of
from headline.rows import one

from .page import Rule, Unchecked

FILE = ("order-devices.json",)
KIB, MIB = 1 << 10, 1 << 20
SIMPLE = ("natural", "gray", "RS, whole chunk", "natural, windows", "gray, windows", "RS, windows")


def size(count):
    return f"{count // MIB} MiB" if count % MIB == 0 else f"{count // KIB} KiB"


def seconds(value):
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}" if value >= 0.1 else f"{value:.4f}"


def section(data, name):
    return one(data["sections"], name=name)["json"]


def process(data):
    keys = ("planned_runs", "device_reads", "issued_reads", "counted_reads", "breaks",
            "issued_bytes", "counted_bytes")
    for row in section(data, "process")["rows"]:
        yield [row["code"], str(row["lost"]), *(str(row[key]) for key in keys)]


def parallel(data):
    for row in section(data, "parallel"):
        times = [row["one_by_one"], row["together"]]
        spread = [f"{median(t):.2f} ({min(t):.2f}-{max(t):.2f})" for t in times]
        gain = median(times[0]) / median(times[1])
        yield [row["code"], row["operation"], str(row["helpers"]), *spread, f"{gain:.1f}x",
               f"{row['least']:.2f}"]


def models(data):
    """What the probe found; limited devices are emulated twice as fast as what they stand for."""
    for row in section(data, "device")["devices"]:
        model, scale = row["model"], 2 if "twice as fast" in row["about"] else 1
        costs = {"larger": "the larger counts", "sum": "add up"}[model["combine"]]
        pieces, doubt = model.get("piece_bytes"), model["uncertainty"]
        yield [row["device"], row["about"], f"{1e3 * scale * model['read_seconds']:.3f} ms",
               f"{1e3 * scale * model['byte_seconds'] * MIB:.3f} ms", costs,
               size(pieces) if pieces else "no", f"{model['parallelism']:.1f}x",
               f"{100 * doubt['error']:.0f}%, {100 * model['worst_fit']:.0f}%",
               f"{100 * doubt['spread']:.0f}%", str(len(doubt["rivals"]))]


def place(row):
    return row["experiment"], row["device"], row["k"], row["m"], row["chunk"]


def find(rows, like, way):
    return next((row for row in rows if row["way"] == way and place(row) == place(like)), None)


class Ratio:
    """Of two ways: that of their medians, the least and the most of single repetitions."""

    def __init__(self, row, other):
        ratios = [a / b for a, b in zip(row["repetitions"], other["repetitions"])]
        self.middle = row["overall"] / other["overall"]
        self.least, self.most = min(ratios), max(ratios)

    def __str__(self):
        return f"{self.middle:.3f} ({self.least:.3f}-{self.most:.3f})"


def over_best(rows, planned):
    found = [row for way in SIMPLE if (row := find(rows, planned, way))]
    return Ratio(planned, min(found, key=lambda row: row["overall"]))


def noise(rows, like):
    pair = find(rows, like, "gray, again"), find(rows, like, "gray")
    return Ratio(*pair) if all(pair) else None


def reads_of_gray(rows, row):
    gray = find(rows, row, "gray")
    return gray is not None and all(gray[key] == row[key] for key
                                    in ("reads_per_stripe", "read_amplification"))


def worst_cells(rows, device):
    """Two lines for each kind of cell: the worst, and how many are above 1."""
    planned = [row for row in rows if row["way"] == "gray, planned" and row["device"] == device]
    cells = sorted(((over_best(rows, row), row) for row in planned),
                   key=lambda cell: -cell[0].middle)
    most = max(found.middle for _, row in cells if (found := noise(rows, row)))
    windows = any(row["way"].endswith("windows") for row in rows if row["device"] == device)
    for gray in (False, True):
        alike = [cell for cell in cells if reads_of_gray(rows, cell[1]) == gray]
        ratio, row = alike[0]
        what = ("the same where it asks for the very reads of gray" if gray else
                "read planner over the best of natural, gray, RS" +
                (", also in its windows" if windows else " whole chunk"))
        where = f"{row['k']}+{row['m']}, {size(row['chunk'])}"
        beside = noise(rows, row) or ""
        yield [f"{device}: {what}: worst cell", "at most 1",
               f"{ratio} ({where}; there gray over gray {beside})"]
        slower = sum(ratio.middle > 1 for ratio, _ in alike)
        beyond = sum(ratio.least > max(most, 1) for ratio, _ in alike)
        yield [f"{device}: cells above 1; in every repetition above the worst of gray over gray "
               f"({most:.3f})", "0", f"{slower}; {beyond} of {len(alike)}"]


def bars(data):
    rows = rows_of(data)
    gray = one(rows, experiment="7", way="gray", device="seek", k=16, chunk=2 * MIB)
    saved = 1 - gray["overall"] / find(rows, gray, "natural")["overall"]
    yield ["overall read time of gray against natural, seek-bound, 16+2, 2 MiB",
           "at least 40% lower", f"{100 * saved:.1f}% lower"]
    for device in ("seek", "volume", "fast"):
        yield from worst_cells(rows, device)
    for what, name in (("reads issued = reads", "reads"), ("bytes asked for = bytes", "bytes")):
        same = sum(row[f"issued_{name}"] == row[f"counted_{name}"] for row in rows)
        yield [f"{what} the device counted", "all cells", f"{same} of {len(rows)}"]


def sizes(device):
    def rows(data):
        rows = rows_of(data)
        cells = [row for row in rows if row["experiment"] == "7" and row["device"] == device]
        ways = list(dict.fromkeys(row["way"] for row in cells))
        for chunk in dict.fromkeys(row["chunk"] for row in cells):
            at = {row["way"]: row for row in cells if row["chunk"] == chunk}
            natural, gray, planned = (at[way] for way in ("natural", "gray", "gray, planned"))
            yield [size(chunk), *(seconds(at[way]["overall"]) if way in at else ""
                                  for way in ways),
                   f"{100 * (1 - gray['overall'] / natural['overall']):.1f}%",
                   str(over_best(rows, planned)),
                   f"{planned['reads_per_stripe']:.1f} of {gray['reads_per_stripe']:.0f}, "
                   f"{planned['read_amplification']:.2f}x"]
    return rows


def against(rows, row):
    natural = find(rows, row, "natural")
    return f"{100 * (row['overall'] / natural['overall'] - 1):+.1f}%"


def orders(data):
    rows = rows_of(data)
    for row in rows:
        if row["experiment"] == "3":
            yield [row["device"], size(row["chunk"]), row["way"],
                   f"{row['reads_per_stripe']:.0f}", seconds(row["overall"]), against(rows, row),
                   seconds(max(row["seconds"]))]


def three_parities(data):
    rows = rows_of(data)
    for row in rows:
        if row["experiment"] == "4":
            yield [row["device"], row["way"], f"{row['reads_per_stripe']:.1f}",
                   seconds(row["overall"]), against(rows, row)]


def by_k(data):
    rows = rows_of(data)
    cells = [row for row in rows if row["experiment"] == "5" and row["way"] == "gray"]

    def sub(row):
        return row["chunk"] >> (row["k"] // 2 + 1)

    def saved(row):
        return f"{100 * (1 - row['overall'] / find(rows, row, 'natural')['overall']):.1f}%"

    for device, k in dict.fromkeys((row["device"], row["k"]) for row in cells):
        here = sorted((row for row in cells if (row["device"], row["k"]) == (device, k)), key=sub)
        yield [device, str(k), *(f"{saved(row)} ({saved(find(rows, row, 'gray, planned'))})"
                                 for row in here)]


def whole(data):
    rows = section(data, "device")["whole"]
    for row in rows:
        natural = one(rows, device=row["device"], chunk=row["chunk"], way="natural")["together"]
        times = (row[key] for key in ("reading", "sending", "computing", "together"))
        yield [row["device"], size(row["chunk"]), row["way"],
               *(f"{1e3 * time:.3f}" for time in times),
               f"{100 * (row['together'] / natural - 1):+.1f}%"]


def page(_folder):
    disks = "Disk-read time of repairs"
    alone = "another run of this device, of which no data was kept"
    return [
        Rule("code | lost | plan", "Runs of the plan", "", FILE, process),
        Rule("code | operation | disks read", "Helpers", "", FILE, parallel),
        Rule("device | what it is", disks, "", FILE, models),
        Rule("bar | wanted", disks, "", FILE, bars),
        *(Rule("chunk | natural", f"{device}: 16+2", "", FILE, sizes(device))
          for device in ("seek", "volume", "fast")),
        Rule("device | chunk | order", "Other Gray codes", "", FILE, orders),
        Rule("device | way", "9+3", "", FILE, three_parities),
        Rule("device | k | 2 KiB", "k+2", "", FILE, by_k),
        Rule("device | chunk | way", "Repair of one chunk", "", FILE, whole),
        Unchecked("bar | wanted", "The device without limits", why=alone),
        Unchecked("chunk | natural", "fast, by itself", why=alone)]
