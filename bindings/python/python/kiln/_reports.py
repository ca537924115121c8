"""Reports as dictionaries; the program's have the same fields."""

from typing import TypedDict


class Family(TypedDict):
    """A row of `codes()`: a family of codes."""

    family: str
    about: str
    syntax: str
    example: str


class Costs(TypedDict):
    """What a code costs.

    Bytes stored for each byte; chunks that may be lost; chunks and runs read to rebuild one (means
    over all chunks); operations, and parity bytes that change, for each byte of data.
    """

    storage_overhead: float
    margin: int
    survived: float
    repair_chunks_mean: float
    repair_chunks_min: float
    repair_chunks_max: float
    repair_runs_mean: float
    repair_helpers: int
    multiplications: float
    xors: float
    updates: float


class AverageCost(TypedDict):
    """What repairs of several lost chunks read; means over the patterns that can be rebuilt."""

    failures: int
    patterns: int
    exhaustive: bool
    repairable: int
    undecodable: int
    mean_chunks: float
    mean_runs: float
    min_chunks: float
    max_chunks: float


class Listed(TypedDict):
    """An object of a pool, as `kiln ls --json` has it."""

    name: str
    size: int
    created_ms: int
    version: int
    code: str
    k: int
    nodes: list[str]
    manifests: list[str]
    run: str


class ShardState(TypedDict):
    """A shard of an object: the node that should have it, and what is wrong with it, if so."""

    index: int
    node: str
    trouble: str | None


class Stat(Listed):
    """An object and the state of its shards, as `kiln stat --json` has them."""

    m: int
    recoverable: bool
    alpha: int
    sub_chunk: int
    stripes: int
    shards: list[ShardState]
    copies: list[str]


class Put(TypedDict):
    """What a put did, as `kiln put --json` has it; `seconds` is not measured here."""

    object: str
    size: int
    version: int
    run: str
    code: str
    nodes: list[str]
    manifests: list[str]
    missing: list[int]
    seconds: float
