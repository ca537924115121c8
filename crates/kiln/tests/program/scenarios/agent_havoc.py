"""Recoveries of pools while things go wrong: real processes, killed and stopped by their ids, disks
that are full and shards that rot. However it went, the pool is whole in the end."""

import json
import signal
import time

from disk import mounted
from pools import Agent, Scene
from rig import drained, holds, same, until, test


def scene_of(rig, nodes, *sizes):
    """Short sub-chunks, so that small shards have several segments and a repair can go on in
    them."""
    scene = Scene(rig, "clay:4+2", nodes)
    text = (rig / "pool.toml").read_text()
    at = text.rindex('code = "clay')
    (rig / "pool.toml").write_text(f"{text[:at]}sub_chunk = 128\n{text[at:]}")
    scene.put(*sizes)
    return scene


def begin(scene, flags="--limit-rate 2MiB"):
    """A coordinator at work, slowly. Gives a function that waits for its report."""
    child = scene.rig.start(f"coordinator --json --wait 0 --key cluster.key {flags}")
    said, told = drained(child.stderr), drained(child.stdout)

    def end():
        same(child.wait(), 0, said() + told())
        return json.loads(told())

    return child, end


def repaired(report, objects=1):
    same((report["repaired"], report["failed_count"]), (objects, 0), report)


@test
def a_helper_killed_at_any_moment_of_a_repair_is_done_without(rig):
    scene = scene_of(rig, 10, 5_000_000, 6_000_001)
    for turn, seconds in enumerate([0.05, 0.4, 1]):
        scene.kill(1)
        _, end = begin(scene)
        time.sleep(seconds)
        scene.kill(2)
        report = end()
        same((report["failed_count"], report["waiting"]), (0, 0), report)
        scene.is_whole()
        # Agents with empty folders in their places.
        for node in (1, 2):
            agent = Agent(rig, f"new{node}-{turn}", "--key cluster.key")
            scene.ok(f"pool add-node n{node} {agent.address} --replace")
            scene.agents[node] = agent


@test
def a_coordinator_that_was_killed_goes_on_where_it_was(rig):
    scene = scene_of(rig, 8, 16_000_000)
    scene.kill(3)
    for size in (300_000, 1_500_000):
        child, _ = begin(scene)

        def written():
            """Unfinished shards hold so many bytes on all nodes together."""
            return sum(path.stat().st_size for path in rig.folder.glob("d*/.*.repair.part")
                       if path.exists()) >= size

        until(f"repairs wrote {size} bytes", written)
        child.kill()
        child.wait()
    report = scene.recover()
    same(report["repaired"], 1, report)
    # Agents go on for a while without it; at least what it saw done is kept.
    assert report["resumed_bytes"] > 0, report
    scene.is_whole()


@test
def an_agent_that_stops_answering_for_a_while_is_waited_for(rig):
    scene = scene_of(rig, 8, 6_000_000)
    scene.kill(0)
    _, end = begin(scene)
    time.sleep(0.6)
    stopped = scene.agents[4].child
    stopped.send_signal(signal.SIGSTOP)
    # Well below the three seconds of silence after which a connection is given up.
    time.sleep(1)
    stopped.send_signal(signal.SIGCONT)
    report = end()
    # On a machine so busy that the silence lasted longer, its shard is repaired as well: the
    # coordinator was told to wait for no node.
    given_up = any("/d4: " in why for why in report["replanned"])
    repaired(report, 2 if given_up and report["repaired"] == 2 else 1)
    scene.is_whole()


@test
def a_shard_that_rots_during_a_repair_is_not_used_and_repaired_too(rig):
    scene = scene_of(rig, 8, 6_000_000)
    scene.kill(0)
    _, end = begin(scene, "--limit-rate 2MiB --strategy central")
    time.sleep(0.3)
    # All of its later part: whatever is read from there is wrong. In place: the file is never
    # short.
    path = scene.shard_of(1)
    bytes_ = path.read_bytes()
    half = len(bytes_) // 2
    with open(path, "r+b") as file:
        file.seek(half)
        file.write(bytes(byte ^ 4 for byte in bytes_[half:-20_000]))
    report = end()
    assert report["replanned_count"] >= 1, report
    repaired(report, 2)
    scene.is_whole()


@test
def limits_change_while_a_recovery_runs(rig):
    scene = scene_of(rig, 8, 6_000_000)
    scene.kill(0)
    scene.ok("pool limit --rate 20KiB --total 100KiB")
    _, end = begin(scene, "--progress 1")
    time.sleep(2.5)
    scene.ok("pool limit --off")
    # At that rate it would have taken minutes.
    seconds = end()["seconds"]
    assert 2 < seconds < 60, seconds
    rig.kiln("pool limit").fails(3, "--rate")
    rig.kiln("pool limit --rate 0").fails(3, "--off")
    scene.is_whole()


@test
@mounted
def a_node_whose_disk_is_full_gets_no_shard(rig, mount):
    scene = scene_of(rig, 7, 6_000_000)
    mount("full", "size=600k")
    agent = Agent(rig, "full", "--key cluster.key")
    scene.ok(f"pool add-node n7 {agent.address}")
    scene.agents.append(agent)
    scene.kill(0)
    # Told where to, it says why it cannot; left to choose, it takes the other one.
    report = rig.kiln("coordinator --json --wait 0 --to n7 --tries 1 --key cluster.key").exits(4)
    holds(str(report.json()["failed"]), "space")
    repaired(scene.recover())
    agent.kill()


@test
def a_helper_killed_while_somebody_reads_is_decoded_around(rig):
    scene = scene_of(rig, 7, 5_000_000)
    homes = [shard["node"] for shard in scene.ok("stat o0 --json").json()["shards"]]
    lost, killed = (int(homes[index][1:]) for index in (1, 3))
    scene.kill(lost)
    # A chunk that is lost, with helpers and without: 1 KiB, and half of five chunks.
    for flags, strategy, received in [("hub", "hub", 1024), ("central", "central", 2560),
                                      ("auto", "central", 2560)]:
        words = f"get o0 -o part --force --range 1KiB+1KiB --strategy {flags} --json"
        report = scene.ok(words).json()
        same((report["strategy"], report["bytes_received"]), (strategy, received), report)
        assert rig.read("part") == scene.objects["o0"][1024:2048]
    # A reader that takes its time: agents wait for it, and one of them dies.
    child = rig.start("get o0 -o - --strategy hub --json --key cluster.key")
    said = drained(child.stderr)
    bytes_ = child.stdout.read(100_000)
    scene.kill(killed)
    bytes_ += child.stdout.read()
    same(child.wait(), 0, said())
    assert bytes_ == scene.objects["o0"], f"the bytes differ: {said()}"
    report = json.loads(said()[said().index("{"):])
    same(report["strategy"], "mixed", report)
    holds(report["notes"][0], "helpers gave up")
