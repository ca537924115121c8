"""Files and a pool in 14 buckets at 14 endpoints, with a bucket lost and everything counted.

    s3_test.py FOLDER --kiln PROGRAM

Exit code 3: there is no S3 server to be had here, which is said.
"""

import argparse
import os
import shutil
import sys

from proxy import Proxy
from rig import Rig
from pool_work import Failed  # rig knows where it is
from servers import Moto, Unable, empty, keys

NODES = 14


def files(rig):
    """A file in 14 places loses a shard; what its repair downloads is what the code says."""
    buckets = rig.buckets("files", NODES)
    places = [rig.place(at, bucket, "x/y") for at, bucket in enumerate(buckets)]
    data = rig.write("in.bin", 30_000_000, 1)
    outputs = [word for place in places for word in ("-o", place)]
    rig.run("encode", "in.bin", "--code", "clay:10+4,order=gray", *outputs)
    assert rig.json("verify", *places)["clean"]
    lost = 11
    rig.delete(lost, f"{buckets[lost]}/x/y/in.bin.{lost:02}.kiln")
    rig.proxy.clear()
    report = rig.json("repair", *places)
    assert report["lost"] == [lost] and report["verified"], report
    down, up = rig.proxy.total("down", "GET"), rig.proxy.counts(lost).up["PUT"]
    up += rig.proxy.counts(lost).up["POST"]
    ratio = down / report["bytes_written"]
    gets = rig.proxy.total("requests", "GET")
    print(f"files: {gets} GETs, {down} bytes down, {up} up: {ratio:.3f} per lost byte")
    assert 3.25 <= ratio <= 3.4, ratio
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
            proxy.close()
    except Unable as why:
        print(f"SKIPPED: {why}")
        sys.exit(3)
    print("s3: all is well")


if __name__ == "__main__":
    main()
