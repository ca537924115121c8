"""Memory stays bounded whatever the size of the object."""

import os
import re
import subprocess
import time
from threading import Thread

from rig import data, same, say, test

# The bar of the project for any encode, in bytes.
LIMIT = 512 << 20
BLOCK = 1 << 20


def big():
    """KILN_BIG, in blocks: a number with G, M, GiB or MiB."""
    number, unit = re.fullmatch(r"(\d+)(GiB|G|MiB|M)", os.environ.get("KILN_BIG", "1GiB")).groups()
    return int(number) << (10 if unit[0] == "G" else 0)


def peak(child):
    """Waits for the end and returns the highest VmHWM seen, in bytes. It only grows, so the last
    look before the end is the answer."""
    highest = 0
    while child.poll() is None:
        try:
            with open(f"/proc/{child.pid}/status") as status:
                found = re.search(r"VmHWM:\s*(\d+)", status.read())
        except ProcessLookupError:
            found = None
        highest = max(highest, int(found[1]) << 10 if found else 0)
        time.sleep(0.005)
    same(child.returncode, 0)
    return highest


@test
def a_long_stream_stays_below_half_a_gigabyte(rig):
    blocks, peaks, differing = big(), {}, []
    lost = {"encode": "shards/big.04.kiln", "repair": "shards/big.00.kiln"}

    def feed(stream):
        with stream:
            for at in range(blocks):
                stream.write(data(BLOCK, at))

    def compare(stream):
        differing.extend(at for at in range(blocks) if stream.read(BLOCK) != data(BLOCK, at))
        differing.extend(stream.read(1))

    for name, words, ends in [
            ("encode", "encode - --name big -c clay:10+4 -o shards -q", (feed, "stdin")),
            ("repair", "repair shards -q", None),
            ("decode", "decode shards -o - -q", (compare, "stdout"))]:
        child = rig.start(words, stdin=subprocess.PIPE)
        if ends:
            beside = Thread(target=ends[0], args=[getattr(child, ends[1])])
            beside.start()
        peaks[name] = peak(child)
        if ends:
            beside.join()
        if name in lost:
            rig.remove(lost[name])
    same(differing, [], "blocks of the decoded stream differ")
    text = ", ".join(f"{name} {found >> 20} MiB" for name, found in peaks.items())
    say(f"{blocks} MiB streamed as clay:10+4: peak memory of {text}")
    assert all(0 < found < LIMIT for found in peaks.values()), text
