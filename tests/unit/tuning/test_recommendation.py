"""What replay recommends is used only if an operator says so, it was confirmed, and every part of it is allowed."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

import builders
from stormpilot.config import Config, parse
from stormpilot.messages.thresholds import Recommendation, Thresholds
from stormpilot.tuning.recommendation import asked_for, choices, recommended

DAY_MS = 86_400_000
NOW_MS = 100 * DAY_MS
ON = parse("history: {use_recommendation: true}", "c.yaml")
BEST = Recommendation(
    planner="best",
    params={"objective": "network_cost", "decide.cpu_limit_ratio": 0.6, "decide.consecutive_hits": 1, "forecast": True},
    score=0.5,
    default_score=1.0,
    held_out_score=0.7,
    default_held_out_score=0.9,
    replayed_at_ms=NOW_MS - DAY_MS,
    held_out_days=7,
    gain_low_ratio=0.1,
    gain_high_ratio=0.3,
)


def asked(config: Config = ON, **changes: Any) -> tuple[Any, str]:
    r = msgspec.structs.replace(BEST, **changes)
    head = {"topology_id": "t-1-1", "topology_name": "t", "mined_at_ms": 0, "from_ms": 0, "to_ms": 0}
    return recommended(config, Thresholds(**head, recommendation=r), NOW_MS)


def test_confirmed_recommendation_is_used_where_an_operator_says_so() -> None:
    choice, text = asked()
    assert (choice.planner, choice.params, choice.forecast) == ("best", {"objective": "network_cost"}, True)
    assert choice.rules == {"cpu_limit_ratio": 0.6, "consecutive_hits": 1}
    assert text == (
        "planned as replay recommends, best decide.consecutive_hits=1, decide.cpu_limit_ratio=0.6, forecast, "
        "objective=network_cost: cost 0.7 instead of 0.9 on days held out (-30% to -10%)"
    )


@pytest.mark.parametrize(
    ("config", "changes", "why"),
    [
        (Config(), {}, "history.use_recommendation is false"),
        (ON, {"replayed_at_ms": NOW_MS - 50 * DAY_MS}, "50 days old, history.max_age_days is 45"),
        (ON, {"held_out_score": None}, "not confirmed on days held out"),
        (ON, {"held_out_score": 0.95}, "not better than the default on the days held out"),
        (ON, {"gain_low_ratio": None, "held_out_days": 1}, "1 days held out do not tell its gain from chance"),
        (ON, {"gain_low_ratio": -0.02}, "its gain on the days held out may be chance"),
        (ON, {"score": 1.0}, "nothing that was tried is better"),
        (ON, {"planner": "nonesuch"}, "nonesuch"),
        (ON, {"params": {"objectiv": "network_cost"}}, "objectiv"),
        (ON, {"params": {"decide.mode": "act"}}, "decide.mode is not for a recommendation to set"),
        (ON, {"params": {"decide.cpu_limit_ratio": 0.1}}, "decide.cpu_limit_ratio of 0.1 is outside 0.3 to 0.95"),
        (ON, {"params": {"decide.consecutive_hits": "many"}}, "Expected `int`, got `str`"),
    ],
)
def test_what_may_not_be_used_is_told_with_its_reason(config: Config, changes: dict[str, Any], why: str) -> None:
    choice, text = asked(config, **changes)
    assert choice is None
    assert text.startswith("replay recommends ") and "; not used: " in text and why in text


def test_without_a_recommendation_there_is_nothing_to_say() -> None:
    assert recommended(ON, None, NOW_MS) == (None, "")


def test_what_operators_and_owners_set_stands_before_its_rules() -> None:
    choice, _ = asked(params={"decide.gain_threshold_ratio": 0.3, "decide.consecutive_hits": 1})
    section, sources = choice.decide(Config().decide, {"decide.gain_threshold_ratio": "operator: set by ops"})
    assert (section.gain_threshold_ratio, section.consecutive_hits) == (Config().decide.gain_threshold_ratio, 1)
    assert sources["decide.gain_threshold_ratio"] == "operator: set by ops"
    assert sources["decide.consecutive_hits"].startswith("replay: best ")
    section, sources = choice.decide(Config().decide, {"decide.gain_threshold_ratio": "mined: 9 rows"})
    assert section.gain_threshold_ratio == 0.3
    assert sources["decide.gain_threshold_ratio"].startswith("replay: ")


def test_recommended_limit_only_ever_lowers_what_nodes_may_carry() -> None:
    choice, _ = asked()
    model = builders.two_chains()
    low, high = (
        msgspec.structs.replace(model.supervisors[0], cpu_limit_mhz=r * 4000.0, cores=2.0, mhz=2000.0)
        for r in (0.5, 0.8)
    )
    limited = choice.limited(msgspec.structs.replace(model, supervisors=[low, high]))
    assert [s.limit_mhz for s in limited.supervisors] == [2000.0, pytest.approx(2400.0)]


def test_an_owner_names_a_planner_with_its_parameters() -> None:
    own = {"stormpilot.planner": "online", "stormpilot.planner.params": {"alpha": 0.5}}
    choice, said = asked_for(Config(), own)
    assert choice is not None
    assert (choice.planner, choice.params) == ("online", {"alpha": 0.5})
    assert said == "planned as its owner asks, online alpha=0.5"


@pytest.mark.parametrize(
    ("own", "why"),
    [
        ({"stormpilot.planner": "exact"}, "'exact' is not in planner.owner_planners"),
        ({"stormpilot.planner": "online", "stormpilot.planner.params": {"alpha": 7}}, "alpha is 7"),
        ({"stormpilot.planner": "online", "stormpilot.planner.params": {"beta": 1}}, "has no parameter 'beta'"),
        ({"stormpilot.planner": "online", "stormpilot.planner.params": {"alpha": [1]}}, "alpha"),
        ({"stormpilot.planner": ["online"]}, "expected stormpilot.planner as text"),
        ({"stormpilot.planner.params": {"alpha": 1}}, "expected stormpilot.planner as text"),
    ],
)
def test_what_an_owner_may_not_have_is_told(own: dict[str, Any], why: str) -> None:
    choice, said = asked_for(Config(), own)
    assert choice is None
    assert said.startswith("its owner asks for a planner; not used: ")
    assert why in said


def test_operators_say_what_owners_may_name_and_owners_come_before_replay() -> None:
    config = parse("planner: {owner_planners: [exact]}", "controller.yaml")
    assert asked_for(config, {"stormpilot.planner": "exact"})[0] is not None
    assert asked_for(config, {"stormpilot.planner": "online"})[0] is None
    both = choices(config, {}, 0, {"t": {"stormpilot.planner": "exact"}, "u": {"topology.workers": 2}})
    assert both.name("t") == "owner: exact"
    assert both.name("u") == ""


def test_where_the_owner_asks_for_what_is_not_allowed_the_recommendation_holds() -> None:
    head = {"topology_id": "t", "topology_name": "t", "mined_at_ms": 0, "from_ms": 0, "to_ms": 0}
    mined = {"t": Thresholds(**head, recommendation=BEST)}
    found = choices(ON, mined, NOW_MS, {"t": {"stormpilot.planner": "exact"}})
    assert found.used["t"] == choices(ON, mined, NOW_MS, {}).used["t"]
    assert found.texts["t"].startswith("its owner asks for a planner; not used: 'exact' is not in ")
    assert "; planned as replay recommends, best " in found.texts["t"]
