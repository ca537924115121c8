"""What a typed program writes; mypy reads it, and a test runs it."""

from pathlib import Path

import kiln


def lose_and_repair(spec: str, data: bytes) -> float:
    """Chunks that were read to rebuild chunk 0."""
    codec = kiln.Codec(spec)
    chunks = kiln.split(codec, data)
    parity: list[bytearray] = codec.encode(chunks)
    plan: kiln.RepairPlan = codec.repair_plan([0])
    everything: list[memoryview | bytearray] = [*chunks, *parity]
    sent = [plan.take(read.chunk, everything[read.chunk]) for read in plan.reads]
    rebuilt: list[memoryview] = plan.run(sent, out=[memoryview(bytearray(len(chunks[0])))])
    assert rebuilt[0] == chunks[0]
    whole: dict[int, bytearray] = codec.decode(dict(enumerate(everything[1:], 1)))
    assert whole[0] == chunks[0]
    return plan.chunks_read


def keep(folder: Path, data: bytes) -> list[str]:
    """The names in a new pool with one object."""
    nodes = [str(folder / f"node{i}") for i in range(3)]
    pool = kiln.Pool.create(folder / "typed.toml", nodes, code="rs:2+1")
    put: int = pool.put("object", data)["version"]
    back: bytearray = pool.get("object", 1, length=2)
    assert put == 1 and back == data[1:3]
    try:
        pool.stat("other")
    except kiln.NotFoundError as error:
        assert (error.exit_code, error.kind, error.retryable) == (7, "not-found", False)
    return [row["name"] for row in pool.list()]
