"""Commands that pages, alerts and our own sentences name exist, with the options that they are given."""

from __future__ import annotations

import re
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from stormpilot.cli.commands import ENTRIES
from stormpilot.cli.lazy import LazyCommand
from stormpilot.cli.panels import GROUPS, Entry

REPOSITORY = Path(__file__).resolve().parents[3]
SOURCES = [
    path
    for path in [
        *(REPOSITORY / "docs").rglob("*.md"),
        *REPOSITORY.glob("*.md"),
        *REPOSITORY.glob("[!.]*/README.md"),
        *(f for kind in ("yml", "yaml", "json", "service") for f in (REPOSITORY / "deploy").rglob(f"*.{kind}")),
        *(REPOSITORY / "tools").rglob("*.py"),
        *(REPOSITORY / "controller" / "stormpilot").rglob("*.py"),
        *(REPOSITORY / "storm-plugin").rglob("src/main/java/**/*.java"),
    ]
    if "stormpilot " in path.read_text("utf-8")
]
COMMAND = re.compile(r"(?:`|\$ |bin/|\()stormpilot (?P<words>[a-z][^`|;#()\n]*)")
BY_NAME = {e.name: e for e in ENTRIES}
FIRST = {e.name.partition(" ")[0] for e in ENTRIES} | {g.name for g in GROUPS}


def commands(source: Path) -> Iterator[tuple[str, list[str]]]:
    """Command lines as written, and the words behind `stormpilot`; of the page of commands also each row."""
    text = source.read_text("utf-8").replace("\\\n", " ")
    found = [m["words"] for m in COMMAND.finditer(text)]
    if source.name == "cli.md":
        found += [row for row in re.findall(r"^\| `([a-z][^`]*)`", text, re.MULTILINE) if row.split()[0] in FIRST]
    for line in found:
        yield line, re.split(r"[\s\[\]]+", line.strip())


def entry_of(words: list[str]) -> Entry | None:
    return BY_NAME.get(" ".join(words[:2])) or BY_NAME.get(words[0])


def options(entry: Entry) -> set[str]:
    parameters = LazyCommand(entry).real.params
    return {spelling for p in parameters for spelling in (*p.opts, *p.secondary_opts)} | {"--help"}


@pytest.mark.parametrize("source", SOURCES, ids=lambda p: str(p.relative_to(REPOSITORY)))
def test_commands_exist_with_their_options(source: Path) -> None:
    for line, words in commands(source):
        first = words[0].partition("|")[0].rstrip(".,:'\"")
        entry = entry_of([first, *words[1:]])
        if entry is None:
            second = "".join(words[1:2])
            named = source.suffix == ".md" or second == "..."  # as a whole, not as something to type
            assert first in FIRST and named and not re.match(r"[a-z-]+$", second), f"no command: stormpilot {line}"
            continue
        given = {w.partition("=")[0].rstrip(".,:'\"") for w in words if re.match(r"-{1,2}[a-z]", w)}
        assert given <= options(entry), f"stormpilot {line}: no option {sorted(given - options(entry))}"


def test_sed_of_the_install_page_changes_the_servers_of_the_example() -> None:
    page = (REPOSITORY / "docs" / "guide" / "install.md").read_text("utf-8")
    (line,) = re.findall(r"^sed -i .*/controller\.yaml$", page, re.MULTILINE)
    _, _, script, _ = shlex.split(line)
    example = REPOSITORY / "docs" / "reference" / "controller.example.yaml"
    done = subprocess.run(["sed", script, example], capture_output=True, text=True, check=True)
    before, after = example.read_text("utf-8").splitlines(), done.stdout.splitlines()
    changed = [(b, a) for b, a in zip(before, after, strict=True) if a != b]
    assert changed == [("  hosts: 127.0.0.1:2181", "  hosts: zookeeper:2181")]


@pytest.mark.parametrize("value", ["io.stormpilot.PilotScheduler", '"io.stormpilot.PilotScheduler"  '])
def test_sed_of_the_uninstall_page_removes_the_line_however_it_is_written(value: str) -> None:
    page = (REPOSITORY / "docs" / "guide" / "uninstall.md").read_text("utf-8")
    (line,) = re.findall(r"^sed -i .*/storm\.yaml\"$", page, re.MULTILINE)
    _, _, extended, script, _ = shlex.split(line)
    before = f"storm.zookeeper.port: 2181\nstorm.scheduler: {value}\nstormpilot.fallback.scheduler: x\n"
    done = subprocess.run(["sed", extended, script], input=before, capture_output=True, text=True, check=True)
    assert done.stdout == "storm.zookeeper.port: 2181\nstormpilot.fallback.scheduler: x\n"
