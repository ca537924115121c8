#!/usr/bin/env python3
"""The bill of materials of what is shipped, as CycloneDX 1.5: all crates in the binary."""

import argparse
import json
import os
import subprocess
import time


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cargo", default="cargo")
    parser.add_argument("--target", required=True)
    args = parser.parse_args()
    words = [args.cargo, "metadata", "--format-version", "1", "--locked"]
    words += ["--filter-platform", args.target]
    meta = json.loads(subprocess.check_output(words))
    packages = {package["id"]: package for package in meta["packages"]}
    root = next(p["id"] for p in meta["packages"] if p["name"] == "kiln" and not p["source"])
    # What tests and build scripts need is not in the binary.
    links = {
        node["id"]: [
            dep["pkg"]
            for dep in node["deps"]
            if any(kind["kind"] is None for kind in dep["dep_kinds"])
        ]
        for node in meta["resolve"]["nodes"]
    }
    seen, todo = set(), [root]
    while todo:
        at = todo.pop()
        if at not in seen:
            seen.add(at)
            todo += links[at]
    moment = int(os.environ.get("SOURCE_DATE_EPOCH", "315532800"))

    def ref(package):
        return f"pkg:cargo/{package['name']}@{package['version']}"

    components = []
    for at in sorted(seen - {root}, key=lambda at: ref(packages[at])):
        package = packages[at]
        component = {
            "type": "library",
            "bom-ref": ref(package),
            "name": package["name"],
            "version": package["version"],
            "purl": ref(package),
        }
        if package.get("license"):
            licence = package["license"].replace("/", " OR ")
            component["licenses"] = [{"expression": licence}]
        components.append(component)
    own = packages[root]
    bill = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {
            "timestamp": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(moment)),
            "component": {
                "type": "application",
                "bom-ref": ref(own),
                "name": "kiln",
                "version": own["version"],
            },
        },
        "components": components,
        "dependencies": [
            {
                "ref": ref(packages[at]),
                "dependsOn": sorted({ref(packages[to]) for to in links[at]}),
            }
            for at in sorted(seen, key=lambda at: ref(packages[at]))
        ],
    }
    print(json.dumps(bill, indent=2))


if __name__ == "__main__":
    main()
