"""Words on a size that is carried out: who places its threads, and what Storm had done where it ended in an error."""

from __future__ import annotations

import pytest

from doubles.sized_world import PATHS, World
from stormpilot.cli.apply_size import _show
from stormpilot.errors import RefusedError, UnreachableError
from stormpilot.messages.settings import Mode, ModeSetting, setting_key
from stormpilot.operate import resizing
from stormpilot.zookeeper.client import DeniedError


@pytest.mark.parametrize(
    ("mode", "said"),
    [
        ("act", "ctl-1:77 places its threads"),
        ("advise", "Storm's own scheduler places its threads, and ctl-1:77 proposes where they go (mode advise)"),
        ("off", "Storm's own scheduler places its threads, for t is in mode off"),
    ],
)
def test_who_places_what_was_rebalanced_is_told_by_the_mode(
    mode: Mode, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Where the plan was not there in time."""
    world = World()
    world.zookeeper.put(f"{PATHS.leader}/contender-0000000001", b"ctl-1:77")
    world.put(PATHS.mode(setting_key("t")), ModeSetting(mode=mode, by="ann"))
    change = world.size(250.0)
    world.carry_out(change)
    _show(change, None, dry_run=False)
    out = " ".join(capsys.readouterr().out.split())
    assert f"has its threads; {said}" in out
    assert f"a controller leads: {said}: the slots above are what" in out


def test_a_size_that_a_controller_s_topology_has_changes_nothing_and_says_so(
    capsys: pytest.CaptureFixture[str],
) -> None:
    world = World()
    world.zookeeper.put(f"{PATHS.leader}/contender-0000000001", b"ctl-1:77")
    for rate_tps, said in ((105.0, "nothing was changed: t-1-"), (250.0, "rebalanced: t-1-")):
        change = world.size(rate_tps)
        assert world.carry_out(change) is None
        _show(change, None, dry_run=False)
        assert said in capsys.readouterr().out
        assert change.rebalanced == bool(world.rebalanced)


def test_a_rebalance_that_nimbus_does_not_tell_the_end_of_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    change = world.size(250.0)

    def late(*_: object) -> None:
        raise UnreachableError("the plug-in wrote no snapshot")

    def denied(*_: object, **__: object) -> None:
        raise DeniedError("/stormpilot/plans/t")

    with monkeypatch.context() as patch:
        patch.setattr(resizing, "publish_ahead", lambda *_, **__: None)
        patch.setattr(resizing, "put_in_force", denied)
        with pytest.raises(RefusedError, match=r"^Storm has rebalanced t to these threads, but it is not placed: Zoo"):
            world.carry_out(change)
    monkeypatch.setattr(resizing, "await_snapshot", late)
    with pytest.raises(UnreachableError, match="Storm has rebalanced t to these threads, but it is not placed: the pl"):
        world.carry_out(change)
