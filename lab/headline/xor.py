"""XOR codes: ratios of peaks, the fastest of all sizes of packets, each the worst of its codes."""

from .rows import ends, paired, worst

BAR = ("liberation:11+2,w=11", "blaum-roth:10+2,w=10")
JERASURE = ("Jerasure, dumb", "Jerasure, smart")
VECTORS = ("algorithm 1, vectors", "algorithm 2, vectors")


def points(report):
    """All points."""
    return report["points"]


def peak_of(report, code, operation, places, who):
    """The fastest point of some contenders."""
    return max((point for point in points(report)
                if (point["code"], point["operation"]) == (code, operation)
                and point["place"] in places and point["who"] in who),
               key=lambda point: point["rate"]["median"], default=None)


def peak(report, *which):
    return peak_of(report, *which)["rate"]["median"]


def over(ours, theirs):
    """The ratio of two peaks: by rounds where both have the same rounds."""
    same = all(ours[key] == theirs[key] for key in ("packet", "operation", "place"))
    return paired(ours, theirs) if same else ours["rate"]["median"] / theirs["rate"]["median"]


def ratios(report, ours, theirs, codes=None):
    """For every code the ratio of two peaks, each of (operation, places, who)."""
    for code in dict.fromkeys(point["code"] for point in points(report)):
        a, b = peak_of(report, code, *ours), peak_of(report, code, *theirs)
        if a and b and (codes is None or code in codes):
            yield over(a, b), code.split(",")[0]


def least(ours, theirs, codes=None):
    return lambda report: worst(ratios(report, ours, theirs, codes))


def both(ours, theirs):
    return lambda report: ends(ratio for ratio, _ in ratios(report, ours, theirs))


def encode(places, *who):
    return "encode", places, who


CACHE, PAPER, DRAM, ANY = ("cache",), ("paper",), ("dram",), ("cache", "paper")
ONE, TWO = "algorithm 1, u64", "algorithm 2, u64"
PROMISES = {
    "alg2_over_alg1_u64": least(encode(ANY, TWO), encode(ANY, ONE)),
    "best_over_jerasure_cache": least(encode(CACHE, "kiln"), encode(CACHE, *JERASURE), BAR),
    "best_over_jerasure_dram": least(encode(DRAM, "kiln"), encode(DRAM, *JERASURE), BAR),
    "best_over_paper_orders_vector": least(encode(CACHE, "kiln"), encode(CACHE, *VECTORS)),
    "decode2_over_encode": least(("decode 2", CACHE, ("kiln",)), encode(CACHE, "kiln")),
    "alg2_over_alg1_u64_cache": both(encode(CACHE, TWO), encode(CACHE, ONE)),
    "alg2_over_alg1_u64_paper": both(encode(PAPER, TWO), encode(PAPER, ONE)),
}
def gain(code):
    """By how much Algorithm 2 is faster."""
    ratio = least(encode(ANY, TWO), encode(ANY, ONE), (code,))
    return lambda report: ratio(report)[0] - 1


for name in ("liberation:11+2,w=11", "liberation:5+2,w=5", "liberation:17+2,w=17",
             "evenodd:11+2,p=11", "rdp:10+2,p=11", "xcode:9+2,p=11", "star:11+3,p=11"):
    key = name.split(",")[0].replace(":", "_").replace("+", "_")
    PROMISES[f"alg2_gain_{key}"] = gain(name)
NUMBERS = {"bench-xor-quick.json": PROMISES, "bench-xor.json": dict(PROMISES)}


def table_8(report, change=0.0):
    """What a disk of the run's rate makes of two peaks in 20 MB, as the paper computes it; for its
    Fig. 9 encoding is slower and the disk faster by the same share."""
    def improvement(code, new, old):
        disk = 1 / (report["disk"]["write"] * (1 + change))
        new, old = [1 / (1 - change) / peak(report, code, "encode", PAPER, (who,))
                    for who in (new, old)]
        return (old + disk) / (new + disk) - 1

    codes = dict.fromkeys(point["code"] for point in points(report))
    return [ends(improvement(code, new, ONE) for code in codes) for new in (TWO, "kiln")]


NUMBERS["bench-xor.json"] |= {
    "table_8_algorithm_2": lambda report: table_8(report)[0],
    "table_8_kiln": lambda report: table_8(report)[1],
    "figure_9_algorithm_2": lambda report: table_8(report, 0.5)[0],
    "figure_9_kiln": lambda report: table_8(report, 0.5)[1],
    "rdp_algorithm_2": lambda report: peak(report, "rdp:10+2,p=11", "encode", PAPER, (TWO,)),
    "rdp_kiln": lambda report: peak(report, "rdp:10+2,p=11", "encode", PAPER, ("kiln",)),
}
