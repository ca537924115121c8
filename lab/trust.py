#!/usr/bin/env python3
"""Promises as an outsider tries them: one line of JSON, and exit code 1 where one is broken.

    trust.py PROGRAM... [--quick]

Random states of a pool against what `status` says of them (`status_lies`), random histories after
which every set of m nodes is taken away (`whole_sets_unread`), what earlier releases wrote
(`upgrades_failed`), simulated clusters (`seeds`), of several releases too (`mixed_versions_seeds`),
whether each rare branch was taken (`sometimes_missed`) and each cluster became whole
(`liveness_violations`), hostile clients of a volume's server, what each role may ask of agents, and
the time of commands while 1 and m of ten agents are stopped (`command_with_stopped_nodes_s`: the
longest one; each as if none had met the stopped ones before). PROGRAMs are kiln and tests as cargo
builds them (`lab/run` has the list). A null is measured by the command of its name in `commands`.
"""

import argparse
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

AGENTS, M = 10, 3
BAR_S = 1.5
STUCK = re.compile("does not become whole|does not end within|deadlock: every client waits")
# Bars that take longer than a quick run may, or have tests in many places.
COMMANDS = dict(trials_broken="cargo test -p kiln -p kiln-pool -p kiln-recovery -p kiln-volume",
                seeds_once="make simulate SEEDS=100000")


def begin(program, *tests, **counts):
    """Begins tests of a program, with so many rounds; `ended` waits for them."""
    out = tempfile.TemporaryFile("w+")
    rounds = {name: str(count) for name, count in counts.items()}
    return subprocess.Popen([program, "--nocapture", *tests], stdout=out, stderr=subprocess.STDOUT,
                            env=os.environ | rounds | {"RUST_BACKTRACE": "0"}), out


def ended(test):
    """Whether tests passed, and what they said."""
    process, out = test
    passed = process.wait() == 0
    out.seek(0)
    text = out.read()
    if not passed:
        print(text, file=sys.stderr)
    return passed, text


def missed(text):
    lists = re.findall(r'\{"sometimes_missed":(\[.*?\])\}', text)
    return sorted({name for one in lists for name in json.loads(one)})


def start(kiln, folder, number):
    words = [kiln, "agent", "--dir", f"d{number}", "--listen", "127.0.0.1:0", "--plain", "--json"]
    agent = subprocess.Popen(words, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    text = ""
    while not text.rstrip().endswith("}"):
        line = agent.stdout.readline().decode()
        if not line:
            raise SystemExit("an agent did not start")
        text += line
    return agent, json.loads(text)["address"]


def with_stopped(kiln, folder, stopped):
    """Seconds of each command while so many agents are stopped."""
    agents, seconds = [], {}

    def run(words):
        for known in folder.glob("*.silent"):
            known.unlink()
        begin = time.monotonic()
        ended = subprocess.run([kiln, *words.split()], cwd=folder, capture_output=True, timeout=300)
        if ended.returncode not in ((0, 1) if words == "status" else (0,)):
            raise SystemExit(f"{words}: {ended.stderr.decode()}")
        return time.monotonic() - begin

    try:
        for number in range(AGENTS):
            agents.append(start(kiln, folder, number))
        nodes = " ".join(f"--node {address}" for _, address in agents)
        run(f"pool create -c rs:5+{M} {nodes}")
        (folder / "large").write_bytes(os.urandom(3_000_000))
        (folder / "small").write_bytes(os.urandom(100))
        for name in ("large", "small"):
            run(f"put {name} {name}")
        for agent, _ in agents[:stopped]:
            agent.send_signal(signal.SIGSTOP)
        for words in ("get large -o back --force", "get small -o back --force", "put small new",
                      "put large big", "ls", "status", "cp pool:large copy", "rm new"):
            seconds[words] = round(run(words), 2)
    finally:
        for agent, _ in agents:
            agent.kill()
            agent.wait()
    return seconds


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("programs", nargs=6, metavar="PROGRAM")
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    kiln, objects, cluster, tests, nbd, net = map(os.path.abspath, options.programs)
    states, histories, seeds = (500, 100, 500) if options.quick else (10_000, 500, 10_000)
    seconds = {}
    for stopped in (1, M):
        with tempfile.TemporaryDirectory() as folder:
            seconds[stopped] = with_stopped(kiln, Path(folder), stopped)
    truth = begin(objects, "truth", KILN_STATES=states)
    played = ended(begin(cluster, "what_was_acknowledged", "volumes_hold", KILN_SIM_SEEDS=seeds))
    mixed = ended(begin(cluster, "releases", KILN_SIM_SEEDS=4 * seeds))
    whole, _ = ended(begin(objects, "vanish", KILN_HISTORIES=histories))
    upgrades, _ = ended(begin(tests, "upgrades"))
    served, _ = ended(begin(nbd, "hostile"))
    roles, _ = ended(begin(net, "peers_may_ask"))
    status, _ = ended(truth)
    names = missed(played[1] + mixed[1])
    report = dict(
        states=states, histories=histories, trials_broken=None,
        status_lies=0 if status else 1, whole_sets_unread=0 if whole else 1,
        upgrades_failed=0 if upgrades else 1,
        mixed_versions_seeds=seeds, mixed_versions_failed=0 if mixed[0] else 1,
        sometimes_missed=len(names), sometimes_missed_names=names,
        liveness_violations=len(STUCK.findall(played[1] + mixed[1])),
        seeds=seeds, seeds_failed=0 if played[0] else 1, seeds_once=None,
        command_with_stopped_nodes_s=max(max(one.values()) for one in seconds.values()),
        nbd_served_under_attack=1.0 if served else 0.0,
        roles_matrix="all" if roles else "broken", commands=COMMANDS, commands_s=seconds)
    print(json.dumps(report))
    broken = [name for name in ("status_lies", "whole_sets_unread", "upgrades_failed",
                                "mixed_versions_failed", "sometimes_missed", "liveness_violations",
                                "seeds_failed") if report[name]]
    late = report["command_with_stopped_nodes_s"] > BAR_S
    return 1 if broken or late or not served or not roles else 0


if __name__ == "__main__":
    sys.exit(main())
