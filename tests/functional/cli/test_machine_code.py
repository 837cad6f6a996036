"""What commands say while planners are compiled, and what is compiled anew."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path
from typing import Any

import msgspec
import pytest

from doubles.commands import Run
from doubles.models import SPREAD, model, topology


def test_compiling_anew_forgets_what_was_compiled_in_every_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is cached of a changed function runs on in those that call it, with arrays of another form."""
    import stormpilot.model
    import stormpilot.planner
    from stormpilot.cli.machine_code import forget

    (tmp_path / "model" / "__pycache__").mkdir(parents=True)
    (tmp_path / "planner" / "search" / "__pycache__").mkdir(parents=True)
    old = [
        tmp_path / "model" / "__pycache__" / "cost.nbi",
        tmp_path / "planner" / "search" / "__pycache__" / "run.1.nbc",
    ]
    source = tmp_path / "planner" / "search" / "__pycache__" / "run.pyc"
    for file in (*old, source):
        file.write_bytes(b"")
    monkeypatch.setattr(stormpilot.model, "__path__", [str(tmp_path / "model")])
    monkeypatch.setattr(stormpilot.planner, "__path__", [str(tmp_path / "planner")])
    forget()
    assert not any(file.exists() for file in old)
    assert source.exists()


NOT_COMPILED = "from stormpilot.model.jit import jit\n\n\n@jit\ndef total(x):\n    return x + x\n"


@pytest.mark.parametrize("command", ["model show m.json", "plan compute -m m.json -p online"])
def test_whoever_waits_while_planners_are_compiled_is_told_that_it_takes_minutes(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    """A plan took 185 s with `--budget 3`, and `model show` a minute, without a word."""
    from stormpilot.cli import machine_code
    from stormpilot.model import cost

    source = tmp_path / "cost.py"
    source.write_text(NOT_COMPILED)
    (tmp_path / "m.json").write_bytes(msgspec.json.encode(model(topology(SPREAD))))
    usual = cost.metrics

    def first_use(*given: Any) -> dict[str, float]:
        found = importlib.util.spec_from_file_location("cost", source)
        assert found is not None and found.loader is not None
        module = importlib.util.module_from_spec(found)
        found.loader.exec_module(module)
        assert module.total(2) == 4
        return usual(*given)

    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)
    monkeypatch.setattr(machine_code, "_folders", lambda: [tmp_path])
    monkeypatch.setattr(cost, "metrics", first_use)
    told = "planners are compiled at their first use"
    assert run(*command.split()).err.count(told) == 1
    (tmp_path / "__pycache__" / "cost.total-4.py311.nbi").write_bytes(b"")
    assert told not in run(*command.split()).err, "another kind of arguments takes a moment"


def test_what_is_compiled_of_one_source_says_nothing_of_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from stormpilot.cli import machine_code

    monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)
    monkeypatch.setattr(machine_code, "_folders", lambda: [tmp_path])
    (tmp_path / "plain.py").write_text("")
    (tmp_path / "__pycache__").mkdir()
    assert not machine_code.missing()
    for name in ("cost", "moves"):
        source, compiled = tmp_path / f"{name}.py", tmp_path / "__pycache__" / f"{name}.total-12.py311.nbi"
        source.write_text(NOT_COMPILED)
        assert machine_code.missing()
        compiled.write_bytes(b"")
        os.utime(source, (compiled.stat().st_mtime - 60,) * 2)
        assert not machine_code.missing()
        os.utime(source, (compiled.stat().st_mtime + 60,) * 2)  # an upgrade
        assert machine_code.missing()
        os.utime(compiled, (source.stat().st_mtime,) * 2)
        assert not machine_code.missing()
