"""Pools whose nodes are agents: processes of their own, with mutual TLS."""

import json
import signal
import subprocess

from rig import drained, same


class Agent:
    """An agent process, which serves a folder of the rig."""

    def __init__(self, rig, folder, flags, log=None):
        words = f"agent --dir {folder} --listen 127.0.0.1:0 --json {flags}"
        self.child = rig.start(words, stderr=log or subprocess.PIPE)
        if log is None:
            drained(self.child.stderr)
        text = ""
        while not text.endswith("}\n"):
            line = self.child.stdout.readline().decode()
            assert line, f"no agent: {text}"
            text += line
        self.started = json.loads(text)
        self.address = self.started["address"]

    def kill(self):
        """Kills it, as a power cut would."""
        self.child.kill()
        self.child.wait()

    def terminate(self):
        """Asks it to end; its exit code."""
        self.child.send_signal(signal.SIGTERM)
        return self.child.wait()


class Scene:
    """A pool of agents n0, n1, ... of the folders d0, d1, ..., and objects in it."""

    def __init__(self, rig, code, nodes, sizes=()):
        self.rig, self.objects = rig, {}
        rig.kiln("agent --init --key cluster.key").ok()
        self.agents = [Agent(rig, f"d{at}", "--key cluster.key") for at in range(nodes)]
        places = (f"--node {agent.address},id=n{at}" for at, agent in enumerate(self.agents))
        self.ok(f"pool create -c {code} {' '.join(places)}")
        self.put(*sizes)

    def put(self, *sizes):
        """Puts objects o0, o1, ... of these sizes."""
        for size in sizes:
            name = f"o{len(self.objects)}"
            self.objects[name] = self.rig.data("input", size, len(self.objects) + 1)
            self.ok(f"put input {name} -q")

    def ok(self, words):
        return self.rig.kiln(f"{words} --key cluster.key").ok()

    def recover(self, flags=""):
        return self.ok(f"coordinator --json --wait 0 {flags}").json()

    def kill(self, node):
        self.agents[node].kill()

    def shard_of(self, node):
        """The file of a large shard on a node, or on the next one that has one."""
        nodes = [*range(node, len(self.agents)), *range(node)]
        paths = (path for at in nodes for path in sorted((self.rig / f"d{at}").glob("*.kiln")))
        return next(path for path in paths if path.stat().st_size > 1_000_000)

    def is_whole(self):
        """Every object reads back, the pool is whole, and a full scrub finds nothing."""
        for name, bytes_ in self.objects.items():
            self.ok(f"get {name} -o back --force -q")
            assert self.rig.read("back") == bytes_, f"{name} came back different"
        scrub = self.rig.kiln("scrub --json --key cluster.key")
        assert scrub.code <= 1, scrub.stderr
        same(scrub.json()["damaged"], 0, scrub.stdout)
