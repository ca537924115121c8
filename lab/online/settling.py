"""Waiting until a system does little more than nothing; removing what a killed run left."""

import json
import shutil
import subprocess
import time
from pathlib import Path

from lab.rig.tools import Failed, run

from lab.rig import meters

# Bytes that stay free: loop devices without room hang, and all else on the disk with them.
ROOM, SHORT = 2 << 30, 16 << 30
CALM = 256 << 10  # bytes at all devices in one look
EVERY = 0.4


def settle(system, most=10.0):
    """Waits until devices are calm, and no longer than given."""
    end, before = time.monotonic() + most, sum(system.disks.so_far())
    while time.monotonic() < end:
        time.sleep(EVERY)
        now = sum(system.disks.so_far())
        if now - before < CALM:
            return
        before = now


def idle(system, seconds):
    """What an idle system does in a second."""
    before = meters.look(system)
    time.sleep(seconds)
    return meters.rates(meters.between(before, meters.look(system)))


def look_for_room(folder, systems=()):
    """Gives back what file systems on devices have freed where room becomes short, and ends the
    run while there is still room for it to end well."""
    if shutil.disk_usage(folder).free < SHORT:
        for system in systems:
            system.trim()
    free = shutil.disk_usage(folder).free
    if free < ROOM:
        raise Failed(f"only {free >> 20} MiB are free where {folder} is, of which up to 60 devices "
                     "take what is written to them; what was measured is kept: make room and begin "
                     "again, or ask for less by --image-mib and --device-mib")


def under(folder, path):
    """Whether a path is in a folder."""
    return str(path).startswith(f"{folder}/")


def clear(folder, systems):
    """Ends and removes what an earlier run has left in a folder."""
    for system in systems:
        system.hosts.down()
    for line in reversed(Path("/proc/mounts").read_text().splitlines()):
        if under(folder, line.split()[1]):
            subprocess.run(["umount", "-l", line.split()[1]], check=False, capture_output=True)
    listed = run("losetup", "--json", "--list", "--output", "NAME,BACK-FILE").strip()
    for device in json.loads(listed)["loopdevices"] if listed else []:
        if under(folder, device["back-file"] or ""):
            subprocess.run(["losetup", "-d", device["name"]], check=False)
    shutil.rmtree(folder, ignore_errors=True)
