#!/usr/bin/env python3
"""The demo: real data, fourteen nodes, one lost, then four lost.

Encodes the data as rs:10+4 and as clay:10+4 over 14 folders that stand for nodes. Deletes one
node and repairs it, deletes four and decodes, compares SHA-256 with the original, and prints what
was read. The counts come from the run and must equal those of the plan.

Then a pool of 14 folders, and one of 14 agents, of which one is killed.

Needs Python 3 and the kiln program, nothing else. Works in demo/out and removes it afterwards.
"""

import argparse
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tarfile
import time
from pathlib import Path

import agents
import pool

MIB = 1 << 20
CODES = ["rs:10+4", "clay:10+4"]
NODES = 14
LOST_ONE = 3
LOST_FOUR = [0, 5, 9, 12]
DEFAULT_BYTES = 512 * MIB
LEAST_BYTES = 512 * MIB
# Trees that machines have, the first with enough data wins.
TREES = ["/usr", "/lib", "/opt", "/nix/store", "/System"]


class Trouble(Exception):
    """Ends the demo with one clear line."""


class Cut(Exception):
    """The tar stream is long enough."""


class CutWriter:
    """Takes at most `limit` bytes, then stops the tar stream."""

    def __init__(self, file, limit):
        self.file, self.left = file, limit

    def write(self, data):
        self.file.write(data[: self.left])
        taken = min(len(data), self.left)
        self.left -= taken
        if self.left == 0:
            raise Cut
        return len(data)


def plain(info):
    """Keeps what is the same on every run; owners and times would not harm, but say nothing."""
    info.uid = info.gid = info.mtime = 0
    info.uname = info.gname = ""
    return info


def walk(tree):
    """Regular files below a tree, in a fixed order, without following links."""
    for folder, folders, files in os.walk(tree):
        folders.sort()
        for name in sorted(files):
            path = Path(folder, name)
            if path.is_file() and not path.is_symlink() and os.access(path, os.R_OK):
                yield path


def pack(tree, target, limit):
    """Writes a deterministic tar stream of a tree, cut at `limit` bytes; returns its size."""
    with open(target, "wb") as file:
        try:
            out = CutWriter(file, limit)
            with tarfile.open(fileobj=out, mode="w|", bufsize=MIB) as tar:
                for path in walk(tree):
                    try:
                        tar.add(path, recursive=False, filter=plain)
                    except OSError as error:
                        raise Trouble(f"cannot read {path}: {error}") from error
        except Cut:
            pass
    return target.stat().st_size


def prepare(data, out):
    """The input file: DATA itself, a tar of DATA, or a tar of a tree that every machine has."""
    target = out / "data.tar"
    if data is not None and data.is_file():
        return data, f"{data}"
    if data is not None:
        if not data.is_dir():
            raise Trouble(f"DATA={data}: no such file or folder")
        pack(data, target, sys.maxsize)
        return target, f"a tar stream of {data}"
    for tree in TREES:
        if Path(tree).is_dir() and pack(tree, target, DEFAULT_BYTES) >= LEAST_BYTES:
            return target, f"the first {DEFAULT_BYTES // MIB} MiB of a tar stream of {tree}"
    raise Trouble("found no tree with 512 MiB of files; name some data: make demo DATA=path")


def tree_files(data):
    """Files for the pool: those of DATA, or of a tree that every machine has."""
    if data is not None:
        return walk(data) if data.is_dir() else iter([data])
    return next(walk(tree) for tree in TREES if Path(tree).is_dir())


def sha256(path):
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while block := file.read(4 * MIB):
            digest.update(block)
    return digest.hexdigest()


def check_space(out, data):
    """Everything that is on disk at one time, for one code after the other."""
    size = data.stat().st_size if data is not None and data.is_file() else DEFAULT_BYTES
    if data is not None and data.is_dir():
        size = sum(path.stat().st_size for path in walk(data))
    need = int(size * (1 + 1.45 + 1)) + 64 * MIB
    free = shutil.disk_usage(out).free
    if free < need:
        raise Trouble(f"{out} has {free // MIB} MiB free, the demo needs {need // MIB} MiB")


class Kiln:
    """The program under demonstration."""

    def __init__(self, path):
        self.path = path

    def run(self, *words, codes=(0,), json_out=True):
        """Runs a command, returns its JSON report and the seconds it took."""
        command = [str(self.path), *map(str, words), "--json"]
        start = time.monotonic()
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        seconds = time.monotonic() - start
        if done.returncode not in codes:
            words = " ".join(command)
            raise Trouble(f"'{words}' ended with {done.returncode}: {done.stderr.strip()}")
        return json.loads(done.stdout) if json_out else None, seconds


def expect(what, measured, planned):
    if measured != planned:
        raise Trouble(f"{what}: the run says {measured}, the plan says {planned}")


def show_code(kiln, code, data, digest, out):
    """One code, from encode to the compared hash; returns what the last table needs."""
    folders = [out / f"node-{i:02}" for i in range(NODES)]
    places = [word for folder in folders for word in ("-o", folder)]
    encoded, encode_seconds = kiln.run("encode", data, "-c", code, *places)
    size = encoded["size"]

    shutil.rmtree(folders[LOST_ONE])
    dry, _ = kiln.run("repair", *folders, "--dry-run")
    ran, repair_seconds = kiln.run("repair", *folders)
    plan, _ = kiln.run("plan", "--code", code, "--lost", LOST_ONE)
    check_counts(ran, dry, plan, encoded["stripes"])
    kiln.run("verify", *folders, "--deep")

    for index in LOST_FOUR:
        shutil.rmtree(folders[index])
    restored = out / "restored"
    _, decode_seconds = kiln.run("decode", *folders, "-o", restored)
    same = sha256(restored) == digest
    if not same:
        raise Trouble(f"{code}: the restored file differs from the original")
    for path in [*folders, restored]:
        shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)

    print_code(code, size, encoded, ran, dry, plan)
    print(f"  encode {encode_seconds:.2f} s, repair of one node {repair_seconds:.2f} s, decode "
          f"with 4 nodes lost {decode_seconds:.2f} s; SHA-256 of the restored file: same\n")
    ratio = ran["bytes_read"] / ran["bytes_written"]
    return {"code": code, "run": ran, "ratio": ratio, "repair_seconds": repair_seconds}


def check_counts(ran, dry, plan, stripes):
    """The run, the dry run and the bare plan must tell the same."""
    for key in ["bytes_read", "read_runs", "bytes_sent", "max_node_load", "bytes_written"]:
        expect(key, ran[key], dry[key])
    expect("helpers", ran["helpers"], plan["helpers"])
    expect("strategy", ran["strategy"], plan["strategy"])
    expect("read_runs", ran["read_runs"], plan["read_runs"] * stripes)
    # Sub-chunks: exact integers, whatever the length of the last stripe.
    expect("bytes_read x alpha", ran["bytes_read"] * plan["alpha"],
           ran["bytes_written"] * plan["sub_chunks_read"])
    if not ran["verified"]:
        raise Trouble("the repaired shard was not verified")


def print_code(code, size, encoded, ran, dry, plan):
    shards = len(encoded["shards"])
    print(f"{code}: {size / MIB:.0f} MiB in {encoded['stripes']} stripes on {shards} nodes, node "
          f"{LOST_ONE} lost and rebuilt")
    rows = [
        ["repair", "the run", "dry run", "plan"],
        ["bytes read", f"{ran['bytes_read']:,}", f"{dry['bytes_read']:,}",
         f"{plan['sub_chunks_read'] * ran['bytes_written'] // plan['alpha']:,}"],
        ["read runs", f"{ran['read_runs']:,}", f"{dry['read_runs']:,}",
         f"{plan['read_runs'] * encoded['stripes']:,}"],
        ["chunks read per chunk rebuilt", f"{ran['bytes_read'] / ran['bytes_written']:.2f}",
         f"{dry['bytes_read'] / dry['bytes_written']:.2f}", f"{plan['chunks_read']:.2f}"],
    ]
    print_table(rows)


def print_table(rows):
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        cells = [f"{cell:>{width}}" for cell, width in zip(row[1:], widths[1:])]
        print(f"  {row[0]:<{widths[0]}}  " + "  ".join(cells))


def main():
    parser = argparse.ArgumentParser(description="kiln's demo; normally run by make demo")
    parser.add_argument("--kiln", type=Path, required=True, help="the kiln program")
    parser.add_argument("--data", type=Path, help="file or folder [default: a tar of /usr]")
    parser.add_argument("--keep", action="store_true", help="keep demo/out")
    args = parser.parse_args()
    out = Path(__file__).resolve().parent / "out"
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    try:
        check_space(out, args.data)
        start = time.monotonic()
        data, words = prepare(args.data, out)
        digest = sha256(data)
        size = data.stat().st_size
        print(f"\ndata: {words}, {size:,} bytes\n      SHA-256 {digest}\n")
        kiln = Kiln(args.kiln.resolve())
        results = [show_code(kiln, code, data, digest, out) for code in CODES]
        rows = [["one node repaired", "bytes read", "read runs", "seconds", "chunks per chunk"]]
        for result in results:
            run = result["run"]
            rows.append([result["code"], f"{run['bytes_read']:,}", f"{run['read_runs']:,}",
                         f"{result['repair_seconds']:.2f}", f"{result['ratio']:.2f}"])
        print_table(rows)
        rs, clay = results
        print(f"\nClay read {clay['ratio']:.2f} chunks per chunk rebuilt, Reed-Solomon "
              f"{rs['ratio']:g}; every count equals the plan "
              f"({time.monotonic() - start:.0f} s in all).")
        print()
        pool.show(kiln, tree_files(args.data), out, Trouble)
        agents.show(kiln, tree_files(args.data), data, out, print_table, Trouble)
    except Trouble as trouble:
        sys.exit(f"demo: {trouble}")
    finally:
        if not args.keep:
            shutil.rmtree(out, ignore_errors=True)


if __name__ == "__main__":
    main()
