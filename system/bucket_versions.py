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


def locks(rig, port):
    """Locked versions stay: by S3, by races of two servers, and by the commands of the pool."""
    import datetime
    client, bucket = rig.client(), "locked"
    client.create_bucket(Bucket=bucket, ObjectLockEnabledForBucket=True)
    soon = lambda days: (datetime.datetime.now(datetime.timezone.utc)
                         + datetime.timedelta(days=days))
    put = lambda key, **more: client.put_object(Bucket=bucket, Key=key, Body=key.encode() * 20_000,
                                                **more)["VersionId"]
    delete = lambda key, one, **more: status_of(lambda: client.delete_object(
        Bucket=bucket, Key=key, VersionId=one, **more))[0]
    refused = status_of(lambda: enabled(client, bucket, "Suspended"))
    assert refused == (409, "InvalidBucketState"), refused
    fixed = put("fixed", ObjectLockMode="COMPLIANCE", ObjectLockRetainUntilDate=soon(2))
    governed = put("governed", ObjectLockMode="GOVERNANCE", ObjectLockRetainUntilDate=soon(2))
    held = put("held", ObjectLockLegalHoldStatus="ON")
    writer = json.loads(rig.kiln("s3", "key", "create", "writer", "--write", bucket, "--json"))
    writer = rig.client(1, key=writer)
    for key, one in (("fixed", fixed), ("governed", governed), ("held", held)):
        assert delete(key, one) == 403, key
        # A put over it, and a deletion without an id, take nothing away.
        put(key)
        client.delete_object(Bucket=bucket, Key=key)
        assert delete(key, one) == 403, key
    assert delete("fixed", fixed, BypassGovernanceRetention=True) == 403
    place = {"Bucket": bucket, "Key": "governed", "VersionId": governed}
    assert status_of(lambda: writer.delete_object(
        **place, BypassGovernanceRetention=True))[0] == 403
    shorter = {"Mode": "COMPLIANCE", "RetainUntilDate": soon(1)}
    assert status_of(lambda: client.put_object_retention(
        Bucket=bucket, Key="fixed", VersionId=fixed, Retention=shorter,
        BypassGovernanceRetention=True))[0] == 403
    client.put_object_retention(Bucket=bucket, Key="fixed", VersionId=fixed, Retention={
        "Mode": "COMPLIANCE", "RetainUntilDate": soon(3)})
    # Of a hold and a deletion at once one is refused, or the deletion was first.
    other = rig.client(1, port)
    for turn in range(12):
        one, key = put(f"r{turn}"), f"r{turn}"
        if turn % 2:
            put(key)
        ends = [None, None]

        def hold(key=key, one=one, ends=ends):
            ends[0] = status_of(lambda: other.put_object_legal_hold(
                Bucket=bucket, Key=key, VersionId=one, LegalHold={"Status": "ON"}))[0]

        def drop(key=key, one=one, ends=ends):
            ends[1] = delete(key, one)

        threads = [threading.Thread(target=call) for call in (hold, drop)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        there = status_of(lambda: client.get_object(Bucket=bucket, Key=key, VersionId=one))[0]
        assert (ends[0] == 200) == (there == 200), (turn, ends, there)
    # The commands of the pool do not touch what buckets are made of.
    names = rig.kiln("ls", ".s3/").split()
    for words in (["rm", *[name for name in names if name.startswith(".s3/d/")][:2]],
                  ["mv", names[0], "elsewhere"]):
        done = subprocess.run([str(rig.program), *words], cwd=rig.folder, check=False, text=True,
                              capture_output=True, timeout=60)
        assert done.returncode != 0 and ".s3/" in done.stderr, (words, done)
    rig.kiln("pool", "prune")
    assert set(names) <= set(rig.kiln("ls", ".s3/").split())
    for key, one in (("fixed", fixed), ("governed", governed), ("held", held)):
        body = client.get_object(Bucket=bucket, Key=key, VersionId=one)["Body"].read()
        assert body == key.encode() * 20_000, key
    assert delete("governed", governed, BypassGovernanceRetention=True) == 200
    client.put_object_legal_hold(Bucket=bucket, Key="held", VersionId=held,
                                 LegalHold={"Status": "OFF"})
    assert delete("held", held) == 200
    client.put_object_lock_configuration(Bucket=bucket, ObjectLockConfiguration={
        "ObjectLockEnabled": "Enabled",
        "Rule": {"DefaultRetention": {"Mode": "GOVERNANCE", "Days": 1}}})
    refused = lambda **default: status_of(lambda: client.put_object_lock_configuration(
        Bucket=bucket, ObjectLockConfiguration={"ObjectLockEnabled": "Enabled", "Rule": {
            "DefaultRetention": default}}))[1]
    for default, code in (
            ({"Mode": "GOVERNANCE", "Days": 0}, "InvalidRetentionPeriod"),
            ({"Mode": "GOVERNANCE", "Days": 36_501}, "InvalidRetentionPeriod"),
            ({"Mode": "governance", "Days": 1}, "MalformedXML"),
            ({"Mode": "GOVERNANCE"}, "MalformedXML"),
            ({"Mode": "GOVERNANCE", "Days": 1, "Years": 1}, "MalformedXML")):
        assert refused(**default) == code, default
    # Retention grows only; an owner may end governance, but time alone compliance.
    for key, mode, new, days, bypass, code in (
            ("g", "GOVERNANCE", "GOVERNANCE", 2, False, 200),
            ("g", "GOVERNANCE", "GOVERNANCE", 3, False, 200),
            ("g", "GOVERNANCE", "GOVERNANCE", 1, False, 403),
            ("g", "GOVERNANCE", "COMPLIANCE", 3, False, 403),
            ("g", "GOVERNANCE", "COMPLIANCE", 1, True, 200),
            ("c", "COMPLIANCE", "COMPLIANCE", 3, False, 200),
            ("c", "COMPLIANCE", "COMPLIANCE", 1, True, 403),
            ("c", "COMPLIANCE", "GOVERNANCE", 3, True, 403)):
        now = soon(2)
        one = put(key, ObjectLockMode=mode, ObjectLockRetainUntilDate=now)
        until = now if days == 2 else soon(days)
        found = status_of(lambda: client.put_object_retention(
            Bucket=bucket, Key=key, VersionId=one, BypassGovernanceRetention=bypass,
            Retention={"Mode": new, "RetainUntilDate": until}))[0]
        assert found == code, (mode, new, days, bypass, found)
    one = put_parts(client, bucket, "parts", b"x" * MIB)
    assert client.head_object(Bucket=bucket, Key="parts")["ObjectLockMode"] == "GOVERNANCE"
    assert delete("parts", one) == 403
    print("buckets: locked versions stay; holds and deletions at once agree", flush=True)


def lifecycles(rig):
    """Objects, versions, markers and uploads expire by rule, and locked versions do not."""
    client, bucket = rig.client(), "aging"
    client.create_bucket(Bucket=bucket, ObjectLockEnabledForBucket=True)
    plain = "aging-plain"
    client.create_bucket(Bucket=plain)
    rules = [
        {"ID": "logs", "Status": "Enabled", "Prefix": "log/", "Expiration": {"Days": 3}},
        {"ID": "big", "Status": "Enabled", "Expiration": {"Days": 2}, "Filter": {"And": {
            "Prefix": "x/", "ObjectSizeGreaterThan": 99, "Tags": [{"Key": "t", "Value": "1"}]}}},
        {"ID": "old", "Status": "Enabled", "Filter": {}, "NoncurrentVersionExpiration": {
            "NoncurrentDays": 5, "NewerNoncurrentVersions": 1},
         "AbortIncompleteMultipartUpload": {"DaysAfterInitiation": 4}},
        {"ID": "ends", "Status": "Enabled", "Filter": {}, "Expiration": {
            "ExpiredObjectDeleteMarker": True}},
        {"ID": "off", "Status": "Disabled", "Filter": {}, "Expiration": {"Days": 1}}]
    for one in (bucket, plain):
        client.put_bucket_lifecycle_configuration(Bucket=one,
                                                  LifecycleConfiguration={"Rules": rules})
        for key, size, tags in (("log/a", 10, ""), ("x/big", 100_000, "t=1"), ("x/other", 100, ""),
                                ("x/small", 99, "t=1"), ("y", 10, "t=1")):
            client.put_object(Bucket=one, Key=key, Body=b"z" * size, Tagging=tags)
    assert 'rule-id="logs"' in client.head_object(Bucket=plain, Key="log/a")["Expiration"]
    ids = [client.put_object(Bucket=bucket, Key="v", Body=f"{at}".encode() * 9000)["VersionId"]
           for at in range(5)]
    client.put_object_legal_hold(Bucket=bucket, Key="v", VersionId=ids[1],
                                 LegalHold={"Status": "ON"})
    client.create_multipart_upload(Bucket=plain, Key="open")

    def swept(days):
        words = ["faketime", "-f", f"+{days}d", str(rig.program), "-q", "s3", "sweep", "--json"]
        done = subprocess.run(words, cwd=rig.folder, check=True, timeout=300, text=True,
                              stdout=subprocess.PIPE)
        return json.loads(done.stdout)["expired"]

    rule = {"ID": "a", "Status": "Enabled", "Filter": {}, "Expiration": {"Days": 1}}
    for wrong, code in (
            ([rule, rule], "InvalidArgument"), ([], "MalformedXML"),
            ([rule | {"ID": "a" * 256}], "InvalidArgument"),
            ([rule | {"Status": "enabled"}], "MalformedXML"),
            ([rule | {"Expiration": {"Days": 0}}], "InvalidArgument"),
            ([rule | {"Expiration": {"Date": "2017-09-27T01:00:00Z"}}], "MalformedXML"),
            ([rule | {"Expiration": {"Days": 1, "Date": "2017-09-27"}}], "MalformedXML"),
            ([{"ID": "a", "Status": "Enabled", "Filter": {}}], "MalformedXML"),
            ([rule | {"Transitions": [{"Days": 1, "StorageClass": "GLACIER"}]}], "NotImplemented")):
        found = status_of(lambda: client.put_bucket_lifecycle_configuration(
            Bucket=plain, LifecycleConfiguration={"Rules": wrong}))[1]
        assert found == code, (wrong, found)
    keys = lambda one: [entry["Key"] for entry in client.list_objects_v2(Bucket=one)["Contents"]]
    expired = json.loads(rig.kiln("s3", "sweep", "--json"))["expired"]
    assert expired == 0 and len(keys(plain)) == 5, (expired, keys(plain))
    if shutil.which("faketime") is None:
        print("buckets: SKIPPED: lifecycles: faketime is not to be had here", flush=True)
        return
    assert swept(1) == 0
    alone = client.put_object(Bucket=bucket, Key="m", Body=b"")["VersionId"]
    client.delete_object(Bucket=bucket, Key="m")
    client.delete_object(Bucket=bucket, Key="m", VersionId=alone)
    swept(9)
    assert keys(plain) == ["x/other", "x/small", "y"], keys(plain)
    assert "Uploads" not in client.list_multipart_uploads(Bucket=plain)
    assert keys(bucket) == ["v", "x/other", "x/small", "y"], keys(bucket)
    found = [one for one in listed(client, bucket) if one[0] == "v"]
    assert [one[1] for one in found] == [ids[4], ids[3], ids[1]], (found, ids)
    while swept(40):
        pass
    left = {one[0] for one in listed(client, bucket)}
    # Of log/a and x/big a version stays under its marker; nothing but a marker was left of m.
    assert left == {"log/a", "v", "x/big", "x/other", "x/small", "y"}, left
    print("buckets: lifecycles: objects, versions, markers, uploads expire; locked ones stay",
          flush=True)


def other_origins(rig):
    """Pages of other origins get headers where a rule of the bucket says so."""
    import urllib.error
    import urllib.request
    client = rig.client()
    client.create_bucket(Bucket="pages")
    client.put_object(Bucket="pages", Key="k", Body=b"x")
    url = f"http://127.0.0.1:{rig.port}/pages/k"

    def asked(method, **headers):
        headers = {name.replace("_", "-"): value for name, value in headers.items()}
        request = urllib.request.Request(url, method=method, headers=headers)
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return answer.status, answer.headers
        except urllib.error.HTTPError as error:
            return error.code, error.headers

    page = {"Origin": "https://w.example.org"}
    assert asked("OPTIONS", **page, Access_Control_Request_Method="GET")[0] == 403
    rule = {"AllowedMethods": ["GET"], "AllowedOrigins": ["*"]}
    for wrong, code in (({"AllowedMethods": ["TRACE"]}, "InvalidRequest"),
                        ({"AllowedOrigins": ["http://**"]}, "InvalidRequest"),
                        ({"AllowedOrigins": []}, "MalformedXML")):
        found = status_of(lambda: client.put_bucket_cors(
            Bucket="pages", CORSConfiguration={"CORSRules": [rule | wrong]}))[1]
        assert found == code, (wrong, found)
    client.put_bucket_cors(Bucket="pages", CORSConfiguration={"CORSRules": [
        {"AllowedMethods": ["GET", "PUT"], "AllowedOrigins": ["https://*.example.org"],
         "AllowedHeaders": ["x-amz-*"], "ExposeHeaders": ["ETag"], "MaxAgeSeconds": 60}]})
    code, headers = asked("OPTIONS", **page, Access_Control_Request_Method="PUT",
                          Access_Control_Request_Headers="X-Amz-Date")
    assert code == 200 and headers["Access-Control-Allow-Origin"] == page["Origin"], headers
    assert headers["Access-Control-Allow-Headers"] == "x-amz-date"
    assert headers["Access-Control-Max-Age"] == "60", headers
    for more in ({"Access_Control_Request_Method": "DELETE"}, {
            "Access_Control_Request_Method": "GET", "Access_Control_Request_Headers": "range"}):
        assert asked("OPTIONS", **page, **more)[0] == 403, more
    for origin in ("https://example.org", "http://w.example.org"):
        assert asked("OPTIONS", Origin=origin, Access_Control_Request_Method="GET")[0] == 403
    assert asked("OPTIONS", **page)[0] == 400
    code, headers = asked("GET", **page)
    assert code == 403 and headers["Access-Control-Allow-Origin"] == page["Origin"], headers
    rig.kiln("s3", "bucket", "public", "pages")
    code, headers = asked("GET", **page)
    assert code == 200 and headers["Access-Control-Expose-Headers"] == "ETag", headers
    assert "Access-Control-Allow-Origin" not in asked("GET", Origin="https://other.org")[1]
    client.delete_bucket_cors(Bucket="pages")
    assert "Access-Control-Allow-Origin" not in asked("GET", **page)[1]
    print("buckets: pages of other origins, by the rules of a bucket", flush=True)
