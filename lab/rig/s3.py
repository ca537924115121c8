"""S3 servers on this machine for tests and the bench: moto, a Python package."""

import importlib.util
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request

from lab.rig.tools import Unable, free_port


def install(folder):
    """Makes sure that moto can be had, in a folder of its own if need be; that folder, or None."""
    if importlib.util.find_spec("moto") and importlib.util.find_spec("flask"):
        return None
    if not os.path.isdir(os.path.join(folder, "moto")):
        words = [sys.executable, "-m", "pip", "install", "--quiet", "--target", folder,
                 "moto[server,s3]==5.2.1"]
        ended = subprocess.run(words, check=False, capture_output=True, text=True, timeout=600)
        if ended.returncode != 0:
            raise Unable("moto cannot be installed: " + ended.stderr.strip()[-300:])
    return folder


class Moto:
    """A server, from its start to the end of a `with`."""

    def __init__(self, folder):
        self.extra = install(folder)
        self.port = free_port()

    def __enter__(self):
        # A bench that is told to end ends its server too.
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
        environment = dict(os.environ)
        if self.extra:
            environment["PYTHONPATH"] = self.extra
        words = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(self.port)]
        self.process = subprocess.Popen(
            words, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for _ in range(600):
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{self.port}/", timeout=5).close()
                return self
            except urllib.error.HTTPError:
                return self
            except OSError:
                time.sleep(0.1)
        raise Unable("the S3 server does not start")

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait(timeout=30)

    def make_bucket(self, name):
        """A new bucket."""
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}/{name}", method="PUT")
        urllib.request.urlopen(request, timeout=30).close()


def bucket_at(endpoint, name):
    """A bucket past kiln, as anybody with rights could have it."""
    import boto3  # moto brings it
    return boto3.resource("s3", endpoint_url=endpoint, region_name="us-east-1",
                          aws_access_key_id="key", aws_secret_access_key="secret").Bucket(name)


def delete(endpoint, path):
    """Removes an object behind kiln's back."""
    bucket, key = path.split("/", 1)
    bucket_at(endpoint, bucket).Object(key).delete()


def environment():
    """Variables of kiln."""
    return dict(os.environ, AWS_ACCESS_KEY_ID="key", AWS_SECRET_ACCESS_KEY="secret",
                AWS_EC2_METADATA_DISABLED="true")


def empty(endpoint, bucket):
    """Removes all objects of a bucket."""
    bucket_at(endpoint, bucket).objects.all().delete()


def keys(endpoint, bucket):
    """The keys in a bucket."""
    return [found.key for found in bucket_at(endpoint, bucket).objects.all()]
