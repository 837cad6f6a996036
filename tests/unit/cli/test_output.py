"""Tables, lines and JSON: ids stay whole at 80 columns, pipes get whole rows, fields have one casing."""

from __future__ import annotations

import io
import re
from dataclasses import dataclass
from pathlib import Path

import msgspec
import pytest
from rich.console import Console

from doubles.models import model
from stormpilot import cli
from stormpilot.cli import output
from stormpilot.cli.output import note, print_json, print_table, say, say_error, say_line
from stormpilot.cli.progress import Progress
from stormpilot.messages.casing import camel, camel_name

ID = "flights-with-a-long-name-12-1763690000"
TEXT = "the last plan is 12 s old, and 4 of 6 executors of the topology report less than they did before"


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> io.StringIO:
    """What a terminal of 80 columns shows."""
    shown = io.StringIO()
    console = Console(file=shown, width=80, force_terminal=True, color_system=None, highlight=False)
    monkeypatch.setattr(output, "console", console)
    return shown


def test_a_terminal_folds_text_and_keeps_ids_whole(terminal: io.StringIO) -> None:
    print_table(["topology", "plan", "why"], [[ID, "p-0123456789ab", TEXT], ["x", None, "y"]])
    lines = terminal.getvalue().splitlines()
    assert max(map(len, lines)) <= 80
    assert sum(ID in line for line in lines) == 1
    assert " ".join(lines).replace("-", "").split().count("report") == 1
    assert len(lines) > 3


def test_a_terminal_of_no_columns_has_the_usual_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "0")
    assert output.with_width(Console()).width == 80


def test_a_pipe_gets_whole_rows_of_names_in_wide_letters(capsys: pytest.CaptureFixture[str]) -> None:
    name = "\u822a\u73ed\u6570\u636e\u5904\u7406\u7cfb\u7edf"
    print_table(["topology", "mode"], [[name, "act"]])
    assert [line.split() for line in capsys.readouterr().out.splitlines()] == [["topology", "mode"], [name, "act"]]


def test_rows_that_do_not_fit_even_folded_become_blocks(terminal: io.StringIO) -> None:
    print_table(["topology", "supervisor", "plan", "why"], [[ID, ID, "p-0123456789ab", TEXT], [ID, ID, None, "y"]])
    lines = terminal.getvalue().splitlines()
    assert max(map(len, lines)) <= 80
    assert lines[0].split() == ["topology", ID]
    assert lines[2].split() == ["plan", "p-0123456789ab"]
    assert lines[4].startswith(" " * 12)  # the rest of a text stands below its beginning
    assert "" in lines  # between two rows


def test_numbers_are_right_aligned_and_a_pipe_gets_whole_rows(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(output, "console", Console(width=80, highlight=False))
    print_table(["name", "n"], [[ID * 3, 5], ["b", 1234.5]], title="so many")
    title, head, first, second = capsys.readouterr().out.splitlines()
    assert title == "so many"
    assert head.split() == ["name", "n"]
    assert first.split() == [ID * 3, "5"]
    assert second.endswith("1,234") or second.endswith("1,235") or second.endswith("1,234 ")


def test_lines_are_folded_between_words_below_their_text(terminal: io.StringIO) -> None:
    say_line("flights", f"controller: skip COOL_DOWN: {TEXT} {ID}")
    say(f"{ID} " * 4 + ":smile: [red]x[/]")
    lines = terminal.getvalue().splitlines()
    assert max(map(len, lines)) <= 80
    assert lines[1].startswith(" " * 12)
    assert sum(line.count(ID) for line in lines) == 5
    assert ":smile: [red]x[/]" in lines[-1]


@dataclass
class Pair:
    """A dataclass with two words in a field."""

    left_s: float


class Row(msgspec.Struct):
    """A struct with other structs in it."""

    plan_id: str
    from_: int
    per_metric: dict[str, float]
    pairs: list[Pair]


def test_fields_are_camel_case_and_names_stay(capsys: pytest.CaptureFixture[str]) -> None:
    row = Row("p-1", 3, {"inter_node_tps": 1.0}, [Pair(2.0)])
    expected = {"planId": "p-1", "from": 3, "perMetric": {"inter_node_tps": 1.0}, "pairs": [{"leftS": 2.0}]}
    assert camel({"a_b": row}) == {"a_b": expected}
    assert camel_name("alreadyCamel") == "alreadyCamel"
    print_json(row)
    assert msgspec.json.decode(capsys.readouterr().out) == expected


def test_a_model_is_printed_as_its_file_has_it() -> None:
    """Other commands read it."""
    whole = model()
    assert camel({"model": whole})["model"] is whole


def test_progress_tells_what_is_left(capsys: pytest.CaptureFixture[str]) -> None:
    now_s = 100.0
    progress = Progress("node-7", clock_s=lambda: now_s)
    progress.update("6 left", 0, 6)
    now_s = 110.0
    progress.update("4 left", 2, 6)
    progress.update("4 left", 2, 6)
    now_s = 400.0
    progress.update("nothing left", 6, 6)
    lines = capsys.readouterr().err.splitlines()
    assert lines == ["node-7: 6 left", "node-7: 4 left, about 20 s left", "node-7: nothing left"]


HOSTILE = "a\x1b[2J\x9b8m\u202eb\x07\r\udc80"
VISIBLE = r"a\x1b[2J\x9b8m\u202eb\x07\r\udc80"


def test_names_of_others_send_the_terminal_nothing(
    terminal: io.StringIO, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whoever may name a topology could else clear the screen of who looks, or write over what it shows."""
    err = io.StringIO()
    monkeypatch.setattr(output, "console_err", Console(file=err, width=80, color_system=None))
    print_table(["topology", "why"], [[f"{HOSTILE}\nx", HOSTILE]], title=HOSTILE)
    print_table(["topology", "why"], [[HOSTILE * 3, HOSTILE * 3]])
    say(HOSTILE)
    say_line(HOSTILE, HOSTILE)
    note(HOSTILE)
    say_error(HOSTILE)
    Progress(HOSTILE).update(HOSTILE)
    shown = terminal.getvalue() + err.getvalue() + capsys.readouterr().err
    assert {c for c in shown if not c.isprintable()} == {"\n"}
    assert shown.count(VISIBLE) == 16
    assert rf"{VISIBLE}\nx  " in shown


def test_json_has_what_cannot_be_printed_escaped(capsys: pytest.CaptureFixture[str]) -> None:
    name = "a\x1b[2J\x9b\u202e\U000e0001b"
    print_json({"name": name, name: "\u00e9\n"})
    out = capsys.readouterr().out
    assert {c for c in out if not c.isprintable()} == {"\n"}
    assert msgspec.json.decode(out) == {"name": name, name: "\u00e9\n"}


def test_commands_print_by_these_functions_alone() -> None:
    """Elsewhere is what is our own, or escaped there."""
    own = {"__init__.py", "config_example.py", "token.py", "trafficlog_generate.py"}
    escaped = {"output.py", "local.py"}
    printing = re.compile(r"(?<![\w.])print\(|typer\.echo\(|console(_err)?\.print\(|stdout\.write\(")
    folder = Path(cli.__file__).parent
    found = {f.name for f in folder.glob("*.py") if printing.search(f.read_text("utf-8"))}
    assert found == own | escaped
