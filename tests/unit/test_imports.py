"""The import rule: what is pure stays pure, and what runs inside workers stays small."""

from __future__ import annotations

import ast
import functools
import sys
from pathlib import Path

import networkx
import pytest

PACKAGE = Path(__file__).resolve().parents[2] / "controller" / "stormpilot"
IMPURE = {
    *("kazoo", "requests", "pyspark", "thriftpy2", "streamparse", "pystorm", "urllib", "http", "socket"),
    *("time", "datetime", "random", "secrets", "uuid", "threading", "subprocess", "multiprocessing", "asyncio"),
}
PURE_FOLDERS = ("messages", "model", "planner", "decide", "rollout", "sizing")
PURE_ALL_THE_SAME = "urllib.parse."
INSTRUMENT_MAY_IMPORT = {"streamparse", "pystorm", "kazoo", "stormpilot"}
LAYERS: tuple[tuple[str, ...], ...] = (
    ("printable",),
    ("errors", "logs", "clock"),
    ("user_files",),
    ("logins",),
    ("messages", "zookeeper", "nimbus"),
    ("model", "config", "instrument"),
    ("decide", "planner"),
    ("rollout", "tuning", "publish", "sizing", "planner_process", "submit", "local"),
    ("observe",),
    ("operate", "trafficlog", "notify"),
    ("api", "doctor", "history", "generate", "trials"),
    ("control",),
    ("cli",),
    ("__main__",),
)
"""From the bottom up: a folder (or a module beside the folders) imports only from the layers below its own."""
PLANNER_LAYERS: tuple[tuple[str, ...], ...] = (
    ("placement", "budget"),
    ("search", "heuristics"),
    ("bounds",),
    ("admission", "registry", "repair", "explain"),
    ("methods", "latency_search"),
    ("flow",),
    ("shared_memory", "wishes", "saved_cpu", "least_latency"),
    ("__init__",),
)


def modules(folder: str) -> list[Path]:
    return sorted((PACKAGE / folder).rglob("*.py"))


@functools.cache
def imported(path: Path) -> frozenset[str]:
    """Dotted names of every import in a file, wherever it stands."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: imports are absolute"
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return frozenset(names)


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


@functools.cache
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


def _layer(name: str, layers: tuple[tuple[str, ...], ...]) -> int:
    found = [i for i, members in enumerate(layers) if name in members]
    assert found, f"{name} stands in no layer: add it to the list of this test"
    return found[0]


def _upwards(folder: Path, package: str, layers: tuple[tuple[str, ...], ...]) -> list[str]:
    """Imports of a module of `folder` from its own layer (but its own folder) or from one above it."""
    wrong = []
    for path in sorted(folder.rglob("*.py")):
        own = path.relative_to(folder).parts[0].removesuffix(".py")
        if own == "__init__" and own not in layers[-1]:
            continue
        for name in imported(path):
            other = name.removeprefix(f"{package}.").split(".")[0] if name.startswith(f"{package}.") else own
            if (
                other != own
                and _file_of(f"{package}.{other}") is not None
                and _layer(other, layers) >= _layer(own, layers)
            ):
                wrong.append(f"{path.relative_to(PACKAGE)} imports {name}")
    return wrong


def test_a_folder_imports_only_from_layers_below_it() -> None:
    assert not _upwards(PACKAGE, "stormpilot", LAYERS)


def test_within_the_planner_too() -> None:
    assert not _upwards(PACKAGE / "planner", "stormpilot.planner", PLANNER_LAYERS)


def test_no_circle_of_files() -> None:
    """Imports inside functions count: a circle that is hidden there is one all the same."""
    files = {p: {f for n in imported(p) if (f := _file_of(n)) is not None and f != p} for p in PACKAGE.rglob("*.py")}
    graph = networkx.DiGraph([(a, b) for a, others in files.items() for b in others])
    circles = [c for c in networkx.strongly_connected_components(graph) if len(c) > 1]
    assert not [sorted(str(p.relative_to(PACKAGE)) for p in c) for c in circles]


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
