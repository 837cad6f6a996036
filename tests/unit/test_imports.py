"""The import rule: what is pure stays pure, and what runs inside workers stays small."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[2] / "controller" / "stormpilot"
IMPURE = {
    *("kazoo", "requests", "pyspark", "thriftpy2", "streamparse", "pystorm", "urllib", "http", "socket"),
    *("time", "datetime", "random", "secrets", "uuid", "threading", "subprocess", "multiprocessing", "asyncio"),
}
PURE_FOLDERS = ("model", "planner", "decide", "migrate", "sizing")
PURE_ALL_THE_SAME = "urllib.parse."
INSTRUMENT_MAY_IMPORT = {"streamparse", "pystorm", "kazoo", "stormpilot"}
STAGES_ABOVE = {
    "model": {"observe", "planner", "sizing", "decide", "publish", "cli", "local", "instrument", "submit"},
    "planner": {"observe", "sizing", "decide", "publish", "cli", "local", "instrument", "submit"},
    "sizing": {"observe", "decide", "publish", "cli", "local", "instrument", "submit"},
    "decide": {"observe", "planner", "publish", "cli", "local", "instrument", "submit"},
    "observe": {"planner", "decide", "publish", "cli", "local", "instrument", "submit"},
    "publish": {"observe", "planner", "cli", "local", "instrument", "submit"},
    "instrument": {"observe", "planner", "decide", "publish", "cli", "local", "model", "submit"},
    "migrate": {"observe", "publish", "cli", "local", "instrument", "submit"},
    "notify": {"planner", "publish", "cli", "local", "instrument", "submit"},
}
for _above in STAGES_ABOVE.values():
    _above |= {"api"}  # what looks at the whole from outside
for _before in ("model", "planner", "sizing", "decide", "observe", "publish", "instrument"):
    STAGES_ABOVE[_before] |= {"migrate"}


def modules(folder: str) -> list[Path]:
    return sorted((PACKAGE / folder).rglob("*.py"))


def imported(path: Path) -> set[str]:
    """Dotted names of every import in a file, wherever it stands."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: imports are absolute"
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return names


def reached(path: Path) -> set[str]:
    """Dotted names of every import of a file and of our own modules that it imports, and so on."""
    seen: set[Path] = set()
    names: set[str] = set()
    pending = [path]
    while pending:
        file = pending.pop()
        if file in seen:
            continue
        seen.add(file)
        found = imported(file)
        names |= found
        pending += [p for name in found if (p := _file_of(name)) is not None]
    return names


def _file_of(name: str) -> Path | None:
    """The file of one of our modules, given `stormpilot.a.b` or `stormpilot.a.b.Name`."""
    parts = name.split(".")
    if parts[0] != "stormpilot":
        return None
    for n in (len(parts), len(parts) - 1):
        base = PACKAGE.joinpath(*parts[1:n])
        for path in (base.with_suffix(".py"), base / "__init__.py"):
            if path.is_file():
                return path
    return None


@pytest.mark.parametrize("folder", PURE_FOLDERS)
def test_model_planner_and_decide_reach_no_io_no_clock_and_no_chance(folder: str) -> None:
    """Not even through what they import; numpy's generator comes in as an argument."""
    assert modules(folder)
    for path in modules(folder):
        wrong = {n for n in reached(path) if n.split(".")[0] in IMPURE and not n.startswith(PURE_ALL_THE_SAME)}
        assert not wrong, f"{path.relative_to(PACKAGE)} reaches {sorted(wrong)}"


@pytest.mark.parametrize("folder", PURE_FOLDERS)
def test_chance_comes_from_a_seed_that_was_given(folder: str) -> None:
    """A generator without a seed, or numpy's global one, would make a plan that nobody can make again."""
    for path in modules(folder):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and (name := ast.unparse(node.func)).rpartition(".")[0].endswith("random"):
                assert name.endswith("default_rng"), f"{path}: {name}"
                assert node.args, f"{path}: a generator without a seed"


def test_instrument_imports_only_streamparse_kazoo_and_the_standard_library() -> None:
    """It runs inside other people's topologies."""
    assert modules("instrument")
    for path in modules("instrument"):
        for name in imported(path):
            top = name.split(".")[0]
            assert top in INSTRUMENT_MAY_IMPORT or top in sys.stdlib_module_names, f"{path}: {name}"


@pytest.mark.parametrize("folder", sorted(STAGES_ABOVE))
def test_stages_import_only_stages_before_them(folder: str) -> None:
    for path in modules(folder):
        stages = {n.split(".")[1] for n in imported(path) if n.startswith("stormpilot.") and n.count(".") >= 2}
        assert not stages & STAGES_ABOVE[folder], path.relative_to(PACKAGE)


def test_only_history_imports_pyspark() -> None:
    for path in PACKAGE.rglob("*.py"):
        if "history" not in path.relative_to(PACKAGE).parts:
            assert "pyspark" not in {n.split(".")[0] for n in imported(path)}, path.relative_to(PACKAGE)


def test_the_rule_finds_what_it_forbids(tmp_path: Path) -> None:
    """The test of the test."""
    bad = tmp_path / "bad.py"
    bad.write_text("def f():\n    from time import monotonic\n    import numpy.random\n")
    assert imported(bad) == {"time.monotonic", "numpy.random"}
    assert "kazoo.client.KazooClient" in reached(PACKAGE / "observe" / "reader.py")
