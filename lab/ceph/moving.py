"""How fast migrate.py moves a pool to another code, by the number of its workers."""

import json
import random
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from lab.rig.ceph import Cluster, ClusterError

KIB, MIB = 1 << 10, 1 << 20
MIGRATE = Path(__file__).resolve().parent.parent.parent / "bindings" / "ceph" / "migrate.py"
OSDS, PGS = 6, 16
OLD = "plugin=clay k=4 m=2 scalar_mds=isa technique=reed_sol_van stripe_unit=64K"
NEW = "plugin=kiln code=clay k=4 m=2 stripe_unit=64K"
# Size of objects, how many.
POOLS = [(64 * KIB, 500), (8 * MIB, 40)]
QUICK = [(64 * KIB, 20), (8 * MIB, 2)]
WORKERS, WORKERS_QUICK = [1, 2, 4, 8, 16], [1, 4]
WRITERS = 8


def moving(options, _wanted, _profile_of, say, rows):
    """Adds a row for each size of objects and number of workers."""
    cluster = Cluster(options.folder)
    if cluster.conf.exists():
        cluster.down()
    try:
        cluster.make(OSDS, options.plugins)
        for size, count in QUICK if options.quick else POOLS:
            pool = f"m-{size}"
            cluster.pool(pool, OLD, pgs=PGS)
            cluster.settle()
            fill(cluster, pool, size, count)
            for workers in WORKERS_QUICK if options.quick else WORKERS:
                rows.append(dict(object_bytes=size, objects=count, workers=workers,
                                 seconds=move(cluster, pool, workers, count)))
                say(json.dumps(rows[-1]))
            cluster.drop_pool(pool)
    finally:
        if cluster.conf.exists():
            cluster.down()


def fill(cluster, pool, size, count):
    """Objects that differ, each with an attribute."""
    source = random.Random(8).randbytes(size + count * 512)
    io = cluster.connection.open_ioctx(pool)

    def write(number):
        io.write_full(f"object-{number}", source[number * 512:number * 512 + size])
        io.set_xattr(f"object-{number}", "owner", f"nobody {number}".encode())
    with ThreadPoolExecutor(WRITERS) as threads:
        list(threads.map(write, range(count)))
    io.close()


def move(cluster, pool, workers, count):
    """Moves a pool to a new one, which is removed again; the seconds it took."""
    new = f"{pool}-{workers}"
    cluster.pool(new, NEW, pgs=PGS)
    cluster.settle()
    words = [sys.executable, MIGRATE, pool, new, "--conf", cluster.conf, "--workers", workers,
             "--journal", cluster.folder / f"{new}.journal"]
    done = subprocess.run(list(map(str, words)), capture_output=True, text=True, timeout=3600)
    if done.returncode != 0:
        raise ClusterError(f"migrate: {done.stderr.strip()}")
    cluster.drop_pool(new)
    found = json.loads(done.stdout)
    if found["copied"] != count:
        raise ClusterError(f"migrate: {found}")
    return found["seconds"]
