#!/usr/bin/env python3
"""Many small files in a pool of folders: how long they take to copy in, to copy again unchanged, to
rebuild on a new disk and to remove; and whether a sync is one against its model.

    files.py FOLDER --kiln PROGRAM --out DIR [--quick]

Prints one line of JSON, which bench-files.json in DIR holds, too.
"""

import argparse
import json
import os
import random
import shutil
import subprocess
import time
from pathlib import Path

from lab.rig.about import about

NODES, CODE, SIZES = 7, "rs:4+2", (500, 20_000)
MODEL = "transfer_model::both_sides_are_the_same_after_a_sync"


def make_files(folder, count):
    """So many files in folders of a hundred, with bytes and sizes of a seed."""
    seeded = random.Random(1)
    for at in range(count):
        path = folder / f"{at // 100:03}" / f"{at:05}.dat"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(seeded.randbytes(seeded.randint(*SIZES)))


def differences(seeds):
    """Runs the model test over so many seeds; 0, or what it said."""
    environment = dict(os.environ, KILN_SEED="1", KILN_MODEL_SEEDS=str(seeds))
    test = ["cargo", "test", "-q", "-p", "kiln", "--test", "program", MODEL]
    done = subprocess.run(test, env=environment, capture_output=True, text=True, check=False)
    return 0 if done.returncode == 0 else done.stdout[-2000:]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--kiln", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    kiln, files, seeds = options.kiln.resolve(), 12_000, 10_000
    if options.quick:
        files, seeds = 2_000, 20
    shutil.rmtree(options.folder, ignore_errors=True)
    options.folder.mkdir(parents=True)
    make_files(options.folder / "in", files)

    def run(*words):
        began = time.monotonic()
        subprocess.run([kiln, *words, "-q"], cwd=options.folder, check=True)
        return round(time.monotonic() - began, 3)

    nodes = [word for at in range(NODES) for word in ("--node", f"n{at:02}")]
    run("pool", "create", "pool.toml", "-c", CODE, *nodes)
    seconds = {"cp": run("cp", "in", "pool:p"), "unchanged": run("sync", "in", "pool:p")}
    shutil.rmtree(options.folder / "n02")
    run("pool", "add-node", "n02", "--replace")
    seconds["repair"] = run("repair")
    seconds["out"] = run("cp", "pool:p", "out")
    same = subprocess.run(["diff", "-r", "in", "out"], cwd=options.folder, check=False).returncode
    seconds["rm"] = run("rm", "-r", "p")
    shutil.rmtree(options.folder)
    report = dict(about=about(kiln), files=files, seconds=seconds, out_differs=same,
                  repair_small_over_cp=round(seconds["repair"] / seconds["cp"], 2),
                  rm_small_over_cp=round(seconds["rm"] / seconds["cp"], 2),
                  model_seeds=seeds, model_differences=differences(seeds))
    line = json.dumps(report)
    (options.out / "bench-files.json").write_text(line + "\n")
    print(line)


if __name__ == "__main__":
    main()
