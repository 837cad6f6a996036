"""What commands say while planners are compiled, and what is compiled anew."""

from __future__ import annotations

import importlib.util
import os
import threading
from pathlib import Path
from typing import Any

import msgspec
import pytest
from numba.core.caching import CacheImpl

from doubles.commands import Run
from doubles.models import SPREAD, model, topology
from interrupts import ctrl_c, sigint
from stormpilot.cli.interrupts import interruptible
from stormpilot.model import compiling
from stormpilot.planner.search.parallel import at_once


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


def test_what_another_user_compiled_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Compiling as the service's user ended in a traceback once root had planned."""
    from stormpilot.cli import machine_code

    refused: list[object] = []

    def refuse(file: object, **_: object) -> None:
        refused.append(file)
        raise PermissionError

    (tmp_path / "__pycache__").mkdir()
    (tmp_path / "__pycache__" / "cost.nbi").write_bytes(b"")
    monkeypatch.setattr(machine_code, "_folders", lambda: [tmp_path])
    with monkeypatch.context() as theirs:
        theirs.setattr(Path, "unlink", refuse)
        machine_code.forget()
    assert refused == [tmp_path / "__pycache__" / "cost.nbi"]


NOT_COMPILED = "from stormpilot.model.jit import jit\n\n\n@jit\ndef total(x):\n    return x + x\n"


def imported(source: Path) -> Any:
    """The module in that file."""
    found = importlib.util.spec_from_file_location(source.stem, source)
    assert found is not None and found.loader is not None
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module


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
        assert imported(source).total(2) == 4
        return usual(*given)

    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)
    monkeypatch.setattr(machine_code, "_folders", lambda: [tmp_path])
    monkeypatch.setattr(cost, "metrics", first_use)
    told = "planners are compiled at their first use"
    assert run(*command.split()).err.count(told) == 1
    (tmp_path / "__pycache__" / "cost.total-4.py311.nbi").write_bytes(b"")
    assert told not in run(*command.split()).err, "another kind of arguments takes a moment"


@pytest.fixture
def nowhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """A user without a home, who may not write beside the sources."""
    monkeypatch.setattr(CacheImpl, "_locator_classes", [])
    monkeypatch.setattr(compiling, "_kept", True)
    compiling.stop(stopped=False)  # a command that was interrupted may have run in this process


@pytest.mark.usefixtures("nowhere")
def test_where_nothing_can_be_kept_planners_are_compiled_all_the_same(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`config check`, `planners` and `run` ended in a traceback of numba's when they were imported."""
    from stormpilot.model import cost

    source = tmp_path / "total.py"
    source.write_text(NOT_COMPILED)
    (tmp_path / "m.json").write_bytes(msgspec.json.encode(model(topology(SPREAD))))
    usual = cost.metrics

    def first_use(*given: Any) -> dict[str, float]:
        module = imported(source)
        assert (module.total(2), module.total(2.5)) == (4, 5.0)
        return usual(*given)

    monkeypatch.setattr(cost, "metrics", first_use)
    done = run("model", "show", tmp_path / "m.json")
    assert done.code == 0
    assert done.err.count("kept nowhere: this may take minutes") == 1
    assert "NUMBA_CACHE_DIR" in done.err


@pytest.mark.usefixtures("nowhere")
def test_compiling_beforehand_is_refused_where_nothing_can_be_kept(run: Run, tmp_path: Path) -> None:
    source = tmp_path / "total.py"
    source.write_text(NOT_COMPILED)
    imported(source)
    done = run("planners", "--compile")
    assert done.code == 2
    assert "no folder to keep what is compiled: set NUMBA_CACHE_DIR" in done.err


@pytest.mark.parametrize("threads", [0, 1])
def test_an_interruption_ends_a_compilation_in_whatever_thread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, threads: int
) -> None:
    """Searches run in threads, which the command waits for: Ctrl-C ended nothing until all was compiled."""
    source = tmp_path / "total.py"
    source.write_text(NOT_COMPILED)
    module = imported(source)
    handled, stop = threading.Event(), compiling.stop

    def stopped(**how: Any) -> None:
        stop(**how)
        handled.set()

    def press() -> None:
        if handled.is_set():
            return
        ctrl_c()
        assert threading.current_thread() is threading.main_thread() or handled.wait(60)

    with sigint(), interruptible():
        monkeypatch.setattr(compiling, "stop", stopped)
        monkeypatch.setattr(compiling, "_told", press)
        with pytest.raises(KeyboardInterrupt):
            at_once([lambda: module.total(2)] * (1 + threads), 1 + threads)
    assert (compiling.running(), module.total.signatures) == (False, [])
    with sigint(), interruptible():
        assert module.total(2) == 4


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
