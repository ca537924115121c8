#!/usr/bin/env python3
"""The interface as C sees it: a C program works with the static and with the installed library.

    c_test.py LIBRARY    the static library

Run by the tests of the crate.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

FOLDER = Path(__file__).resolve().parents[1]
# Compilers and their flags under which the example must build without a warning.
COMPILERS = (("cc", "-std=c99", "-Wall", "-Wextra", "-Wpedantic", "-Werror"),
             ("c++", "-x", "c++", "-std=c++17", "-Wall", "-Wextra", "-Werror"))


def run(*words, **environment):
    """Runs a program that must succeed; what it printed."""
    ran = subprocess.run([str(word) for word in words], env={**os.environ, **environment},
                         capture_output=True, text=True)
    assert ran.returncode == 0, f"{words}: {ran.stdout}{ran.stderr}"
    return ran.stdout


def build_and_run(out, link, libraries):
    """Builds the example by all compilers with what `link` adds and runs it, where it may need
    `libraries`."""
    for compiler in COMPILERS:
        # Flags may name the header's folder: they go after the source, as people write them.
        run(*compiler, FOLDER / "tests" / "example.c", "-x", "none", "-o", out / "example", *link)
        text = run(out / "example", LD_LIBRARY_PATH=str(libraries))
        last = text.splitlines()[-1]
        assert last == "13 helpers read 832 of 3584 sub-chunks: same bytes", text


def declared():
    """The functions that the header declares."""
    lines = (FOLDER / "include" / "kiln.h").read_text().splitlines()
    lines = [line for line in lines if line and line[0] not in " /#}t" and "(" in line]
    return sorted(re.split(r"[ *]", line.split("(", 1)[0])[-1] for line in lines)


def exports_the_header_alone(lib):
    """The installed shared library has the header's functions, with their versions."""
    symbols = run("nm", "-D", "--defined-only", lib / "libkiln.so")
    names = [line.split(" ")[-1] for line in symbols.splitlines()]
    exported = sorted(name.split("@@KILN_")[0] for name in names
                      if name not in ("KILN_1", "KILN_2"))
    assert exported == declared(), (exported, declared())
    assert len(exported) >= 13 and "kiln_encode@@KILN_1" in symbols, symbols
    assert "kiln_codec_packet@@KILN_2" in symbols, symbols
    # Programs ask for the interface's version, so that a later one can stand beside.
    needed = run("readelf", "-d", lib / "libkiln.so")
    assert "[libkiln.so.1]" in needed, needed


def main():
    library = Path(sys.argv[1])
    with tempfile.TemporaryDirectory() as folder:
        out, prefix = Path(folder), Path(folder) / "prefix"
        build_and_run(out, [f"-I{FOLDER / 'include'}", library, "-lpthread", "-ldl", "-lm"],
                      "/nowhere")
        run("sh", FOLDER / "install.sh", library, prefix)
        lib = prefix / "lib"
        exports_the_header_alone(lib)
        if shutil.which("pkg-config"):
            link = run("pkg-config", "--cflags", "--libs", "kiln",
                       PKG_CONFIG_PATH=str(lib / "pkgconfig")).split()
        else:
            print("SKIPPED: no pkg-config here, so kiln.pc was not tried", file=sys.stderr)
            link = [f"-I{prefix / 'include'}", f"-L{lib}", "-lkiln"]
        build_and_run(out, link, lib)


if __name__ == "__main__":
    main()
