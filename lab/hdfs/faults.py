#!/usr/bin/env python3
"""Pools in a real HDFS while requests go wrong and DataNodes die: nothing may be wrong after it.

    faults.py FOLDER --kiln PATH --cache DIR [--out FILE] [--quick] [--faults N] [--seconds N]

Before the NameNode and each of six DataNodes is a proxy: requests are answered with 500 or 503, cut
off, held until the client gives up, done without an answer; what is read from DataNodes is cut
short or has a flipped bit; every now and then a DataNode is killed, and started again. What
programs put, got, removed and scrubbed meanwhile must be as it was acknowledged, and the pool must
become whole again. Prints one line of JSON. Exit code 3: there can be no HDFS here, which is said.
"""

import argparse
import json
import os
import random
import subprocess
import sys
import threading
import time
from pathlib import Path
from urllib.parse import parse_qs, urlsplit, urlunsplit

from lab.rig import hadoop
from lab.rig import pool_work
from lab.rig.about import about
from lab.rig.hdfs import Hdfs, program
from lab.rig.proxy import Handler, Proxy
from lab.rig.testbed import TestbedError

NODES = 6
CODE = "rs:4+2"
KINDS = ("500", "503", "truncate", "flip", "lost", "cut") * 3 + ("stall",)
# Faults, and seconds at most.
QUICK, FULL = (1_000, 150), (10_000, 2_400)
# Seconds that a DataNode is dead, and that all live in between.
DEAD, ALIVE = (3, 12), (8, 20)
SWITCH = "10.7.0.254"


class WebHdfs(Handler):
    """Passes requests on to a NameNode or DataNode; answers name proxies instead of DataNodes."""

    @staticmethod
    def can(kind, verb):
        if kind in ("truncate", "flip"):
            return verb == "READ"
        if kind == "lost":
            return verb != "LOOK"
        return True

    def verb(self):
        """READ and WRITE at DataNodes, LOOK and CHANGE at the NameNode."""
        operation = parse_qs(urlsplit(self.path).query).get("op", [""])[0]
        if self.server.upstream[1] == hadoop.DATA_HTTP:
            return "READ" if operation == "OPEN" else "WRITE"
        return "LOOK" if self.command == "GET" else "CHANGE"

    def refusal(self, fault):
        return b"<html>on purpose</html>"

    def answer(self, verb, answer, fault, up):
        status, headers, body = answer
        proxy = self.server.proxy
        headers = [(name, proxy.moved(value) if name.lower() == "location" else value)
                   for name, value in headers]
        if b'"locatedBlocks"' in body:
            body = proxy.located(json.loads(body))
        super().answer(verb, (status, headers, body), fault, up)

    do_GET = do_PUT = do_HEAD = do_POST = do_DELETE = Handler.forward


class HdfsProxy(Proxy):
    """A port for each DataNode, and one for the NameNode, the last."""

    def __init__(self, hdfs):
        self.hdfs = hdfs
        servers = [(hdfs.ip(host), hadoop.DATA_HTTP) for host in range(NODES)]
        namenode = (hdfs.ip(hdfs.datanodes), hadoop.HTTP)
        super().__init__([*servers, namenode], handler=WebHdfs, host=SWITCH, kinds=KINDS)

    def at(self, address):
        """The port before the DataNode of an address; nothing if it is none."""
        known = [self.hdfs.ip(host) for host in range(NODES)]
        return known.index(address) if address in known else None

    def moved(self, url):
        """Where the NameNode sends a request on to, past this proxy."""
        parts = urlsplit(url)
        at = self.at(parts.hostname)
        return url if at is None else urlunsplit(parts._replace(netloc=self.authority(at)))

    def located(self, answer):
        """Block locations with this proxy's ports."""
        for block in answer["LocatedBlocks"]["locatedBlocks"]:
            for where in block["locations"]:
                at = self.at(where["ipAddr"])
                if at is not None:
                    where.update(ipAddr=SWITCH, hostName=SWITCH,
                                 infoPort=self.ports[at].server_port)
        return json.dumps(answer).encode()


class Killer:
    """Kills a DataNode every now and then while it runs, and starts it again."""

    def __init__(self, hdfs):
        self.hdfs, self.kills, self.trouble = hdfs, 0, []
        self.random, self.stop = random.Random(1), threading.Event()
        self.thread = threading.Thread(target=self.work)

    def __enter__(self):
        self.thread.start()
        return self

    def work(self):
        try:
            while not self.stop.wait(self.random.uniform(*ALIVE)):
                host = self.random.randrange(NODES)
                self.hdfs.kill_daemon(host)
                self.kills += 1
                self.stop.wait(self.random.uniform(*DEAD))
                self.hdfs.start_daemon(host)
        except (TestbedError, OSError) as error:
            self.trouble.append(str(error))

    def __exit__(self, *_):
        self.end()

    def end(self):
        """All DataNodes live again after it."""
        self.stop.set()
        self.thread.join()
        self.hdfs.wait_until(lambda: self.hdfs.live() == NODES, "all DataNodes to come back")


def inside(options):
    """The run itself, in the namespace of the switch, where proxies and programs are."""
    hdfs = Hdfs(options.folder)
    proxy = HdfsProxy(hdfs)
    rig = pool_work.Rig(hdfs.kiln, hdfs.folder / "work", dict(os.environ))
    nodes = []
    for host in range(NODES):
        hdfs.mkdir(f"faults/d{host}")
        nodes.append(f"--node=hdfs://{proxy.authority(NODES)}/faults/d{host}?datanode="
                     f"{proxy.authority(host)}&user=root&timeout=1,id=n{host}")
    rig.run("pool", "create", "--code", CODE, *nodes)
    wanted, longest = QUICK if options.quick else FULL
    wanted, longest = options.faults or wanted, options.seconds or longest
    with Killer(hdfs) as killer:
        tried, wrong, counts = pool_work.play(rig, proxy, wanted, longest, killer.end)
    wrong += killer.trouble
    for text in wrong[:20]:
        print(f"WRONG: {text}", file=sys.stderr)
    headline = {"faults_tried": sum(tried.values()), "faults_wrong": len(wrong),
                "datanodes_killed": killer.kills}
    report = {"headline": headline, "about": about(Path(hdfs.kiln)), "code": CODE,
              "faults": {"by_kind": tried, "wrong": wrong, **counts,
                         "requests": sum(sum(port.counts.requests.values())
                                         for port in proxy.ports)}}
    if options.out:
        Path(options.out).write_text(json.dumps(report, indent=1) + "\n")
    print(json.dumps(headline))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder")
    parser.add_argument("--kiln", type=Path, required=True)
    parser.add_argument("--cache", required=True, help="where the list of Hadoop's jars is kept")
    parser.add_argument("--out")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--faults", type=int, help="faults to inject, at least")
    parser.add_argument("--seconds", type=int, help="for how long they are injected at most")
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.inside:
        inside(options)
        return
    Hdfs(options.folder).down()
    hdfs = Hdfs(options.folder, options.cache)
    begin = time.monotonic()
    try:
        hdfs.make_hdfs(NODES, "1gbit", options.kiln)
        words = ["ip", "netns", "exec", hdfs.switch, sys.executable, "-m",
                 "lab.hdfs.faults", *sys.argv[1:], "--inside"]
        if subprocess.run(words, check=False).returncode != 0:
            raise TestbedError("the run in the switch's namespace failed")
    finally:
        hdfs.down()
    print(f"{time.monotonic() - begin:.0f} s", file=sys.stderr)


if __name__ == "__main__":
    program(main, "hdfs-faults", unable="== hdfs-faults: SKIPPED")
