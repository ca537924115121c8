#!/usr/bin/env python3
"""A real HDFS on this machine: a NameNode and DataNodes, each in a network namespace of its own.

    lab.rig.hdfs up FOLDER --cache DIR [--datanodes 14] [--rate 1gbit]   makes it; all in FOLDER
    lab.rig.hdfs down FOLDER                                ends it, removes namespaces and FOLDER
    lab.rig.hdfs kill FOLDER N                              kills a DataNode by its process id
    lab.rig.hdfs start FOLDER N                             starts it again
    lab.rig.hdfs run FOLDER COMMAND...                    runs a command where all of it is reached

Each is a process (a JVM) with a link of its own, shaped as in `lab.rig.testbed`. DataNode N has the
address 10.7.0.N+1, the NameNode the one after the last. `Hdfs` is what tests and the bench
drive. Exit code 3: this machine, or this user, cannot have it.
"""

import argparse
import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.parse
from pathlib import Path

from lab.rig import hadoop

from lab.rig.testbed import Testbed, TestbedError, Unable, able, program, run

WAIT = 120  # seconds that a daemon may take to start


class Hdfs(Testbed):
    """The test-bed with HDFS on it: host N runs DataNode N, the last one the NameNode."""

    def __init__(self, folder, cache=None):
        super().__init__(folder)
        self.jars = None
        self.block_mib = 128
        # Whether Java is to start soon rather than to compute fast.
        self.light = True
        if (self.folder / "hdfs.json").exists():
            known = json.loads((self.folder / "hdfs.json").read_text())
            self.jars, self.block_mib = known["jars"], known["block_mib"]
        elif cache is not None:
            try:
                self.jars = hadoop.classpath(cache)
            except hadoop.NoHadoop as why:
                raise Unable(str(why)) from why

    # Names

    @property
    def datanodes(self):
        """How many there are."""
        return self.hosts - 1

    @property
    def active(self):
        """The host of the NameNode that is asked."""
        return self.datanodes

    def ip(self, host):
        """The address of a host."""
        return f"10.7.0.{host + 1}"

    @property
    def namenode(self):
        """The NameNode as URLs have it."""
        return f"{self.ip(self.datanodes)}:{hadoop.HTTP}"

    def place(self, host, path, **more):
        """What kiln calls a folder that is on one DataNode."""
        options = {"datanode": f"{self.ip(host)}:{hadoop.DATA_HTTP}", "user": "root", **more}
        query = "&".join(f"{name}={value}" for name, value in options.items())
        return f"hdfs://{self.namenode}/{path.strip('/')}?{query}"

    def daemon_folder(self, host):
        """What a daemon has on disk."""
        return self.folder / "hosts" / f"h{host}"

    # Life

    def make_hdfs(self, datanodes, rate, kiln, block_mib=128, first=None):
        """Makes namespaces, links, and the daemons in them; the `first` DataNodes, or all, run."""
        able()
        if self.jars is None:
            raise TestbedError("where Hadoop is was not said (--cache)")
        self.block_mib = block_mib
        self.make(datanodes + 1, rate, kiln, agents=False)
        self.note()
        name = self.datanodes
        for host in range(self.hosts):
            hadoop.configure(self.daemon_folder(host), self.ip(name), self.ip(host), block_mib)
        run(*self.java(name, hadoop.NAMENODE, "-format", "-nonInteractive"), timeout=WAIT)
        self.start_daemon(name)
        self.wait_until(lambda: self.listens(name), "the NameNode to start")
        running = first or self.datanodes
        for host in range(running):
            self.start_daemon(host)
        self.wait_until(lambda: self.live() == running, "all DataNodes to report")

    def note(self):
        """Writes down what later commands must know."""
        (self.folder / "hdfs.json").write_text(
            json.dumps(dict(jars=self.jars, block_mib=self.block_mib)) + "\n")

    def java(self, host, main, *words, heap="64m", light=True):
        """The words that run a class of Hadoop on a host."""
        return ["ip", "netns", "exec", self.space(host),
                *hadoop.command(self.jars, self.daemon_folder(host), main, *words, heap=heap,
                                light=light)]

    def start_daemon(self, host):
        """Starts the daemon of a host and notes its process id."""
        main = hadoop.DATANODE if host < self.datanodes else hadoop.NAMENODE
        heap = "96m" if host < self.datanodes else "192m"
        words = self.java(host, main, heap=heap, light=self.light)
        with open(self.folder / "log" / f"hdfs{host}.log", "ab") as log:
            daemon = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                      start_new_session=True)
        self.processes[f"hdfs{host}"] = daemon
        (self.folder / "pids" / f"hdfs{host}").write_text(str(daemon.pid))

    def daemon_pid(self, host):
        """The process id of a daemon, if it runs and is what we started."""
        try:
            pid = int((self.folder / "pids" / f"hdfs{host}").read_text())
            words = Path(f"/proc/{pid}/cmdline").read_text()
        except (OSError, ValueError):
            return None
        return pid if str(self.daemon_folder(host)) in words else None

    def kill_daemon(self, host):
        """Kills a daemon by its process id and waits for its end."""
        pid = self.daemon_pid(host)
        if pid is None:
            return
        os.kill(pid, signal.SIGKILL)
        daemon = self.processes.pop(f"hdfs{host}", None)
        if daemon is not None:
            daemon.wait(WAIT)
        self.wait_until(lambda: self.daemon_pid(host) is None, f"daemon {host} to end")

    def wait_until(self, what, words):
        """Waits until `what()` holds; a daemon that ended meanwhile ends the waiting."""
        end = time.monotonic() + WAIT
        while not what():
            for name, daemon in self.processes.items():
                if daemon.poll() is not None:
                    log = (self.folder / "log" / f"{name}.log").read_text().strip().splitlines()
                    raise TestbedError(f"{name} ended: {' '.join(log[-1:])}")
            if time.monotonic() > end:
                raise TestbedError(f"waited {WAIT} s for {words}")
            time.sleep(0.2)

    def admin(self, *words):
        """What an administrator tells the NameNode."""
        run(*self.java(self.active, hadoop.ADMIN, *words), timeout=WAIT)

    def exclude(self, hosts):
        """Has these DataNodes, and no others, taken out of service: others get what they have."""
        names = "".join(f"{self.ip(host)}\n" for host in hosts)
        (self.daemon_folder(self.datanodes) / hadoop.EXCLUDED).write_text(names)
        self.admin("-refreshNodes")

    # Asking it

    def connect(self, host, port):
        """A connection from the switch's namespace, where links have no limit."""
        words = ["ip", "netns", "exec", self.switch, sys.executable, "-c", PIPE,
                 self.ip(host), str(port)]
        here, there = socket.socketpair()
        with there:
            subprocess.Popen(words, stdin=there, stdout=there, stderr=subprocess.DEVNULL)
        return here

    def http(self, method, path, **query):
        """A request to the NameNode: its status and its answer, as JSON where it is some."""
        connection = http.client.HTTPConnection("namenode", timeout=30)
        connection.sock = self.connect(self.active, hadoop.HTTP)
        try:
            connection.request(method, f"{path}?{urllib.parse.urlencode(query)}")
            answer = connection.getresponse()
            text = answer.read()
        finally:
            connection.close()
        try:
            return answer.status, json.loads(text)
        except ValueError:
            return answer.status, text

    def webhdfs(self, method, path, op, **query):
        """An operation that the NameNode answers by itself; its answer, or an error."""
        status, answer = self.http(
            method, "/webhdfs/v1/" + urllib.parse.quote(path.strip("/")), op=op,
            **{"user.name": "root", **query})
        if status >= 300:
            raise TestbedError(f"{op} {path}: {status} {answer}")
        return answer

    def listens(self, host):
        """Whether the NameNode answers."""
        try:
            return host == self.active and self.http("GET", "/jmx", qry="none")[0] == 200
        except (OSError, http.client.HTTPException):
            return False

    def state(self):
        """What the NameNode says of itself and its DataNodes; nothing while it starts."""
        beans = self.http("GET", "/jmx", qry="Hadoop:service=NameNode,name=FSNamesystemState")[1]
        return dict(*beans["beans"])

    def live(self):
        """How many DataNodes it knows to live."""
        return self.state().get("NumLiveDataNodes", 0)

    def hears_of(self, host, since):
        """Whether the NameNode has heard from a DataNode since a moment."""
        beans = self.http("GET", "/jmx", qry="Hadoop:service=NameNode,name=NameNodeInfo")[1]
        live = json.loads(dict(*beans["beans"])["LiveNodes"])
        heard = [node["lastContact"] for node in live.values()
                 if node["infoAddr"].startswith(f"{self.ip(host)}:")]
        return any(seconds < time.monotonic() - since for seconds in heard)

    def mkdir(self, path):
        """Makes a folder."""
        self.webhdfs("PUT", path, "MKDIRS", permission="755")

    def files(self, path):
        """The files in a folder with their lengths."""
        found = self.webhdfs("GET", path, "LISTSTATUS")["FileStatuses"]["FileStatus"]
        return {each["pathSuffix"]: each["length"] for each in found if each["type"] == "FILE"}

    def hosts_of(self, path):
        """The addresses that the NameNode names for each block of a file."""
        located = self.webhdfs("GET", path, "GET_BLOCK_LOCATIONS")["LocatedBlocks"]
        return [[where["ipAddr"] for where in block["locations"]]
                for block in located["locatedBlocks"]]


# Joins a socket of another namespace with this one's standard input and output.
PIPE = """
import os, select, socket, sys
far = socket.create_connection((sys.argv[1], int(sys.argv[2])), 20)
near = socket.socket(fileno=0)
ways = {far: near, near: far}
while ways:
    for one in select.select(list(ways), [], [])[0]:
        data = one.recv(65536)
        if not data:
            sys.exit()
        ways[one].sendall(data)
"""


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    up = commands.add_parser("up", help="make hosts, links and daemons")
    up.add_argument("folder")
    up.add_argument("--cache", required=True, help="where the list of Hadoop's jars is kept")
    up.add_argument("--kiln", type=Path, default=Path("kiln"), help="the program, for messages")
    up.add_argument("--datanodes", type=int, default=14)
    up.add_argument("--rate", default="1gbit", help="of every link, each way")
    down = commands.add_parser("down", help="end all of it")
    down.add_argument("folder")
    for name in ["kill", "start"]:
        one = commands.add_parser(name, help=f"{name} a DataNode")
        one.add_argument("folder")
        one.add_argument("datanode", type=int)
    within = commands.add_parser("run", help="run a command where all of it is reached")
    within.add_argument("folder")
    within.add_argument("words", nargs=argparse.REMAINDER, metavar="COMMAND")
    options = parser.parse_args()
    hdfs = Hdfs(options.folder, getattr(options, "cache", None))
    if options.command == "down":
        able()
        hdfs.down()
    elif options.command == "kill":
        hdfs.kill_daemon(options.datanode)
    elif options.command == "start":
        begun = time.monotonic()
        hdfs.start_daemon(options.datanode)
        hdfs.wait_until(lambda: hdfs.hears_of(options.datanode, begun), "the DataNode to report")
    elif options.command == "run":
        os.execvp("ip", ["ip", "netns", "exec", hdfs.switch, *options.words])
    else:
        hdfs.make_hdfs(options.datanodes, options.rate, options.kiln)
        print(f"{hdfs.datanodes} DataNodes at {options.rate}, the NameNode is {hdfs.namenode}\n"
              f"commands: python3 -m lab.rig.hdfs run {hdfs.folder} {hdfs.kiln} ...\n"
              f"DataNode 0 as a place: {hdfs.place(0, 'pool/d0')}")


if __name__ == "__main__":
    program(main, "hdfs", unable="== hdfs: SKIPPED")
