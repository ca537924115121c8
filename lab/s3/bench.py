"""Pools and files on S3: what a repair downloads and asks, and what faults do.

    bench.py FOLDER --kiln PROGRAM [--quick] [--faults N] [--seconds N] [--out FILE]

Prints one line of JSON; with --out also writes it, with the machine and all rows. The server is
moto on this machine, behind a proxy that counts and injects faults, so times mean nothing here:
what is counted are requests and bytes. Exit code 3: there is no S3 server to be had.
"""

import argparse
import json
import os
import shutil
import sys
from pathlib import Path

from lab.rig import pool_work
from lab.rig.about import about
from lab.rig.buckets import Rig
from lab.rig.proxy import Proxy
from lab.rig.s3 import Moto, Unable

NODES = 14
CODE = "clay:10+4"
# Bytes of the file whose repair is weighed: so large that what is read beside chunks is little.
LARGE = 160_000_000
# One stripe of chunks of 1 MiB.
STRIPE = 10 << 20
ORDERS = ("natural", "gray", "fewest")


def spread(rig, name, size, code):
    """Encodes a file into 14 new buckets."""
    buckets = rig.buckets(name, NODES)
    places = [rig.place(at, bucket, "x") for at, bucket in enumerate(buckets)]
    rig.write(f"{name}.bin", size, name)
    outputs = [word for place in places for word in ("-o", place)]
    rig.run("encode", f"{name}.bin", "--code", code, *outputs)
    return buckets, places


def repair(rig, name, buckets, places, lost):
    """Loses a shard and repairs it; what that took."""
    rig.delete(lost, f"{buckets[lost]}/x/{name}.bin.{lost:02}.kiln")
    rig.proxy.clear()
    report = rig.json("repair", *places)
    assert report["lost"] == [lost] and report["verified"], report
    total = rig.proxy.total
    return {
        "lost": lost, "gets": total("requests", "GET"), "heads": total("requests", "HEAD"),
        "lists": total("requests", "LIST"), "puts": total("requests", "PUT"),
        "down": total("down", "GET"), "chunk_bytes_read": report["bytes_read"],
        "runs": report["read_runs"], "lost_bytes": report["bytes_written"],
    }


def weigh(rig, quick):
    """Bytes downloaded for each byte lost."""
    buckets, places = spread(rig, "large", LARGE, CODE)
    losses = (0, 5) if quick else range(NODES)
    rows = [repair(rig, "large", buckets, places, lost) for lost in losses]
    ratio = sum(row["down"] for row in rows) / sum(row["lost_bytes"] for row in rows)
    return round(ratio, 4), rows


def orders(rig, quick):
    """Requests of all single repairs of one stripe, by order."""
    rows = {}
    for order in ORDERS[:2] if quick else ORDERS:
        buckets, places = spread(rig, f"{order}-stripe", STRIPE, f"{CODE},order={order}")
        name = f"{order}-stripe"
        rows[order] = [repair(rig, name, buckets, places, lost) for lost in range(NODES)]
    return rows


def faults(rig, wanted, longest):
    """A pool in six buckets."""
    buckets = rig.buckets("faults", 6)
    nodes = [f"--node={rig.place(at, bucket, 'p')},id=n{at}" for at, bucket in enumerate(buckets)]
    rig.run("pool", "create", "--code", "rs:4+2", *nodes)
    return pool_work.play(rig, rig.proxy, wanted, longest)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder")
    parser.add_argument("--kiln", required=True)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--only-faults", action="store_true", help="nothing but those")
    parser.add_argument("--faults", type=int, help="faults to inject, at least")
    parser.add_argument("--seconds", type=int, help="for how long they are injected at most")
    parser.add_argument("--out")
    options = parser.parse_args()
    shutil.rmtree(options.folder, ignore_errors=True)
    os.makedirs(options.folder)
    try:
        with Moto(os.path.join(options.folder, "..", "moto")) as server:
            report = measure(options, server)
    except Unable as why:
        print(f"SKIPPED: {why}")
        sys.exit(3)
    if options.out:
        with open(options.out, "w", encoding="utf-8") as file:
            json.dump(report, file, indent=1)
            file.write("\n")
    print(json.dumps(report["headline"]))


def tell(text):
    """How far it is."""
    print(text, file=sys.stderr, flush=True)


def measure(options, server):
    """All of it."""
    proxy = Proxy([("127.0.0.1", server.port)] * NODES)
    rig = Rig(options.kiln, os.path.join(options.folder, "work"), server, proxy)
    machine = about(Path(options.kiln)) | {"server": "moto 5.2.1, emulated S3 on this machine"}
    headline, report = {}, {"headline": {}, "machine": machine, "code": CODE}
    if not options.only_faults:
        headline["download_per_lost_byte"], report["weighed"] = weigh(rig, options.quick)
        tell(f"{headline}")
        report["orders"] = orders(rig, options.quick)
        gets = {order: sum(row["gets"] for row in rows) for order, rows in report["orders"].items()}
        tell(f"gets {gets}")
        for order in list(gets)[1:]:
            headline[f"gets_{order}_over_natural"] = round(gets[order] / gets["natural"], 4)
    rig.timeout = 1
    quick = (1_000, 150) if options.quick else (10_000, 2_400)
    wanted, longest = options.faults or quick[0], options.seconds or quick[1]
    tried, wrong, counts = faults(rig, wanted, longest)
    proxy.close()
    for text in wrong[:20]:
        print(f"WRONG: {text}", file=sys.stderr)
    headline["faults_tried"], headline["faults_wrong"] = sum(tried.values()), len(wrong)
    report["headline"], report["faults"] = headline, {"by_kind": tried, "wrong": wrong, **counts}
    return report


if __name__ == "__main__":
    main()
