#!/usr/bin/env python3
"""Promises as an outsider tries them: one line of JSON, and exit code 1 where one is broken.

    trust.py --kiln PROGRAM [--quick]

Random states of a pool against what `status` says of them (`status_lies`), random histories after
which every set of m nodes is taken away (`whole_sets_unread`), what earlier releases wrote
(`upgrades_failed`), simulated clusters of several releases (`mixed_versions_failed`), and the time
of commands while m of ten agents are stopped (`command_with_stopped_nodes_s`: the longest one; each
as if none had met the stopped ones before).
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

AGENTS, STOPPED = 10, 3
BAR_S = 1.5


def passes(package, target, tests, **counts):
    """Runs tests of a crate, with so many rounds."""
    words = ["cargo", "test", "-q", "--release", "-p", package, "--test", target, "--", tests]
    rounds = {name: str(count) for name, count in counts.items()}
    ended = subprocess.run(words, env=os.environ | rounds, stdout=sys.stderr)
    return ended.returncode == 0


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


def with_stopped(kiln, folder):
    """Seconds of each command while some agents are stopped."""
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
        run(f"pool create -c rs:5+{STOPPED} {nodes}")
        (folder / "large").write_bytes(os.urandom(3_000_000))
        (folder / "small").write_bytes(os.urandom(100))
        for name in ("large", "small"):
            run(f"put {name} {name}")
        for agent, _ in agents[:STOPPED]:
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
    parser.add_argument("--kiln", type=Path, required=True)
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    states, histories, seeds = (1_000, 100, 500) if options.quick else (10_000, 500, 10_000)
    with tempfile.TemporaryDirectory() as folder:
        seconds = with_stopped(options.kiln.resolve(), Path(folder))
    report = dict(
        states=states, histories=histories,
        status_lies=0 if passes("kiln-pool", "objects", "truth", KILN_STATES=states) else 1,
        whole_sets_unread=0 if passes("kiln-pool", "objects", "vanish",
                                      KILN_HISTORIES=histories) else 1,
        upgrades_failed=0 if passes("kiln", "program", "upgrades") else 1,
        mixed_versions_seeds=seeds,
        mixed_versions_failed=0 if passes("kiln-recovery", "cluster", "releases",
                                          KILN_SIM_SEEDS=4 * seeds) else 1,
        command_with_stopped_nodes_s=max(seconds.values()), commands_s=seconds)
    print(json.dumps(report))
    broken = sum(report[name] for name in ("status_lies", "whole_sets_unread", "upgrades_failed",
                                           "mixed_versions_failed"))
    return 1 if broken or report["command_with_stopped_nodes_s"] > BAR_S else 0


if __name__ == "__main__":
    sys.exit(main())
