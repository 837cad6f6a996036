"""What `stormpilot_run` adds to a component of a user."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from streamparse import BatchingBolt, Bolt, ReliableSpout, Spout, TicklessBatchingBolt

from stormpilot.instrument import LoadReporting
from stormpilot.instrument.runner import with_reporting

HANDSHAKE = {"conf": {}, "context": {"taskid": 3, "componentid": "count", "task->component": {"3": "count"}}}


def begun(component: Any, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What the component writes to Storm until it was told who it is."""
    said: list[str] = []
    monkeypatch.setattr(component.serializer, "send_message", lambda message: said.append(json.dumps(message)))
    context = {**HANDSHAKE["context"], "streams": {"stormpilot_load": {}}}
    component._setup_component({}, context)
    return said


@pytest.mark.parametrize("base", [Bolt, BatchingBolt, TicklessBatchingBolt, Spout, ReliableSpout])
def test_every_kind_of_component_reports_and_keeps_its_class(base: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    class Mine(base):
        """Mine."""

    mine = Mine()
    with_reporting(mine)
    assert type(mine) is Mine
    assert not any("load reporting" in line for line in begun(mine, monkeypatch))
    assert mine._stormpilot_identity["task"] == 3
    mine._stormpilot_report(0.0)
    assert mine._stormpilot_seq == 1


def test_a_component_may_ask_for_the_parent_of_its_own_class(monkeypatch: pytest.MonkeyPatch) -> None:
    """Code that grew up with Python 2: in a class derived from this one it calls itself for ever."""

    class Mine(Bolt):
        def initialize(self, conf: Any, context: Any) -> None:
            super(self.__class__, self).initialize(conf, context)

    mine = Mine()
    with_reporting(mine)
    begun(mine, monkeypatch)
    mine.initialize({}, {})


def test_a_component_that_has_the_mixin_is_not_given_it_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    class ByHand(LoadReporting, Bolt):
        pass

    by_hand = ByHand()
    with_reporting(by_hand)
    assert "_setup_component" not in vars(by_hand)
    begun(by_hand, monkeypatch)
    assert by_hand._stormpilot_identity["task"] == 3


def test_what_is_no_component_stays_as_it_is() -> None:
    class Other:
        pass

    other = Other()
    with_reporting(other)
    assert vars(other) == {}


def test_a_component_that_refuses_attributes_runs_as_it_is(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    class Mine(Bolt):
        def __setattr__(self, name: str, value: Any) -> None:
            if name.startswith("_stormpilot"):
                raise LookupError("no such attribute")
            super().__setattr__(name, value)

    mine = Mine()
    with_reporting(mine)
    assert "without load reporting" in capsys.readouterr().err
    begun(mine, monkeypatch)


def test_prints_go_where_the_component_sends_them(tmp_path: Path) -> None:
    """As with `streamparse_run`; else to stderr, never into the protocol."""
    (tmp_path / "own.py").write_text(
        "import sys\n"
        "from streamparse import Bolt\n"
        f"sys.stdout = open({str(tmp_path / 'own.log')!r}, 'a')\n"
        "class Own(Bolt):\n"
        "    def initialize(self, conf, context):\n"
        "        print('hello', flush=True)\n"
    )
    (tmp_path / "plain.py").write_text((tmp_path / "own.py").read_text().replace("sys.stdout =", "log ="))
    handshake = {**HANDSHAKE, "pidDir": str(tmp_path)}
    for name, log, stderr in (("own", "hello\n", ""), ("plain", "", "hello\n")):
        (tmp_path / "own.log").write_text("")
        ran = subprocess.run(
            [sys.executable, "-m", "stormpilot.instrument.runner", f"{name}.Own"],
            input=json.dumps(handshake) + "\nend\n",
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert ((tmp_path / "own.log").read_text(), ran.stderr) == (log, stderr)
        assert "hello" not in ran.stdout
