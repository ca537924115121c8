#!/usr/bin/env python3
"""Instructions that a processor of aarch64 executes for each byte, counted under emulation.

    python3 -m lab.neon.count PROGRAMS --out FOLDER [--quick]

PROGRAMS is where `build.sh` put them. Each codes a stripe some times, and some times more: the
difference is what the rest of the times took, to the instruction (qemu-user executes and notes one
at a time). That says nothing of speed: an instruction is not a cycle, and nothing waits for memory.
"""

import argparse
import json
import os
import platform
import subprocess
from pathlib import Path

from lab.rig.about import told

EMULATOR = ["qemu-aarch64-static", "-L", "/usr/aarch64-linux-gnu", "-cpu"]
# With the instruction that adds three vectors (FEAT_SHA3), and without.
THREE, PLAIN = "max", "cortex-a72"
KILN = [("jit-neon", THREE), ("jit-neon", PLAIN), ("neon", PLAIN)]
# Operation, code, bytes of a chunk, times that count after so many that do not: code is made, and
# made once more with longer loops, after some work.
CASES = [
    ("encode", "rs:10+4", 16 << 10, 8, 4),
    ("encode", "rs:6+3", 16 << 10, 8, 4),
    ("encode", "rs:16+4", 16 << 10, 8, 4),
    ("decode", "rs:10+4", 16 << 10, 8, 8),
    ("encode", "clay:4+2", 64 << 10, 8, 2),
    ("repair", "clay:4+2", 64 << 10, 8, 4),
    ("encode", "liberation:11+2", 11 << 10, 20, 4),
    ("encode", "rdp:10+2", 10 << 10, 20, 4),
    ("encode", "cauchy:10+4", 16 << 10, 8, 4),
]
QUICK = [("encode", "rs:10+4", 4 << 10, 20, 2)]


def assembler(program):
    """Where in a program of Go the functions in assembler are that code."""
    rows = [row.split() for row in subprocess.run(
        ["go", "tool", "nm", "-size", str(program)], capture_output=True, text=True,
        check=True).stdout.splitlines()]
    ends = [(int(row[0], 16), int(row[1])) for row in rows
            if "reedsolomon." in row[-1] and row[-1].endswith(".abi0")]
    first, last = min(ends), max(ends)
    return ["-dfilter", f"{first[0]:#x}..{sum(last):#x}"]


def executed(program, words, cpu, kernel):
    """Instructions of one run, and the bytes that it says it codes each time."""
    only = assembler(program) if program.name == "klauspost" else []
    process = subprocess.Popen([*EMULATOR, cpu, "-singlestep", "-d", "exec,nochain", *only,
                                str(program), *words],
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                               env=os.environ | {"KILN_KERNEL": kernel})
    lines = 0
    while block := process.stderr.read(1 << 20):
        lines += block.count(b"\nTrace ")
    said = process.stdout.read().decode()
    if process.wait() != 0:
        raise SystemExit(f"{program} {' '.join(words)} failed")
    return lines, int(said)


def per_byte(program, case, cpu, kernel=""):
    """Instructions for each byte of data of an encode, for each byte rebuilt otherwise."""
    operation, code, chunk, before, times = case
    code = code if kernel else code.removeprefix("rs:")
    first, _ = executed(program, [code, str(chunk), operation, str(before)], cpu, kernel)
    last, size = executed(program, [code, str(chunk), operation, str(before + times)], cpu, kernel)
    return round((last - first) / (size * times), 4)


def count(programs, case):
    """One case with all who know the code."""
    operation, code, chunk, _, _ = case
    found = {}
    for kernel, cpu in KILN:
        name = f"{kernel}-sha3" if cpu == THREE else kernel
        found[name] = per_byte(programs / "kiln", case, cpu, kernel)
    for peer in ("klauspost", "isal"):
        if code.startswith("rs:") and (programs / peer).exists():
            found[peer] = per_byte(programs / peer, case, PLAIN)
    print(operation, code, found, flush=True)
    return {"case": f"{operation} {code}", "chunk": chunk, "instructions": found}


def main():
    """Counts all, writes a report, and prints its headline."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("programs", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--quick", action="store_true", help="one case")
    options = parser.parse_args()
    cases = [count(options.programs, case) for case in (QUICK if options.quick else CASES)]
    isal = options.programs / "isal.version"
    report = {
        "emulator": told(EMULATOR[0], "--version").split("\n")[0], "host": platform.machine(),
        "rustc": told("rustc", "--version"), "go": told("go", "version"),
        "isal": isal.read_text().strip() if isal.exists() else None,
        "commit": told("git", "rev-parse", "--short", "HEAD"), "cases": cases,
    }
    options.out.mkdir(parents=True, exist_ok=True)
    name = "neon-quick.json" if options.quick else "neon.json"
    (options.out / name).write_text(json.dumps(report, indent=1) + "\n")
    rs = cases[0]["instructions"]
    print(json.dumps({"rs_instructions_per_byte": rs["jit-neon"],
                      "rs_instructions_per_byte_sha3": rs["jit-neon-sha3"]}
                     | {f"rs_over_{peer}": round(rs["jit-neon"] / rs[peer], 3)
                        for peer in ("klauspost", "isal") if peer in rs}))


if __name__ == "__main__":
    main()
