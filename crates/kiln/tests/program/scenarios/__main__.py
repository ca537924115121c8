#!/usr/bin/env python3
"""Scenarios of the program that are more than a session of commands: servers, random damage, kills.

    python3 scenarios [FILE [TEST...]]

Each function of a FILE beside this one that is marked as a test is one, and so is each of the
sessions; without a TEST they are listed. KILN_PROGRAM names the program (kiln of the PATH).
KILN_SEED repeats a random run, KILN_HAVOC_ROUNDS sets the number of random damages (60),
KILN_MODEL_SEEDS that of random trees, KILN_BIG the size of the streamed object (1GiB).
"""

import importlib
import os
import sys
from pathlib import Path

from rig import Rig


def tests(name):
    """The tests of a file, by name."""
    if name == "sessions":
        return importlib.import_module(name).tests()
    functions = vars(importlib.import_module(name)).items()
    return {test: run for test, run in functions
            if getattr(run, "is_test", False) and run.__module__ == name}


def main():
    # The reads must not depend on how busy the machine is.
    os.environ["KILN_HEDGE"] = "off"
    files = sorted(path.stem for path in Path(__file__).parent.glob("*.py"))
    for name in sys.argv[1:2] or [name for name in files if name not in ("__main__", "sessions")]:
        for test in sys.argv[2:]:
            with Rig() as rig:
                tests(name)[test](rig)
        for test in tests(name) if not sys.argv[2:] else ():
            print(f"{name}::{test}")


if __name__ == "__main__":
    main()
