"""Records of cycles: what `status` reads stays true over cycles that repeat themselves and cycles that fail."""

from __future__ import annotations

from pathlib import Path

import pytest

from doubles.world import Slots, World
from stormpilot.config import parse
from stormpilot.control import recorder
from stormpilot.control.current_config import CurrentConfig
from stormpilot.control.recorder import MOST_CHARACTERS, Recorder
from stormpilot.decide.decision import skip
from stormpilot.decide.reasons import Reason
from stormpilot.decide.report import CycleReport
from stormpilot.errors import UnreachableError
from stormpilot.messages.controller_state import ConfiguredModes, ControllerState
from stormpilot.messages.core import decode
from stormpilot.observe.reader import StoreSnapshot
from stormpilot.operate.status import FAILED, controller
from stormpilot.trafficlog.writer import TrafficLog
from stormpilot.zookeeper.paths import Paths

HERE: Slots = {("a", 6700): (1, 4, 6), ("b", 6700): (2, 3, 5)}


class Kept:
    """A recorder of a world with one topology; `state` is what it wrote last."""

    def __init__(self, settings: str = ""):
        self.world = World("a", "b")
        self.topology = self.world.submit(HERE)
        config = parse(settings, "c.yaml") if settings else self.world.config
        self.recorder = Recorder(CurrentConfig(config, "best", "best"), "n1:7", self.world.now_ms)
        self.written: list[bytes] = []
        self.takes_s = 0.0

    @property
    def state(self) -> ControllerState:
        return decode(self.written[-1], ControllerState, "controller")

    def record(self, reason: Reason, seconds: float = 10) -> int:
        """A cycle with this decision after that time; since when it holds."""
        self.world.pass_time(seconds)
        observation = self.world.cycle.observer.observe(self.world.now_ms)
        decisions = {self.topology: skip(self.topology, reason, "")}
        report = CycleReport(
            observation.at_ms,
            names={self.topology: "flights"},
            modes={self.topology: "act"},
            decisions=decisions,
        )
        self.world.pass_time(self.takes_s)
        self.recorder.record(report, observation, 3, {}, 1.0, lambda: self.world.now_ms, self.written.append)
        (view,) = self.state.topologies
        return view.since_ms


def test_a_decision_is_told_with_the_time_since_which_it_holds() -> None:
    kept = Kept()
    first = kept.record(Reason.COOL_DOWN)
    assert kept.record(Reason.COOL_DOWN) == first
    assert kept.record(Reason.PAUSED) == kept.world.now_ms > first
    assert kept.state.cycles == 3


def test_the_state_is_as_old_as_the_end_of_its_cycle() -> None:
    """By it `status` tells a leader that is stuck, and the next leader whose clock is ahead."""
    kept = Kept()
    kept.takes_s = 40.0
    kept.record(Reason.COOL_DOWN)
    assert kept.state.written_at_ms == kept.world.now_ms


def test_modes_of_the_configuration_are_told_by_cycles_that_fail_too() -> None:
    """By them the plug-in knows which new topologies wait for a plan that may come."""
    kept = Kept("decide: {mode: act, modes: {words: off}, owner_modes: [advise]}")
    kept.recorder.record_failure("no cluster yet", 3, kept.written.append)
    assert kept.state.modes == ConfiguredModes(mode="act", by_name={"words": "off"}, owner_modes=["advise"])
    kept.record(Reason.COOL_DOWN)
    assert kept.state.modes == ConfiguredModes(mode="act", by_name={"words": "off"}, owner_modes=["advise"])


def test_a_cycle_that_failed_is_told_and_the_time_stays_that_of_the_last_complete_one() -> None:
    kept = Kept()
    kept.recorder.record_failure("no cluster yet", 3, kept.written.append)
    assert (kept.state.sentence, kept.state.cycles) == (f"{FAILED}no cluster yet", 0)
    kept.record(Reason.COOL_DOWN)
    complete_ms = kept.state.written_at_ms
    kept.world.pass_time(60)
    kept.recorder.record_failure("x" * 10_000, 4, kept.written.append)
    assert kept.state.written_at_ms == complete_ms
    assert kept.state.epoch == 4, "this controller leads anew"
    assert kept.state.sentence == FAILED + "x" * MOST_CHARACTERS
    assert kept.state.topologies, "what was decided last is still told"


def test_a_traffic_log_that_cannot_be_written_stops_no_cycle(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "log").write_text("a file stands where the folder is to be")
    kept = Kept(f"traffic_log: {{dir: {tmp_path / 'log'}}}")
    for _ in range(20):
        kept.record(Reason.COOL_DOWN)
    kept.recorder.flush(kept.world.now_ms)
    assert kept.state.cycles == 20
    assert kept.state.counters["log_rows_written"] == 0
    assert kept.state.counters["log_rows_lost"] > 0


def test_merging_that_did_not_end_goes_on_in_the_next_cycles(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recorder, "MERGING_MAX_S", 0.0)
    kept = Kept(f"traffic_log: {{dir: {tmp_path}}}")
    past = TrafficLog(tmp_path, "w")
    for i in range(2):
        for t in ("x", "y", "z"):
            past.add("outcomes", [{}], t)
        past.flush(kept.world.now_ms - 7_200_000 + i)
    kept.record(Reason.COOL_DOWN)
    assert len(list(tmp_path.glob("outcomes/**/*.parquet"))) == 6, "nothing is merged before a window is over"
    kept.record(Reason.COOL_DOWN, 60)
    for left in (5, 4, 3, 3):
        assert len(list(tmp_path.glob("outcomes/**/*.parquet"))) == left
        kept.record(Reason.COOL_DOWN)


def test_windows_are_logged_again_at_once_when_a_clock_that_was_ahead_is_set_back(tmp_path: Path) -> None:
    kept = Kept(f"traffic_log: {{dir: {tmp_path}}}")
    kept.record(Reason.COOL_DOWN)
    ahead_ms = kept.world.now_ms + 40 * 86_400_000
    kept.recorder._window_from_ms = kept.recorder._housekeeping_ms = ahead_ms
    kept.record(Reason.COOL_DOWN)
    assert kept.recorder._window_from_ms == kept.recorder._housekeeping_ms == kept.world.now_ms
    assert kept.state.counters["log_rows_written"] > 0


def test_a_traffic_log_that_does_not_answer_keeps_nobody_from_leading(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The controller ended with exit code 3, and was started again and again."""
    tries = []

    def away_at_first(directory: str) -> TrafficLog:
        tries.append(directory)
        if len(tries) < 3:
            raise UnreachableError("traffic_log.dir: hdfs://nn/log: no answer")
        return TrafficLog(tmp_path, "w")

    monkeypatch.setattr(recorder, "TrafficLog", away_at_first)
    kept = Kept("traffic_log: {dir: 'hdfs://nn/log'}")
    for _ in range(3):
        kept.record(Reason.COOL_DOWN)
    assert len(tries) == 2, "not in each cycle"
    kept.record(Reason.COOL_DOWN, seconds=700)
    kept.recorder.flush(kept.world.now_ms)
    assert list((tmp_path / "decisions").rglob("*.parquet"))


def test_a_leader_is_stuck_only_once_its_planners_had_their_time() -> None:
    """`status` and `doctor` called a leader stuck that `/readyz` and the alert called well."""
    kept = Kept("cycle: {period_s: 10, poll_s: 2}\nplanner: {budget_s: 60}\n")
    kept.record(Reason.COOL_DOWN)
    seen = StoreSnapshot(controller=kept.state, contenders=("n1:7",))
    for age_s, word in ((869, "up"), (871, "STUCK")):
        assert controller(Paths(), seen, kept.state.written_at_ms + 1000 * age_s)["text"].startswith(word)
