#!/usr/bin/env python3
"""Buckets of a pool, as boto3 uses them: nodes lost and healed, races, and the server killed.

    buckets_test.py FOLDER --kiln PROGRAM

FOLDER is made, and emptied before. Exit code 3: boto3 is not to be had here, which is said.
"""

import argparse
import hashlib
import io
import itertools
import json
import random
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from pathlib import Path

from lab.rig import s3 as servers
from system import bucket_register, bucket_versions

NODES = 7
LOST = 2
KILLS = 6
RACES = 30
COMPLETIONS = 12
REGISTER_KILLS = 20
MIB = 1 << 20


class Rig:
    """A pool of folders, its server, and a client of that."""

    def __init__(self, folder, kiln):
        self.folder, self.program, self.server, self.said = folder, kiln, None, ""
        self.port = servers.free_port()
        self.make()

    def make(self, *more):
        """Makes the pool, and a key."""
        nodes = [f"--node=d{at}" for at in range(NODES)]
        self.kiln("pool", "create", "-c", "rs:4+2", *more, *nodes)
        self.key = json.loads(self.kiln("s3", "key", "create", "test", "--owner", "*", "--json"))

    def kiln(self, *words):
        """Runs kiln in the pool's folder."""
        words = [str(self.program), "-q", *words]
        done = subprocess.run(words, cwd=self.folder, check=True, timeout=300, text=True,
                              stdout=subprocess.PIPE)
        return done.stdout

    def anew(self, *more):
        """Another pool in place of this one, served."""
        if self.server.poll() is None:
            self.end()
        for path in self.folder.glob("*"):
            if path.is_dir():
                shutil.rmtree(path)
            elif path.name.startswith("pool."):
                path.unlink()
        self.make(*more)
        self.start()

    def start(self):
        """Starts the server and waits until it serves."""
        self.server = self.serve(self.port)

    def serve(self, port, *more):
        """A server of the pool at a port."""
        words = [str(self.program), "-q", "serve", "s3", "--listen", f"127.0.0.1:{port}", *more]
        with open(self.folder / "server.log", "a", encoding="utf-8") as log:
            server = subprocess.Popen(words, cwd=self.folder, stdout=subprocess.PIPE,
                                      stderr=log, text=True)
        self.said = server.stdout.readline()
        if not self.said.startswith("serving http"):
            raise SystemExit(f"buckets_test: the server says {self.said!r}")
        return server

    def end(self, how=signal.SIGTERM):
        """Ends the server by a signal."""
        self.server.send_signal(how)
        code = self.server.wait(60)
        if how == signal.SIGTERM and code != 0:
            raise SystemExit(f"buckets_test: the server ended with {code}")

    def client(self, tries=5, port=None, key=None):
        """A client, which tries so many times, of this server or of one at another port."""
        import boto3
        from botocore.config import Config
        config = Config(retries={"total_max_attempts": tries}, read_timeout=60)
        key = key or self.key
        return boto3.client("s3", endpoint_url=f"http://127.0.0.1:{port or self.port}",
                            region_name="us-east-1", aws_access_key_id=key["id"],
                            aws_secret_access_key=key["secret"], config=config)


def read_all(client, known, state):
    """Every object is what was put, and nothing else is listed."""
    pages = client.get_paginator("list_objects_v2").paginate(Bucket="photos")
    listed = [entry["Key"] for page in pages for entry in page.get("Contents", [])]
    assert sorted(listed) == sorted(known), (state, set(listed) ^ set(known))
    for key, digest in known.items():
        body = client.get_object(Bucket="photos", Key=key)["Body"].read()
        assert hashlib.sha256(body).hexdigest() == digest, (state, key, len(body))


def heal(rig, client):
    """A node's disk is lost: puts and reads go on; it is replaced and repaired."""
    chance = random.Random(1)
    client.create_bucket(Bucket="photos")
    known = {}

    def put(key, size):
        data = chance.randbytes(size)
        client.upload_fileobj(io.BytesIO(data), "photos", key)
        known[key] = hashlib.sha256(data).hexdigest()

    for size in (0, 1, 3000, 40_000, MIB, 20 * MIB):
        put(f"a/{size}", size)
    shutil.rmtree(rig.folder / "d3")
    read_all(client, known, "one away")
    for size in (10, 50_000, 9 * MIB):
        put(f"b b/{size}", size)
    read_all(client, known, "put while one is away")
    (rig.folder / "d3").mkdir()
    rig.kiln("pool", "add-node", "n03", "--replace")
    rig.kiln("repair")
    return known


def any_lost(rig, known):
    """Whole means: any m nodes may vanish now."""
    sets = list(itertools.combinations(range(NODES), LOST))
    for lost in sets:
        for at in lost:
            (rig.folder / f"d{at}").rename(rig.folder / f"away{at}")
        rig.start()
        read_all(rig.client(), known, lost)
        rig.end()
        for at in lost:
            (rig.folder / f"away{at}").rename(rig.folder / f"d{at}")
    print(f"buckets: all of {len(sets)} sets of {LOST} nodes away: all is read", flush=True)


def put_on(client, name, known, doubtful, stop):
    """Puts objects, some in parts, until told to stop; notes those that were acknowledged."""
    from botocore.exceptions import BotoCoreError, ClientError
    chance = random.Random(name)
    for number in itertools.count():
        if stop.is_set():
            return
        key = f"{name}/{number % 5}"
        data = chance.randbytes(chance.choice([100, 60_000, 6 * MIB]))
        digest = hashlib.sha256(data).hexdigest()
        doubtful.setdefault(key, set()).add(digest)
        try:
            if len(data) > 5 * MIB:
                put_parts(client, key, data)
            else:
                client.put_object(Bucket="kills", Key=key, Body=data)
        except (BotoCoreError, ClientError):
            return
        known[key], doubtful[key] = digest, set()


def put_parts(client, key, data):
    """An upload of two parts."""
    upload = client.create_multipart_upload(Bucket="kills", Key=key)["UploadId"]
    parts = []
    for number, piece in enumerate((data[:5 * MIB], data[5 * MIB:]), 1):
        part = client.upload_part(Bucket="kills", Key=key, UploadId=upload, PartNumber=number,
                                  Body=piece)
        parts.append({"PartNumber": number, "ETag": part["ETag"]})
    client.complete_multipart_upload(Bucket="kills", Key=key, UploadId=upload,
                                     MultipartUpload={"Parts": parts})


def kills(rig):
    """The server is killed in the middle of puts: each object is an old or a new one, whole."""
    rig.start()
    rig.client().create_bucket(Bucket="kills")
    known, doubtful, chance, whole = {}, {}, random.Random(2), 0
    for _ in range(KILLS):
        stop = threading.Event()
        threads = [threading.Thread(target=put_on, args=(
            rig.client(1), f"t{at}", known, doubtful, stop)) for at in range(3)]
        for thread in threads:
            thread.start()
        time.sleep(chance.uniform(0.3, 1.5))
        rig.end(signal.SIGKILL)
        stop.set()
        for thread in threads:
            thread.join()
        rig.start()
        client = rig.client()
        listed = client.list_objects_v2(Bucket="kills").get("Contents", [])
        found = {entry["Key"]: entry["Size"] for entry in listed}
        assert set(known) <= set(found), set(known) - set(found)
        for key, size in found.items():
            body = client.get_object(Bucket="kills", Key=key)["Body"].read()
            digest = hashlib.sha256(body).hexdigest()
            assert len(body) == size, (key, len(body), size)
            assert digest == known.get(key) or digest in doubtful.get(key, ()), key
            known[key], doubtful[key] = digest, set()
            whole += 1
    rig.end()
    print(f"buckets: {KILLS} kills, {whole} objects looked at: each is whole", flush=True)


def code_of(call):
    """The status of a call: 200, or what its error says."""
    from botocore.exceptions import ClientError
    try:
        call()
        return 200
    except ClientError as error:
        return error.response["ResponseMetadata"]["HTTPStatusCode"]


def at_once(calls):
    """What calls return that are made at the same time."""
    found = [None] * len(calls)

    def run(at):
        found[at] = calls[at]()

    threads = [threading.Thread(target=run, args=(at,)) for at in range(len(calls))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found


def races(rig):
    """Of several puts that create an object one succeeds; no change by If-Match is lost."""
    rig.start()
    other = servers.free_port()
    second = rig.serve(other)
    try:
        clients = [rig.client(1, port) for port in (rig.port, other) for _ in range(3)]
        clients[0].create_bucket(Bucket="races")
        for turn in range(RACES):
            key = f"new/{turn}"
            codes = at_once([lambda at=at: code_of(lambda: clients[at].put_object(
                Bucket="races", Key=key, Body=f"{at}".encode() * 9000, IfNoneMatch="*"))
                for at in range(len(clients))])
            assert sorted(codes)[0] == 200 and codes.count(200) == 1, codes
            assert set(codes) <= {200, 409, 412}, codes
            body = clients[-1].get_object(Bucket="races", Key=key)["Body"].read()
            assert body == f"{codes.index(200)}".encode() * 9000, (turn, codes)

        clients[0].put_object(Bucket="races", Key="count", Body=b"0")

        def count(client):
            done = 0
            for _ in range(RACES):
                seen = client.get_object(Bucket="races", Key="count")
                more = str(int(seen["Body"].read()) + 1).encode()
                done += code_of(lambda: client.put_object(
                    Bucket="races", Key="count", Body=more, IfMatch=seen["ETag"])) == 200
            return done

        done = sum(at_once([lambda client=client: count(client) for client in clients]))
        total = int(clients[0].get_object(Bucket="races", Key="count")["Body"].read())
        assert 0 < done == total, (done, total)
        rights(rig, clients[0])
    finally:
        second.terminate()
        second.wait(60)
    rig.end()
    print(f"buckets: {RACES} races by two servers, {done} changes by If-Match: none lost",
          flush=True)


def completions(rig):
    """One upload is completed with other parts, completed again and aborted, all at once, by two
    servers: what is there is what one of them named, whole, and each that was acknowledged had
    named just that."""
    rig.start()
    other = servers.free_port()
    second = rig.serve(other)
    try:
        clients = [rig.client(1, port) for port in (rig.port, other) for _ in range(2)]
        clients[0].create_bucket(Bucket="ends")
        for turn in range(COMPLETIONS):
            place = {"Bucket": "ends", "Key": f"k{turn}"}
            place["UploadId"] = clients[0].create_multipart_upload(**place)["UploadId"]
            bodies = [bytes([turn, number]) * (5 << 20) for number in (1, 2)]
            parts = [{"PartNumber": number, "ETag": clients[0].upload_part(
                **place, PartNumber=number, Body=body)["ETag"]}
                for number, body in enumerate(bodies, 1)]
            choices = [parts, parts[:1], parts[1:], parts]
            calls = [lambda at=at: clients[at].complete_multipart_upload(
                **place, MultipartUpload={"Parts": choices[at]}) for at in range(4)]
            if turn % 2:
                calls.append(lambda: clients[0].abort_multipart_upload(**place))
            codes = at_once([lambda call=call: code_of(call) for call in calls])
            wholes = [b"".join(bodies), *bodies]
            key = {"Bucket": "ends", "Key": place["Key"]}
            there = code_of(lambda: clients[1].head_object(**key)) == 200
            assert there == (200 in codes[:4]), codes
            if there:
                found = clients[1].get_object(**key)["Body"].read()
                named = [wholes[at] for at in (0, 1, 2, 0)]
                assert found in wholes, codes
                assert all(named[at] == found for at in range(4) if codes[at] == 200), codes
            left = clients[0].list_multipart_uploads(Bucket="ends").get("Uploads", [])
            assert not left or not there, (codes, left)
    finally:
        second.terminate()
        second.wait(60)
    rig.end()
    print(f"buckets: {COMPLETIONS} uploads completed by many at once: each is whole", flush=True)


def sweep(rig):
    """Data that no object names goes after a day, and nothing else."""
    if shutil.which("faketime") is None:
        print("buckets: SKIPPED: sweep of old data: faketime is not to be had here", flush=True)
        return
    rig.start()
    client, known = rig.client(), {}
    for page in client.get_paginator("list_objects_v2").paginate(Bucket="kills"):
        for entry in page.get("Contents", []):
            body = client.get_object(Bucket="kills", Key=entry["Key"])["Body"].read()
            known[entry["Key"]] = hashlib.sha256(body).hexdigest()
    upload = client.create_multipart_upload(Bucket="kills", Key="open")["UploadId"]
    part = {"Bucket": "kills", "Key": "open", "UploadId": upload, "PartNumber": 1}
    etag = client.upload_part(**part, Body=b"x" * 100_000)["ETag"]
    # One that is open when its bucket goes.
    client.create_bucket(Bucket="gone")
    left = client.create_multipart_upload(Bucket="gone", Key="left")["UploadId"]
    client.upload_part(Bucket="gone", Key="left", UploadId=left, PartNumber=1, Body=b"y" * 100_000)
    client.delete_bucket(Bucket="gone")
    rig.end()
    names = lambda: set(rig.kiln("ls", ".s3/d/").split())
    before = names()
    assert any("/left/" in name for name in before)
    assert json.loads(rig.kiln("s3", "sweep", "--json")) == {"expired": 0, "removed": 0}
    assert names() == before
    words = ["faketime", "-f", "+2d", str(rig.program), "-q", "s3", "sweep", "--json"]
    done = subprocess.run(words, cwd=rig.folder, check=True, timeout=300, text=True,
                          stdout=subprocess.PIPE)
    removed = json.loads(done.stdout)["removed"]
    assert removed >= len(before - names()), removed
    assert not any("/left/" in name for name in names())
    rig.start()
    client = rig.client()
    parts = {"Parts": [{"PartNumber": 1, "ETag": etag}]}
    client.complete_multipart_upload(Bucket="kills", Key="open", UploadId=upload,
                                     MultipartUpload=parts)
    known["open"] = hashlib.sha256(b"x" * 100_000).hexdigest()
    for key, digest in known.items():
        body = client.get_object(Bucket="kills", Key=key)["Body"].read()
        assert hashlib.sha256(body).hexdigest() == digest, key
    rig.end()
    print(f"buckets: {removed} of {len(before)} pieces of data were of no object, and went",
          flush=True)


def status(url, context=None):
    """What an address answers to a request without a signature."""
    try:
        with urllib.request.urlopen(url, timeout=60, context=context) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        return error.code, error.read()


def operated(rig):
    """Public buckets, owners, TLS with a certificate that is renewed, metrics, the log."""
    rig.start()
    url, client = f"http://127.0.0.1:{rig.port}", rig.client()
    client.create_bucket(Bucket="web")
    client.put_object(Bucket="web", Key="a b/x", Body=b"hello", Tagging="a=b")
    assert client.get_object_tagging(Bucket="web", Key="a b/x")["TagSet"] == [
        {"Key": "a", "Value": "b"}]
    read = f"{url}/web/a%20b/x"
    assert status(read)[0] == 403 and status(f"{url}/web")[0] == 403
    rig.kiln("s3", "bucket", "public", "web")
    assert status(read) == (200, b"hello") and status(f"{url}/web?list-type=2")[0] == 403
    rig.kiln("s3", "bucket", "public", "web", "--list")
    assert status(f"{url}/web?list-type=2")[0] == 200 and status(f"{url}/kills")[0] == 404
    request = urllib.request.Request(read, data=b"x", method="PUT")
    assert status(request)[0] == 403 and status(f"{url}/web?tagging")[0] == 403
    client.delete_bucket_policy(Bucket="web")
    assert status(read)[0] == 403
    keys = [json.loads(rig.kiln("s3", "key", "create", name, "--create", "--json"))
            for name in "ab"]
    mine, other = (rig.client(1, key=key) for key in keys)
    mine.create_bucket(Bucket="mine")
    assert code_of(lambda: mine.put_object(Bucket="mine", Key="k", Body=b"")) == 200
    assert code_of(lambda: other.get_object(Bucket="mine", Key="k")) == 403
    assert code_of(lambda: mine.list_objects_v2(Bucket="web")) == 403
    assert [bucket["Name"] for bucket in mine.list_buckets()["Buckets"]] == ["mine"]
    rig.end()
    log = (rig.folder / "server.log").read_text()
    assert keys[0]["id"] in log and not any(key["secret"] in log for key in keys)

    def certificate():
        subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2",
                        "-keyout", "s3.key", "-out", "s3.pem", "-subj", "/CN=localhost",
                        "-addext", "subjectAltName=IP:127.0.0.1"], cwd=rig.folder, check=True,
                       capture_output=True)
        return ssl.create_default_context(cafile=str(rig.folder / "s3.pem"))

    first = certificate()
    server = rig.serve(rig.port, "--tls-certificate", "s3.pem", "--tls-key", "s3.key",
                       "--metrics", "127.0.0.1:0")
    try:
        assert status(f"https://127.0.0.1:{rig.port}/web", first)[0] == 403
        second = certificate()
        server.send_signal(signal.SIGHUP)
        time.sleep(1)
        assert status(f"https://127.0.0.1:{rig.port}/web", second)[0] == 403
        metrics = rig.said.rsplit(" ", 1)[1].strip()
        text = status(f"{metrics}/metrics")[1].decode()
        assert 'kiln_s3_requests_total{pool="pool",status="4xx"} 2' in text, text
        assert status(f"{metrics}/health")[0] == 200
    finally:
        server.terminate()
        assert server.wait(60) == 0
    print("buckets: public, owned, encrypted, counted", flush=True)


def rights(rig, owner):
    """A key does what it may, until it is revoked; a wrong digest or secret leaves nothing."""
    key = json.loads(rig.kiln("s3", "key", "create", "reader", "--read", "races", "--json"))
    reader = rig.client(1, key=key)
    body = {"Bucket": "races", "Key": "stolen", "Body": b"x"}
    read = lambda: reader.get_object(Bucket="races", Key="count")["Body"].read()
    assert code_of(read) == 200 and code_of(lambda: reader.put_object(**body)) == 403
    false = rig.client(1, key={"id": key["id"], "secret": "no" * 20})
    assert code_of(lambda: false.get_object(Bucket="races", Key="count")) == 403
    assert code_of(lambda: owner.put_object(**body, ContentMD5="1B2M2Y8AsgTpgAmY7PhCfg==")) == 400
    assert code_of(lambda: owner.head_object(Bucket="races", Key="stolen")) == 404
    rig.kiln("s3", "key", "revoke", key["id"])
    time.sleep(2.5)
    assert code_of(read) == 403


def versions(rig):
    """Versions, with two servers at once and with a server that is killed."""
    rig.start()
    other = servers.free_port()
    second = rig.serve(other)
    try:
        bucket_versions.semantics(rig)
        bucket_versions.races(rig, other)
        bucket_versions.completed_and_deleted(rig, other)
        bucket_versions.locks(rig, other)
    finally:
        second.terminate()
        second.wait(60)
    bucket_versions.lifecycles(rig)
    bucket_versions.other_origins(rig)
    bucket_versions.kills(rig)
    rig.end()


def encrypted(rig):
    """An encrypted pool: ranges, parts and copies are what was put, also while a node is away and
    after it was healed; nothing of them is on the disks in clear."""
    rig.anew("--encrypted")
    client, chance, mark = rig.client(), random.Random(3), b"found in clear "
    client.create_bucket(Bucket="secret")
    long = mark * (6 * MIB // len(mark))
    bodies = {"small": mark * 100, "middle": long[:300_001], "long": long, "none": b""}
    for key, body in bodies.items():
        client.put_object(Bucket="secret", Key=key, Body=body)
    place = {"Bucket": "secret", "Key": "parts"}
    place["UploadId"] = client.create_multipart_upload(**place)["UploadId"]
    source = {"Bucket": "secret", "Key": "long"}
    etags = [client.upload_part(**place, PartNumber=1, Body=long[7:])["ETag"],
             client.upload_part_copy(**place, PartNumber=2, CopySource=source, CopySourceRange=(
                 f"bytes=100001-{5 * MIB + 200_000}"))["CopyPartResult"]["ETag"],
             client.upload_part(**place, PartNumber=3, Body=mark)["ETag"]]
    client.complete_multipart_upload(**place, MultipartUpload={"Parts": [
        {"PartNumber": number, "ETag": etag} for number, etag in enumerate(etags, 1)]})
    bodies["parts"] = long[7:] + long[100_001:5 * MIB + 200_001] + mark
    client.copy_object(Bucket="secret", Key="copy", CopySource={**source, "Key": "parts"})
    bodies["copy"] = bodies["parts"]

    def looked(state):
        for key, body in bodies.items():
            read = {"Bucket": "secret", "Key": key}
            assert client.get_object(**read)["Body"].read() == body, (state, key)
            for _ in range(10 if body else 0):
                first = chance.randrange(len(body))
                last = min(len(body) - 1, first + chance.choice([0, 100, 16_384, 2 * MIB]))
                piece = client.get_object(**read, Range=f"bytes={first}-{last}")["Body"].read()
                assert piece == body[first:last + 1], (state, key, first, last)
        files = [path for path in rig.folder.glob("d*/**/*") if path.is_file()]
        assert len(files) > 10 and not any(mark in path.read_bytes() for path in files), state

    looked("all there")
    known = heal(rig, client)
    looked("healed")
    shutil.rmtree(rig.folder / "d1")
    looked("one away")
    (rig.folder / "d1").mkdir()
    rig.kiln("pool", "add-node", "n01", "--replace")
    rig.kiln("repair")
    rig.end()
    any_lost(rig, known)
    print(f"buckets: encrypted: {len(bodies)} objects and ranges of them are read", flush=True)


def crowded(rig):
    """Connections without a request, begun or kept alive, keep no client out."""
    server, idle = rig.serve(rig.port, "--connections", "8"), []
    try:
        for at in range(8):
            idle.append(socket.create_connection(("127.0.0.1", rig.port)))
            idle[-1].sendall(b"GET /none" + b" HTTP/1.1\r\nHost: x\r\n\r\n" * (at % 2))
        begun = time.monotonic()
        rig.client().list_buckets()
        took = time.monotonic() - begun
        assert took < 30, f"waited for {took:.0f} s"
    finally:
        for one in idle:
            one.close()
        server.terminate()
        server.wait(60)
    print("idle connections make room", flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--kiln", type=Path, required=True)
    args = parser.parse_args()
    shutil.rmtree(args.folder, ignore_errors=True)
    args.folder.mkdir(parents=True)
    try:
        # moto brings boto3, and is here for other tests.
        extra = servers.install(str(args.folder.parent / "moto"))
    except servers.Unable as error:
        print(f"skipped: {error}")
        return 3
    if extra:
        sys.path.insert(0, extra)
    rig = Rig(args.folder, args.kiln.resolve())
    rig.start()
    try:
        known = heal(rig, rig.client())
        rig.end()
        any_lost(rig, known)
        races(rig)
        operated(rig)
        crowded(rig)
        completions(rig)
        bucket_register.register(rig, REGISTER_KILLS)
        kills(rig)
        sweep(rig)
        versions(rig)
        encrypted(rig)
    finally:
        if rig.server.poll() is None:
            rig.server.kill()
    return 0


if __name__ == "__main__":
    sys.exit(main())
