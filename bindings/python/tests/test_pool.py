"""Pools: what is put comes back, whatever happens to m nodes; errors as the program has them."""

import random
import shutil

import numpy as np
import pytest

import kiln
from support import PROGRAM, position_bytes, program


@pytest.fixture
def pool(tmp_path):
    nodes = [str(tmp_path / f"disk{i}") for i in range(6)]
    return kiln.Pool.create(tmp_path / "pool.toml", nodes, code="clay:4+2")


SIZES = [0, 1, 4095, 100_000, 3_000_001]


def test_objects_come_back_whole_and_in_parts(pool, tmp_path):
    data = {f"a/{size}": position_bytes(size, size) for size in SIZES}
    for name, content in data.items():
        assert pool.put(name, content)["size"] == len(content)
    # Two disks are lost; a pool that is opened anew sees as much.
    for disk in (1, 4):
        shutil.rmtree(tmp_path / f"disk{disk}")
    again, rng = kiln.Pool.open(tmp_path / "pool.toml"), random.Random(5)
    assert sorted(again.away()) == ["n01", "n04"]
    for name, content in data.items():
        assert again.get(name) == content
        for _ in range(5):
            start, length = rng.randrange(len(content) + 9), rng.randrange(len(content) + 9)
            assert again.get(name, start, length) == content[start : start + length]
    assert [row["name"] for row in again.list("a/")] == sorted(data)
    assert again.stat("a/100000")["recoverable"]


def test_arrays_go_in_and_out_in_place(pool):
    array = np.frombuffer(position_bytes(1 << 20), np.uint8).reshape(1024, 1024)
    pool.put("matrix", array)
    back = np.empty_like(array)
    assert pool.get("matrix", out=back) is back
    assert (back == array).all()
    rows = np.empty((3, 1024), np.uint8)
    pool.get("matrix", 7 * 1024, 3 * 1024, out=rows)
    assert (rows == array[7:10]).all()


def test_names_are_listed_in_order_and_in_pages(pool):
    names = [f"{folder}/{i:02}" for folder in "ab" for i in range(5)]
    for name in names:
        pool.put(name, name.encode())
    assert [row["name"] for row in pool.list()] == names
    assert [row["size"] for row in pool.list("b/")] == [4] * 5
    page, seen = pool.list(limit=3), []
    while page:
        seen += [row["name"] for row in page]
        page = pool.list(after=seen[-1], limit=3)
    assert seen == names
    pool.remove("a/03")
    assert [row["name"] for row in pool.list("a/")] == [n for n in names[:5] if n != "a/03"]


def test_refusals_have_their_classes(pool, tmp_path):
    pool.put("a/b", b"old")
    with pytest.raises(kiln.RefusedError, match="give replace=True") as refused:
        pool.put("a/b", b"new")
    assert refused.value.exit_code == 5
    for name in ("a", "a/b/c"):
        with pytest.raises(kiln.RefusedError, match="folder"):
            pool.put(name, b"nested")
    assert pool.get("a/b") == b"old"
    assert pool.put("a/b", b"new", replace=True)["version"] == 2
    for call in (pool.get, pool.stat, pool.remove):
        with pytest.raises(kiln.NotFoundError) as missing:
            call("nothing")
        assert isinstance(missing.value, LookupError) and missing.value.exit_code == 7
    with pytest.raises(kiln.UsageError, match="expected 3 bytes"):
        pool.get("a/b", out=bytearray(4))
    with pytest.raises(kiln.IoError) as io:
        kiln.Pool.open(tmp_path / "no.toml")
    assert isinstance(io.value, OSError)
    with pytest.raises(kiln.RefusedError, match="exists"):
        places = [f"{tmp_path}/other{i}" for i in range(3)]
        kiln.Pool.create(tmp_path / "pool.toml", places, code="rs:2+1")
    with pytest.raises(kiln.UsageError, match="needs 6 nodes"):
        kiln.Pool.create(tmp_path / "new.toml", [str(tmp_path / "x")] * 3, code="rs:4+2")


def test_too_many_lost_disks_are_said(pool, tmp_path):
    pool.put("large", position_bytes(1 << 20))
    for disk in range(3):
        shutil.rmtree(tmp_path / f"disk{disk}")
    again = kiln.Pool.open(tmp_path / "pool.toml")
    with pytest.raises(kiln.NotRecoverableError):
        again.get("large")
    with pytest.raises(kiln.NotRecoverableError, match="partial=True"):
        again.list()
    again.list(partial=True)


def test_damage_is_worked_around(pool, tmp_path):
    content = position_bytes(1 << 20)
    pool.put("large", content)
    shards = sorted((tmp_path / "disk2").rglob("*"))
    largest = max((path for path in shards if path.is_file()), key=lambda p: p.stat().st_size)
    spoilt = bytearray(largest.read_bytes())
    spoilt[len(spoilt) // 2] ^= 0x10
    largest.write_bytes(spoilt)
    assert pool.get("large") == content


@pytest.mark.skipif(not PROGRAM, reason="KILN_PROGRAM names no program to compare with")
def test_the_program_sees_the_same_pool(pool, tmp_path):
    content = position_bytes(200_000)
    pool.put("dir/object", content)
    where = ("--pool", tmp_path / "pool.toml")
    assert program("ls", *where) == (0, {"objects": pool.list()})
    assert program("stat", "dir/object", *where) == (0, pool.stat("dir/object"))
    assert program("get", "dir/object", "-o", tmp_path / "out", *where)[0] == 0
    assert (tmp_path / "out").read_bytes() == content
    (tmp_path / "in").write_bytes(content[::-1])
    assert program("put", tmp_path / "in", "from-program", *where)[0] == 0
    assert pool.get("from-program") == content[::-1]


@pytest.mark.skipif(not PROGRAM, reason="KILN_PROGRAM names no program to compare with")
def test_failures_have_the_exit_codes_of_the_program(pool, tmp_path):
    where = ("--pool", tmp_path / "pool.toml")
    pool.put("there", b"x")
    (tmp_path / "there").write_bytes(b"y")
    cases = [
        (("get", "nothing", *where), lambda: pool.get("nothing")),
        (("put", tmp_path / "there", *where), lambda: pool.put("there", b"y")),
        (("put", tmp_path / "there", "there/below", *where), lambda: pool.put("there/below", b"")),
        (("rm", "../there", *where), lambda: pool.remove("../there")),
        (("codes", "clay:4+2,d=9"), lambda: kiln.Codec("clay:4+2,d=9")),
        (("ls", "--pool", tmp_path / "no.toml"), lambda: kiln.Pool.open(tmp_path / "no.toml")),
        (("ls", "--pool", tmp_path / "there"), lambda: kiln.Pool.open(tmp_path / "there")),
    ]
    for words, call in cases:
        code, said = program(*words)
        with pytest.raises(kiln.KilnError) as raised:
            call()
        assert (raised.value.exit_code, raised.value.kind) == (code, said["kind"]), words
        # But for the word by which each of them is asked to replace something.
        assert str(raised.value) == said["error"].replace("--force", "replace=True"), words
