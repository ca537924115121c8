"""Files and a pool in 14 buckets at 14 endpoints, with a bucket lost and everything counted.

    s3_test.py FOLDER --kiln PROGRAM

Exit code 3: there is no S3 server to be had here, which is said.
"""

import argparse
import os
import shutil
import signal
import subprocess
import sys

from lab.rig.buckets import Rig
from lab.rig.pool_work import Failed  # rig knows where it is
from lab.rig.proxy import Proxy
from lab.rig.s3 import Moto, Unable, empty, keys

NODES = 14
MOST = 3.4  # bytes downloaded for each lost one, headers and tables included


def repaired(rig, buckets, places):
    """A shard is lost and repaired; bytes that were downloaded for each byte of it."""
    lost = 11
    rig.delete(lost, f"{buckets[lost]}/x/y/in.bin.{lost:02}.kiln")
    rig.proxy.clear()
    report = rig.json("repair", *places)
    assert report["lost"] == [lost] and report["verified"], report
    down, up = rig.proxy.total("down", "GET"), rig.proxy.counts(lost).up["PUT"]
    up += rig.proxy.counts(lost).up["POST"]
    ratio = down / report["bytes_written"]
    gets = rig.proxy.total("requests", "GET")
    print(f"files: {gets} GETs, {down} bytes down, {up} up: {ratio:.3f} per lost byte", flush=True)
    return ratio


def files(rig):
    """A file in 14 places loses a shard; what its repair downloads is what the code says."""
    buckets = rig.buckets("files", NODES)
    places = [rig.place(at, bucket, "x/y") for at, bucket in enumerate(buckets)]
    data = rig.write("in.bin", 30_000_000, 1)
    outputs = [word for place in places for word in ("-o", place)]
    rig.run("encode", "in.bin", "--code", "clay:10+4,order=gray", *outputs)
    assert rig.json("verify", *places)["clean"]
    ratio = repaired(rig, buckets, places)
    if ratio > MOST:
        # Seen once, beside everything else that CI runs (a load of 47): whoever gets no answer asks
        # again, or somebody else. A repair that downloads too much does so twice.
        print("files: once more, in case that an endpoint had no processor for too long")
        ratio = repaired(rig, buckets, places)
    assert 3.25 <= ratio <= MOST, ratio
    rig.run("decode", *places, "-o", "out.bin")
    assert rig.read("out.bin") == data
    # Without one endpoint it is read all the same, and nothing is written where no bucket is.
    gone = [rig.place(0, "no-such-bucket", "x"), *places[1:]]
    rig.run("decode", *gone, "-o", "again.bin", "--force")
    assert rig.read("again.bin") == data
    try:
        rig.run("encode", "in.bin", "--code", "rs:2+1", "--name", "other",
                *[word for place in gone[:3] for word in ("-o", place)])
        raise SystemExit("an encode into a missing bucket succeeded")
    except Failed as error:
        assert "no such bucket" in str(error), error
    found = keys(f"http://127.0.0.1:{rig.server.port}", buckets[1])
    # A holder that had no processor for so long that others may have its lock leaves it there.
    found = [name for name in found if name != "x/y/.kiln-lock"]
    assert found == ["x/y/in.bin.01.kiln"], found


def pool(rig):
    """A pool loses a bucket and gets another."""
    buckets = rig.buckets("pool", NODES)
    nodes = [f"--node={rig.place(at, bucket, 'p')},id=n{at}" for at, bucket in enumerate(buckets)]
    rig.run("pool", "create", "--code", "clay:10+4", *nodes)
    names = {f"folder/{at}": size for at, size in enumerate((10, 3_000, 400_000, 9_000_000))}
    data = {}
    for name, size in names.items():
        data[name] = rig.write("object", size, size)
        rig.run("put", "object", name)
    assert [row.split()[-1] for row in rig.run("ls").splitlines() if "folder" in row]
    # Somebody empties a bucket.
    empty(f"http://127.0.0.1:{rig.server.port}", buckets[5])
    for name, expected in data.items():
        rig.run("get", name, "-o", "out", "--force")
        assert rig.read("out") == expected, name
    bucket = rig.buckets("spare", 1)[0]
    rig.run("pool", "add-node", "n5", rig.place(5, bucket, "p"), "--replace")
    rig.proxy.clear()
    report = rig.json("repair")
    down = rig.proxy.total("down", "GET")
    print(f"pool: {rig.proxy.total('requests', 'GET')} GETs, {down} bytes down: {report}"[:300])
    scrub = rig.json("scrub")
    assert scrub["clean"], scrub
    for name, expected in data.items():
        rig.run("get", name, "-o", "out", "--force")
        assert rig.read("out") == expected, name
    rig.run("rm", "folder/0")
    assert "folder/0" not in rig.run("ls")


class Served:
    """Agents beside buckets, a folder for parts each."""

    def __init__(self, rig):
        self.rig, self.running, self.address = rig, {}, {}

    def start(self, at, bucket, parts=None):
        """Starts one, and gives its address."""
        command = [self.rig.kiln, "agent", "--plain", "--listen", "127.0.0.1:0", "--name", f"d{at}",
                   "--dir", self.rig.place(at, bucket, "p"), "--parts",
                   self.rig.path(parts or f"parts-{bucket}")]
        with open(self.rig.path(f"agent-{bucket}.log"), "w", encoding="utf-8") as log:
            agent = subprocess.Popen(command, env=self.rig.environment, stdout=subprocess.PIPE,
                                     stderr=log, text=True)
        said = agent.stdout.readline()
        if not said.startswith("serving "):
            agent.wait()
            agent.stdout.close()
            with open(log.name, encoding="utf-8") as log:
                raise Failed(log.read())
        self.running[at], self.address[at] = agent, said.split()[1]
        return self.address[at]

    def end(self, at, signal):
        agent = self.running.pop(at)
        agent.send_signal(signal)
        agent.wait()
        agent.stdout.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for at in list(self.running):
            self.end(at, signal.SIGTERM)


def agents(rig):
    """Agents read what a repair needs beside their buckets; the coordinator downloads nothing."""
    buckets = rig.buckets("served", NODES)
    server = f"http://127.0.0.1:{rig.server.port}"
    lost = 5
    with Served(rig) as served:
        nodes = [f"--node={served.start(at, bucket)},id=n{at}"
                 for at, bucket in enumerate(buckets)]
        pool = ("--pool", "served.toml")
        rig.run("pool", "create", "served.toml", "--code", "clay:10+4", *nodes)
        data = {}
        for name, size in (("small", 2_000), ("large", 20_000_000)):
            data[name] = rig.write("object", size, size)
            rig.run("put", "object", name, *pool)
        assert all("p/.kiln-agent" in keys(server, bucket) for bucket in buckets)
        # Who would write past an agent is refused; reading does no harm.
        direct = [rig.place(at, bucket, "p") for at, bucket in enumerate(buckets[:3])]
        outputs = [word for place in direct for word in ("-o", place)]
        try:
            rig.run("encode", "object", "--code", "rs:2+1", *outputs)
            raise SystemExit("an encode wrote beside an agent")
        except Failed as error:
            assert "served by" in str(error) and "kiln://HOST" in str(error), error
        # A bucket and its agent are gone; another one takes their place.
        served.end(lost, signal.SIGKILL)
        empty(server, buckets[lost])
        spare = rig.buckets("served-spare", 1)[0]
        rig.run("pool", "add-node", f"n{lost}", served.start(lost, spare), "--replace", *pool)
        rig.proxy.clear()
        report = rig.json("coordinator", *pool, "--strategy", "hub")
        down = rig.proxy.total("down", "GET")
        rebuilt, sent = report["bytes_rebuilt"], report["bytes_sent"]
        print(f"agents: {down} bytes down, {sent} between agents, {rebuilt} rebuilt")
        assert report["repaired"] >= 1 and not report["failed"], report
        assert 3.25 <= down / rebuilt <= 3.8 and sent / rebuilt <= 5, report
        assert rig.json("scrub", *pool)["clean"]
        for name, expected in data.items():
            rig.run("get", name, "-o", "out", "--force", *pool)
            assert rig.read("out") == expected, name
        # One that was killed goes on with its folder, and nobody else without a word.
        served.end(0, signal.SIGKILL)
        try:
            served.start(0, buckets[0], "elsewhere")
            raise SystemExit("two agents serve one bucket")
        except Failed as error:
            assert "--take-over" in str(error), error
        served.start(0, buckets[0])
    kept = [bucket for bucket in buckets if "p/.kiln-agent" in keys(server, bucket)]
    assert kept == [], kept


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder")
    parser.add_argument("--kiln", required=True)
    options = parser.parse_args()
    shutil.rmtree(options.folder, ignore_errors=True)
    os.makedirs(options.folder)
    try:
        with Moto(os.path.join(options.folder, "..", "moto")) as server:
            proxy = Proxy([("127.0.0.1", server.port)] * NODES)
            rig = Rig(options.kiln, options.folder, server, proxy)
            files(rig)
            pool(rig)
            agents(rig)
            proxy.close()
    except Unable as why:
        print(f"SKIPPED: {why}")
        sys.exit(3)
    print("s3: all is well")


if __name__ == "__main__":
    main()
