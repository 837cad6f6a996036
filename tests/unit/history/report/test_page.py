"""The report's page: what is there is drawn, what is not says how to get it."""

from __future__ import annotations

import functools
import re
from pathlib import Path

import msgspec
import pytest
from matplotlib.axes import Axes

from stormpilot.history.mine.findings import Mined
from stormpilot.history.replay import evidence
from stormpilot.history.replay.choose import Tried, choose, tried
from stormpilot.history.replay.score import Weights
from stormpilot.history.replay.study import Replay
from stormpilot.history.replay.values import Played, Setting
from stormpilot.history.report import plots
from stormpilot.history.report.gather import Hour, Knee, Pair, TopologyLog
from stormpilot.messages.thresholds import Profile, ThresholdEntry, Thresholds

HOUR_MS = 3_600_000
STEPS = 24 * 6


def log() -> TopologyLog:
    return TopologyLog(
        name="flights <1>", windows=120, from_ms=0, to_ms=2 * HOUR_MS, placements=2, noise_ratio=0.04,
        pairs=[Pair(from_="a", to="b", rate_tps=1234.0, inter_node_share=0.5), Pair(from_="b", to="c", rate_tps=0.0)],
        hours=[Hour(at_ms=h * HOUR_MS, total_tps=100.0, inter_node_tps=50.0) for h in range(2)],
        week_tps=[1.0, None] * 84,
        knees=[Knee(supervisor=f"s{i}", load_ratio=[0.5, 0.9], latency_ratio=[1.0, 3.0]) for i in range(5)],
    )  # fmt: skip


def rows(cost_tps: float) -> list[Played]:
    return [
        Played(
            topology_id="t-1", from_ms=h * HOUR_MS, length_s=3600, inter_node_tps=1, network_cost_tps=cost_tps,
            total_tps=100, busiest_load_ratio=0.5, overloaded_node_s=0, overloaded_tps=0,
        )
        for h in range(STEPS)
    ]  # fmt: skip


@pytest.fixture
def replayed(tmp_path: Path) -> Replay:
    played = {"": rows(90), "best": rows(50), "online": rows(40)}
    tries = [tried(Setting(planner=n), r, 24 * HOUR_MS, 15, Weights()) for n, r in played.items() if n]
    was: Tried = tried(None, played[""], 24 * HOUR_MS, 15, Weights())
    replay = Replay(
        log="/log", from_ms=0, to_ms=STEPS * HOUR_MS, split_ms=24 * HOUR_MS, step_s=3600, steps=STEPS, edge_rows=1,
        together=False, budget_s=0.5, weights=Weights(), verdicts=[choose("t-1", "flights <1>", tries, was, 15.0)],
    )  # fmt: skip
    evidence.write(tmp_path, replay, played)
    return evidence.read(tmp_path)


def page(*parts: object) -> str:
    from stormpilot.history.report.page import page as drawn

    return drawn("/log", [log()], *parts)  # type: ignore[arg-type]


@functools.cache
def plain() -> str:
    """The page without anything mined or replayed."""
    return page([], None, None)


def test_page_is_whole_without_mined_numbers_and_replay() -> None:
    text = plain()
    assert "trafficlog mine -o" in text and "trafficlog replay -o" in text
    assert text.count("<svg") == 4
    assert "flights &lt;1&gt;" in text and "flights <1>" not in text
    assert not re.search(r"(src|href)=['\"]?https?:", text.replace("http://www.w3.org", ""))


def test_replay_and_thresholds_are_on_the_page(replayed: Replay, tmp_path: Path) -> None:
    entry = ThresholdEntry(name="decide.overload_s", value=300.0, unit="s", source="default", text="too few episodes")
    limit = ThresholdEntry(name="decide.cpu_limit_ratio", scope="supervisor", of=["s1"], value=0.67)
    thresholds = Thresholds(
        topology_id="t-1", topology_name="flights <1>", mined_at_ms=0, from_ms=0, to_ms=1, entries=[entry, limit]
    )
    text = page([Mined(thresholds=thresholds)], replayed, tmp_path / evidence.RUNS)
    assert "too few episodes" in text
    assert "<!--  0.67 -->" in text  # drawn beside the points of s1
    assert "<!--  0.67 -->" not in page([], replayed, None)
    assert "Recommended: <b>online</b>" in text and "-20.0%" in text
    assert "as it was" in text and text.count("<svg") == 6


@pytest.mark.parametrize(
    ("profile", "said"),
    [
        (None, "No profile of it was mined: that takes a week"),
        (Profile(topology_id="t", topology_name="flights <1>", mined_at_ms=0, from_ms=0, to_ms=1), "was never tested"),
        (
            Profile(
                topology_id="t", topology_name="flights <1>", mined_at_ms=0, from_ms=0, to_ms=1,
                forecast_error_ratio=0.028,
            ),
            "Its profile is off by 2.8%",
        ),
    ],
)  # fmt: skip
def test_page_says_how_well_the_week_forecasts_the_next(profile: Profile | None, said: str) -> None:
    thresholds = Thresholds(topology_id="t", topology_name="flights <1>", mined_at_ms=0, from_ms=0, to_ms=1)
    assert said in page([Mined(thresholds=thresholds, profile=profile)], None, None)
    assert said not in plain()


def test_same_data_make_the_same_page(replayed: Replay, tmp_path: Path) -> None:
    assert page([], replayed, tmp_path / evidence.RUNS) == page([], replayed, tmp_path / evidence.RUNS)


def test_topology_without_components_or_latency_says_so() -> None:
    from stormpilot.history.report.page import page as drawn

    text = drawn("/log", [msgspec.structs.replace(log(), pairs=[], knees=[])], [], None, None)
    assert "does not name components" in text and "No latency" in text


def test_names_with_dollar_signs_are_drawn_as_they_are() -> None:
    """Scala names its classes so; between two of them matplotlib would read a formula."""
    names = ("Outer$Inner$_bolt", "x$\\frac$y")
    drawn = plots.heat([Pair(from_=names[0], to=names[1], rate_tps=1.0, inter_node_share=0.5)])
    assert all(name in drawn for name in names)


def test_a_node_that_is_fuller_than_its_capacity_is_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """By declared cores a host may well have thrice that; the line left the drawing just where it matters."""
    tops: list[float] = []
    set_ylim = Axes.set_ylim

    def noting(self: Axes, *given: float, **named: float) -> object:
        tops.extend(given[1:])
        return set_ylim(self, *given, **named)

    monkeypatch.setattr(Axes, "set_ylim", noting)
    hours = [
        Hour(at_ms=h * HOUR_MS, total_tps=0.5, inter_node_tps=0.1, busiest_load_ratio=x)
        for h, x in enumerate((0.4, 1.8))
    ]
    plots.over_time(hours)
    assert max(tops) >= 1.8
