"""CPU seconds for a GiB, from the plugins called as an OSD calls them."""

import json
import statistics
import subprocess
import time

from lab.rig.ceph import ClusterError

PLAIN = ["kiln rs", "stock isa"]
ALL = [*PLAIN, "kiln clay", "kiln clay gray", "stock clay"]
SMALL = [4, 8, 16, 32]
# k, m, stripe units in KiB, codes.
SIZES = [
    *((k, m, SMALL, PLAIN) for k, m in [(4, 2), (6, 3), (10, 4), (12, 4)]),
    (10, 4, [64, 256, 1024, 4096], ALL),
    (4, 2, [64, 1024, 4096], ALL),
    (6, 3, [108, 864, 3456], ALL),
    (12, 4, [64, 1024, 4096], ALL),
    (14, 2, [1024], ALL),
]
QUICK = [(4, 2, [4], PLAIN), (4, 2, [64], ALL)]
# Rounds of a size, and the seconds after which there are no more of them than LEAST.
ROUNDS, LEAST, SECONDS = 15, 4, 20


class Plugin:
    """A process with one profile: what it leaves in its heap meets no other."""

    def __init__(self, plugins, unit_kib, profile):
        words = [plugins / "host", plugins, "bench", unit_kib << 10, profile]
        self.process = subprocess.Popen(list(map(str, words)), stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.rounds = []

    def round(self):
        """Lets it do everything once."""
        try:
            self.process.stdin.write("\n")
            self.process.stdin.flush()
            line = self.process.stdout.readline()
        except BrokenPipeError:
            line = ""
        if not line:
            raise ClusterError(f"computing: {self.process.stderr.read().strip()}")
        self.rounds.append(json.loads(line))

    def end(self):
        """Its figures: first quarter, median, third quarter of all rounds but the first."""
        rounds = self.rounds[1:]
        return {f"{what}_cpu_s_per_gib": [round(part, 5) for part in statistics.quantiles(
                    [one[what] for one in rounds], n=4, method="inclusive")]
                for what in rounds[0]}


def computing(options, wanted, profile_of, say, rows):
    """Adds a row for each size and code; codes take turns, so that other work here meets all."""
    for k, m, units, names in QUICK if options.quick else SIZES:
        for unit_kib in units if wanted(k, m) else []:
            plugins = [Plugin(options.plugins, unit_kib, profile_of(name, k, m))
                       for name in names]
            try:
                begin = time.monotonic()
                for number in range(ROUNDS):
                    if number > LEAST and time.monotonic() - begin > SECONDS:
                        break
                    for plugin in plugins:
                        plugin.round()
            finally:
                for plugin in plugins:
                    plugin.process.kill()
                    plugin.process.wait()
            for name, plugin in zip(names, plugins):
                rows.append(dict(code=name, k=k, m=m, stripe_unit_kib=unit_kib, **plugin.end()))
                say(json.dumps(rows[-1]))
