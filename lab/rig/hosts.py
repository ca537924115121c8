"""Hosts whose links are not shaped, with one link each or with two: public and private."""

import ctypes
import json
import os

from lab.rig.testbed import MTU, Testbed, run

CLONE_NEWNET = 0x40000000
PRIVATE = "10.8.0"
PRIVATE_ROUTE = PRIVATE + ".0/24 dev eth1 src {address} congctl cubic"


def by_port(shown):
    """Bytes that the host behind each port of a switch sent and received, from `ip -j -s`."""
    return {link["ifname"]: (link["stats64"]["rx"]["bytes"], link["stats64"]["tx"]["bytes"])
            for link in shown}


class Hosts(Testbed):
    """The test-bed's hosts as fast as the machine lets them."""

    def shape(self, host, rate):
        """Links are not shaped."""

    def ports(self):
        """What each host sent and received, as the switch sees it: one look for all."""
        shown = run("ip", "-j", "-s", "-n", self.switch, "link", "show").stdout
        return by_port(json.loads(shown))

    def link_bytes(self, letter="p"):
        """All bytes that hosts sent and received so far, by their ports of one kind."""
        ports = self.ports()
        rows = [ports[f"{letter}{host}"] for host in range(self.hosts)]
        return sum(row[0] for row in rows), sum(row[1] for row in rows)


class TwoLinks(Hosts):
    """Every host has a second link, to a second switch that nobody but hosts is at."""

    outside = None  # the namespace that this program was in before

    def make_switch(self):
        super().make_switch()
        for words in [f"link add br1 mtu {MTU} type bridge forward_delay 0", "link set br1 up"]:
            run("ip", "-n", self.switch, *words.split())

    def make_host(self, host):
        super().make_host(host)
        space, port, address = self.space(host), f"q{host}", f"{PRIVATE}.{host + 1}"
        run("ip", "-n", self.switch, "link", "add", port, "mtu", MTU, "type", "veth", "peer",
            "name", "eth1", "mtu", MTU, "netns", space)
        run("ip", "-n", self.switch, "link", "set", port, "master", "br1", "up")
        route = "route add " + PRIVATE_ROUTE.format(address=address)
        for words in [f"addr add {address}/32 dev eth1", "link set eth1 up", route]:
            run("ip", "-n", space, *words.split())

    def enter(self):
        """This thread, and all that it starts from now on, is where the public switch is."""
        self.outside = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
        switch_to(f"/run/netns/{self.switch}")

    def leave(self):
        """Back to where it was."""
        if self.outside is not None:
            switch_to(f"/proc/self/fd/{self.outside}")
            os.close(self.outside)
            self.outside = None

    def down(self):
        # Whatever is in the namespaces is ended, so this program must not be.
        self.leave()
        super().down()


def switch_to(path):
    """Takes this thread into a network namespace."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        if ctypes.CDLL(None, use_errno=True).setns(descriptor, CLONE_NEWNET) != 0:
            raise OSError(ctypes.get_errno(), f"no way into the namespace {path}")
    finally:
        os.close(descriptor)
