"""The examples of the READMEs run as they stand; they take a file and a pool for granted."""

import re

import kiln
import pytest
from support import ROOT, position_bytes


@pytest.mark.parametrize("page", ["README.md", "bindings/python/README.md"])
def test_examples_run(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    data = position_bytes(1_100_000)
    (tmp_path / "photos.tar").write_bytes(data)
    nodes = [str(tmp_path / f"disk{i}") for i in range(6)]
    pool = kiln.Pool.create(tmp_path / "pool.toml", nodes, code="rs:4+2")
    pool.put("photos/2024/beach.jpg", data)
    text = (ROOT / page).read_text(encoding="utf-8")
    examples = re.findall(r"(?ms)^```python\n(.*?)^```", text)
    assert examples
    for example in examples:
        exec(compile(example, page, "exec"), {"data": data})  # pylint: disable=exec-used
