"""The agents' part of the demo: fourteen processes on this machine, one of which is killed.

Every agent serves a folder of its own over mutual TLS, as it would on a machine of its own. One
is killed by its process id while an object is being read; then what it had is rebuilt on a spare,
once by the usual way (everything to the new node) and once with every helper computing.
"""

import hashlib
import json
import shutil
import subprocess
import time

import pool

MIB = 1 << 20
NODES = 14
LOST = 5
LARGE = 192 * MIB
STRATEGIES = ["central", "hub"]


class Agents:
    """Agent processes; all are ended by `close`, each by its id."""

    def __init__(self, kiln, out, trouble):
        self.kiln, self.out, self.trouble = kiln, out, trouble
        self.key = out / "cluster.key"
        self.running = {}

    def start(self, name):
        """Starts one and gives its address."""
        command = [self.kiln.path, "agent", "--dir", self.out / name, "--listen", "127.0.0.1:0",
                   "--key", self.key, "--json", "--threads", "1"]
        child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                                 text=True)
        self.running[name] = child
        text = ""
        for line in child.stdout:
            text += line
            if line == "}\n":
                return json.loads(text)["address"]
        raise self.trouble(f"the agent {name} does not start")

    def kill(self, name):
        child = self.running.pop(name)
        child.kill()
        child.wait()
        return child.pid

    def close(self):
        for name in list(self.running):
            self.kill(name)


def head_of(data, target):
    """The first bytes of the demo's data, as one large object."""
    with open(data, "rb") as source, open(target, "wb") as copy:
        left = LARGE
        while left and (block := source.read(min(left, 4 * MIB))):
            copy.write(block)
            left -= len(block)
    return hashlib.sha256(target.read_bytes()).hexdigest()


def read_while_one_dies(kiln, agents, flags, out, digest, trouble):
    """Kills an agent when some of the object has been read."""
    back = out / "large.back"
    command = [kiln.path, "get", "large", "-o", back, "-q", *flags]
    start = time.monotonic()
    getting = subprocess.Popen([str(word) for word in command], stderr=subprocess.PIPE, text=True)
    while getting.poll() is None and time.monotonic() - start < 0.2:
        time.sleep(0.01)
    during = getting.poll() is None
    pid = agents.kill(f"agent-{LOST:02}")
    _, said = getting.communicate()
    if getting.returncode != 0:
        raise trouble(f"get failed when an agent was killed: {said.strip()}")
    if hashlib.sha256(back.read_bytes()).hexdigest() != digest:
        raise trouble("get gave other bytes")
    back.unlink()
    when = "while a get ran" if during else "just after a get (it was too quick)"
    print(f"  agent-{LOST:02} (process {pid}) killed {when}: it ended well after "
          f"{time.monotonic() - start:.1f} s, bytes right")


def recover(kiln, strategy, to, flags, trouble):
    """Rebuilds what was lost on one node, with progress on the terminal."""
    command = [kiln.path, "coordinator", "--strategy", strategy, "--to", to, "--wait", "0",
               "--progress", "1", "--json", *flags]
    done = subprocess.run([str(word) for word in command], stdout=subprocess.PIPE, text=True)
    if done.returncode != 0:
        raise trouble(f"the recovery by {strategy} ended with {done.returncode}: {done.stdout}")
    report = json.loads(done.stdout)
    for what in ["sent", "max_node_load"]:
        measured = report["bytes_sent" if what == "sent" else what]
        if measured != report[f"planned_{what}"] or report["replanned_count"]:
            raise trouble(f"{strategy}, {what}: {measured}, planned {report['planned_' + what]}")
    return report


def show(kiln, files, data, out, table, trouble):
    """The whole part; `table` prints rows."""
    agents = Agents(kiln, out, trouble)
    try:
        play(kiln, agents, files, data, out, table, trouble)
    finally:
        agents.close()


def play(kiln, agents, files, data, out, table, trouble):
    tree, back, description = out / "tree", out / "back", out / "agents.toml"
    hashes, total = pool.take(files, tree)
    digest = head_of(data, out / "large")
    kiln.run("agent", "--init", "--key", agents.key, json_out=False)
    flags = ["--pool", description, "--key", agents.key]
    urls = [agents.start(f"agent-{at:02}") for at in range(NODES)]
    nodes = [word for at, url in enumerate(urls) for word in ("--node", f"{url},id=a{at:02}")]
    kiln.run("pool", "create", description, "-c", "clay:10+4", "--key", agents.key, *nodes)
    copied, seconds = kiln.run("cp", tree, "pool:tree", *flags)
    kiln.run("put", out / "large", "large", *flags)
    print(f"a pool of {NODES} agents: {copied['copied']} files, {total / MIB:.0f} MiB put in "
          f"{seconds:.1f} s, and one object of {LARGE // MIB} MiB")
    read_while_one_dies(kiln, agents, flags, out, digest, trouble)
    rows = [["recovered", "objects", "bytes sent", "planned", "most at one node", "planned",
             "seconds"]]
    for at, strategy in enumerate(STRATEGIES):
        spare = f"a{NODES + at}"
        kiln.run("pool", "add-node", spare, agents.start(f"spare-{at}"), *flags)
        report = recover(kiln, strategy, spare, flags, trouble)
        rows.append([strategy, str(report["repaired"] - report["central"]),
                     f"{report['bytes_sent']:,}", f"{report['planned_sent']:,}",
                     f"{report['max_node_load']:,}", f"{report['planned_max_node_load']:,}",
                     f"{report['seconds']:.2f}"])
        if at + 1 < len(STRATEGIES):
            # The spare dies too, so that the other strategy has the same to do.
            agents.kill(f"spare-{at}")
    table(rows)
    kiln.run("cp", "pool:tree", back, *flags)
    pool.compare(back, hashes, trouble)
    kiln.run("get", "large", "-o", out / "large.back", *flags)
    if hashlib.sha256((out / "large.back").read_bytes()).hexdigest() != digest:
        raise trouble("the large object came back different")
    print("  afterwards: every file and the large object read back, every byte the same\n")
    shutil.rmtree(tree)
