#!/usr/bin/env python3
"""Hosts of this machine's own: network namespaces with shaped links, an agent in each.

    testbed.py up FOLDER --kiln PATH [--hosts 16] [--rate 100mbit]   makes it; all in FOLDER
    testbed.py down FOLDER                   ends the agents, removes namespaces and FOLDER
    testbed.py shape FOLDER HOST RATE        gives one host another rate

Every host has a namespace, an address 10.7.0.N, a folder, and `kiln agent` with the cluster's key
as in production. A namespace of its own holds the switch, so that nothing of the machine's network
is touched. `down` may be called at any time, after a crash too: what belongs to a test-bed is found
by its name, which comes from FOLDER. Needs root, for namespaces. `Testbed` is what tests and
benches drive.
"""

import argparse
import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

from lab.rig.tools import Failed, Unable

WAIT = 180  # seconds that an agent may take to start or to end
HOSTS_MAX = 200
MTU = 1500
HEADERS = 14 + 20 + 32  # of Ethernet, IPv4, and TCP with timestamps
# The machine's own choice of congestion control may be one that a shaper upsets; a route may name
# another without a change of the machine's settings.
ROUTE = "route add 10.7.0.0/24 dev {device} src {address} congctl cubic"
UNITS = {"kbit": 1e3, "mbit": 1e6, "gbit": 1e9}


class TestbedError(Failed):
    """Ends a run with one clear line."""


def run(*words, check=True, timeout=600, **options):
    """Runs a program and returns what it did; its last line of errors is the trouble."""
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True,
                          timeout=timeout, **options)
    if check and done.returncode != 0:
        line = (done.stderr.strip() or done.stdout.strip()).splitlines()[-1:]
        raise TestbedError(f"{' '.join(map(str, words[:6]))}: {' '.join(line)}")
    return done


def bits_per_second(rate):
    """`100mbit` as a number."""
    found = re.fullmatch(r"([0-9.]+)(kbit|mbit|gbit)", rate)
    if not found:
        raise TestbedError(f"a rate is as 100mbit or 1gbit, not {rate!r}")
    return float(found[1]) * UNITS[found[2]]


def limit(space, device, rate):
    """Limits what goes out through a device of a namespace."""
    bits = bits_per_second(rate)
    # Short bursts cost time of the processor, long ones are no limit for small transfers.
    burst = 128 << 10 if bits <= 2e8 else 256 << 10
    run("tc", "-n", space, "qdisc", "replace", "dev", device, "root", "tbf",
        "rate", f"{bits:.0f}bit", "burst", burst, "limit", 4 << 20)


def able():
    """Says clearly why there can be no test-bed here, if so."""
    if os.geteuid() != 0:
        raise Unable("a test-bed needs root, for network namespaces and shaped links")
    for tool in ["ip", "tc"]:
        if shutil.which(tool) is None:
            raise Unable(f"no {tool} here; on Debian: apt-get install iproute2")
    probe = f"kt-probe-{os.getpid()}"
    done = run("ip", "netns", "add", probe, check=False)
    if done.returncode != 0:
        raise Unable(f"network namespaces are not permitted here: {done.stderr.strip()}")
    run("ip", "netns", "del", probe)


class Testbed:
    """The test-bed in a folder."""

    def __init__(self, folder):
        self.folder = Path(folder).resolve()
        # From the folder alone, so that it is known when everything else is lost.
        self.tag = "kt" + hashlib.sha256(str(self.folder).encode()).hexdigest()[:8]
        self.switch = f"{self.tag}-sw"
        self.key = self.folder / "cluster.key"
        self.processes = {}
        self.kiln = self.rate = None
        self.hosts = 0
        if (self.folder / "testbed.json").exists():
            known = json.loads((self.folder / "testbed.json").read_text())
            self.kiln, self.rate, self.hosts = known["kiln"], known["rate"], known["hosts"]

    # Names

    def space(self, host):
        """The namespace of a host."""
        return f"{self.tag}-h{host}"

    def address(self, host):
        """Where its agent is."""
        return f"kiln://10.7.0.{host + 1}:7440/h{host}"

    def disk(self, host):
        """The folder that its agent serves."""
        return self.folder / "hosts" / f"h{host}"

    # Life

    def make(self, hosts, rate, kiln, agents=True):
        """Makes hosts, links and agents; what was there before is taken down."""
        able()
        if not 1 <= hosts <= HOSTS_MAX:
            raise TestbedError(f"1 to {HOSTS_MAX} hosts, not {hosts}")
        bits_per_second(rate)
        self.down()
        self.hosts, self.rate, self.kiln = hosts, rate, str(Path(kiln).resolve())
        for sub in ["pids", "log", "hosts"]:
            (self.folder / sub).mkdir(parents=True)
        (self.folder / "testbed.json").write_text(
            json.dumps(dict(hosts=hosts, rate=rate, kiln=self.kiln)) + "\n")
        self.make_switch()
        for host in range(hosts):
            self.make_host(host)
        if agents:
            self.make_agents()

    def make_agents(self):
        """The cluster's key, and an agent on every host."""
        run(self.kiln, "agent", "--init", "--key", self.key)
        hosts = self.hosts
        for host in range(hosts):
            self.start(host)
        for host in range(hosts):
            self.wait_for(lambda: self.serving(host), f"the agent of host {host} to start")

    def make_switch(self):
        """The namespace with the bridge, which is also where unshaped commands run."""
        space = self.switch
        run("ip", "netns", "add", space)
        for words in ["link set lo up", f"link add br0 mtu {MTU} type bridge forward_delay 0",
                      "addr add 10.7.0.254/32 dev br0", "link set br0 up",
                      ROUTE.format(address="10.7.0.254", device="br0")]:
            run("ip", "-n", space, *words.split())

    def make_host(self, host):
        """A namespace, and a link to the switch that is shaped on both ends."""
        space, port = self.space(host), f"p{host}"
        run("ip", "netns", "add", space)
        run("ip", "-n", self.switch, "link", "add", port, "mtu", MTU, "type", "veth", "peer",
            "name", "eth0", "mtu", MTU, "netns", space)
        run("ip", "-n", self.switch, "link", "set", port, "master", "br0", "up")
        for words in ["link set lo up", f"addr add 10.7.0.{host + 1}/32 dev eth0",
                      "link set eth0 up",
                      ROUTE.format(address=f"10.7.0.{host + 1}", device="eth0")]:
            run("ip", "-n", space, *words.split())
        self.shape(host, self.rate)

    def shape(self, host, rate):
        """Limits what a host sends (at its end) and what it receives (at the switch's end)."""
        for space, device in [(self.space(host), "eth0"), (self.switch, f"p{host}")]:
            limit(space, device, rate)

    def cut(self, host, whole=False):
        """Cuts the link of a host at the switch, as a pulled cable would, or makes it whole."""
        run("ip", "-n", self.switch, "link", "set", f"p{host}", "up" if whole else "down")

    def down(self):
        """Ends whatever runs on the hosts and removes everything; nothing there is fine too."""
        spaces = [line.split()[0] for line in
                  run("ip", "netns", "list").stdout.splitlines()
                  if line.split() and line.split()[0].startswith(f"{self.tag}-")]
        for space in spaces:
            self.end_all(space)
        for space in spaces:
            run("ip", "netns", "del", space)
        # Only what we made: a folder of somebody else's is left alone.
        if (self.folder / "testbed.json").exists():
            shutil.rmtree(self.folder)

    def end_all(self, space):
        """Ends the processes of a namespace, which are all ours."""
        end = time.monotonic() + WAIT
        while pids := [int(pid) for pid in run("ip", "netns", "pids", space).stdout.split()]:
            for pid in pids:
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
            for process in self.processes.values():
                process.poll()
            if time.monotonic() > end:
                raise TestbedError(f"processes of {space} do not end: {pids}")
            time.sleep(0.01)

    # Agents

    def start(self, host):
        """Starts the agent of a host and notes its process id."""
        log = open(self.folder / "log" / f"h{host}.log", "ab")
        said = open(self.folder / "log" / f"h{host}.json", "wb")
        agent = subprocess.Popen(
            ["ip", "netns", "exec", self.space(host), self.kiln, "agent", "--dir",
             self.disk(host), "--key", self.key, "--listen", f"10.7.0.{host + 1}:7440", "--name",
             f"h{host}", "--threads", "1", "--json"],
            stdin=subprocess.DEVNULL, stdout=said, stderr=log, start_new_session=True)
        self.processes[host] = agent
        (self.folder / "pids" / f"h{host}").write_text(str(agent.pid))

    def serving(self, host):
        """Whether the agent of a host has said that it listens."""
        if (self.folder / "log" / f"h{host}.json").read_bytes().endswith(b"}\n"):
            return True
        if self.processes[host].poll() is not None:
            log = (self.folder / "log" / f"h{host}.log").read_text().strip().splitlines()
            raise TestbedError(f"the agent of host {host} ended: {' '.join(log[-1:])}")
        return False

    def pid(self, host):
        """The process id of an agent, if it runs and is what we started."""
        try:
            pid = int((self.folder / "pids" / f"h{host}").read_text())
            words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        except (OSError, ValueError):
            return None
        return pid if str(self.key).encode() in words else None

    def kill(self, host, how=signal.SIGKILL):
        """Ends the agent of a host by its process id and waits for its end."""
        pid = self.pid(host)
        if pid is None:
            return
        os.kill(pid, how)
        if host in self.processes:
            self.processes.pop(host).wait(WAIT)
        self.wait_for(lambda: self.pid(host) is None, f"the agent of host {host} to end")

    def wait_for(self, what, words):
        """Waits until `what()` holds."""
        end = time.monotonic() + WAIT
        while not what():
            if time.monotonic() > end:
                raise TestbedError(f"waited {WAIT} s for {words}")
            time.sleep(0.02)

    # Using it

    def command(self, *words, host=None):
        """The words that run kiln on a host, or without a limit at the switch."""
        space = self.switch if host is None else self.space(host)
        return ["ip", "netns", "exec", space, self.kiln, *map(str, words), "--key", str(self.key)]

    def ask(self, *words, host=None, timeout=600):
        """Runs kiln with --json and returns what it reports."""
        done = run(*self.command(*words, "--json", host=host), timeout=timeout)
        return json.loads(done.stdout)

    def counters(self):
        """Bytes that each host sent and received, by its own interface."""
        return [(sent["bytes"], received["bytes"]) for sent, received in self.interfaces()]

    def interfaces(self):
        """Bytes and packets that each host sent and received."""
        rows = []
        for host in range(self.hosts):
            shown = run("ip", "-j", "-s", "-n", self.space(host), "link", "show", "eth0")
            stats = json.loads(shown.stdout)[0]["stats64"]
            rows.append((stats["tx"], stats["rx"]))
        return rows

    def at_switch(self):
        """The same as the switch sees it: one cheap look, for samples while something runs."""
        shown = json.loads(run("ip", "-j", "-s", "-n", self.switch, "link", "show").stdout)
        ports = {link["ifname"]: link["stats64"] for link in shown}
        stats = [ports[f"p{host}"] for host in range(self.hosts)]
        return [(port["rx"]["bytes"], port["tx"]["bytes"]) for port in stats]

    def cpu_seconds(self):
        """Processor time of the agents so far."""
        ticks = 0
        for host in range(self.hosts):
            pid = self.pid(host)
            if pid is not None:
                fields = Path(f"/proc/{pid}/stat").read_text().rsplit(") ", 1)[1].split()
                ticks += int(fields[11]) + int(fields[12])
        return ticks / os.sysconf("SC_CLK_TCK")

    def disk_bytes(self):
        """Bytes that the agents had from a disk so far; what was in memory is not in it."""
        found = 0
        for host in range(self.hosts):
            pid = self.pid(host)
            if pid is not None:
                lines = dict(line.split(": ") for line in
                             Path(f"/proc/{pid}/io").read_text().splitlines())
                found += int(lines["read_bytes"])
        return found


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    up = commands.add_parser("up", help="make hosts, links and agents")
    up.add_argument("folder")
    up.add_argument("--kiln", type=Path, required=True, help="the program")
    up.add_argument("--hosts", type=int, default=16)
    up.add_argument("--rate", default="100mbit", help="of every link, each way")
    down = commands.add_parser("down", help="end the agents, remove everything")
    down.add_argument("folder")
    shape = commands.add_parser("shape", help="give one host another rate")
    shape.add_argument("folder")
    shape.add_argument("host", type=int)
    shape.add_argument("rate")
    options = parser.parse_args()
    testbed = Testbed(options.folder)
    if options.command == "down":
        able()
        testbed.down()
    elif options.command == "shape":
        testbed.shape(options.host, options.rate)
    else:
        testbed.make(options.hosts, options.rate, options.kiln)
        print(f"{options.hosts} hosts at {options.rate}, agents {testbed.address(0)} and so on\n"
              f"commands: ip netns exec {testbed.switch} {testbed.kiln} ... --key {testbed.key}\n"
              f"the folder of host N: {testbed.folder}/hosts/hN")


def program(main, name, unable=None):
    """Runs a program of the test-bed; trouble ends it in one line. Where no test-bed can be made
    the line begins with `unable`, or the name, and the exit code is 3."""
    try:
        main()
    except Unable as why:
        print(f"{unable or name}: {why}", file=sys.stderr)
        sys.exit(3)
    except (Failed, OSError, subprocess.SubprocessError) as error:
        sys.exit(f"{name}: {error}")


if __name__ == "__main__":
    program(main, "testbed")
