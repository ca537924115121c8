"""Numbers of samples, medians of rounds, and the line at the end. Nothing here acts."""

import statistics

MILLION = 1e6
# Keys of the line, with the bar of the issue: at most, or at least.
BARS = {
    "rs_over_rep_write_4k": ("at most", 0.6),
    "rs_over_rep_read_4k": ("at most", 1),
    "cpu_over_ceph_rs": ("at most", 0.2),
    "switches_over_ceph_rs": ("at most", 0.2),
    "device_bytes_over_ceph_rs": ("at most", 1 / 3),
    "iops_over_ceph_rs": ("at least", 3),
    "iops_over_ceph_rep": ("at least", 1),
    "rounds": ("at least", 3),
}
# The same bars hold for writes that last, which only some runs have.
STEADY_BARS = {f"{key}_steady": BARS[key] for key in
         ("cpu_over_ceph_rs", "switches_over_ceph_rs", "device_bytes_over_ceph_rs",
          "iops_over_ceph_rs", "iops_over_ceph_rep")}


def significant(value, digits=5):
    """A number with so many digits that count."""
    return float(f"{value:.{digits}g}") if isinstance(value, float) else value


def per_operation(raw):
    """What a sample says for each request and for each byte of clients."""
    ops, size = max(raw["ops"], 1), max(raw["bytes"], 1)
    found = {
        "mb_s": raw["iops"] * size / ops / MILLION,
        "cpu_us": (raw["user"] + raw["system"]) / ops * MILLION,
        "user_us": raw["user"] / ops * MILLION,
        "system_us": raw["system"] / ops * MILLION,
        "client_us": raw["client_cpu"] / ops * MILLION,
        "switches": raw["context_switches"] / ops,
        "cores": (raw["user"] + raw["system"]) / raw["seconds"],
        "read_amp": raw["read_bytes"] / size,
        "write_amp": raw["write_bytes"] / size,
        "device_amp": (raw["read_bytes"] + raw["write_bytes"]) / size,
        "ios": (raw["read_ios"] + raw["write_ios"]) / ops,
        # As the paper has it for applications: by what was asked for in the same direction.
        "read_over_read": raw["read_bytes"] / max(raw["client_reads"], 1),
        "write_over_write": raw["write_bytes"] / max(raw["client_writes"], 1),
        "private_amp": raw["private"] / size,
        "public_amp": raw["public"] / size,
        "network_amp": (raw["private"] + raw["public"]) / size,
        "read_share": raw["read_ops"] / ops,
    }
    return {key: significant(value) for key, value in (found | raw).items()}


class Medians:
    """Medians over rounds, by cell, target and number."""

    def __init__(self, samples):
        # {cell: {target: [sample, ...]}}
        self.samples = samples

    def rounds(self, cell, target):
        """The samples of one cell; none where it was not measured."""
        return self.samples.get(cell, {}).get(target, [])

    def has(self, cell, *targets):
        """Whether a cell was measured on all these targets."""
        return all(self.rounds(cell, target) for target in targets)

    def spread(self, cell, target, key):
        """Median, least and most; `None` where nothing was measured."""
        values = [sample[key] for sample in self.rounds(cell, target)]
        return (statistics.median(values), min(values), max(values)) if values else None

    def ratio(self, key, top, bottom):
        """The median over rounds of a number over another's in the same round; both are (cell,
        target). `None` where one is missing, or nothing was seen at the bottom."""
        pairs = zip(self.rounds(*top), self.rounds(*bottom))
        values = [one[key] / other[key] for one, other in pairs if other[key] > 0]
        return statistics.median(values) if values else None

    def table(self, cells, keys):
        """Medians of what was measured of these cells; `None` where samples have no such key."""
        def median(samples, key):
            return statistics.median(sample[key] for sample in samples) \
                if key in samples[0] else None
        return {cell: {target: {key: median(samples, key) for key in keys}
                       for target, samples in self.samples[cell].items()}
                for cell in cells if cell in self.samples}


def four_kib(medians, depth):
    """Medians of random requests of 4 KiB on every target that has them."""
    names = [f"{pattern}-4k-q{deep}{more}" for pattern in ("randwrite", "randread")
             for deep, more in ((depth, ""), (1, ""), (depth, "-steady"), (depth, "-degraded"))]
    keys = ("iops", "mean_us", "p99_us", "cpu_us", "client_us", "switches", "read_amp",
            "write_amp", "device_amp", "private_amp", "public_amp", "network_amp")
    return medians.table(names, keys)


def by_size(medians, names):
    """Medians of requests of one pattern and one size each, on every target that has them."""
    return medians.table(names, ("mb_s", "mean_us", "cpu_us", "switches", "read_amp", "write_amp",
                                 "private_amp"))


def on_mounts(medians, names):
    """Medians of these cells on every target: of requests at fixed rates, and on files."""
    return medians.table(names, ("iops", "mean_us", "p99_us", "data_us", "names_us", "cpu_us",
                                 "switches", "read_over_read", "write_over_write", "private_amp",
                                 "network_amp"))


def headline(medians, depth, rounds, figures):
    """The numbers of the line; what was not measured is null."""
    write, read = (f"{pattern}-4k-q{depth}" for pattern in ("randwrite", "randread"))

    def over(key, top, bottom, cell=write):
        return medians.ratio(key, (cell, top), (cell, bottom))
    rs, rep, isa, volume = "ceph:rs", "ceph:rep", "ceph:isa", "volume:rs"
    found = {
        "figures": figures,
        "rs_over_rep_write_4k": over("iops", rs, rep),
        "rs_over_rep_read_4k": over("iops", rs, rep, read),
        "ceph_net_ratio_4k_random_write": over("private_amp", rs, rep),
        "ceph_net_ratio_4k_random_write_new": over("private_amp", rs, rep, f"{write}-fresh"),
        "volume_over_ceph_rs_4k_write": over("iops", volume, rs),
        "rounds": rounds,
        "cpu_over_ceph_rs": over("cpu_us", volume, isa),
        "switches_over_ceph_rs": over("switches", volume, isa),
        "device_bytes_over_ceph_rs": over("device_amp", volume, isa),
        "iops_over_ceph_rs": over("iops", volume, isa),
        "iops_over_ceph_rep": over("iops", volume, rep),
        "network_over_ceph_rs": over("network_amp", volume, isa),
        "cpu_over_ceph_rs_read": over("cpu_us", volume, isa, read),
        "switches_over_ceph_rs_read": over("switches", volume, isa, read),
        "device_bytes_over_ceph_rs_read": over("device_amp", volume, isa, read),
        "network_over_ceph_rs_read": over("network_amp", volume, isa, read),
        "iops_over_ceph_rs_read": over("iops", volume, isa, read),
    }
    for pattern in ("randwrite", "randread"):
        one = f"{pattern}-4k-q1"
        word = "" if pattern == "randwrite" else "_read"
        found["iops_over_ceph_rs_depth1" + word] = over("iops", volume, isa, one)
        found["iops_over_ceph_rep_depth1" + word] = over("iops", volume, rep, one)
    found |= {key: value for key, value in beside(over, write, read).items() if value is not None}
    return {key: significant(value, 4) for key, value in found.items()}


def beside(over, write, read):
    """Keys that only some runs have: FastEC, what lasts longer, hosts that are gone."""
    rep, isa, fast, volume = "ceph:rep", "ceph:isa", "ceph:fast", "volume:rs"
    costs = {"iops": "iops", "cpu_us": "cpu", "switches": "switches",
             "device_amp": "device_bytes", "network_amp": "network"}
    found = {"fast_over_rep_write_4k": over("iops", fast, rep),
             "fast_over_rep_read_4k": over("iops", fast, rep, read),
             "fast_over_rs_write_4k": over("iops", fast, isa)}
    for metric, word in costs.items():
        found |= {
            f"{word}_over_ceph_fast": over(metric, volume, fast),
            f"{word}_over_ceph_fast_read": over(metric, volume, fast, read),
            f"{word}_over_ceph_rs_steady": over(metric, volume, isa, f"{write}-steady"),
            f"{word}_over_ceph_rs_degraded": over(metric, volume, isa, f"{write}-degraded"),
            f"{word}_over_ceph_rs_degraded_read": over(metric, volume, isa, f"{read}-degraded"),
        }
    found["iops_over_ceph_rep_steady"] = over("iops", volume, rep, f"{write}-steady")
    return found
