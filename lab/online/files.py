"""Applications on the files of a file system: `kiln-bench mix` as the client, and what mounts."""

import json
import resource
import subprocess
import time

from lab.rig.tools import Failed, run

WAIT = 180  # seconds until something is mounted


def requests_of(text):
    """Rows of a log of `kiln-bench mix` as (began, operation, offset, bytes, took, job)."""
    found = []
    for line in text.splitlines():
        began, operation, *rest = line.split(",")
        found.append((int(began), operation, *(int(field) for field in rest)))
    return found


def run_cell(program, mounted, cell, seconds, folder, seed):
    """Runs the processes of a cell: totals, all requests in the order in which they began, and the
    seconds of processor time that they took themselves. With 0 seconds files are made alone."""
    plan, log = folder / "mix.json", folder / "mix.log"
    plan.write_text(json.dumps(dict(seconds=seconds, seed=seed, log=str(log),
                                    processes=list(cell.processes))))
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    # Whatever its number of processes, an application has one folder.
    at = mounted / cell.name.rsplit("-p", 1)[0]
    said = run(program, "mix", at, plan, timeout=seconds + 600)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    found = json.loads(said)
    found.pop("seconds")
    found["client_cpu"] = (after.ru_utime + after.ru_stime) - (before.ru_utime + before.ru_stime)
    requests = requests_of(log.read_text())
    for key, about_names in (("names_us", True), ("data_us", False)):
        took = [request[4] for request in requests if (request[1] == "m") == about_names]
        found[key] = sum(took) / len(took) if took else 0
    return found, requests


class Fuse:
    """A program that shows something as files, in a folder of its own."""

    def __init__(self, at, words, log):
        self.at = at
        at.mkdir(parents=True)
        with open(log, "ab") as out:
            self.process = subprocess.Popen([str(word) for word in words], stdout=out, stderr=out,
                                            stdin=subprocess.DEVNULL, start_new_session=True)
        self.log = log

    @property
    def pid(self):
        """Of the program."""
        return self.process.pid

    def wait_for(self, ready):
        """Waits until it serves."""
        for _ in range(WAIT * 10):
            if self.process.poll() is not None:
                break
            if ready():
                return
            time.sleep(0.1)
        raise Failed(f"{self.process.args[0]} does not serve: {self.log.read_text()[-400:]}")

    def end(self):
        """Unmounts and ends it."""
        subprocess.run(["umount", "-l", str(self.at)], capture_output=True, check=False)
        self.process.terminate()
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


class Mounted:
    """A volume as a file system: nbdfuse shows it as a file, the loop driver as a device, and ext4
    is on it."""

    def __init__(self, folder, uri):
        self.mount, self.loop = folder / "mnt", None
        self.fuse = Fuse(folder / "fuse", ["nbdfuse", folder / "fuse" / "disk", uri],
                         folder / "nbdfuse.log")
        try:
            disk = folder / "fuse" / "disk"
            self.fuse.wait_for(disk.exists)
            self.loop = run("losetup", "--find", "--show", "--direct-io=on", disk).strip()
            run("mkfs.ext4", "-q", "-F", self.loop)
            self.mount.mkdir()
            run("mount", "-o", "noatime", self.loop, self.mount)
        except BaseException:
            self.end()
            raise

    def end(self):
        """Unmounts everything."""
        subprocess.run(["umount", "-l", str(self.mount)], capture_output=True, check=False)
        if self.loop:
            subprocess.run(["losetup", "-d", self.loop], capture_output=True, check=False)
        self.fuse.end()
