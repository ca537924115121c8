"""Numbers that `make papers` prints from the committed data, beside the counts of rows, and the
text of rows and headlines with its numbers filled in from data. It reads `results` alone."""

import functools
import json
import re
from collections import defaultdict
from pathlib import Path
from statistics import median

from lab.online.summary import Medians
from lab.repair.numbers import cells, only

RESULTS = Path(__file__).resolve().parent / "results"
# {FILE.json#PATH:FORMAT}, or {FILE.json#PATH over PATH:FORMAT}; the format `saved` is 1 less the
# number, in percent.
NUMBER = re.compile(r"\{([\w.-]+\.json)#([^:{}\s]+)(?:\s+over\s+([^:{}\s]+))?(?::([^{}]*))?\}")
LINK = re.compile(r"\[([^\]]*)\]\([^)]*\)")
LARGE = [f"randread-{size}-q32" for size in ("64k", "128k", "256k", "512k", "1m")]


@functools.cache
def report(name):
    """A file of data."""
    return json.loads((RESULTS / name).read_text())


def found(data, path):
    """The number at a path; where `*` stands for all members, the median."""
    values = [data]
    for part in path.split("/"):
        values = [one for value in values for one in
                  (value.values() if isinstance(value, dict) and part == "*" else
                   value if part == "*" else
                   [value[int(part) if isinstance(value, list) else part]])]
    return median(values)


def filled(text):
    """A text with its numbers."""
    def number(match):
        name, path, below, form = match.groups()
        value = found(report(name), path) / (found(report(name), below) if below else 1)
        return f"{1 - value:.1%}" if form == "saved" else format(value, form or "")
    return NUMBER.sub(number, text)


def chosen_over_best(same_code=False):
    """The plan that kiln makes for its MSR codes over the fastest rival, worst cell. The rivals are
    all that were measured there, RS with pipelining too; or those of the same code."""
    times = defaultdict(dict)
    for rounds in cells(report("repair.json")["rows"]):
        row = rounds[0]
        if row["kind"] in ("degraded", "recovery", "window", "chunk"):
            family, size = row["code"].split(":")
            key = (row["kind"], size, row["chunk_mib"], row.get("window_kib"), row.get("to"))
            times[key][family, row["strategy"]] = median(one["seconds"] for one in rounds)
    worst = []
    for rivals in times.values():
        ours = next(rival for name in ("joint", "hub", "chain") for rival in rivals
                    if rival[1] == name)
        worst.append(rivals[ours] / min(seconds for rival, seconds in rivals.items()
                                        if rival[0] == ours[0] or not same_code))
    return max(worst)


def spread_over_bound():
    """Joint recoveries that are spread over the survivors, over what their busiest link needs; the
    worst median."""
    rows = only(report("repair.json")["rows"], kind="recovery", to="spread", strategy="joint")
    return max(median(row["over_bound"] for row in rounds) for rounds in cells(rows))


def xor_over_paper_orders():
    """kiln's peak over the better of the paper's orders with vectors, in its buffer of 20 MB; the
    worst code."""
    peaks = defaultdict(lambda: defaultdict(float))
    for point in report("bench-xor.json")["points"]:
        if (point["operation"], point["place"]) == ("encode", "paper"):
            code, who = peaks[point["code"]], point["who"]
            code[who] = max(code[who], point["rate"]["median"])
    return min(code["kiln"] / max(rate for who, rate in code.items()
                                  if who.startswith("algorithm") and "vectors" in who)
               for code in peaks.values())


def large_reads():
    """Reads of 64 KiB and more at random, a volume over Ceph's RS; the worst size."""
    medians = Medians(report("online.json")["samples"])
    return min(medians.ratio("mb_s", (cell, "volume:rs"), (cell, "ceph:rs")) for cell in LARGE)


def numbers():
    """All of them, by name."""
    orders = report("order.json")
    headline = report("volume-quick.json")["headline"]
    moved = next(row for row in orders["moving"] if row["work"] == "encode"
                 and row["how"].startswith("relabelled"))
    return {key: round(value, 3) for key, value in {
        "chosen_over_best": chosen_over_best(),
        "chosen_over_best_same_code": chosen_over_best(same_code=True),
        "spread_over_bound": spread_over_bound(),
        "xor_20mb_over_paper_orders": xor_over_paper_orders(),
        "order_encode_cost": 1 + moved["slower"] / 100,
        "order_encode_cost_4k": 1 / min(row["encode_over_natural"] for row in orders["coding"]),
        "sealed_over_clay": headline["sealed_over_clay"],
        "large_read_over_ceph_rs": large_reads(),
    }.items()}


def flat(text):
    """Words of a page as a reader has them: without links, marks and line breaks."""
    return " ".join(LINK.sub(r"\1", text).replace("*", "").replace("`", "").split())


def unfair(headlines):
    """Headlines without that which has to stand beside them in the same paragraph; a headline that
    is gone is none."""
    for one in headlines:
        page = (RESULTS.parent.parent / one["page"]).read_text()
        says, beside = flat(filled(one["says"])), [flat(filled(text)) for text in one["beside"]]
        said = [text for text in map(flat, re.split(r"\n\s*\n", page)) if says in text]
        if not said or any(not all(text in paragraph for text in beside) for paragraph in said):
            yield f"{one['page']}: {says}"


def commits(data):
    """Commits that data names, wherever they are."""
    if isinstance(data, dict):
        for key, value in data.items():
            if key == "commit" and isinstance(value, str):
                yield value.rstrip("+")
            elif key != "exhibits":
                yield from commits(value)
    elif isinstance(data, list):
        for value in data:
            yield from commits(value)
