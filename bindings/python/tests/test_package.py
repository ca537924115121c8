"""The package itself: types, metadata, both descriptions of it."""

import tomllib
from importlib import resources

import kiln
import typed_use
from support import ROOT


def test_typed_use_runs(tmp_path):
    assert typed_use.lose_and_repair("clay:4+2", b"typed" * 1000) == 2.5
    assert typed_use.keep(tmp_path, b"typed") == ["object"]


def test_types_and_documentation_are_there():
    assert resources.files(kiln).joinpath("py.typed").is_file()
    for name in kiln.__all__:
        value = getattr(kiln, name)
        assert isinstance(value, str) or value.__doc__, name
    for owner in (kiln.Codec, kiln.RepairPlan, kiln.Read, kiln.Pool):
        for name, value in vars(owner).items():
            assert name.startswith("_") or value.__doc__, f"{owner.__name__}.{name}"


def test_both_descriptions_of_the_package_are_one():
    here = tomllib.loads((ROOT / "bindings/python/pyproject.toml").read_text())
    root = tomllib.loads((ROOT / "pyproject.toml").read_text())
    for name, path in {"manifest-path": "Cargo.toml", "python-source": "python"}.items():
        assert here["tool"]["maturin"].pop(name) == path
        assert root["tool"]["maturin"].pop(name) == f"bindings/python/{path}"
    assert root["project"].pop("readme") == f"bindings/python/{here['project'].pop('readme')}"
    assert here == root
    version = tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]["package"]["version"]
    assert kiln.__version__ == version
