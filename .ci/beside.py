#!/usr/bin/env python3
"""Runs commands that mostly wait beside one that computes, and shows their output in one piece.

    beside.py --logs FOLDER [--beside NAME COMMAND]... COMMAND

Commands are lines of shell. The last one has the terminal; what the others say goes to
FOLDER/NAME.log and is printed when everything has ended, so that no lines mix: of those that
ended well first, then of those that failed, since whoever keeps only the end of a long output
wants to read these. All run to their end, whatever happens to the rest: a failure among several
is never hidden by another. The exit code is 0 if all of them ended well, 1 otherwise; who failed
is said last.
"""

import argparse
import subprocess
import sys
from pathlib import Path


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--logs", metavar="FOLDER", type=Path, required=True)
    parser.add_argument("--beside", nargs=2, action="append", default=[],
                        metavar=("NAME", "COMMAND"), help="one that runs in the background")
    parser.add_argument("command", help="the one that has the terminal")
    options = parser.parse_args()
    options.logs.mkdir(parents=True, exist_ok=True)
    runs = []
    for name, command in options.beside:
        log = options.logs / f"{name}.log"
        with open(log, "wb") as said:
            runs.append((name, log, subprocess.Popen(
                ["sh", "-c", command], stdin=subprocess.DEVNULL, stdout=said,
                stderr=subprocess.STDOUT)))
    failed = []
    try:
        code = subprocess.call(["sh", "-c", options.command])
        if code != 0:
            failed.append(f"{options.command} (exit code {code})")
    finally:
        # An interrupt from the keyboard reaches them too; they clean up before they end.
        ended = [(process.wait(), name, log) for name, log, process in runs]
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
