#!/usr/bin/env python3
"""Moves the objects of a pool to a pool of another erasure code; the original stays as it is.

    migrate.py FROM TO [--profile 'plugin=kiln code=clay k=10 m=4 ...'] [--conf CEPH.CONF]
               [--pgs 32] [--workers 4] [--limit MB] [--journal FILE] [--reread] [--swap]

For pools on Ceph's deprecated clay plugin, or on any other. Every object is read (Ceph checks what
it reads), written to TO, read back from there and compared by SHA-256, with its attributes, its
namespace and its locator. What was verified stands in a journal, so that a run that ends early, by
Ctrl-C or by any accident, is gone on with, and objects that clients changed meanwhile are copied
again. It succeeds when both pools have the same objects and none changed since its copy was
verified. An object that cannot be copied is named, the others are copied, and the run fails.

--profile makes TO, if it is not there. --workers copy at the same time, an object each, read and
written in pieces of 8 MiB (some 50 MB of memory each). --reread compares all bytes of both pools
once more. --swap then renames FROM to FROM.before and TO to FROM, for clients that know pools by
name; stop them first. Nothing is ever removed from FROM; remove the pool when you no longer need
it.

Pools of RBD, CephFS and RGW are known to these by other means than their name: use `rbd migration`,
a new data pool and a copy of the files, or a new storage class. Such pools, and pools with
snapshots, are refused. Another way, without moving a byte, is to exchange the plugin: see
lab/results/ceph.md.
"""

import argparse
import json
import os
import signal
import sys
import threading
import time

from migration.copy import Copier
from migration.journal import Journal
from migration.passes import Passes
from migration.pool import Pool, rados
from migration.errors import Stopped, MigrationError
from migration.workers import WorkerPool, Limit

PIECE = 8 << 20
WAIT = 600
WORKERS, WORKERS_MAX = 4, 64
STOPPED = 130  # exit code, as of a program that is ended by Ctrl-C
FOREIGN = {"rbd": "rbd migration", "cephfs": "a new data pool and a copy of the files",
           "rgw": "a new storage class"}


class Migration:
    """What a run needs of the cluster."""

    def __init__(self, connection, options):
        self.connection, self.options = connection, options
        pools = self.pools()
        if options.source not in pools:
            raise MigrationError(f"no pool {options.source}")
        self.check_source(pools[options.source])
        if options.target not in pools:
            self.make_target()
            pools = self.pools()
        source, target = pools[options.source], pools[options.target]
        # An erasure-coded pool takes appended pieces of whole stripes only.
        width = target.get("stripe_width") or 1
        self.piece = -(-PIECE // width) * width
        self.about = [connection.get_fsid(), source["pool"], target["pool"]]

    def command(self, prefix, **arguments):
        words = json.dumps({"prefix": prefix, "format": "json", **arguments})
        code, out, message = self.connection.mon_command(words, b"", timeout=WAIT)
        if code != 0:
            raise MigrationError(f"{prefix}: {message or os.strerror(-code)}")
        return json.loads(out) if out[:1] in (b"{", b"[") else out.decode()

    def pools(self):
        return {pool["pool_name"]: pool for pool in self.command("osd dump")["pools"]}

    def check_source(self, pool):
        """What a copy of objects would not be a copy of."""
        for application in pool.get("application_metadata", {}):
            if application in FOREIGN:
                raise MigrationError(
                    f"pool {pool['pool_name']} belongs to {application}, which knows it "
                    f"by its number: use {FOREIGN[application]}")
        if pool.get("pool_snaps") or pool.get("snap_seq"):
            raise MigrationError(f"pool {pool['pool_name']} has snapshots; copies would lack them")

    def make_target(self):
        name, words = self.options.target, self.options.profile.split()
        if not words:
            raise MigrationError(f"no pool {name}; --profile makes it")
        self.command("osd erasure-code-profile set", name=name, profile=words)
        self.command("osd pool create", pool=name, pg_num=self.options.pgs,
                     pgp_num=self.options.pgs, pool_type="erasure", erasure_code_profile=name)

    def passes(self, journal, stop):
        """The passes over all objects, with a crew of workers."""
        limit = Limit(self.options.limit * 1e6)
        workers = [Copier(Pool(self.connection, self.options.source),
                      Pool(self.connection, self.options.target),
                      self.piece, journal, limit, stop) for _ in range(self.options.workers)]
        worker_pool = WorkerPool(workers, (MigrationError, OSError, rados().Error), stop)
        return Passes(worker_pool, journal, self.options.reread)

    def swap(self):
        """Gives the new pool the name of the old one."""
        old, new = self.options.source, self.options.target
        self.command("osd pool rename", srcpool=old, destpool=f"{old}.before")
        self.command("osd pool rename", srcpool=new, destpool=old)


def stopped_by_signals():
    """An event that Ctrl-C sets; a second one ends the program at once, which loses nothing
    either."""
    stop = threading.Event()

    def ask(*_):
        if stop.is_set():
            os._exit(STOPPED)
        stop.set()
        os.write(2, b"\nmigrate: stopping after the pieces that are under way\n")
    for number in [signal.SIGINT, signal.SIGTERM]:
        signal.signal(number, ask)
    return stop


def run(options):
    """A whole run; what it has to say."""
    connection = rados().Rados(conffile=options.conf, name="client.admin")
    connection.connect(timeout=WAIT)
    begin = time.monotonic()
    try:
        migration = Migration(connection, options)
        journal = Journal(options.journal or f"{options.source}-{options.target}.journal",
                          migration.about)
        passes = migration.passes(journal, stopped_by_signals())
        same = passes.run()
        if options.swap:
            migration.swap()
    finally:
        connection.shutdown()
    copied, length = passes.moved()
    return dict(objects=same, copied=copied, bytes=length, verified=True, swapped=options.swap,
                workers=options.workers, seconds=round(time.monotonic() - begin, 3))


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.
                                     RawDescriptionHelpFormatter)
    parser.add_argument("source", metavar="FROM")
    parser.add_argument("target", metavar="TO")
    parser.add_argument("--profile", default="", help="makes TO, if it is not there")
    parser.add_argument("--pgs", type=int, default=32, help="placement groups of a new TO (32)")
    parser.add_argument("--conf", default="", help="the cluster's configuration")
    parser.add_argument("--workers", type=int, default=WORKERS, metavar="N",
                        help=f"objects that are copied at the same time ({WORKERS})")
    parser.add_argument("--limit", type=float, default=0, metavar="MB",
                        help="MB (10^6 bytes) of objects to copy in a second at most, by all "
                        "workers together; each is written once and read twice (no limit)")
    parser.add_argument("--journal", help="what was verified (FROM-TO.journal)")
    parser.add_argument("--reread", action="store_true", help="compare all bytes once more")
    parser.add_argument("--swap", action="store_true", help="exchange the names at the end")
    options = parser.parse_args()
    if not 1 <= options.workers <= WORKERS_MAX:
        parser.error(f"--workers: 1 to {WORKERS_MAX}")
    if options.limit < 0:
        parser.error("--limit: more than nothing")
    return options


def main():
    options = arguments()
    rados()
    try:
        print(json.dumps(run(options)))
    except Stopped:
        print("migrate: stopped; what was verified stands in the journal, run this again to go on",
              file=sys.stderr)
        sys.exit(STOPPED)
    except rados().Error as error:
        sys.exit(f"migrate: {error}")


if __name__ == "__main__":
    try:
        main()
    except (MigrationError, OSError) as error:
        sys.exit(f"migrate: {error}")
