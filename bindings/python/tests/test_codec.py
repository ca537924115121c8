"""Codes: every loss comes back, nothing is copied, the lock is free, mistakes are named."""

import random
import sys
import threading

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import kiln
from support import PROGRAM, losses, position_bytes, program, stripe

EXAMPLES = [row["example"] for row in kiln.codes()]
MORE = ["rs:1+1", "rs:10+4,matrix=isa", "clay:5+3,d=6", "clay:4+2,order=gray", "lrc:6+2+2",
        "liberation:4+2,packet=64", "cauchy:4+3,w=4", "rep:3"]


@pytest.mark.parametrize("spec", sorted({*EXAMPLES, *MORE}))
def test_losses_come_back(spec):
    codec, rng = kiln.Codec(spec), random.Random(spec)
    chunk_len = codec.chunk_len(codec.k * rng.randrange(1, 9) * codec.alpha)
    chunks = dict(enumerate(stripe(codec, chunk_len)))
    for lost in losses(codec, rng):
        left = {i: chunk for i, chunk in chunks.items() if i not in lost}
        want = {i: chunks[i] for i in lost}
        assert codec.repair(left, lost) == want, lost
        assert codec.decode(left, lost) == want, lost
        missing = {i: chunks[i] for i in lost if i < codec.k}
        assert codec.decode(left) == missing, lost


@st.composite
def cases(draw):
    family = draw(st.sampled_from(["rs", "clay", "cauchy"]))
    k, m = draw(st.integers(2, 7)), draw(st.integers(1, 3))
    codec = kiln.Codec(f"{family}:{k}+{m}")
    lost = draw(st.sets(st.integers(0, k + m - 1), min_size=1, max_size=m))
    return codec, sorted(lost), draw(st.integers(1, 5)), draw(st.integers(0, 2**30))


@settings(max_examples=60, deadline=None, derandomize=True)
@given(cases())
def test_a_repair_reads_what_its_plan_says(case):
    codec, lost, sub, seed = case
    chunks = stripe(codec, codec.alpha * sub, seed)
    plan = codec.repair_plan(lost)
    # Whatever else a helper has is garbage: it must not matter.
    sent = []
    for read in plan.reads:
        runs = plan.byte_runs(read.chunk, codec.alpha * sub)
        assert runs == [(at * sub, count * sub) for at, count in read.runs]
        spoilt = bytearray(position_bytes(len(chunks[0]), seed + 1))
        for at, length in runs:
            spoilt[at : at + length] = chunks[read.chunk][at : at + length]
        sent.append(plan.take(read.chunk, spoilt))
    assert sum(map(len, sent)) == plan.sub_chunks_read * sub
    assert plan.sub_chunks_read == sum(read.sub_chunks for read in plan.reads)
    assert plan.run(sent) == [chunks[i] for i in lost]


@settings(max_examples=40, deadline=None, derandomize=True)
@given(st.binary(max_size=5000), st.integers(1, 6), st.sampled_from(["rs", "clay"]))
def test_split_and_join_are_opposites(data, k, family):
    codec = kiln.Codec(f"{family}:{k}+2")
    chunks = kiln.split(codec, data)
    assert len(chunks) == k and kiln.join(chunks, len(data)) == data


def test_buffers_of_all_kinds_are_used_in_place():
    codec = kiln.Codec("rs:4+2")
    array = np.frombuffer(position_bytes(4 * 4096), np.uint8).reshape(4, 4096)
    parity = np.zeros((2, 4096), np.uint8)
    out = codec.encode(array, out=parity)
    assert all(np.shares_memory(mine, theirs) for mine, theirs in zip(out, parity, strict=True))
    kinds = [bytes(array[0]), bytearray(array[1]), memoryview(bytes(array[2])), array[3]]
    again = codec.encode(kinds)
    assert [bytes(chunk) for chunk in again] == [bytes(chunk) for chunk in parity]
    # Rows of a matrix, some lost, rebuilt where they belong.
    stored = np.vstack([array, parity])
    damaged = stored.copy()
    damaged[[1, 4]] = 0xA5
    left = {i: damaged[i] for i in range(6) if i not in (1, 4)}
    codec.repair(left, [1, 4], out={1: damaged[1], 4: damaged[4]})
    assert (damaged == stored).all()


@pytest.fixture
def no_switches():
    """Threads change only where one of them lets go of the interpreter's lock itself."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1000)
    yield
    sys.setswitchinterval(interval)


def was_overtaken(call):
    """Whether this thread runs before another one has ended that only makes calls."""
    begun, ended, seen = threading.Event(), threading.Event(), []

    def work():
        begun.set()
        for _ in range(500):
            call()
            if seen:
                break
        ended.set()

    thread = threading.Thread(target=work)
    thread.start()
    begun.wait()
    seen.append(not ended.is_set())
    thread.join()
    return seen[0]


def test_other_threads_run_meanwhile(no_switches, tmp_path):
    codec = kiln.Codec("clay:10+4")
    data = np.frombuffer(position_bytes(10 << 18), np.uint8).reshape(10, -1)
    parity = [bytearray(1 << 18) for _ in range(4)]
    chunks = dict(enumerate([*data, *codec.encode(data)]))
    del chunks[0]
    plan = codec.repair_plan([0])
    sent = [plan.take(read.chunk, chunks[read.chunk]) for read in plan.reads]
    assert not was_overtaken(lambda: sum(range(1000)))
    assert was_overtaken(lambda: codec.encode(data, out=parity))
    assert was_overtaken(lambda: codec.repair(chunks, [0]))
    assert was_overtaken(lambda: plan.run(sent))
    nodes = [str(tmp_path / f"disk{i}") for i in range(3)]
    pool = kiln.Pool.create(tmp_path / "pool.toml", nodes, code="rs:2+1")
    pool.put("object", data)
    assert was_overtaken(lambda: pool.get("object"))


def test_threads_share_a_codec():
    codec = kiln.Codec("clay:6+3")
    chunks = dict(enumerate(stripe(codec, codec.alpha * 64)))
    failures = []

    def work(seed):
        for lost in losses(codec, random.Random(seed), 8):
            left = {i: chunk for i, chunk in chunks.items() if i not in lost}
            if codec.repair(left, lost) != {i: chunks[i] for i in lost}:
                failures.append(lost)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


@pytest.mark.parametrize(
    "call,words",
    [
        (lambda c: c.encode([b"ab", b"cd", b"ef"]), "expected 4 buffers, got 3"),
        (lambda c: c.encode([b"ab"] * 5), "expected 4 buffers, got more"),
        (lambda c: c.encode([b"ab", b"cd", b"ef", b"g"]), "data[3]: 1 bytes"),
        (lambda c: c.encode([b"ab"] * 4, out=[b"12", b"34"]), "cannot be written"),
        (lambda c: c.encode([b"ab"] * 4, out=[bytearray(2), bytearray(3)]), "expected 2 bytes"),
        (lambda c: c.encode([np.zeros(8, np.uint8)[::2]] * 4), "not contiguous"),
        (lambda c: c.encode([np.zeros(8, np.float64)] * 4), "no bytes"),
        (lambda c: c.encode([b""] * 4), "multiple"),
        (lambda c: c.repair({1: b"a", 2: b"b", 3: b"c", 4: b"dd"}, [0]), "chunk 4: 2 bytes"),
        (lambda c: c.repair({i: b"a" for i in range(1, 7)}, [0]), "chunk 6"),
        (lambda c: c.repair({i: b"a" for i in range(5)}, [0]), "named twice"),
        (lambda c: c.repair({i: b"a" for i in range(1, 6)}, [0], out={}), "out: it must have"),
        (lambda c: c.repair_plan([]), "lost chunks"),
        (lambda c: c.repair_plan([0]).take(0, b"a"), "no helper"),
        (lambda c: c.repair_plan([0]).run([b"a", b"b", b"c", b"dd"]), "helper 4: 2 bytes"),
        (lambda c: c.repair_plan([0]).run([b"", b"", b"", b""]), "0 bytes"),
        (lambda c: kiln.Codec("turbo:3+2"), "known codes"),
        (lambda c: kiln.split(c, b"12345", 1), "do not hold"),
    ],
)
def test_mistakes_are_named(call, words):
    with pytest.raises(kiln.UsageError) as raised:
        call(kiln.Codec("rs:4+2"))
    assert words in str(raised.value)
    assert isinstance(raised.value, ValueError)
    assert (raised.value.exit_code, raised.value.kind) == (3, "usage")


def test_results_never_overlap():
    codec, memory = kiln.Codec("rs:2+2"), np.zeros(64, np.uint8)
    part = [memory[at : at + 8] for at in range(0, 64, 8)]
    codec.encode([part[0], part[0]], out=[part[1], part[2]])
    for out in ([part[0], part[1]], [part[2], part[2]], [memory[12:20], part[3]]):
        with pytest.raises(kiln.UsageError, match="overlaps"):
            codec.encode([part[0], part[1]], out=out)


def test_what_is_no_buffer_is_a_type_error():
    with pytest.raises(TypeError, match="no buffer"):
        kiln.Codec("rs:1+1").encode(["text"])
    with pytest.raises(TypeError):
        kiln.Codec("rs:1+1").encode(5)


def test_too_much_lost_has_its_own_exception():
    codec = kiln.Codec("rs:4+2")
    with pytest.raises(kiln.NotRecoverableError) as raised:
        codec.decode({0: b"a", 1: b"b", 2: b"c"})
    assert raised.value.exit_code == 2
    assert codec.margin() == 2 and codec.margin([1, 2, 3]) < 0 and not codec.tolerates([1, 2, 3])


def test_costs_of_the_papers():
    clay, rs = kiln.Codec("clay:10+4"), kiln.Codec("rs:10+4")
    # d / (d - k + 1) of the Clay paper with d = 13, and k of Reed-Solomon.
    assert clay.costs()["repair_chunks_mean"] == 13 / 4
    assert clay.repair_plan([0]).chunks_read == 13 / 4
    assert rs.costs()["repair_chunks_mean"] == 10
    assert clay.costs()["storage_overhead"] == rs.costs()["storage_overhead"] == 1.4
    assert clay.average_cost(2)["patterns"] == 91


@pytest.mark.skipif(not PROGRAM, reason="KILN_PROGRAM names no program to compare with")
@pytest.mark.parametrize("spec", EXAMPLES)
def test_costs_are_those_of_the_program(spec):
    code, card = program("codes", spec)
    codec = kiln.Codec(spec)
    costs = codec.costs()
    same = set(costs) & set(card)
    assert code == 0 and len(same) == 8
    assert {name: costs[name] for name in same} == {name: card[name] for name in same}
    for name in ("k", "m", "n", "alpha"):
        assert getattr(codec, name) == card[name]
    assert (codec.spec, codec.order) == (card["explicit"], card["order"])
