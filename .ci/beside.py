#!/usr/bin/env python3
"""Runs commands that mostly wait beside one that computes, and shows their output in one piece.

    beside.py --logs FOLDER [--at-once N] [--beside NAME COMMAND]... COMMAND

Commands are lines of shell. The last one has the terminal; of the others N run at a time, in their
order: with all of them at once daemons wait for processors longer than anybody has patience. What
they say goes to FOLDER/NAME.log and is printed when everything has ended, so that no lines mix: of
those that ended well first, then of those that failed, since whoever keeps only the end of a long
output wants to read these. All run to their end, whatever happens to the rest: a failure among
several is never hidden by another. The exit code is 0 if all of them ended well, 1 otherwise; who
failed is said last.
"""

import argparse
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path


def run(command, log):
    """Runs a command with its output in a file; its exit code."""
    with open(log, "wb") as said:
        return subprocess.call(["sh", "-c", command], stdin=subprocess.DEVNULL, stdout=said,
                               stderr=subprocess.STDOUT)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--logs", metavar="FOLDER", type=Path, required=True)
    parser.add_argument("--at-once", metavar="N", type=int, default=6,
                        help="so many run beside it at a time (6)")
    parser.add_argument("--beside", nargs=2, action="append", default=[],
                        metavar=("NAME", "COMMAND"), help="one that runs in the background")
    parser.add_argument("command", help="the one that has the terminal")
    options = parser.parse_args()
    options.logs.mkdir(parents=True, exist_ok=True)
    lanes = ThreadPoolExecutor(max(options.at_once, 1))
    logs = [(name, options.logs / f"{name}.log", command) for name, command in options.beside]
    runs = [(name, log, lanes.submit(run, command, log)) for name, log, command in logs]
    failed = []
    interrupted = True
    try:
        code = subprocess.call(["sh", "-c", options.command])
        interrupted = False
        if code != 0:
            failed.append(f"{options.command} (exit code {code})")
    finally:
        # An interrupt from the keyboard reaches those that run, too; they clean up before they
        # end, and no other begins.
        lanes.shutdown(cancel_futures=interrupted)
        ended = [(one.result(), name, log) for name, log, one in runs if not one.cancelled()]
        for code, name, log in sorted(ended, key=lambda run: run[0] != 0):
            print(f"== beside: {name}")
            sys.stdout.write(log.read_text(errors="replace"))
            sys.stdout.flush()
            if code != 0:
                failed.append(f"{name} (exit code {code}, see {log})")
    if failed:
        sys.exit("failed: " + "; ".join(failed))


if __name__ == "__main__":
    main()
