#!/usr/bin/env python3
"""Checks the JSON that is shipped: the bill of materials and the dashboard of Grafana."""

import json
import pathlib
import re
import sys


def bill(path):
    data = json.loads(path.read_text())
    assert (data["bomFormat"], data["specVersion"]) == ("CycloneDX", "1.5"), path
    refs = [component["bom-ref"] for component in data["components"]]
    assert len(refs) == len(set(refs)) > 50, "every crate once"
    known = {*refs, data["metadata"]["component"]["bom-ref"]}
    for row in data["dependencies"]:
        assert {row["ref"], *row["dependsOn"]} <= known, row["ref"]
    for component in data["components"]:
        assert component["purl"].startswith("pkg:cargo/"), component
    return len(refs)


def dashboard(path, rules):
    data = json.loads(path.read_text())
    assert data["schemaVersion"] >= 36 and data["title"] and data["uid"]
    ids = [panel["id"] for panel in data["panels"]]
    assert len(ids) == len(set(ids))
    taken = set()
    for panel in data["panels"]:
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= 24, panel["title"]
        for x in range(place["x"], place["x"] + place["w"]):
            for y in range(place["y"], place["y"] + place["h"]):
                assert (x, y) not in taken, f"{panel['title']} lies on another"
                taken.add((x, y))
        assert panel["targets"] and all(target["expr"] for target in panel["targets"])
    text = path.read_text() + rules.read_text()
    return set(re.findall(r"kiln_[a-z_]+", text))


def main():
    root = pathlib.Path(sys.argv[1])
    crates = bill(root / "usr/share/doc/kiln/kiln.cdx.json")
    share = root / "usr/share/kiln"
    names = dashboard(share / "dashboard.json", share / "alerts.yml")
    print(f"bill of {crates} crates; {len(names)} metrics in rules and dashboard")


if __name__ == "__main__":
    main()
