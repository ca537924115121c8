#!/usr/bin/env python3
"""Prints the paths of programs as `cargo test --workspace` builds them, one a line.

    built.py [--cargo CARGO] PACKAGE:TARGET...

TARGET is `lib` (the unit tests of the library), or the name of a program or of an integration
test. Asking cargo for one package would build most of its tree once more, because fewer members of
the workspace ask for fewer features of the crates that they share.
"""

import argparse
import json
import subprocess
import sys


def name(message):
    """A built program as PACKAGE:TARGET, or nothing for all else that cargo says."""
    if message.get("reason") != "compiler-artifact" or not message["executable"]:
        return None
    kind, tested = message["target"]["kind"][0], message["profile"]["test"]
    # Kinds of a library are its crate types; unit tests of a program have the program's name, too.
    if kind == "bin" and tested:
        return None
    target = message["target"]["name"] if kind in ("bin", "test", "example") else "lib"
    # path+file:///where/crates/gf#kiln-gf@0.1.0, or ...#0.1.0 where the folder has the name.
    place, _, package = message["package_id"].rpartition("#")
    package = package.split("@")[0] if "@" in package else place.rpartition("/")[2]
    return f"{package}:{target}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cargo", default="cargo")
    parser.add_argument("wanted", nargs="+", metavar="PACKAGE:TARGET")
    options = parser.parse_args()
    words = [options.cargo, "test", "-q", "--workspace", "--no-run", "--message-format=json"]
    done = subprocess.run(words, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode != 0:
        sys.exit(done.returncode)
    messages = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    paths = {name(message): message["executable"] for message in messages if name(message)}
    missing = [wanted for wanted in options.wanted if wanted not in paths]
    if missing:
        sys.exit(f"cargo built no {', '.join(missing)}; known: {', '.join(sorted(paths))}")
    print("\n".join(paths[wanted] for wanted in options.wanted))


if __name__ == "__main__":
    main()
