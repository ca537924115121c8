"""order.md: runs that are counted, and what an order costs at write and read."""

from .coding import spread
from .page import Rule, report

FILE = ("order.json",)
NAMES = ("natural", "gray", "fewest", "balanced")


def runs(name):
    """Runs by lost chunk; the last row has their sums."""
    def rows(data):
        columns = [runs for _, runs in data["counts"][name]["columns"]]
        for lost in range(len(columns[0])):
            yield [str(lost), *(str(runs[lost]) for runs in columns)]
        yield ["sum", *(str(sum(runs)) for runs in columns)]
    return rows


def codes(data):
    for row in data["counts"]["codes"]:
        at = {order["order"]: order for order in row["orders"]}
        total = ["{s_total} ({range[0]}-{range[1]})".format(**at[name]) if name in at else "-"
                 for name in NAMES]
        pairs = [at.get(name, {}).get("pair_runs") for name in NAMES]
        yield [row["code"], str(row["alpha"]), str(row["virtuals"]), str(row["s_min"]), *total,
               str(row["orders"][0]["pairs"]),
               *("-" if found is None else f"{found:.1f}" for found in pairs)]


def reductions(data):
    for m in (2, 3, 4, 5):
        points = [f"{digits}: {100 * share:.1f}" for parities, digits, share
                  in data["counts"]["reductions"] if parities == m]
        yield [str(m), ", ".join(points), f"{100 / m:.1f}"]


def texts(folder):
    """The sentence below the table of codes."""
    census = report(folder / FILE[0])["counts"]["census"]
    shares = (100 * census[f"{name}_share"] for name in ("gray", "fewest"))
    yield ("{full} without virtual nodes, of which `gray`, `fewest` and `balanced` are at S_min "
           "in {full_at_bound}, and no two nodes of `balanced` differ by more than "
           "{balanced_spread} runs; {short} with virtual nodes, of which `fewest` is at the lower "
           "bound in {short_at_bound} and one run above in {short_one_above}. There, on average, "
           "`gray` leaves {0:.1f} % of natural order's runs and `fewest` {1:.1f} %."
           .format(*shares, **census))


def stripes(data):
    for row in data["counts"]["stripes"]:
        yield [row["code"], row["order"], f"{row['alone']:.0f}",
               *(f"{row[key]:.1f}" for key in ("in_a_row", "turned", "grouped"))]


def moving(data):
    for row in data["moving"]:
        yield [row["work"], row["how"], spread(row["rate"], 2), f"{row['slower']:+.1f} %"]


def coding(data):
    for row in data["coding"]:
        yield [row["code"], row["order"],
               *(text for what in ("encode", "repair")
                 for text in (f"{row[what]['median']:.2f}", f"{row[f'{what}_over_natural']:.2f}"))]


def page(_folder):
    return [
        Rule("6+2 lost", "Tables III and IV", "", FILE, runs("table_3")),
        Rule("16+2 lost", "Tables III and IV", "", FILE, runs("table_4")),
        Rule("code | alpha", "Other codes", "", FILE, codes),
        Rule("m | digits", "Other codes", "", FILE, reductions),
        Rule("code | order | each alone", "Stripes", "", FILE, stripes),
        Rule("work | order", "What an order costs", "", FILE, moving),
        Rule("code | order | encode", "Encode and repair", "", FILE, coding)]
