"""Every module of the benchmarks can be imported: what it takes from the package is still there."""

from __future__ import annotations

import importlib
from pathlib import Path

import benchmarks

FOLDER = Path(benchmarks.__file__).parent


def test_every_module_can_be_imported() -> None:
    files = [f.relative_to(FOLDER.parent) for f in FOLDER.rglob("*.py") if f.name != "__main__.py"]
    packages = [f for f in files if all((FOLDER.parent / p / "__init__.py").exists() for p in f.parents[:-1])]
    assert len(packages) > 50  # the others run in workers
    for file in packages:
        importlib.import_module(".".join(file.with_suffix("").parts).removesuffix(".__init__"))
