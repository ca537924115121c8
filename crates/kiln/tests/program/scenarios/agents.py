"""Folders of other machines: agents as processes of their own, over the loopback interface."""

import fcntl
import os
import re
import shutil
import socket
import subprocess
import time
from pathlib import Path

from pools import Agent, Scene
from rig import asked, data, holds, metric, same, until, test

MONITORING = Path(__file__).parents[5] / "dist/monitoring"


def ask(agent, path):
    """Asks an agent for a document over HTTP."""
    host = agent.started["metrics"].removeprefix("http://").removesuffix("/metrics")
    return asked(host, path)


@test
def an_agent_tells_its_metrics_and_ends_when_told(rig):
    agent = Agent(rig, "d0", "--plain --name here --metrics 127.0.0.1:0")
    bytes_ = rig.data("object", 100_000)
    rig.kiln(f"encode object -c rs:2+1 -o {agent.address} -q").ok()
    rig.kiln(f"decode {agent.address} -o back -q").ok()
    assert rig.read("back") == bytes_
    answer = ask(agent, "/metrics")
    assert answer.startswith("HTTP/1.1 200 OK\r\n") and answer.endswith("# EOF\n"), answer

    def value(name):
        return metric(answer, f"kiln_{name}", 'place="here"')

    assert value("received_bytes_total") > 150_000
    assert value("sent_bytes_total") > 100_000
    same(value("connections_expelled_total"), 0)
    assert value("disk_total_bytes") > value("disk_free_bytes")
    same(agent.terminate(), 0)


@test
def an_agent_says_whether_it_lives_and_serves(rig):
    agent = Agent(rig, "d0", "--plain --metrics 127.0.0.1:0")
    health = ask(agent, "/health")
    assert health.startswith("HTTP/1.1 200") and health.endswith("lives\n"), health
    holds(ask(agent, "/ready"), "HTTP/1.1 200")
    holds(ask(agent, "/else"), "HTTP/1.1 404")
    rig.remove("d0")
    holds(ask(agent, "/ready"), "HTTP/1.1 503")
    holds(ask(agent, "/health"), "HTTP/1.1 200")
    # Rules and dashboard ask for what agents say. A coordinator says the rest: `make page-test`
    # compares them.
    said = ask(agent, "/metrics")
    others = re.compile("kiln_(disk_free|disk_total|pool|node|repair|scrub|survey|volume_log)")
    for file in ("alerts.yml", "dashboard.json"):
        names = set(re.findall(r"\bkiln_\w+", (MONITORING / file).read_text()))
        missing = [name for name in names if not others.match(name) and name not in said]
        same(missing, [], f"{file} asks for what no agent says")


@test
def links_in_a_served_folder_lead_nowhere(rig):
    secret = rig.data("secret", 1000)
    (rig / "d0").mkdir()
    (rig / "d0/object.00.kiln").symlink_to(rig / "secret")
    (rig / "d0/.object.01.kiln.part").symlink_to(rig / "new")
    agent = Agent(rig, "d0", "--plain")
    assert rig.kiln(f"verify {agent.address}").code != 0
    rig.data("object", 5000)
    # A write takes the place of a link, or is refused; the file that the link names stays.
    rig.kiln(f"encode object -c rs:2+1 -o {agent.address} -q")
    same((rig.read("secret"), (rig / "new").exists()), (secret, False))


@test
def refused_peers_are_logged_with_their_address_and_not_too_often(rig):
    rig.kiln("agent --init --key cluster.key").ok()
    rig.kiln("agent --init --key other.key").ok()
    with open(rig / "log", "wb") as log:
        agent = Agent(rig, "d0", "--key cluster.key", log)

    def refused():
        return [line for line in rig.read("log").decode().splitlines() if "refused" in line]

    rig.kiln(f"verify {agent.address} --key other.key").exits(8)
    until("a line of the log", refused)
    holds(refused()[0], "127.0.0.1:")
    name, port = agent.address.removeprefix("kiln://").split("/")[0].split(":")
    for _ in range(200):
        # Each says something that is no handshake.
        with socket.create_connection((name, int(port))) as stream:
            stream.sendall(b"GET / HTTP/1.1\r\n\r\n")
    time.sleep(0.2)
    assert len(refused()) < 10, refused()


@test
def a_second_coordinator_is_refused_with_the_first_ones_address(rig):
    Scene(rig, "rs:2+1", 4, [100_000])
    # Another machine has its own copy of the description, and no lock in common.
    (rig / "elsewhere").mkdir()
    shutil.copy(rig / "pool.toml", rig / "elsewhere")

    def begin():
        return rig.start("coordinator --stay --wait 0 --every 1 -q --key cluster.key",
                         stderr=subprocess.DEVNULL)

    def second():
        return rig.kiln("coordinator --pool elsewhere/pool.toml --wait 0 --key cluster.key")

    first, refused = begin(), second()

    def begun():
        nonlocal first, refused
        # The second may have been quicker, and the first have been refused.
        if first.poll() is not None:
            first = begin()
        if refused.code == 0:
            refused = second()
        return refused.code != 0

    until("the first one has begun", begun)
    refused.fails(5, "is repaired already", f"process {first.pid}", "127.0.0.1:",
                  "wait for its end")
    first.kill()
    first.wait()
    until("its name is free", lambda: second().code == 0)


@test
def whoever_waits_for_a_lock_is_told_so_and_not_for_ever(rig):
    rig.kiln("pool create pool.toml -c rs:2+1 --node d0 --node d1 --node d2").ok()
    (rig / "input").write_bytes(data(10_000))
    folder = os.open(rig / "d1", os.O_RDONLY)
    fcntl.flock(folder, fcntl.LOCK_EX)
    ended = rig.kiln("put input a -q --lock-wait 3")
    holds(ended.stderr, "waiting for the lock of")
    ended.fails(5, "d1", "3 s", "--lock-wait")
    os.close(folder)
    rig.kiln("put input a -q").ok()
