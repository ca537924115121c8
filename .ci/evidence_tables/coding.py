"""core.md, core-full.md, and the part of avx2.md about Reed-Solomon and Clay."""

from headline import core

from .page import Linked, Rough, Rule, Unchecked, report

HARNESS = "runs of a throw-away harness: no data was kept, as the page says"
# As the bench prints them; with AVX2 alone two are about other cells than `headline/core.py` has.
QUICK = ("rs_dram_over_klauspost", "rs_dram_over_isal", "rs_cache_over_best_peer",
         "clay_dram_over_klauspost_rs", "clay_16mib_over_klauspost_rs", "clay_over_ceph_clay",
         "clay_cache_over_own_rs", "clay_repair_over_rs_decode", "two_threads")
AVX2 = ("rs_dram_over_klauspost", "rs_cache_over_best_peer", "clay_dram_over_own_rs",
        "clay_over_ceph_clay_16mib", "clay_over_ceph_clay", "clay_cache_over_own_rs",
        "clay_repair_over_rs_decode")
NEXT = (*QUICK[:2], "rs_dram_over_isal_next", *QUICK[2:])
AVX2_NEXT = (AVX2[0], "rs_dram_over_isal_next", *AVX2[1:])
OTHER = {"clay_dram_over_own_rs": core.clay("kiln", "rs", core.SMALL, core.TEN),
         "clay_over_ceph_clay_16mib": core.QUICK["clay_16mib_over_ceph_clay"]}
# Pages have the median of the rounds' ratios. Reports that lack the rounds give the ratio of
# medians, which is so near to it; not where rounds are skew, as Ceph's with 16 MiB: 2.8 (2.8-3.2).
NEAR, SKEW = 0.02, {"clay_over_ceph_clay_16mib": 0.08}


def spread(found, digits=1):
    """A median with its quarters."""
    middle, low, high = (f"{found[key]:.{digits}f}" for key in ("median", "p25", "p75"))
    return f"{middle} ({low}-{high})"


def code_of(job):
    return f"{job['family']} {job['k']}+{job['m']}"


def title_of(cell):
    job = cell["job"]
    operation = "decode m" if job["operation"] == f"decode {job['m']}" else job["operation"]
    return f"{job['family']} {operation}, {cell['footprint']}"


def label(cell, rate):
    """The name of a contender: its family too if it is not the cell's."""
    family = rate["code"].split()[0]
    own = rate["code"] == cell["rates"][0]["code"]
    return rate["engine"] if own else f"{rate['engine']} ({family})"


def groups(data):
    """Cells of one family, operation and place together."""
    found = {}
    for cell in data["cells"]:
        found.setdefault(title_of(cell), []).append(cell)
    return found


def contenders(cells):
    """All of a group, in the order of first appearance."""
    return list(dict.fromkeys(label(cell, rate) for cell in cells for rate in cell["rates"]))


def rates(title):
    def rows(data):
        cells = groups(data)[title]
        for cell in cells:
            seen = {label(cell, rate): spread(rate["rate"]) for rate in cell["rates"]}
            yield [cell["rates"][0]["code"], str(cell["job"]["chunk"]),
                   *(seen.get(name, "") for name in contenders(cells))]
    return rows


def threads(data):
    for row in data["threads"]:
        one, two, plain = (row[key]["median"] for key in ("one", "two", "plain"))
        yield [row["code"], str(row["chunk"]), f"{one:.1f}", f"{two:.1f}", f"{row['ratio']:.2f}",
               f"{plain:.2f}", f"{row['there']} of {row['rounds']}"]


def small(data):
    for row in data["small"]:
        times = [f"{row[key]['median']:.1f}" for key in ("codec", "plan", "stripe")]
        yield [row["code"], *times, str(row["chunk"])]


def promises(names, suffix="", other=None):
    def rows(data):
        for name in names:
            ratio = ((other or {}).get(name) or core.NEXT[name])(data)[0]
            yield [name + suffix, None, Rough(f"{ratio:.2f}", SKEW.get(name, NEAR) * ratio)]
    return rows


def measured(folder, file, section=""):
    """A rule for each group of cells of the data, and for threads and small work."""
    found = [Rule(f"code | chunk | {' | '.join(contenders(cells))}", section, title, (file,),
                  rates(title))
             for title, cells in groups(report(folder / file)).items()]
    return found + [
        Rule("encode in cache | chunk | one thread", section, "", (file,), threads),
        Rule("microseconds | codec", section, "", (file,), small)]


BARS = "bars are set in bench/src, not in the data"


def quick(folder):
    return [
        Rule("promise | bar", "Quick form", "", ("bench-core-quick.json",), promises(QUICK), BARS),
        *measured(folder, "bench-core-quick.json"),
        Linked("1 GiB | seconds", columns=(1, 2, 3)),
        Unchecked("10+4, parts |", why=HARNESS), Unchecked("kernel |", why=HARNESS),
        Unchecked(" | natural | gray | balanced | gray before", why=HARNESS)]


def zen4(folder):
    file, held = "bench-core-quick-zen4.json", "bench-core-quick-avx2-zen4.json"
    return [
        Linked("from memory | first level", columns=(1, 2)),
        Linked("GB/s | AVX2 before", "Fetched into which cache", columns=(1, 2, 4, 5)),
        Linked("GB/s | AVX2 before", "Fewer calls, longer runs", columns=(1, 2, 3, 4, 5, 6)),
        Linked("GB/s | AVX2 before", "Parities beside products", columns=(1, 2, 3, 4, 5, 6)),
        Rule("promise | bar", "All that the CPU has", "", (file,), promises(NEXT), BARS),
        Rule("promise | bar", "Held to AVX2", "", (held,),
             promises(AVX2_NEXT, "_avx2", OTHER), BARS),
        *measured(folder, file, "All that the CPU has"), *measured(folder, held, "Held to AVX2")]


def full(folder):
    return measured(folder, "bench-core.json")


def avx2(folder):
    file, section = "bench-core-quick-avx2.json", "Reed-Solomon and Clay"
    return [
        Unchecked(" | look-ups and shifts", "The limit",
                  why="counted from the code that is made; rates of several runs without data"),
        Rule("promise | bar", section, "", (file,), promises(AVX2_NEXT, "_avx2", OTHER),
             BARS),
        *measured(folder, file, section)]
