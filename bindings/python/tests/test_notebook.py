"""The example notebook runs, cell by cell, and every picture has something in it."""

import json
import os

import pytest

from support import ROOT

NOTEBOOK = ROOT / "bindings/python/examples/papers.ipynb"


def test_the_notebook_runs(monkeypatch):
    pytest.importorskip("matplotlib")
    monkeypatch.setenv("MPLBACKEND", "Agg")
    monkeypatch.chdir(NOTEBOOK.parent)
    cells = json.loads(NOTEBOOK.read_text())["cells"]
    names, drawn = {}, 0
    for number, cell in enumerate(cells):
        assert not cell.get("outputs"), f"cell {number}: commit it without outputs"
        if cell["cell_type"] == "code":
            source = "".join(cell["source"])
            exec(compile(source, f"{os.fspath(NOTEBOOK)}, cell {number}", "exec"), names)
            drawn += "plt.subplots" in source
    figures = [names["plt"].figure(number) for number in names["plt"].get_fignums()]
    assert len(figures) == drawn == 5
    for figure in figures:
        (axes,) = figure.axes
        assert axes.has_data() and axes.get_title() and axes.get_xlabel()
