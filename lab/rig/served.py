"""A volume, the program that serves it, and fio as its client."""

import json
import signal
import subprocess
import threading
import time

from lab.rig.disks import drop_caches
from lab.rig.tools import Failed, run


class Served:
    """A pool with a volume that is being served; `prefix` are words before those of kiln."""

    def __init__(self, folder, kiln, pool, size_mib, segment="32MiB", prefix=(), flags=()):
        self.folder, self.prefix, self.kiln_program = folder, list(prefix), kiln
        self.flags, self.socket, self.size = list(flags), folder / "disk.sock", size_mib
        self.kiln("pool", "create", *pool)
        self.kiln("volume", "create", "disk", f"{size_mib}MiB", "--segment", segment)
        self.start()

    def start(self):
        """Starts the server, and waits until it serves."""
        words = [*self.prefix, self.kiln_program, "--json", "nbd", "disk", "--socket", self.socket]
        self.server = subprocess.Popen([str(word) for word in [*words, *self.flags]],
                                       cwd=self.folder, stdout=subprocess.PIPE, text=True)
        said = ""
        while not said.endswith("}\n"):
            line = self.server.stdout.readline()
            if not line:
                raise Failed(f"the server ended: {said!r}")
            said += line

    def kiln(self, *words, timeout=1800):
        """Runs kiln in the pool's folder."""
        flags = [] if words[0] == "nbd" else self.flags
        return run(*self.prefix, self.kiln_program, "-q", *words, *flags, cwd=self.folder,
                   timeout=timeout)

    def put_from(self, source, name):
        """Puts the bytes that another program gives through a pipe."""
        words = [*self.prefix, self.kiln_program, "-q", "put", "-", name, *self.flags]
        with subprocess.Popen(["cat", source], stdout=subprocess.PIPE) as cat:
            put = subprocess.run(words, cwd=self.folder, stdin=cat.stdout, check=False)
            cat.stdout.close()
        if put.returncode != 0:
            raise Failed(f"put from a pipe: {put.returncode}")

    def job(self, *flags):
        """The words of fio for a job on the volume."""
        uri = f"nbd+unix:///disk?socket={self.socket}"
        return ["fio", "--name=a", "--ioengine=nbd", f"--uri={uri}", "--randrepeat=0",
                "--output-format=json", "--percentile_list=50:99", *flags]

    def fio(self, *flags):
        """Runs fio to its end; its one job's report."""
        report = run(*self.job(*flags), cwd=self.folder)
        return json.loads(report[report.index("{"):])["jobs"][0]

    def settle(self, disks, least=1.5):
        """Waits until nothing is done behind clients any more."""
        before, quiet = disks.so_far(), time.monotonic()
        while time.monotonic() - quiet < least:
            time.sleep(0.3)
            now = disks.so_far()
            if now[0] - before[0] + now[1] - before[1] > 64 << 10:
                before, quiet = now, time.monotonic()

    def end(self):
        """Ends the server; what it did since it began."""
        self.server.send_signal(signal.SIGTERM)
        said, _ = self.server.communicate(timeout=600)
        return json.loads(said)["status"]

    def kill(self):
        """Ends it whatever has become of it."""
        if self.server.poll() is None:
            self.server.kill()
            self.server.wait()


class Dropping:
    """Drops the page cache every second while it lasts, so that devices are read and not memory."""

    def __enter__(self):
        self.ending = threading.Event()
        self.thread = threading.Thread(target=self.work)
        self.thread.start()

    def work(self):
        while not self.ending.wait(1):
            drop_caches()

    def __exit__(self, *_):
        self.ending.set()
        self.thread.join()


def cell(report, wrote):
    """What one run of fio says."""
    side = report["write" if wrote else "read"]
    percentile = side["clat_ns"].get("percentile", {})
    return {
        "bytes": side["io_bytes"],
        "iops": side["iops"],
        "seconds": side["runtime"] / 1000,
        "mean_us": side["lat_ns"]["mean"] / 1000,
        "p50_us": percentile.get("50.000000", 0) / 1000,
        "p99_us": percentile.get("99.000000", 0) / 1000,
    }


def measured(disks, volume, wrote, *flags):
    """Bytes at devices for each byte that fio moved, and its report."""
    before = disks.counted()
    found = cell(volume.fio(*flags), wrote)
    after = disks.counted()
    moved = max(found["bytes"], 1)
    return found | {
        "read_per_byte": (after[0] - before[0]) / moved,
        "written_per_byte": (after[1] - before[1]) / moved,
    }
