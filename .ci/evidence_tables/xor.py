"""xor.md, and the part of avx2.md about XOR codes."""

from headline import xor

from .page import Rule, Unchecked

WHO = ("algorithm 1, u64", "algorithm 2, u64", "algorithm 1, vectors", "algorithm 2, vectors",
       "kiln", *xor.JERASURE)
PLACES = {"paper": "a buffer of 20 MB", "cache": "in cache (256 KiB)",
          "dram": "from DRAM (256 MiB)"}
WORDS = {"64-bit": ("algorithm 2, u64", "algorithm 1, u64"),
         "vectors": ("algorithm 2, vectors", "algorithm 1, vectors")}
PAIRS = (("algorithm 2, u64", "algorithm 1, u64"), ("kiln", "algorithm 1, vectors"),
         ("kiln", "algorithm 1, u64"))
PROMISES = ("alg2_over_alg1_u64", "best_over_jerasure_cache", "best_over_jerasure_dram",
            "best_over_paper_orders_vector", "decode2_over_encode")
BARS = "bars and what promises are about are set in bench/src, not in the data"


def shown(who):
    return who.replace("algorithm", "Algorithm")


def size(count):
    return f"{count} B" if count < 1024 else f"{count // 1024} KiB"


def codes(data):
    return list(dict.fromkeys(point["code"] for point in xor.points(data)))


def peaks(operation, place, who):
    """The peak of each contender, and the packet of it."""
    def rows(data):
        for code in codes(data):
            found = [xor.peak_of(data, code, operation, (place,), (name,)) for name in who]
            yield [code, *(f"{point['rate']['median']:.1f} ({size(point['packet'])})"
                           if point else "" for point in found)]
    return rows


def encoded(data, code, who):
    return xor.peak(data, code, "encode", ("paper",), (who,))


def table_5(data):
    for code in codes(data):
        for words, pair in WORDS.items():
            new, old = (encoded(data, code, who) for who in pair)
            yield [code, words, f"{new:.2f}", f"{old:.2f}", f"{100 * (new / old - 1):.0f}%"]


def table_8(data):
    disk = data["disk"]["write"]
    for code in codes(data):
        for pair in PAIRS:
            new, old = (encoded(data, code, who) for who in pair)
            gain = (1 / old + 1 / disk) / (1 / new + 1 / disk) - 1
            rates = (f"{rate:.2f} ({shown(who)})" for rate, who in zip((new, old), pair))
            yield [code, *rates, f"{disk:.2f}", f"{100 * gain:.1f}%"]


def promises(names):
    def rows(data):
        for name in names:
            found = [(short, ratio) for ratio, short in xor.ratios(data, *SIDES[name])]
            each = ", ".join(f"{short.replace(':', ' ')} {ratio:.2f}" for short, ratio in found)
            yield [None, None, f"{min(ratio for _, ratio in found):.2f}", each]
    return rows


SIDES = {
    "alg2_over_alg1_u64": (xor.encode(xor.ANY, xor.TWO), xor.encode(xor.ANY, xor.ONE), None),
    "best_over_jerasure_cache": (xor.encode(xor.CACHE, "kiln"),
                                 xor.encode(xor.CACHE, *xor.JERASURE), xor.BAR),
    "best_over_jerasure_dram": (xor.encode(xor.DRAM, "kiln"),
                                xor.encode(xor.DRAM, *xor.JERASURE), xor.BAR),
    "best_over_paper_orders_vector": (xor.encode(xor.CACHE, "kiln"),
                                      xor.encode(xor.CACHE, *xor.VECTORS), None),
    "decode2_over_encode": (("decode 2", xor.CACHE, ("kiln",)), xor.encode(xor.CACHE, "kiln"),
                            None),
}


def peak_rule(file, operation, place, who, section):
    return Rule(f"code | {' | '.join(map(shown, who))}", section,
                f"{operation}, {PLACES[place]}", (file,), peaks(operation, place, who))


def page(_folder):
    file, section = "bench-xor.json", "Full run"
    return [
        Rule("promise | bar", section, "", (file,), promises(PROMISES), BARS),
        *(peak_rule(file, operation, place, WHO, section)
          for operation in ("encode", "decode 2") for place in PLACES),
        Rule("code | words", section, "Table 5, redrawn", (file,), table_5),
        Rule("code | new", section, "Table 8, redrawn", (file,), table_8),
        Unchecked("promise | bar", "Quick run",
                  why="a run of which no data was kept; that of bench-xor-quick.json is another, "
                      "and its worst values are links above")]


def avx2(_folder):
    file, section = "bench-xor-quick-avx2.json", "XOR codes"
    jerasure = ("kiln", "Jerasure, dumb", "Jerasure, smart")
    return [
        Rule("promise | bar", section, "", (file,), promises(PROMISES[1:4]), BARS),
        peak_rule(file, "encode", "paper", WHO[:2], section),
        peak_rule(file, "encode", "cache", WHO, section),
        peak_rule(file, "encode", "dram", jerasure, section),
        peak_rule(file, "decode 2", "cache", ("kiln",), section)]
