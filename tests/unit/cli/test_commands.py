"""The table of commands: every verb is in it, every row is a command, help and examples are right, one style."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from stormpilot import errors
from stormpilot.api.verbs import router
from stormpilot.cli import app
from stormpilot.cli.commands import ENTRIES
from stormpilot.cli.lazy import LazyCommand
from stormpilot.cli.manual import page
from stormpilot.cli.panels import GROUPS, PANELS, Entry
from stormpilot.operate.verbs import VERBS

NAMES = [e.name for e in ENTRIES]
HEAVY = {"numpy", "numba", "networkx", "ortools", "pyarrow", "litestar", "requests", "yaml", "kazoo", "msgspec", "rich"}
PRINT_NO_VALUES = {
    *("run", "local up", "local down", "local kill", "local logs"),  # they act, or print a log
    *("plan compute", "model generate", "config example", "trafficlog report"),  # they write a file in its own format
}
entries = pytest.mark.parametrize("entry", ENTRIES, ids=NAMES)


def modules_after(code: str) -> set[str]:
    """Top-level packages that are loaded when this ends, beside those of Python."""
    show = "import sys; print('loaded', *{m.partition('.')[0] for m in sys.modules})"
    done = subprocess.run([sys.executable, "-c", f"{code}\n{show}"], capture_output=True, check=True, text=True)
    loaded = done.stdout.splitlines()[-1].split()[1:]
    return {m for m in loaded if not m.startswith("_") and m not in sys.stdlib_module_names}


def options(entry: Entry) -> dict[str, Any]:
    """The parameters of a command by how they are given: `-f`, `--format`, or the name of an argument."""
    command = LazyCommand(entry).real
    return {spelling: p for p in command.params for spelling in (*p.opts, *p.secondary_opts)}


def test_every_verb_is_a_command_and_a_route() -> None:
    """A new verb has three places: its function, its row in VERBS, its row in the table of commands."""
    assert {v.name for v in VERBS} <= set(NAMES)
    paths = {path for route in router().routes for path in [route.path.removeprefix("/api/v1/")]} - {"config/reload"}
    assert paths == {v.name.replace(" ", "/") for v in VERBS if v.over_http}


@pytest.mark.parametrize("verb", VERBS, ids=lambda v: v.name)
def test_parameters_of_verbs_say_what_they_mean(verb: Any) -> None:
    assert verb.help.endswith(".")
    for p in verb.parameters:
        assert p.meta.description, p.name


def test_names_are_given_once_and_panels_and_groups_are_known() -> None:
    assert len(set(NAMES)) == len(NAMES)
    groups = {g.name for g in GROUPS}
    for e in ENTRIES:
        assert (e.panel in PANELS) if " " not in e.name else e.name.partition(" ")[0] in groups, e.name
    assert {g.panel for g in GROUPS} <= set(PANELS)


@entries
def test_help_begins_with_the_summary_and_ends_with_an_example_that_parses(entry: Entry) -> None:
    command = LazyCommand(entry).real
    assert " ".join(command.help.split()).startswith(entry.summary)
    assert entry.example in command.epilog
    words = shlex.split(entry.example)
    given = words[1 + len(entry.name.split()) :]
    assert words[: 1 + len(entry.name.split())] == ["stormpilot", *entry.name.split()]
    with command.make_context(entry.name, given) as context:
        assert context.params
    shown = CliRunner().invoke(app, [*entry.name.split(), "--help"])
    assert shown.exit_code == 0, shown.output
    assert entry.example in shown.output


@pytest.mark.parametrize("name", ["", *(g.name for g in GROUPS)])
def test_help_of_a_group_ends_with_an_example_of_its_own(name: str) -> None:
    shown = CliRunner().invoke(app, [*name.split(), "--help"])
    assert shown.exit_code == 0, shown.output
    head, example = [line.strip() for line in shown.output.splitlines() if line.strip()][-2:]
    assert head == "Example:"
    command = example.removeprefix("stormpilot ")
    assert any(command.startswith(e.name) and e.name.startswith(name) for e in ENTRIES), example


@entries
def test_what_is_printed_can_be_json(entry: Entry) -> None:
    """Every command has `-f json`, but those that print no values."""
    assert ("-f" in options(entry)) == (entry.name not in PRINT_NO_VALUES)


@entries
def test_one_style(entry: Entry) -> None:
    """Topologies are arguments, -o names what is written, -f the format; every option says what it is."""
    known = options(entry)
    assert not {"--topology", "-t", "--cluster"} & set(known)
    if "-o" in known:
        assert known["-o"].name == "output"
    if "-f" in known:
        assert known["-f"].name == "format"
    if "--name" in known and entry.name.startswith("local "):
        assert "cluster" in known["--name"].help
    for spelling, p in known.items():
        assert p.help, spelling


@entries
def test_values_are_named_in_capitals_or_by_the_words_that_they_may_be(entry: Entry) -> None:
    """Not `<list[Path]>`, nor `{topology}`."""
    command = LazyCommand(entry).real
    with command.make_context(entry.name, [], resilient_parsing=True) as context:
        usage = command.get_usage(context).removeprefix(f"Usage: {entry.name} [OPTIONS]")
        shown = {name for _, name, _ in command.parameters(context)}
    for name in shown - {"TOPOLOGY | [A.json] B.json"}:
        value = re.sub(r"(, )?(?<![\w\[])--?[\w-]+( / )?", "", name).strip()
        assert not re.search(r"[<>{}]|[a-z]{2,} [a-z]", value), name
        assert value in ("", value.upper()) or "=" in value or re.fullmatch(r"\[[a-z|]+\]", value), name
    assert re.fullmatch(r"( \[?[A-Z]+\]?(\[/TASK\])?(\.\.\.)?)*", usage) or entry.name == "plan diff", usage


def test_verbs_that_may_be_dangerous_can_be_confirmed_in_advance() -> None:
    by_name = {e.name: e for e in ENTRIES}
    for v in VERBS:
        assert ("--yes" in options(by_name[v.name])) == v.asks, v.name
        assert {"--why", "--dry-run"} <= set(options(by_name[v.name]))


def test_help_lists_every_command_below_its_panel() -> None:
    text = CliRunner().invoke(app, ["--help"]).output
    assert [line[:-1] for line in text.splitlines() if line[:-1] in PANELS] == list(PANELS)
    shown = set(re.findall(r"^  ([a-z][a-z-]+) ", text, re.MULTILINE))
    assert {n for n in NAMES if " " not in n} | {g.name for g in GROUPS} == shown
    rollout = CliRunner().invoke(app, ["rollout", "--help"]).output
    assert set(re.findall(r"^  ([a-z][a-z-]+) ", rollout, re.MULTILINE)) == {"status", "pause", "resume", "abort"}


@pytest.mark.parametrize("old", ["move", "set-aside", "bring-back", "unroute", "history", "migration"])
def test_old_names_are_gone(old: str) -> None:
    done = CliRunner().invoke(app, [old, "--help"])
    assert done.exit_code == 2
    assert f"No such command '{old}'" in done.output


def test_completion_knows_commands_and_their_options(monkeypatch: pytest.MonkeyPatch) -> None:
    code = "from stormpilot.cli import main; main()"
    environment = {"_STORMPILOT_COMPLETE": "complete_bash", "PYTHONPATH": ":".join(sys.path)}
    for words, position, expected in (
        ("stormpilot roll", 1, "rollback\nrollout"),
        ("stormpilot drain --w", 2, "--wait"),
    ):
        environment |= {"COMP_WORDS": words, "COMP_CWORD": str(position)}
        command = [sys.executable, "-c", f"import sys; sys.argv[0] = 'stormpilot'; {code}"]
        done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
        assert expected in done.stdout, done


def test_help_loads_typer_and_nothing_else() -> None:
    """Not even what draws tables: `--help` is the first thing that anybody sees."""
    run = "import sys; sys.argv = ['stormpilot', {}]\nfrom stormpilot.cli import main\n"
    run += "try: main()\nexcept SystemExit: pass"
    loaded = modules_after(run.format("'--help'"))
    assert loaded - {"sitecustomize", "usercustomize"} == {"stormpilot", "typer", "annotated_doc", "shellingham"}
    for words in ("'rollout', '--help'", "'--version'"):
        assert not modules_after(run.format(words)) & HEAVY


def test_status_loads_no_planner_and_no_configuration() -> None:
    loaded = modules_after("import stormpilot.cli.status, stormpilot.zookeeper.client")
    assert loaded & HEAVY == {"kazoo", "msgspec", "rich"}


@pytest.mark.parametrize("name", ["audit", "what-if", "trafficlog report"])
def test_help_says_that_a_command_uses_more_of_the_configuration_than_the_servers(name: str) -> None:
    text = " ".join(CliRunner().invoke(app, [*name.split(), "--help"]).output.split())
    assert "--config FILE" in text
    assert "the other settings that the command uses" in text


def test_every_variable_of_the_environment_that_is_read_is_explained() -> None:
    root = Path(__file__).resolve().parents[3]
    code = "".join(p.read_text("utf-8") for p in (root / "controller" / "stormpilot").rglob("*.py"))
    read = set(re.findall(r'(?:environ\.get\(|envvar=|own_folder\()"(STORMPILOT_\w+|STREAMPARSE_\w+)"', code))
    reference = (root / "docs" / "reference" / "cli.md").read_text("utf-8")
    assert "STORMPILOT_HOME" in read
    assert {name for name in read if f"`{name}`" not in reference} == set()
    assert {name for name in read if f".B {name}\n" not in page()} == set()


def test_man_page_has_every_command_with_its_options() -> None:
    text = page()
    for e in ENTRIES:
        assert f".SS stormpilot {e.name}".replace("-", "\\-") in text, e.name
    assert "\\-\\-dry\\-run" in text
    for code in {e.exit_code for e in vars(errors).values() if isinstance(e, type)}:
        assert f".B {code}\n" in text, code
    assert "Reason, recorded in the audit log and shown by `status`." in text
    assert not [line for line in text.splitlines() if line.startswith(".") and not re.match(r"\.[A-Z]{1,2}\b", line)]
