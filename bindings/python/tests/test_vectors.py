"""The same bytes and the same reads as Ceph and zfec."""

import hashlib
import json

import pytest

import kiln
from support import VECTORS, position_bytes

MANIFEST = json.loads((VECTORS / "manifest.json").read_text())["vectors"]


@pytest.mark.parametrize("vector", MANIFEST, ids=lambda vector: vector["dir"])
def test_chunks_are_those_of_ceph(vector):
    codec = kiln.Codec(vector["profile_string"])
    unit, folder = vector["stripe_unit"], VECTORS / vector["dir"]
    text = (folder / "in").read_bytes()
    assert len(text) == vector["input_size"]
    shards = [bytearray() for _ in range(codec.n)]
    for at in range(0, vector["stripes"] * codec.k * unit, codec.k * unit):
        data = kiln.split(codec, text[at : at + codec.k * unit], unit)
        for shard, chunk in zip(shards, [*data, *codec.encode(data)], strict=True):
            shard += chunk
    for shard, number in zip(shards, codec.mapping, strict=True):
        assert hashlib.sha256(shard).hexdigest() == vector["shard_sha256"][number]
        assert shard == (folder / f"in.{number}").read_bytes()


PLANS = sorted(VECTORS.glob("*/repair_plan.json"))


@pytest.mark.parametrize("path", PLANS, ids=lambda path: path.parent.name)
def test_plans_and_repairs_are_those_of_ceph(path):
    name = path.parent.name
    vector = next(v for v in MANIFEST if v["dir"].startswith(f"{name}/"))
    codec = kiln.Codec(vector["profile_string"])
    unit, folder = vector["stripe_unit"], VECTORS / vector["dir"]
    chunks = [(folder / f"in.{i}").read_bytes()[:unit] for i in range(codec.n)]
    for lost, helpers in json.loads(path.read_text()).items():
        plan = codec.repair_plan([int(lost)])
        assert plan.strategy == "repair" and plan.lost == [int(lost)]
        reads = {str(read.chunk): [list(run) for run in read.runs] for read in plan.reads}
        assert reads == helpers
        # Only what the plan names is read, and Ceph's chunk comes out.
        sent = [plan.take(read.chunk, chunks[read.chunk]) for read in plan.reads]
        assert plan.run(sent) == [chunks[int(lost)]]


@pytest.mark.parametrize("k,m", [(1, 1), (2, 1), (3, 2), (4, 2), (10, 4), (17, 3), (200, 56)])
def test_chunks_are_those_of_zfec(k, m):
    zfec = pytest.importorskip("zfec")
    codec = kiln.Codec(f"rs:{k}+{m},matrix=zfec")
    data = [position_bytes(257, j) for j in range(k)]
    blocks = zfec.Encoder(k, k + m).encode(data)
    assert [bytes(chunk) for chunk in codec.encode(data)] == blocks[k:]
    # And back, by each of them from the other's chunks: the first data chunks are lost.
    lost = list(range(min(k, m)))
    left = [i for i in range(k + m) if i not in lost][:k]
    rebuilt = codec.decode({i: blocks[i] for i in left})
    assert {i: bytes(chunk) for i, chunk in rebuilt.items()} == {i: data[i] for i in lost}
    mine = [*data, *map(bytes, codec.encode(data))]
    assert zfec.Decoder(k, k + m).decode([mine[i] for i in left], left) == data
