#!/usr/bin/env python3
"""A pool in an HDFS of two NameNodes: the active one is killed, and another time steps down.

    failover_test.py FOLDER --kiln PATH --cache DIR

Three DataNodes and two NameNodes that share a folder of edits, as with a file server for them; a
person, here this test, says which one is active. Places name one of them and, by ?standby=, the
other. Exit code 3: there can be no HDFS here, which is said.
"""

import argparse
import time
from pathlib import Path

from lab.rig import hadoop
from lab.rig.hdfs import WAIT, Hdfs, program
from lab.rig.testbed import able, run
from system.hdfs_test import Rig, read

DATANODES, SERVICE = 3, "pair"
PROXIES = "org.apache.hadoop.hdfs.server.namenode.ha.ConfiguredFailoverProxyProvider"


class Pair(Hdfs):
    """Two NameNodes, on the last two hosts."""

    first = True

    @property
    def datanodes(self):
        return self.hosts - 2

    @property
    def active(self):
        return self.datanodes + (0 if self.first else 1)

    def name(self, host):
        """What its configuration calls a NameNode."""
        return f"nn{host - self.datanodes}"

    def configure(self):
        """The configuration of all daemons."""
        namenodes = [self.datanodes, self.datanodes + 1]
        more = {
            "dfs.nameservices": SERVICE,
            f"dfs.ha.namenodes.{SERVICE}": ",".join(map(self.name, namenodes)),
            "dfs.namenode.shared.edits.dir": f"file://{self.folder.resolve()}/shared",
            "dfs.ha.fencing.methods": "shell(/bin/true)",
            f"dfs.client.failover.proxy.provider.{SERVICE}": PROXIES,
            "dfs.namenode.rpc-address": None,
            "dfs.namenode.http-address": None,
        }
        for host in namenodes:
            for what, port in [("rpc", hadoop.RPC), ("http", hadoop.HTTP)]:
                key = f"dfs.namenode.{what}-address.{SERVICE}.{self.name(host)}"
                more[key] = f"{self.ip(host)}:{port}"
        for host in range(self.hosts):
            own = {"dfs.ha.namenode.id": self.name(host)} if host in namenodes else {}
            hadoop.configure(self.daemon_folder(host), SERVICE, self.ip(host), self.block_mib,
                             more | own)

    def make_pair(self, kiln):
        """Makes it; the first NameNode is active."""
        able()
        self.make(DATANODES + 2, "1gbit", kiln, agents=False)
        self.note()
        self.configure()
        (self.folder / "shared").mkdir()
        one, other = self.datanodes, self.datanodes + 1
        run(*self.java(one, hadoop.NAMENODE, "-format", "-nonInteractive"), timeout=WAIT)
        self.start_daemon(one)
        self.wait_until(lambda: self.listens(one), "a NameNode to start")
        run(*self.java(other, hadoop.NAMENODE, "-bootstrapStandby", "-nonInteractive"),
            timeout=WAIT)
        self.start_daemon(other)
        for host in range(DATANODES):
            self.start_daemon(host)
        self.activate(first=True)

    def activate(self, first):
        """Makes a NameNode the active one, by the word of a person."""
        self.first = first
        self.wait_until(lambda: self.listens(self.active), "the NameNode to answer")
        words = ["-transitionToActive", "--forceactive", self.name(self.active)]
        run(*self.java(self.active, hadoop.HA_ADMIN, *words), timeout=WAIT)
        self.wait_until(lambda: self.live() == DATANODES, "all DataNodes to report")
        self.wait_until(lambda: "Safe" not in str(self.state().get("FSState")), "safe mode's end")


def play(hdfs):
    """What was put before is read after each failover, and new objects are put."""
    rig, nodes, data = Rig(hdfs, restart=False), [], {}
    standby = f"{hdfs.ip(hdfs.datanodes + 1)}:{hadoop.HTTP}"
    for host in range(DATANODES):
        hdfs.mkdir(f"pool/d{host}")
        nodes.append(f"--node={hdfs.place(host, f'pool/d{host}', standby=standby)},id=n{host}")
    rig.run("pool", "create", "--code", "rs:2+1", *nodes)

    def look(when):
        name = f"after-{len(data)}"
        data[name] = rig.write("object", 500_000 + len(data))
        rig.run("put", "object", name)
        read(rig, data)
        scrub = rig.json("scrub")
        assert scrub["damaged"] + scrub["unreadable"] == 0 and not scrub["away"], scrub
        print(f"failover: {when}: {len(data)} objects are as they were put", flush=True)

    look("the first NameNode is active")
    hdfs.kill_daemon(hdfs.datanodes)
    hdfs.activate(first=False)
    look("it was killed, and the other one made active")
    hdfs.start_daemon(hdfs.datanodes)
    run(*hdfs.java(hdfs.active, hadoop.HA_ADMIN, "-transitionToStandby", hdfs.name(hdfs.active)),
        timeout=WAIT)
    hdfs.activate(first=True)
    look("it is back and active, the other one on standby")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder")
    parser.add_argument("--kiln", type=Path, required=True)
    parser.add_argument("--cache", required=True, help="where the list of Hadoop's jars is kept")
    options = parser.parse_args()
    Pair(options.folder).down()
    hdfs, begin = Pair(options.folder, options.cache), time.monotonic()
    try:
        hdfs.make_pair(options.kiln)
        play(hdfs)
    finally:
        hdfs.down()
    print(f"failover: all is well; {time.monotonic() - begin:.0f} s")


if __name__ == "__main__":
    program(main, "failover", unable="== failover: SKIPPED")
