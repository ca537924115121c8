"""plan.md: loads and traffic that were counted from checked plans, and times of planning."""

from headline.rows import one

from .page import Rule, report


def span(values):
    low, high = min(values), max(values)
    return f"{high:.1f}" if high - low < 0.05 else f"{low:.1f}-{high:.1f}"


def worst_ms(row):
    return max(block["dag_ms"] + block["plan_ms"] for block in row["blocks"])


def codes(full, quick):
    """Table 2 of the paper, over all blocks; times of three blocks are of the quick form."""
    for row in full["codes"]:
        blocks = row["blocks"]
        load, all_of, bound = ([block[f"{key}_mib"] for block in blocks]
                               for key in ("load", "bandwidth", "bound"))
        above = max(traffic / least - 1 for traffic, least in zip(all_of, bound))
        alone = worst_ms(one(quick["codes"], code=row["code"]))
        paper = "({:.0f}, {:.0f})".format(*row["paper"]) if row["paper"] else "-"
        yield [row["code"], str(len(blocks)), span(load), span(all_of), span(bound),
               f"{100 * above:.2f}%", f"{alone:.0f}" if alone >= 10 else f"{alone:.2f}",
               f"{worst_ms(row):.1f}", ", ".join(sorted({block["strategy"] for block in blocks})),
               *(span([block["pareto"][at] for block in blocks]) for at in (0, 1)), paper]


def others(names):
    def rows(full):
        for row in full["codes"]:
            found = [one(row["others"], name=name) for name in names(row)]
            yield [row["code"], *("({load_mib:.0f}, {bandwidth_mib:.0f}) {seconds:.3f} s"
                                  .format(**way) for way in found)]
    return rows


def four(row):
    """What block 0 was planned with; a longer run of the heuristic stands in the text."""
    return [way["name"] for way in row["others"] if "200 s" not in way["name"]]


def small(full):
    for row in full["small"]:
        points = ", ".join(f"({load}, {traffic})" for load, traffic in row["frontier"])
        yield [row["code"], str(row["lost"]), points, str(row["pairs"]), row["paper"],
               "({}, {})".format(*row["best"])]


def recoveries(full, quick):
    """Times and memory are of the quick form, which had the machine to itself."""
    for row in full["recoveries"]:
        key = {name: row[name] for name in ("code", "survivors", "stripes", "new")}
        alone = one(quick["recoveries"], **key)
        above = row["makespan_mib"] / row["bound_mib"] - 1
        yield [row["code"], str(row["survivors"]), str(row["stripes"]),
               f"{row['new']} new" if row["new"] else "survivors", f"{row['bound_mib']:.0f}",
               f"{row['makespan_mib']:.0f}", f"{100 * above:.2f}%",
               f"{alone['plan_seconds']:.2f}", f"{alone['peak_memory_mib']:.0f}",
               *(f"{load:.0f}" for _, load in row["alone_mib"])]


def listed(numbers):
    """`0-1,3-13`."""
    parts = []
    for number in numbers:
        if parts and parts[-1][1] == number - 1:
            parts[-1][1] = number
        else:
            parts.append([number, number])
    return ",".join(str(low) if low == high else f"{low}-{high}" for low, high in parts)


def misses(row):
    """Blocks above their bound, those that are alike together."""
    found = {}
    for block in row["blocks"]:
        if block["bandwidth_mib"] > block["bound_mib"] + 1e-6:
            text = "({load_mib:.0f}, {bandwidth_mib:.1f}), {bound_mib:.0f}".format(**block)
            found.setdefault(text, []).append(block["lost"])
    return "; ".join(f"{listed(blocks)}: {text}" for text, blocks in found.items())


def texts(folder):
    """What the page says in two lists."""
    for row in report(folder / "plan.json")["codes"]:
        if found := misses(row):
            yield f"- {row['code']}: {found} "
        points = ", ".join(f"({load:.1f}, {traffic:.1f})" for load, traffic in row["frontier"])
        if points:
            yield f"- {row['code']}: {points} "


def page(_folder):
    both = ("plan.json", "plan-quick.json")
    return [
        Rule("code | blocks", "Results", "", both, codes),
        Rule("code, block 0", "Results", "", both[:1], others(four)),
        Rule("all placements of", "Results", "", both[:1], small),
        Rule("code | machines left", "Recovery of a whole machine", "", both, recoveries)]
