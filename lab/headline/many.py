"""Pools of many tiny objects: medians over rounds."""

from statistics import median

from .rows import only

KEYS = {"scan": "scan_s", "list": "list_s", "status": "status_s", "plan": "plan_s",
        "follow": "follow_s", "put_ms": "put_ms", "peak_kib": "peak_kib"}


def middle(objects, key):
    return lambda report: median(row[key] for row in only(report["many"], objects=objects))


NUMBERS = {"pool-many.json": {f"{name}_{objects}": middle(objects, key)
                              for objects in (10_000, 50_000) for name, key in KEYS.items()}}
