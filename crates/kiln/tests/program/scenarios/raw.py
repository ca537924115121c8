"""Bare chunks, as Ceph and others have them."""

import hashlib
import json
import shutil
from pathlib import Path

from rig import Rig, same, test

VECTORS = Path(__file__).parents[4] / "code/tests/vectors"


@test
def chunks_of_ceph(rig):
    """The program writes the very bytes that Ceph wrote, and repairs what Ceph wrote."""
    vectors = json.loads((VECTORS / "manifest.json").read_text())["vectors"]
    assert vectors
    for vector in vectors:
        with Rig() as rig:
            chunks(rig, VECTORS / vector["dir"], vector)


def chunks(rig, place, vector):
    def sum_of(index):
        return hashlib.sha256(rig.read(f"chunks/in.{index}")).hexdigest()

    profile, sums = vector["profile_string"], vector["shard_sha256"]
    raw = f"--format raw -c {profile} --chunk {vector['stripe_unit']}"
    shutil.copy(place / "in", rig / "in")
    rig.kiln(f"encode in {raw} -o chunks").ok()
    same([sum_of(index) for index in range(len(sums))], sums, profile)
    shutil.copy(place / "in.1", rig / "chunks/in.1")
    rig.remove("chunks/in.0")
    rig.kiln(f"repair chunks {raw}").ok()
    same(sum_of(0), sums[0], f"{profile}: repaired chunk 0")
    rig.remove("chunks/in.1")
    rig.kiln(f"decode chunks {raw} --size {vector['input_size']} -o back").ok()
    assert rig.read("back") == rig.read("in"), f"{profile}: decode"
