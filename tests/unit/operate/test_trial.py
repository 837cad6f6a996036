"""What stands against a trial run."""

from __future__ import annotations

from typing import Any

from stormpilot.operate.trial import obstacles


def shown(**topology: Any) -> dict[str, Any]:
    """As `status.gather` has it, with one topology that is set up for a trial run."""
    t = {
        "name": "flights",
        "mode": "advise",
        "modeFrom": "controller.yaml: decide.mode",
        "paused": False,
        "decision": {"reason": "GAIN_BELOW_THRESHOLD"},
    }
    return {
        "controller": {"up": True, "text": "up"},
        "scheduler": {"seen": True, "text": ""},
        "paused": [],
        "topologies": [{**t, **topology}],
    }


def test_nothing_stands_against_it_in_mode_advise() -> None:
    assert obstacles(shown()) == []


def test_topology_that_acts_is_named_with_the_command_that_ends_it() -> None:
    (o,) = obstacles(shown(mode="act", modeFrom="operator"))
    assert o.topology == "flights"
    assert "set by operator" in o.text
    assert o.fix == "stormpilot mode advise flights"


def test_what_is_off_or_paused_or_not_measured_is_named() -> None:
    assert "nothing is proposed" in obstacles(shown(mode="off"))[0].text
    assert obstacles(shown(paused=True))[0].fix == "stormpilot resume flights"
    assert "no load" in obstacles(shown(decision={"reason": "NOT_INSTRUMENTED"}))[0].text
    assert "not decided" in obstacles(shown(decision=None))[0].text


def test_pause_of_everything_is_named_once() -> None:
    everything = {**shown(paused=True), "paused": ["_all"]}
    assert [o.fix for o in obstacles(everything)] == ["stormpilot resume"]


def test_missing_plug_in_and_controller_are_named() -> None:
    bare = {**shown(), "controller": {"up": False, "text": "no controller"}, "scheduler": {"seen": False, "text": "no"}}
    assert [o.topology for o in obstacles(bare)] == ["", ""]
