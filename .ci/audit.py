#!/usr/bin/env python3
"""Looks at what we depend on: licences, places, doubles, and known faults.

    audit.py [--cargo CARGO]

It reads `Cargo.lock`, `cargo metadata` and the rules in `deny.toml`, which are cargo-deny's own,
and needs no network once the crates are there. Of the RustSec database it knows the rows of
`.ci/audit.toml`, for the crates and until the day that stand there. A rule that is no longer
needed is an error, as everywhere here.
"""

import argparse
import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
REGISTRY = "registry+https://github.com/rust-lang/crates.io-index"


def number(version):
    """What a version is compared by; what stands after its numbers does not count."""
    parts = re.split(r"[-+]", version)[0].split(".")
    return tuple(int(part) for part in (parts + ["0", "0"])[:3])


def within(version, affected):
    """Whether a version is in one of the ranges, such as ">=0.23.13, <0.23.45"."""
    compare = {
        "<": lambda a, b: a < b,
        "<=": lambda a, b: a <= b,
        ">": lambda a, b: a > b,
        ">=": lambda a, b: a >= b,
        "=": lambda a, b: a == b,
    }

    def holds(bound):
        sign, limit = re.fullmatch(r"(<=|>=|<|>|=)\s*(\S+)", bound.strip()).groups()
        return compare[sign](number(version), number(limit))

    return any(all(holds(bound) for bound in each.split(",")) for each in affected)


def allowed(expression, licences):
    """Whether an SPDX expression can be met with these licences."""
    expression = expression.replace("/", " OR ")
    words = re.findall(r"\(|\)|[^\s()]+", expression)
    at = 0

    def one():
        nonlocal at
        if words[at] == "(":
            at += 1
            met = either()
            at += 1
            return met
        name = words[at]
        at += 1
        if at < len(words) and words[at] == "WITH":
            name += " WITH " + words[at + 1]
            at += 2
        return name in licences

    def both():
        nonlocal at
        met = one()
        while at < len(words) and words[at] == "AND":
            at += 1
            met &= one()
        return met

    def either():
        nonlocal at
        met = both()
        while at < len(words) and words[at] == "OR":
            at += 1
            met |= both()
        return met

    return either()


def licences(cargo, rules, complain):
    """Every crate's licence is one of ours, or an exception with a reason."""
    words = [cargo, "metadata", "--locked", "--format-version", "1"]
    found = subprocess.run(words, cwd=ROOT, capture_output=True, text=True)
    if found.returncode != 0:
        last = found.stderr.strip().splitlines()[-1:]
        print(f"audit: licences: SKIPPED: cargo metadata says {' '.join(last)}")
        return
    unused = {rule["crate"]: rule["allow"] for rule in rules["licenses"]["exceptions"]}
    for package in json.loads(found.stdout)["packages"]:
        if package["source"] is None:
            continue
        name, licence = package["name"], package["license"]
        if licence and allowed(licence, rules["licenses"]["allow"]):
            continue
        if licence not in unused.pop(name, []):
            complain(f"{name} has the licence {licence}: allow it, or make an exception")
    for name in unused:
        complain(f"the exception for the licence of {name} is not needed")


def doubles(packages, rules, complain):
    """Crates of which there are several versions: more to build and to watch."""
    versions = {}
    for package in packages:
        versions.setdefault(package["name"], []).append(package["version"])
    several = {name for name, all in versions.items() if len(all) > 1}
    known = {rule["crate"] for rule in rules["bans"]["skip"]}
    for name in sorted(several - known):
        complain(f"{name} is here several times: {', '.join(versions[name])}; say why, or update")
    for name in sorted(known - several):
        complain(f"{name} is no longer here several times: remove the rule")


def faults(packages, accepted, rules, complain):
    """Known faults of versions that we have."""
    names = {package["name"] for package in packages}
    for rule in rules["advisory"]:
        hits = [
            package["version"]
            for package in packages
            if package["name"] == rule["crate"] and within(package["version"], rule["affected"])
        ]
        what = f"{rule['id']} {rule['crate']}: {rule['what']}"
        if rule["crate"] not in names:
            complain(f"{what}: we no longer have this crate, remove the rule")
        elif hits and rule["id"] not in accepted:
            complain(f"{what}: {', '.join(hits)} has it; update, or say why it is accepted")
        elif hits:
            print(f"audit: {what}: accepted: {accepted[rule['id']]}")
        elif rule["id"] in accepted:
            complain(f"{what}: is not here, so there is nothing to accept")
    looked = set(rules["looked_up"])
    for name in sorted(looked - names):
        complain(f"{name} was looked up and is not here: remove it")
    return sorted(names - looked)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cargo", default="cargo")
    options = parser.parse_args()
    rules = tomllib.loads((ROOT / "deny.toml").read_text())
    known = tomllib.loads((ROOT / ".ci/audit.toml").read_text())
    accepted = {rule["id"]: rule["reason"] for rule in rules["advisories"]["ignore"]}
    lock = tomllib.loads((ROOT / "Cargo.lock").read_text())
    packages = [package for package in lock["package"] if "source" in package]
    complaints = []
    complain = complaints.append
    for package in packages:
        if package["source"] != REGISTRY or "checksum" not in package:
            complain(f"{package['name']} is not from the registry, with a checksum")
    doubles(packages, rules, complain)
    unknown = faults(packages, accepted, known, complain)
    licences(options.cargo, rules, complain)
    print(
        f"audit: {len(packages)} crates; faults as known on {known['as_of']} for "
        f"{len(known['looked_up'])} of them; not looked up: {len(unknown)}"
    )
    if complaints:
        sys.exit("audit: " + "\naudit: ".join(complaints))


if __name__ == "__main__":
    main()
