"""What the paper says in numbers, and the same from a run: ratios over cells. Pure.

`paper` are numbers of its text, as RS(6,3) over three replicas unless the words say otherwise;
those that follow from two of its numbers say so. Of several cells the mean is taken, or the largest
where the paper has "up to".
"""

from dataclasses import dataclass
from typing import Callable

from lab.online.cells import application, name_of

KIB = 1 << 10
RS, REP = "ceph:rs", "ceph:rep"
ALL, READS, WRITES = (("seqwrite", "seqread", "randread", "randwrite"), ("seqread", "randread"),
                      ("seqwrite", "randwrite"))


@dataclass(frozen=True)
class Claim:
    """One number of the paper. `pairs` gives what is over what, as ((cell, target), (cell,
    target)); with nothing below, the number itself is meant."""

    key: str
    words: str
    paper: float | None
    metric: str
    pairs: Callable
    largest: bool = False

    def here(self, medians, kind):
        """The same number of a run; `None` where it was not measured."""
        found = [number(medians, self.metric, *pair) for pair in self.pairs(kind)]
        found = [value for value in found if value is not None]
        if not found:
            return None
        return max(found) if self.largest else sum(found) / len(found)


def number(medians, metric, top, bottom):
    """One ratio, or one number."""
    if bottom is None:
        found = medians.spread(*top, metric)
        return found[0] if found else None
    return medians.ratio(metric, top, bottom)


def sizes(*patterns, top=RS, bottom=REP, least=0, most=1 << 30):
    """Pairs for sizes of requests of patterns."""
    def pairs(kind):
        return [((name_of(pattern, size, kind.depth), top),
                 bottom and (name_of(pattern, size, kind.depth), bottom))
                for pattern in patterns for size in kind.sizes if least <= size <= most]
    return pairs


def four(*patterns, top=RS, bottom=REP):
    """Pairs for 4 KiB."""
    return sizes(*patterns, top=top, bottom=bottom, least=4 * KIB, most=4 * KIB)


def new(*cells):
    """Pairs of a new image over a full one, on RS."""
    def pairs(kind):
        names = [name_of(pattern, size, kind.depth) for pattern, size in cells]
        return [((f"{name}-fresh", RS), (name, RS)) for name in names]
    return pairs


def untouched(kind):
    """Pairs for random 4 KiB writes to new images. The paper's random writes met objects that
    nobody had written to."""
    name = name_of("randwrite", 4 * KIB, kind.depth, fresh=True)
    return [((name, RS), (name, REP))]


def turned(pairs):
    """The same the other way round."""
    return lambda kind: [(bottom, top) for top, bottom in pairs(kind)]


def apps(*names, bottom=REP):
    """Pairs for all numbers of processes of applications."""
    def pairs(kind):
        cells = [application(app, count, ()).name
                 for app in names for count in kind.processes.get(app, ())]
        return [((cell, RS), bottom and (cell, bottom)) for cell in cells]
    return pairs


def performance(app, rate, latency, rate_words="", latency_words=""):
    """What an application gets done, and how long its requests take."""
    key = app.lower()
    return [Claim(f"{key}_rate", f"rate{rate_words}", rate, "mb_s", apps(app)),
            Claim(f"{key}_latency", f"latency{latency_words}", latency, "mean_us", apps(app))]


def costs(app, cpu, switches):
    """What a request of an application costs processors."""
    key, words = app.lower(), f"CPU a request (the paper: of all cores, {cpu:.3g})"
    return [Claim(f"{key}_cpu", words, cpu, "cpu_us", apps(app)),
            Claim(f"{key}_switches", "context switches", switches, "switches", apps(app))]


NEW = (("seqwrite", 16 * KIB), ("randwrite", 4 * KIB))
SMALL = dict(least=4 * KIB, most=16 * KIB)
APPS = ("DB", "VDI", "EDA", "VDA")

# By figure. Processor time: the paper has shares of all cores; for one request it is their ratio
# over the ratio of rates.
CLAIMS = {
    5: [
        Claim("reads_rate", "reads: rate", 0.56, "mb_s", sizes(*READS)),
        Claim("reads_latency", "reads: latency", 1.8, "mean_us", sizes(*READS)),
        Claim("writes_rate", "writes: rate", 0.17, "mb_s", sizes(*WRITES)),
        Claim("writes_latency", "writes: latency", 8.1, "mean_us", sizes(*WRITES)),
        Claim("reads_switches", "reads: context switches", 7.3, "switches", sizes(*READS)),
        Claim("writes_switches", "writes: context switches", 5.9, "switches", sizes(*WRITES)),
        Claim("reads_amp", "reads: bytes read", 2.5, "read_amp", sizes(*READS)),
    ],
    6: [
        Claim("apps_rate", "rate", 0.39, "mb_s", apps(*APPS)),
        Claim("apps_latency", "latency", 7.5, "mean_us", apps(*APPS)),
        Claim("apps_switches", "context switches", 3.9, "switches", apps(*APPS)),
        Claim("apps_cpu", "CPU a request (the paper: 1.8/0.39)", 1.8 / 0.39, "cpu_us", apps(*APPS)),
        Claim("apps_network", "private network", 2.4, "private_amp", apps(*APPS)),
        Claim("apps_devices", "bytes of devices", 4, "device_amp", apps(*APPS)),
    ],
    7: [
        Claim("seqwrite_rate", "rate, all sizes", 373 / 553, "mb_s", sizes("seqwrite")),
        Claim("seqwrite_small_rate", "rate, 4 to 16 KiB", 0.3, "mb_s",
              sizes("seqwrite", **SMALL)),
        Claim("seqwrite_latency", "latency", 2, "mean_us", sizes("seqwrite")),
    ],
    8: [
        Claim("seqread_rate", "rate", 0.49, "mb_s", sizes("seqread")),
        Claim("seqread_latency", "latency", 2.7, "mean_us", sizes("seqread")),
    ],
    9: [
        Claim("randread_rate", "rate (the paper: at least)", 0.84, "mb_s", sizes("randread")),
        Claim("randread_latency", "latency (the paper: at most)", 1.22, "mean_us",
              sizes("randread")),
    ],
    10: [
        Claim("randwrite_rate", "rate, all sizes", 1 / 5.6, "mb_s", sizes("randwrite")),
        Claim("randwrite_4k_rate", "rate, 4 KiB", 1 / 18, "mb_s", four("randwrite")),
        Claim("randwrite_4k_latency", "latency, 4 KiB", 18, "mean_us", four("randwrite")),
        Claim("new_4k_rate", "rate, 4 KiB, new image", 1 / 18, "mb_s", untouched),
    ],
    11: [
        Claim("seqwrite_cpu", "sequential (the paper: 2/0.67)", 2 / (373 / 553), "cpu_us",
              sizes("seqwrite")),
        Claim("randwrite_cpu", "random (the paper: 15%/19%/0.18)", 15 / 19 * 5.6, "cpu_us",
              sizes("randwrite")),
    ],
    12: [
        Claim("seqread_cpu", "sequential (the paper: 18%/2.6%/0.49)", 18 / 2.6 / 0.49, "cpu_us",
              sizes("seqread")),
        Claim("randread_cpu", "random (the paper: 34%/6.1%/0.84)", 34 / 6.1 / 0.84, "cpu_us",
              sizes("randread")),
    ],
    13: [Claim("write_switches", "writes", 4.4, "switches", sizes(*WRITES))],
    14: [Claim("read_switches", "reads", 4.6, "switches", sizes(*READS))],
    15: [
        Claim("seqwrite_reads", "RS: bytes read for a byte, up to", 1561, "read_amp",
              sizes("seqwrite", bottom=None), largest=True),
        Claim("seqwrite_writes", "RS: bytes written for a byte, up to", 142, "write_amp",
              sizes("seqwrite", bottom=None), largest=True),
        Claim("seqwrite_rep", "3 replicas: bytes written for a byte, from 4 KiB on", 3,
              "write_amp", sizes("seqwrite", top=REP, bottom=None, least=4 * KIB)),
    ],
    16: [
        Claim("randwrite_writes", "bytes written, RS over replicas, up to", 29, "write_amp",
              sizes("randwrite"), largest=True),
        Claim("new_4k_writes", "the same for 4 KiB, new image", 29, "write_amp", untouched),
    ],
    17: [
        Claim("randread_4k_amp", "random 4 KiB", 6.1, "read_amp", four("randread")),
        Claim("randread_32k_amp", "random 32 KiB", 1.2, "read_amp",
              sizes("randread", least=32 * KIB, most=32 * KIB)),
        Claim("seqread_amp", "sequential", 1, "read_amp", sizes("seqread")),
    ],
    18: [
        Claim("seqwrite_network", "sequential, RS: for a byte, below 32 KiB", 3.4, "private_amp",
              sizes("seqwrite", bottom=None, most=32 * KIB - 1)),
        Claim("randwrite_network", "random, RS over replicas, up to", 82, "private_amp",
              sizes("randwrite"), largest=True),
        Claim("new_4k_network", "the same for 4 KiB, new image", 82, "private_amp", untouched),
    ],
    19: [Claim("read_network", "RS: for a byte, up to", 25, "private_amp",
               sizes(*READS, bottom=None), largest=True)],
    21: [
        Claim("full_rate", "rate, full over new", 2.8, "mb_s", turned(new(*NEW))),
        Claim("full_latency", "latency, full over new", 0.4, "mean_us", turned(new(*NEW))),
    ],
    22: [
        Claim("full_cpu", "CPU a request, full over new (the paper: 3/2.8)", 3 / 2.8, "cpu_us",
              turned(new(*NEW))),
        Claim("full_switches", "context switches, full over new", 0.79, "switches",
              turned(new(*NEW))),
    ],
    23: [Claim("new_devices", "bytes of devices, new over full", 4.1, "device_amp", new(*NEW))],
    24: [Claim("new_network", "private network, new over full", 11.3, "private_amp", new(*NEW))],
    25: [Claim(f"isa_{pattern}_rate", f"{pattern} 4 KiB: rate, isa over jerasure", 1, "mb_s",
               four(pattern, top="ceph:isa", bottom=RS)) for pattern in ("randread", "randwrite")],
    26: [
        Claim("isa_cpu", "CPU a request, isa over jerasure", 1, "cpu_us",
              four("randread", "randwrite", top="ceph:isa", bottom=RS)),
        Claim("isa_switches", "context switches, isa over jerasure", 1, "switches",
              four("randread", "randwrite", top="ceph:isa", bottom=RS)),
    ],
    27: [
        Claim("small_code_rate", "rate, 4+2 over 6+3", 1.6, "mb_s",
              four("randread", "randwrite", top="ceph:rs-4-2", bottom=RS)),
        Claim("small_code_latency", "latency, 4+2 over 6+3", 1 / 1.6, "mean_us",
              four("randread", "randwrite", top="ceph:rs-4-2", bottom=RS)),
    ],
    28: [
        Claim("small_code_reads", "bytes read, 4+2 over 6+3", 1 / 1.4, "read_amp",
              four("randread", "randwrite", top="ceph:rs-4-2", bottom=RS)),
        Claim("small_code_writes", "bytes written, 4+2 over 6+3", 1 / 1.5, "write_amp",
              four("randwrite", top="ceph:rs-4-2", bottom=RS)),
    ],
    29: [Claim("small_code_network", "private network, 4+2 over 6+3", 1 / 1.6, "private_amp",
               four("randread", "randwrite", top="ceph:rs-4-2", bottom=RS))],
    31: performance("DB", 1 / 1.2, 29.3),
    32: costs("DB", 4.6, 3.3),
    33: [Claim("db_network", "private network", 4, "private_amp", apps("DB"))],
    34: [
        Claim("db_reads", "bytes read", 3.5, "read_over_read", apps("DB")),
        Claim("db_writes", "bytes written", 3.5, "write_over_write", apps("DB")),
    ],
    35: performance("VDI", 1 / 6, 9.3),
    36: costs("VDI", 5.1, 3.4),
    37: [
        Claim("vdi_reads", "bytes read", 8.5, "read_over_read", apps("VDI")),
        Claim("vdi_writes", "bytes written", 3.3, "write_over_write", apps("VDI")),
    ],
    38: [
        Claim("vdi_network", "virtual desktops (the paper: in its picture)", None, "private_amp",
              apps("VDI")),
        Claim("vda_network", "video", 1 / 1.8, "private_amp", apps("VDA")),
    ],
    39: performance("EDA", 1 / 2.1, 5, " (the paper: at worst)", " (the paper: at worst)"),
    40: costs("EDA", 3.7, 3.6),
    41: [
        Claim("eda_network", "private network", 1.5, "private_amp", apps("EDA")),
        Claim("eda_network_alone", "RS: for a byte", 3.1, "private_amp",
              apps("EDA", bottom=None)),
    ],
    42: [
        Claim("eda_reads", "bytes read (the paper: in its picture)", None, "read_over_read",
              apps("EDA")),
        Claim("eda_writes", "bytes written (the paper: in its picture)", None, "write_over_write",
              apps("EDA")),
    ],
    43: performance("VDA", 1, 1, latency_words=" (the paper: hardly worse)"),
    44: costs("VDA", 1.352, 1.3),
    45: [Claim("vda_writes", "bytes written", 1 / 1.9, "write_over_write", apps("VDA"))],
}
