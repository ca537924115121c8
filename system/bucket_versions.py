"""Versions of objects in buckets, as boto3 uses them: part of buckets_test.py."""

import hashlib
import json
import random
import shutil
import signal
import subprocess
import threading
import time

MIB = 1 << 20
TURNS = 60
KILLS = 6


def status_of(call):
    """The status of a call that fails, and its code; 200 and what it returns, else."""
    from botocore.exceptions import ClientError
    try:
        return 200, call()
    except ClientError as error:
        return error.response["ResponseMetadata"]["HTTPStatusCode"], error.response["Error"]["Code"]


def enabled(client, bucket, status="Enabled"):
    client.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": status})


def listed(client, bucket, **more):
    """All versions and markers of a bucket, in pages of three: (key, id, latest, size)."""
    pages = client.get_paginator("list_object_versions").paginate(
        Bucket=bucket, PaginationConfig={"PageSize": 3}, **more)
    found = []
    for page in pages:
        entries = page.get("Versions", []) + page.get("DeleteMarkers", [])
        assert len(entries) <= 3
        found += [(one["Key"], one["VersionId"], one["IsLatest"], one.get("Size"))
                  for one in entries]
    assert len(set(found)) == len(found), found
    return found


def semantics(rig):
    """Versions, markers, the null version, pages, tags, copies."""
    client = rig.client()
    client.create_bucket(Bucket="past")
    get = lambda key, **more: client.get_object(Bucket="past", Key=key, **more)["Body"].read()
    put = lambda key, body: client.put_object(Bucket="past", Key=key, Body=body)
    delete = lambda key, **more: client.delete_object(Bucket="past", Key=key, **more)
    assert "VersionId" not in put("a/x", b"null one")
    enabled(client, "past")
    big = random.Random(3).randbytes(3 * MIB)
    first = put("a/x", big)["VersionId"]
    second = put("a/x", b"second")["VersionId"]
    assert get("a/x") == b"second" and get("a/x", VersionId=first) == big
    assert get("a/x", VersionId="null") == b"null one"
    marker = delete("a/x")
    assert marker["DeleteMarker"] and marker["VersionId"] not in (first, second)
    assert status_of(lambda: get("a/x")) == (404, "NoSuchKey")
    assert status_of(lambda: get("a/x", VersionId=marker["VersionId"])) == (405, "MethodNotAllowed")
    assert status_of(lambda: get("a/x", VersionId="0" * 32)) == (404, "NoSuchVersion")
    assert status_of(lambda: get("a/x", VersionId="no")) == (400, "InvalidArgument")
    listing = client.list_objects_v2(Bucket="past", Delimiter="/")
    assert "CommonPrefixes" not in listing and listing["KeyCount"] == 0, listing
    ids = [one[1] for one in listed(client, "past")]
    assert ids == [second, first, "null", marker["VersionId"]] or set(ids) == {
        second, first, "null", marker["VersionId"]}, ids
    # A new object over the marker: only with If-None-Match, not with If-Match.
    answer = status_of(lambda: client.put_object(Bucket="past", Key="a/x", Body=b"", IfMatch="*"))
    assert answer[0] == 404, answer
    third = client.put_object(Bucket="past", Key="a/x", Body=b"3", IfNoneMatch="*")["VersionId"]
    assert delete("a/x", VersionId=third)["VersionId"] == third
    assert status_of(lambda: get("a/x"))[0] == 404
    assert delete("a/x", VersionId=marker["VersionId"])["DeleteMarker"]
    assert get("a/x") == b"second"
    # Tags of one version, and copies of one.
    place = {"Bucket": "past", "Key": "a/x"}
    tags = {"TagSet": [{"Key": "k", "Value": "v"}]}
    client.put_object_tagging(**place, VersionId=first, Tagging=tags)
    assert client.get_object_tagging(**place)["TagSet"] == []
    assert client.get_object_tagging(**place, VersionId=first)["TagSet"] == tags["TagSet"]
    copied = client.copy_object(**place, CopySource={**place, "VersionId": first})
    assert copied["CopySourceVersionId"] == first and get("a/x") == big
    assert get("a/x", VersionId=copied["VersionId"]) == big
    assert delete("a/x", VersionId=first)["VersionId"] == first and get("a/x") == big
    # Suspended: the null version is replaced, others stay.
    enabled(client, "past", "Suspended")
    assert "VersionId" not in put("a/x", b"n2") and get("a/x") == b"n2"
    put("a/x", b"n3")
    assert [one[1] for one in listed(client, "past")] == ["null", copied["VersionId"], second]
    assert delete("a/x")["VersionId"] == "null" and status_of(lambda: get("a/x"))[0] == 404
    delete("a/x", VersionId="null")
    assert get("a/x") == big
    assert status_of(lambda: client.delete_bucket(Bucket="past")) == (409, "BucketNotEmpty")
    many = [{"Key": "a/x", "VersionId": one} for one in (copied["VersionId"], second, second)]
    assert len(client.delete_objects(Bucket="past", Delete={"Objects": many})["Deleted"]) == 3
    assert listed(client, "past") == []
    client.delete_bucket(Bucket="past")
    print("buckets: versions, markers, null versions, tags and copies of versions", flush=True)


def put_parts(client, bucket, key, body):
    """An upload of one part."""
    place = {"Bucket": bucket, "Key": key}
    place["UploadId"] = client.create_multipart_upload(**place)["UploadId"]
    etag = client.upload_part(**place, PartNumber=1, Body=body)["ETag"]
    parts = {"Parts": [{"PartNumber": 1, "ETag": etag}]}
    return client.complete_multipart_upload(**place, MultipartUpload=parts)["VersionId"]


class Model:
    """What clients that work at once know of the versions of a bucket."""

    def __init__(self, bucket):
        self.bucket, self.lock = bucket, threading.Lock()
        # Of versions whether they are whole, of those that were to go whether they went.
        self.known, self.gone, self.doubtful, self.swapped = {}, set(), set(), 0

    def work(self, client, seed, turns, stop):
        """Puts, replaces by If-Match, marks and deletes versions of a few keys."""
        from botocore.exceptions import BotoCoreError, ClientError
        chance = random.Random(seed)
        for _ in range(turns):
            if stop.is_set():
                return
            try:
                self.step(client, chance)
            except ClientError as error:
                code = error.response["ResponseMetadata"]["HTTPStatusCode"]
                if code not in (404, 409, 412, 503):
                    raise
            except BotoCoreError:
                return

    def step(self, client, chance):
        key = f"k{chance.randrange(3)}"
        place = {"Bucket": self.bucket, "Key": key}
        body = chance.randbytes(chance.choice([10, 40_000, 100_000]))
        digest = hashlib.sha256(body).hexdigest()
        kind, marker = chance.randrange(8), False
        if kind < 3:
            made = client.put_object(**place, Body=body)["VersionId"]
        elif kind == 3:
            seen = client.head_object(**place)
            made = client.put_object(**place, Body=body, IfMatch=seen["ETag"])["VersionId"]
            with self.lock:
                self.swapped += 1
        elif kind == 4:
            made = put_parts(client, self.bucket, key, body)
        elif kind == 5:
            made, marker = client.delete_object(**place)["VersionId"], True
        else:
            with self.lock:
                mine = sorted(one for one in self.known
                              if one[0] == key and one not in self.doubtful)
                if not mine:
                    return
                one = chance.choice(mine[-4:])
                self.doubtful.add(one)
            client.delete_object(Bucket=self.bucket, Key=one[0], VersionId=one[1])
            with self.lock:
                self.known.pop(one, None)
                self.gone.add(one)
            return
        with self.lock:
            self.known[key, made] = None if marker else digest

    def look(self, client, state):
        """Every version that was acknowledged is listed and whole, and none that was removed."""
        found = listed(client, self.bucket)
        there = {(key, one) for key, one, *_ in found}
        sure = {one for one in self.known if one not in self.doubtful}
        assert sure <= there, (state, sure - there)
        assert not there & self.gone, (state, there & self.gone)
        for key in {one[0] for one in found}:
            assert sum(one[2] for one in found if one[0] == key) == 1, (state, key, found)
        for key, one, _, size in found:
            if size is None:
                assert self.known.get((key, one)) is None, (state, key, one)
                continue
            body = client.get_object(Bucket=self.bucket, Key=key, VersionId=one)["Body"].read()
            digest = self.known.get((key, one), hashlib.sha256(body).hexdigest())
            assert len(body) == size and hashlib.sha256(body).hexdigest() == digest, (state, one)
            self.known[key, one] = digest
        self.doubtful -= there
        return len(found)


def at_work(model, clients, seed, turns=TURNS):
    """Clients at work, and the event that ends them."""
    stop = threading.Event()
    threads = [threading.Thread(target=model.work, args=(client, f"{seed}-{at}", turns, stop))
               for at, client in enumerate(clients)]
    for thread in threads:
        thread.start()
    return threads, stop


def races(rig, port):
    """Two servers at once: versions that clients put, swap, mark and delete."""
    client, model = rig.client(), Model("past-races")
    client.create_bucket(Bucket=model.bucket)
    enabled(client, model.bucket)
    clients = [rig.client(1, where) for where in (rig.port, port) for _ in range(3)]
    threads, _ = at_work(model, clients, "race")
    for thread in threads:
        thread.join()
    count = model.look(client, "races")
    model.look(rig.client(port=port), "the other server")
    print(f"buckets: {len(clients) * TURNS} changes by two servers at once, {model.swapped} by "
          f"If-Match: {count} versions, each whole", flush=True)
    counts(rig, client, clients)


def counts(rig, client, clients):
    """Two writers who count by If-Match: every number is a version, and none is there twice."""
    key = {"Bucket": "past-races", "Key": "count"}
    client.put_object(**key, Body=b"0")

    def count(client):
        for _ in range(10):
            seen = client.get_object(**key)
            more = str(int(seen["Body"].read()) + 1).encode()
            status_of(lambda: client.put_object(**key, Body=more, IfMatch=seen["ETag"]))

    threads = [threading.Thread(target=count, args=(one,)) for one in clients]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    versions = client.list_object_versions(Bucket="past-races", Prefix="count")["Versions"]
    numbers = [int(client.get_object(**key, VersionId=one["VersionId"])["Body"].read())
               for one in versions]
    assert numbers == list(range(len(numbers) - 1, -1, -1)), numbers


def completed_and_deleted(rig, port):
    """An object is deleted while its upload is completed again: what is there is whole."""
    clients = [rig.client(1, where) for where in (rig.port, port) for _ in range(2)]
    for bucket, versions in (("twice", False), ("twice-past", True)):
        clients[0].create_bucket(Bucket=bucket)
        if versions:
            enabled(clients[0], bucket)
        for turn in range(8):
            place = {"Bucket": bucket, "Key": f"k{turn}"}
            upload = {**place, "UploadId": clients[0].create_multipart_upload(**place)["UploadId"]}
            etag = clients[0].upload_part(**upload, PartNumber=1, Body=b"x" * MIB)["ETag"]
            parts = {"MultipartUpload": {"Parts": [{"PartNumber": 1, "ETag": etag}]}}
            calls = [lambda one=one: one.complete_multipart_upload(**upload, **parts)
                     for one in clients[:3]] + [lambda: clients[3].delete_object(**place)] * 2
            random.Random(turn).shuffle(calls)
            threads = [threading.Thread(target=status_of, args=(call,)) for call in calls]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            code, answer = status_of(lambda: clients[1].get_object(**place))
            assert code == 404 or answer["Body"].read() == b"x" * MIB, (bucket, turn, code, answer)
            for key, one, _, size in listed(clients[2], bucket, Prefix=place["Key"]):
                if size is not None:
                    body = clients[0].get_object(Bucket=bucket, Key=key, VersionId=one)["Body"]
                    assert body.read() == b"x" * MIB
    print("buckets: objects deleted while they were completed again: none without data", flush=True)


def kills(rig):
    """The server is killed while versions are made and removed; a sweep takes none of them."""
    model = Model("past-kills")
    client = rig.client()
    client.create_bucket(Bucket=model.bucket)
    enabled(client, model.bucket)
    chance, looked = random.Random(5), 0
    for turn in range(KILLS):
        threads, stop = at_work(model, [rig.client(1) for _ in range(3)], f"kill{turn}", 1000)
        time.sleep(chance.uniform(0.5, 2))
        rig.end(signal.SIGKILL)
        stop.set()
        for thread in threads:
            thread.join()
        rig.start()
        looked += model.look(rig.client(), f"kill {turn}")
    if shutil.which("faketime"):
        words = ["faketime", "-f", "+2d", str(rig.program), "-q", "s3", "sweep", "--json"]
        done = subprocess.run(words, cwd=rig.folder, check=True, timeout=300, text=True,
                              stdout=subprocess.PIPE)
        looked += model.look(rig.client(), "swept")
        print(f"buckets: swept {json.loads(done.stdout)['removed']} pieces", flush=True)
    print(f"buckets: {KILLS} kills, {looked} versions looked at: each is whole", flush=True)
