#!/usr/bin/env python3
"""Moves the objects of a pool to a pool of another erasure code; the original stays as it is.

    migrate.py FROM TO [--profile 'plugin=kiln code=clay k=10 m=4 ...'] [--conf CEPH.CONF]
               [--pgs 32] [--journal FILE] [--reread] [--swap]

For pools on Ceph's deprecated clay plugin, or on any other. Every object is read (Ceph checks what
it reads), written to TO, read back from there and compared by SHA-256, with its attributes, its
namespace and its locator. What was verified stands in a journal, so that a run that ends early is
gone on with, and objects that clients changed meanwhile are copied again. It succeeds when both
pools have the same objects and none changed since its copy was verified.

--profile makes TO, if it is not there. --reread compares all bytes of both pools once more.
--swap then renames FROM to FROM.before and TO to FROM, for clients that know pools by name; stop
them first. Nothing is ever removed from FROM; remove the pool when you no longer need it.

Pools of RBD, CephFS and RGW are known to these by other means than their name: use `rbd migration`,
a new data pool and a copy of the files, or a new storage class. Such pools, and pools with
snapshots, are refused. Another way, without moving a byte, is to exchange the plugin: see
docs/results/ceph.md.
"""

import argparse
import hashlib
import json
import os
import sys
import time

PIECE = 8 << 20
PASSES = 5  # over objects that clients keep changing
WAIT = 600
FOREIGN = {"rbd": "rbd migration", "cephfs": "a new data pool and a copy of the files",
           "rgw": "a new storage class"}


class Trouble(Exception):
    """Ends the run with one clear line."""


def rados():
    """Ceph's Python module, which comes with the system's own Python."""
    try:
        import rados as module
        return module
    except ImportError:
        raise Trouble("no Python module rados here; Debian's is for /usr/bin/python3") from None


class Pool:
    """A pool of a cluster, object by object."""

    def __init__(self, connection, name):
        self.io = connection.open_ioctx(name)
        self.name = name

    def objects(self):
        """Namespace, locator and name of every object."""
        self.io.set_namespace(rados().LIBRADOS_ALL_NSPACES)
        found = [(o.nspace or "", o.locator_key or "", o.key) for o in self.io.list_objects()]
        return sorted(found)

    def at(self, key):
        """Turns to an object; what to call it."""
        namespace, locator, name = key
        self.io.set_namespace(namespace)
        self.io.set_locator_key(locator)
        return name

    def state(self, key):
        """Size and version of an object, or nothing when it is gone."""
        name = self.at(key)
        try:
            size, _ = self.io.stat(name)
        except rados().ObjectNotFound:
            return None
        return size, self.io.get_last_version()

    def attributes(self, key):
        return dict(self.io.get_xattrs(self.at(key)))

    def pieces(self, key, length):
        """The bytes of an object, in pieces."""
        name, offset = self.at(key), 0
        while True:
            piece = self.io.read(name, length, offset)
            if piece:
                yield piece
            if len(piece) < length:
                return
            offset += len(piece)

    def digest(self, key, length):
        """SHA-256 of bytes and attributes."""
        digest = hashlib.sha256()
        for piece in self.pieces(key, length):
            digest.update(piece)
        return close(digest, self.attributes(key))


def close(digest, attributes):
    """The digest of an object whose bytes `digest` has seen."""
    for name in sorted(attributes):
        value = attributes[name]
        digest.update(f"\0{name}\0{len(value)}\0".encode() + value)
    return digest.hexdigest()


class Migration:
    """One run."""

    def __init__(self, connection, options):
        self.connection, self.options = connection, options
        self.begin, self.copied, self.bytes = time.monotonic(), 0, 0
        pools = self.pools()
        if options.source not in pools:
            raise Trouble(f"no pool {options.source}")
        self.check_source(pools[options.source])
        if options.target not in pools:
            self.make_target()
        self.source = Pool(connection, options.source)
        self.target = Pool(connection, options.target)
        # An erasure-coded pool takes appended pieces of whole stripes only.
        width = self.pools()[options.target].get("stripe_width") or 1
        self.piece = -(-PIECE // width) * width
        self.journal = Journal(options.journal or f"{options.source}-{options.target}.journal")

    def command(self, prefix, **arguments):
        words = json.dumps({"prefix": prefix, "format": "json", **arguments})
        code, out, message = self.connection.mon_command(words, b"", timeout=WAIT)
        if code != 0:
            raise Trouble(f"{prefix}: {message or os.strerror(-code)}")
        return json.loads(out) if out[:1] in (b"{", b"[") else out.decode()

    def pools(self):
        return {pool["pool_name"]: pool for pool in self.command("osd dump")["pools"]}

    def check_source(self, pool):
        """What a copy of objects would not be a copy of."""
        for application in pool.get("application_metadata", {}):
            if application in FOREIGN:
                raise Trouble(f"pool {pool['pool_name']} belongs to {application}, which knows it "
                              f"by its number: use {FOREIGN[application]}")
        if pool.get("pool_snaps") or pool.get("snap_seq"):
            raise Trouble(f"pool {pool['pool_name']} has snapshots; copies would lack them")

    def make_target(self):
        name, words = self.options.target, self.options.profile.split()
        if not words:
            raise Trouble(f"no pool {name}; --profile makes it")
        self.command("osd erasure-code-profile set", name=name, profile=words)
        self.command("osd pool create", pool=name, pg_num=self.options.pgs,
                     pgp_num=self.options.pgs, pool_type="erasure", erasure_code_profile=name)

    def run(self):
        """Copies until nothing changes any more; the number of objects that are the same."""
        strange = set(self.target.objects()) - set(self.journal.known)
        if strange:
            raise Trouble(f"pool {self.target.name} has {len(strange)} objects that are not from "
                          f"here, such as {sorted(strange)[0][2]!r}")
        for _ in range(PASSES):
            objects = self.source.objects()
            changed = sum([self.move(key, len(objects)) for key in objects])
            gone = set(self.journal.known) - set(objects)
            for key in gone:
                self.forget(key)
            if not changed and not gone:
                return self.compare(objects)
        raise Trouble(f"clients keep changing {self.source.name}; stop them and run this again")

    def move(self, key, of):
        """Copies an object unless its copy was verified; whether it had to."""
        state = self.source.state(key)
        if state is None or self.journal.known.get(key, {}).get("state") == list(state):
            return False
        digest, attributes = hashlib.sha256(), self.source.attributes(key)
        # Named before it is written, so that a run that ends here knows the object as its own.
        self.journal.add(key, dict(state=None))
        if self.target.state(key) is not None:
            self.target.io.remove_object(self.target.at(key))
        name, first = self.target.at(key), True
        for piece in self.source.pieces(key, self.piece):
            digest.update(piece)
            self.target.at(key)
            (self.target.io.write_full if first else self.target.io.append)(name, piece)
            first = False
        self.target.at(key)
        if first:
            self.target.io.write_full(name, b"")
        for attribute, value in attributes.items():
            self.target.io.set_xattr(name, attribute, value)
        wanted = close(digest, attributes)
        if self.source.state(key) != state:
            return True  # changed under our hands: the next pass copies it
        if self.target.digest(key, self.piece) != wanted:
            raise Trouble(f"{self.target.name}: {name!r} reads back wrong; the original is as it "
                          "was")
        self.journal.add(key, dict(state=state, sha256=wanted))
        self.copied, self.bytes = self.copied + 1, self.bytes + state[0]
        self.tell(of)
        return True

    def tell(self, of):
        """Progress, to a person who watches."""
        if not sys.stderr.isatty():
            return
        seconds = max(time.monotonic() - self.begin, 1e-3)
        left = max(of - self.copied, 0) * seconds / self.copied
        print(f"\r{self.copied} of {of} objects, {self.bytes / seconds / 1e6:.1f} MB/s, "
              f"{left:.0f} s left ", end="", file=sys.stderr)

    def forget(self, key):
        """An object that clients removed from the original."""
        if self.target.state(key) is not None:
            self.target.io.remove_object(self.target.at(key))
        self.journal.add(key, None)

    def compare(self, objects):
        """Both pools have the same objects; with --reread the same bytes."""
        if self.target.objects() != objects:
            raise Trouble(f"{self.target.name} lacks objects that were copied; run this again "
                          "without its journal")
        for key in objects if self.options.reread else []:
            digests = {self.journal.known[key]["sha256"], self.source.digest(key, self.piece),
                       self.target.digest(key, self.piece)}
            if len(digests) != 1:
                raise Trouble(f"{key[2]!r} differs; run this again without its journal")
        return len(objects)

    def swap(self):
        """Gives the new pool the name of the old one."""
        old, new = self.options.source, self.options.target
        self.command("osd pool rename", srcpool=old, destpool=f"{old}.before")
        self.command("osd pool rename", srcpool=new, destpool=old)


class Journal:
    """What was verified: a line of JSON each, the last one for an object counts."""

    def __init__(self, path):
        self.known = {}
        if os.path.exists(path):
            with open(path, encoding="utf-8") as lines:
                for line in lines:
                    self.take(line)
        self.file = open(path, "a", encoding="utf-8")

    def take(self, line):
        try:
            entry = json.loads(line)
        except ValueError:
            return  # the end of a run that was killed
        key, found = tuple(entry["object"]), entry["found"]
        if found is None:
            self.known.pop(key, None)
        else:
            self.known[key] = found

    def add(self, key, found):
        line = json.dumps(dict(object=key, found=found))
        self.take(line)
        # A newline first: the last line may have been cut.
        self.file.write(f"\n{line}")
        self.file.flush()
        os.fsync(self.file.fileno())


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.
                                     RawDescriptionHelpFormatter)
    parser.add_argument("source", metavar="FROM")
    parser.add_argument("target", metavar="TO")
    parser.add_argument("--profile", default="", help="makes TO, if it is not there")
    parser.add_argument("--pgs", type=int, default=32, help="placement groups of a new TO (32)")
    parser.add_argument("--conf", default="", help="the cluster's configuration")
    parser.add_argument("--journal", help="what was verified (FROM-TO.journal)")
    parser.add_argument("--reread", action="store_true", help="compare all bytes once more")
    parser.add_argument("--swap", action="store_true", help="exchange the names at the end")
    options = parser.parse_args()
    connection = rados().Rados(conffile=options.conf, name="client.admin")
    connection.connect(timeout=WAIT)
    try:
        migration = Migration(connection, options)
        same = migration.run()
        if options.swap:
            migration.swap()
    finally:
        connection.shutdown()
    print(json.dumps(dict(objects=same, copied=migration.copied, bytes=migration.bytes,
                          verified=True, swapped=options.swap)))


if __name__ == "__main__":
    try:
        main()
    except (Trouble, OSError, rados().Error) as trouble:
        sys.exit(f"migrate: {trouble}")
