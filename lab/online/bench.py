#!/usr/bin/env python3
"""What erasure coding costs online: Ceph and kiln's volumes under fio, from six viewpoints.

    bench.py FOLDER --kiln PROGRAM --out FOLDER [--quick | --tiny] [--target NAME]...
             [--plugins DIR] [--minutes M] [--again]
    bench.py ... --peers [--name NAME]
    bench.py ... --files [--mixer PROGRAM]

The study of Koh et al. on one machine: OSDs, or agents of a volume, each on a loop device and in a
network namespace of its own; requests, processor time and context switches of daemons, bytes at
devices, bytes through public and private links, all for each request and byte of clients,
without what idle systems do. Two cores are busy all the time: rates are ratios between targets in
turns, processor seconds for each operation are the measure. A run that was cut off goes on where it
was (--again begins anew). --peers: requests of 4 KiB alone, on everything that this release of Ceph
and these plugins have, for longer, and with a host gone. --files: requests at fixed rates, and
applications on file systems (CephFS by ceph-fuse, ext4 on volumes by nbdfuse), for which
`kiln-bench` is the client. --target (`ceph:rs`, `volume:rs`, see
targets.py) runs some alone. One JSON with every sample goes to OUT, all requests beside it;
the last line has the headline. As root.
"""

import argparse
import hashlib
import json
import shutil
import signal
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent

from lab.online import exhibits
from lab.online import osds
from lab.online import settling
from lab.online import summary
from lab.online import volumes
from lab.online.cells import KINDS, SIZES, mounted, sized, swept
from lab.online.study import Samples, Study, key_of, wanted
from lab.online.targets import ALL, BY_NAME
from lab.rig.about import about
from lab.rig.testbed import program
from lab.rig.testbed import able as able_to_have_hosts
from lab.rig.tools import Unable

# Minutes after which nothing new is begun.
MINUTES = {"tiny": 5, "quick": 9, "peers": 30, "files": 30, "full": 60 * 24}


def say(text):
    """Progress."""
    print(f"{time.strftime('%H:%M:%S')} {text}", file=sys.stderr, flush=True)


def report_of(kind, name, samples, study, more):
    """Everything that the run found, with its pictures as data."""
    medians = summary.Medians(samples.all())
    claims, drawn = exhibits.all_of(medians, kind)
    rounds = rounds_of(samples, study)
    headline = summary.headline(medians, kind.depth, rounds,
                                sum(one["end"].isdigit() for one in drawn))
    if not kind.sizes:
        headline = {key: summary.significant(claim["here"], 4) for key, claim in claims.items()}
        headline["rounds"] = rounds
    return {
        "bench": "online", "kind": name, **more,
        "sizes": {key: getattr(kind, key) for key in
                  ("k", "m", "osds", "image_mib", "device_mib", "seconds", "rounds", "sizes",
                   "depth", "processes", "series", "groups", "rates", "on_files")},
        "targets": {target.name: {"words": target.words(kind.k, kind.m),
                                  "code": target.coded(kind.k, kind.m) or "3 replicas"}
                    for target in ALL},
        "idle": study.idle, "status": study.status, "left_out": study.left_out,
        "four": summary.four_kib(medians, kind.depth),
        "by_size": summary.by_size(medians, [cell.name for cell in swept(kind)]),
        "mounted": summary.on_mounts(medians, [cell.name for cell in mounted(kind)]),
        "headline": headline,
        "bars": {key: list(bar) for key, bar in (summary.BARS | summary.STEADY_BARS).items()},
        "claims": claims, "samples": medians.samples, "exhibits": drawn,
    }


def rounds_of(samples, study):
    """The rounds that every cell of the run has."""
    counts = [len(samples.found.get(cell.name, {}).get(target.name, {}))
              for cell, target in wanted(study.kind, study.options.target)
              if samples.found.get(cell.name, {}).get(target.name)]
    return min(counts, default=0)


def version_of(options):
    """What samples must have in common to be of one run: these files, and the program."""
    found = hashlib.sha256()
    for path in sorted(HERE.glob("*.py")):
        found.update(path.read_bytes())
    if options.kiln.exists():
        stat = options.kiln.stat()
        found.update(f"{stat.st_size} {stat.st_mtime_ns}".encode())
    return found.hexdigest()[:16]


def measure(options, name, kind):
    """A whole run; the report."""
    def make_system(target, on_files):
        if target.kind == "ceph":
            return osds.CephSystem(options.folder, kind, options.plugins)
        return volumes.VolumeSystem(options.folder, kind, options.kiln, target, on_files)
    # One of each system, whichever of its targets.
    each = {key_of(target, on_files): (target, on_files)
            for target in ALL for on_files in (False, True)}.values()
    settling.clear(options.folder, [make_system(*one) for one in each])
    options.folder.mkdir(parents=True)
    before, start = about(options.kiln), time.monotonic()
    parts = options.out / f"online-{name}.samples"
    if options.again:
        parts.unlink(missing_ok=True)
    release = osds.release() if shutil.which("ceph-osd") else None
    sizes = [getattr(kind, size) for size in SIZES]
    samples = Samples(parts, [name, *sizes, version_of(options), before["cpu"], release])
    study = Study(options, kind, samples, make_system, say)
    try:
        study.run()
        study.finish()
    finally:
        # A second interrupt must not leave daemons behind.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        study.close()
        shutil.rmtree(options.folder, ignore_errors=True)
    more = {"machine": before, "end": about(options.kiln), "seconds": time.monotonic() - start}
    if "ceph" in study.systems:
        more["ceph"] = release
    return report_of(kind, name, samples, study, more), parts


def able_to_mount(mixer):
    """Says clearly why nothing can be mounted, or nobody can ask, if so."""
    if not Path("/dev/fuse").exists():
        raise Unable("file systems need /dev/fuse, which is not here")
    if not mixer.exists():
        raise Unable(f"{mixer} is not there; cargo build --release -p kiln-bench makes it")


def arguments():
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", metavar="FOLDER", type=Path)
    parser.add_argument("--kiln", metavar="PROGRAM", type=Path, required=True)
    parser.add_argument("--out", metavar="FOLDER", type=Path, required=True)
    parser.add_argument("--plugins", metavar="DIR", type=Path, help="with kiln's (else Ceph's own)")
    parser.add_argument("--target", action="append", default=[], choices=list(BY_NAME),
                        metavar="NAME", help="only this one, as ceph:rs; may be given again")
    parser.add_argument("--minutes", type=float, help="nothing new is begun after that")
    parser.add_argument("--again", action="store_true", help="forget what an earlier run found")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--tiny", action="store_true")
    parser.add_argument("--peers", action="store_true")
    parser.add_argument("--files", action="store_true")
    parser.add_argument("--mixer", metavar="PROGRAM", type=Path,
                        help="kiln-bench (else the one beside kiln)")
    for size, words in SIZES.items():
        parser.add_argument(f"--{size.replace('_', '-')}", type=float, metavar="N", help=words)
    parser.add_argument("--name", help="of the report, as peers-20.2 (else that of its kind)")
    return parser.parse_args()


def main():
    options = arguments()
    asked = [kind for kind in ("tiny", "quick", "peers", "files") if getattr(options, kind)]
    kind = asked[0] if asked else "full"
    name = options.name or kind
    options.minutes = options.minutes or MINUTES[kind]
    options.mixer = options.mixer or options.kiln.with_name("kiln-bench")
    for path in ("folder", "kiln", "out", "mixer"):
        setattr(options, path, getattr(options, path).absolute())
    options.traces = options.out / f"traces-{name}"
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("bench-online: terminated"))
    able_to_have_hosts()
    kind = sized(KINDS[kind], {size: getattr(options, size) for size in SIZES})
    every = wanted(kind, options.target)
    for system, module in (("ceph", osds), ("volume", volumes)):
        if any(target.kind == system for _, target in every):
            module.able()
        if any(target.kind == system and cell.processes for cell, target in every):
            module.able(module.FOR_FILES)
            able_to_mount(options.mixer)
    report, parts = measure(options, name, kind)
    path = options.out / ("online.json" if name == "full" else f"online-{name}.json")
    path.write_text(json.dumps(report, indent=1) + "\n")
    if not report["left_out"]:
        parts.unlink()
    print(json.dumps(report["headline"]))


if __name__ == "__main__":
    try:
        program(main, "bench-online")
    except KeyboardInterrupt:
        sys.exit("bench-online: interrupted; the same command goes on from here")
