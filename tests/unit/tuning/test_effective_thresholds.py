"""Which number holds: an operator's, the owner's, the mined or the configured one; and what is refused."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from doubles.snapshots import T0_MS, cluster, everywhere, topology
from stormpilot.config import Config, parse
from stormpilot.errors import UsageError
from stormpilot.messages.controller_state import ChosenThreshold
from stormpilot.messages.settings import ThresholdSetting, threshold_of_key
from stormpilot.messages.thresholds import ThresholdEntry, Thresholds
from stormpilot.observe.build import build
from stormpilot.tuning.effective_thresholds import OWNER_KEY, EffectiveThresholds, choose, thresholds_of

ID = "flights-1-1763690000"
DAY_MS = 86_400_000
R, X, B = "decide.gain_threshold_ratio", "decide.overload_s", "decide.cpu_limit_ratio"
PLACE = everywhere({("a", 6700): (1, 2, 5), ("b", 6700): (3, 4, 6)})


def entry(name: str = R, value: float | None = 0.2, *of: str, **fields: Any) -> ThresholdEntry:
    scope = "supervisor" if of else "topology"
    given: dict[str, Any] = {"rows": 1000, "from_ms": T0_MS - 30 * DAY_MS, "to_ms": T0_MS, **fields}
    return ThresholdEntry(name=name, scope=scope, of=list(of), value=value, **given)  # type: ignore[arg-type]


def mined(*entries: ThresholdEntry, topology_id: str = ID, name: str = "flights", at_ms: int = T0_MS) -> Thresholds:
    return Thresholds(
        topology_id=topology_id, topology_name=name, mined_at_ms=at_ms, from_ms=0, to_ms=T0_MS, entries=list(entries)
    )


def chosen(
    *found: Thresholds,
    settings: tuple[ThresholdSetting, ...] = (),
    owner: object = None,
    config: Config | None = None,
    now_ms: int = T0_MS,
) -> EffectiveThresholds:
    snapshot = topology(PLACE, config={} if owner is None else {OWNER_KEY: owner})
    return choose(config or Config(), {ID: snapshot}, {m.topology_id: m for m in found}, settings, now_ms)


def one(in_use: EffectiveThresholds, name: str = R, *of: str) -> ChosenThreshold:
    return in_use.chosen[ID][name, of]


def test_mined_number_holds_instead_of_the_configured_one_and_says_its_evidence() -> None:
    in_use = chosen(mined(entry(text="3 x the noise")))
    found = one(in_use)
    assert (found.value, found.source) == (0.2, "mined")
    assert found.text == "1,000 rows of 30.0 days: 3 x the noise"
    config = Config()
    assert in_use.section(ID, "decide", config.decide).gain_threshold_ratio == 0.2
    assert in_use.section(ID, "verify", config.verify) == config.verify
    assert in_use.section("another", "decide", config.decide) == config.decide


def test_operator_wins_over_owner_who_wins_over_what_was_mined() -> None:
    operator = ThresholdSetting(topology="flights", name=R, value=0.3, by="ops", why="quiet week")
    everywhere_ = ThresholdSetting(topology="_all", name=R, value=0.4, by="ops")
    both = chosen(mined(entry()), settings=(everywhere_, operator), owner={R: 0.25})
    assert one(both) == ChosenThreshold(name=R, value=0.3, source="operator", text="set by ops: quiet week")
    assert one(chosen(mined(entry()), settings=(everywhere_,), owner={R: 0.25})).value == 0.4
    assert one(chosen(mined(entry()), owner={R: 0.25})).source == "owner"


def test_owner_may_set_only_what_is_allowed_and_is_told() -> None:
    found = one(chosen(mined(entry(X, 90.0)), owner={X: 5.0}), X)
    assert (found.value, found.source) == (90.0, "mined")
    assert "refused: owner: history.owner_thresholds does not allow it" in found.text
    allowed = parse("history: {owner_thresholds: [decide.overload_s]}", "x")
    assert one(chosen(owner={X: 20}, config=allowed), X).value == 20


def test_limit_of_a_supervisor_is_nothing_that_an_owner_may_be_allowed_to_set() -> None:
    """Other topologies run there too."""
    allowed = f"history: {{owner_thresholds: [{B}]}}"
    with pytest.raises(UsageError, match=f"{B} is of a supervisor, not of a topology, expected one of {R}, {X}, ") as e:
        parse(allowed, "x")
    assert "history" in str(e.value)
    assert str(e.value).count(B) == 1


@pytest.mark.parametrize("value", [0.9, 0.0, -1.0, float("nan"), float("inf"), "much", True, None])
def test_absurd_number_is_refused_with_its_reason_and_the_next_one_holds(value: Any) -> None:
    found = one(chosen(mined(entry(value=0.2)), owner={R: value}))
    assert (found.value, found.source) == (0.2, "mined")
    assert "refused: owner:" in found.text


@pytest.mark.parametrize(
    ("name", "value", "holds", "range_"),
    [
        (R, 0.9, 0.5, "0.02 to 0.5"),
        (R, 0.001, 0.02, "0.02 to 0.5"),
        ("verify.noise_floor_ratio", 0.6, 0.5, "0.01 to 0.5"),
        ("decide.restart_s", 700.0, 600.0, "1 to 600"),
    ],
)
def test_mined_number_outside_of_its_range_becomes_the_nearer_end_and_says_so(
    name: str, value: float, holds: float, range_: str
) -> None:
    """The topology with the most noise does not get the default, which is for one with little."""
    found = one(chosen(mined(entry(name, value))), name)
    assert (found.value, found.source) == (holds, "mined")
    assert found.text == f"1,000 rows of 30.0 days; {holds:g} for {value:g}, which is outside {range_} (history.ranges)"


def test_mined_number_inside_of_a_configured_range_holds_as_it_is() -> None:
    wider = parse("history: {ranges: {decide.gain_threshold_ratio: [0, 1]}}", "x")
    found = one(chosen(mined(entry(value=0.9)), config=wider))
    assert (found.value, found.source, found.text) == (0.9, "mined", "1,000 rows of 30.0 days")


def test_mined_number_that_is_none_leaves_the_configured_one() -> None:
    in_use = chosen(mined(entry(value=float("nan"))))
    assert (one(in_use).value, one(in_use).source) == (0.1, "configured")
    assert one(in_use).text == "refused: mined: nan is no number"
    assert in_use.section(ID, "decide", Config().decide) == Config().decide


def test_frozen_number_outside_of_its_range_becomes_the_nearer_end_as_the_mined_one_that_it_was() -> None:
    frozen = ThresholdSetting(topology="flights", name=R, value=0.9, frozen=True, by="ops")
    found = one(chosen(mined(entry(value=0.3)), settings=(frozen,)))
    assert (found.value, found.source) == (0.5, "operator")
    assert found.text == "frozen by ops; 0.5 for 0.9, which is outside 0.02 to 0.5 (history.ranges)"


def test_mined_limit_of_a_node_is_never_raised_above_a_configured_one_below_the_range() -> None:
    low = parse("decide: {cpu_limit_ratio: 0.2}", "x")
    assert one(chosen(mined(entry(B, 0.25, "a")), config=low), B, "a").value == 0.2


def test_what_was_not_mined_for_lack_of_data_stays_configured() -> None:
    assert chosen(mined(entry(value=0.1, source="default", text="12 rows"))).chosen[ID] == {}


def test_old_thresholds_are_not_used_and_neither_are_any_when_switched_off() -> None:
    old = mined(entry(), at_ms=T0_MS - 46 * DAY_MS)
    assert chosen(old).chosen[ID] == {}
    assert chosen(mined(entry()), config=parse("history: {use_thresholds: false}", "x")).chosen[ID] == {}


def test_topology_that_was_submitted_anew_keeps_what_its_name_had() -> None:
    snapshot = topology(PLACE)
    before = mined(entry(value=0.15), topology_id="flights-7-1", at_ms=T0_MS - 2)
    newer = mined(entry(value=0.25), topology_id="flights-9-1", at_ms=T0_MS - 1)
    other = mined(entry(value=0.35), topology_id="other-1-1", name="other")
    known = {m.topology_id: m for m in (before, newer, other)}
    assert thresholds_of(snapshot, known) is newer
    assert thresholds_of(snapshot, {**known, ID: before}) is before
    assert "of flights-9-1" in one(chosen(newer)).text


def test_limit_of_a_node_is_at_most_the_configured_one_and_the_lowest_of_all_topologies() -> None:
    config = Config()
    assert chosen(mined(entry(B, 0.9, "a"))).cpu_limit["a"].value == config.decide.cpu_limit_ratio
    snapshots = {i: topology(PLACE, id=i, name=i) for i in ("x", "y")}
    known = {i: mined(entry(B, v, "a"), topology_id=i, name=i) for i, v in (("x", 0.7), ("y", 0.6))}
    in_use = choose(config, snapshots, known, (), T0_MS)
    assert in_use.cpu_limit["a"].value == 0.6
    model = build(cluster("a", "b"), {}, {}, config.load, 0.8, T0_MS).model
    a, b = in_use.limited(model).supervisors
    assert (a.limit_mhz, b.limit_mhz) == (0.6 * a.cpu_mhz, 0.8 * b.cpu_mhz)


def test_operator_may_fill_a_node_more_than_is_configured() -> None:
    setting = ThresholdSetting(topology="_all", name=B, of=["a"], value=0.9, by="ops")
    assert chosen(mined(entry(B, 0.5, "a")), settings=(setting,)).cpu_limit["a"].value == 0.9


def test_supervisor_has_its_own_time_for_overloads() -> None:
    in_use = chosen(mined(entry(X, 90.0), entry(X, 300.0, "a")))
    assert in_use.section(ID, "decide", Config().decide).overload_s == 90.0
    assert in_use.overload_s(ID) == {"a": 300.0}


def test_what_somebody_sets_for_a_topology_holds_on_every_supervisor() -> None:
    """An operator's X(n) for a night of batches; what is frozen at the mined number leaves supervisors theirs."""
    found = mined(entry(X, 180.0), entry(X, 240.0, "a"))
    setting = ThresholdSetting(topology="flights", name=X, value=3600.0, by="ops", why="batch night")
    in_use = chosen(found, settings=(setting,))
    assert (in_use.overload_s(ID), one(in_use, X).value) == ({}, 3600.0)
    own = ThresholdSetting(topology="flights", name=X, of=["a"], value=900.0, by="ops")
    assert chosen(found, settings=(setting, own)).overload_s(ID) == {"a": 900.0}
    frozen_at = msgspec.structs.replace(setting, value=180.0, frozen=True)
    frozen = chosen(found, settings=(frozen_at,))
    assert frozen.overload_s(ID) == {"a": 240.0}
    assert frozen.sources(ID)[X].startswith("operator: frozen by ops"), "of two, the topology's own is told"
    everything = msgspec.structs.replace(setting, topology="_all")
    for more in ({"settings": (frozen_at, everything)}, {"settings": (frozen_at,), "owner": {X: 3600.0}}):
        config = parse("history: {owner_thresholds: [decide.overload_s]}", "x")
        assert chosen(found, **more, config=config).overload_s(ID) == {"a": 240.0}, "that is not in force"  # type: ignore[arg-type]
    outside = chosen(found, settings=(msgspec.structs.replace(setting, value=1e9),))
    assert outside.overload_s(ID) == {"a": 240.0}, "what is refused replaces nothing"


def test_what_an_operator_froze_stays_in_force_when_a_later_mined_one_contradicts_it() -> None:
    low, high = "otd.queue_low_tuples", "otd.queue_high_tuples"
    frozen = ThresholdSetting(topology="flights", name=high, value=5000.0, frozen=True, by="ops")
    in_use = chosen(mined(entry(low, 6000.0), entry(high, 9000.0)), settings=(frozen,))
    assert (one(in_use, high).value, one(in_use, high).source) == (5000.0, "operator")
    assert (one(in_use, low).value, one(in_use, low).source) == (Config().otd.queue_low_tuples, "configured")
    assert one(in_use, low).text == f"refused: {low} of 6000 is not below {high} of 5000, frozen by ops"
    assert in_use.section(ID, "otd", Config().otd).queue_high_tuples == 5000.0


@pytest.mark.parametrize(
    ("name", "value", "other"),
    [("otd.cpu_low", 0.85, "otd.cpu_high"), ("otd.cpu_high", 0.45, "otd.cpu_low")],
)
def test_a_configured_number_goes_beside_an_operators_that_is_beyond_it(name: str, value: float, other: str) -> None:
    config = parse("otd: {cpu_high: 0.8, cpu_low: 0.5}", "x")
    said = ThresholdSetting(topology="flights", name=name, value=value, by="ops")
    in_use = chosen(settings=(said,), config=config)
    section = in_use.section(ID, "otd", config.otd)
    assert one(in_use, name).value == value
    assert section.cpu_low < section.cpu_high
    assert value in (section.cpu_low, section.cpu_high)
    assert (one(in_use, other).source, "set by ops" in one(in_use, other).text) == ("operator", True)


def test_a_number_beside_a_configured_zero_ends_no_cycle() -> None:
    """How far the configured ones are from each other is told by no ratio then."""
    low = "otd.queue_low_tuples"
    config = parse("otd: {queue_low_tuples: 0}", "x")
    said = ThresholdSetting(topology="flights", name=low, value=2.0 * config.otd.queue_high_tuples, by="ops")
    section = chosen(settings=(said,), config=config).section(ID, "otd", config.otd)
    assert (section.queue_low_tuples, section.queue_high_tuples) == (0.0, config.otd.queue_high_tuples)


def test_numbers_of_one_operator_that_contradict_each_other_are_refused_with_both() -> None:
    said = tuple(
        ThresholdSetting(topology="flights", name=n, value=v) for n, v in (("otd.cpu_low", 0.85), ("otd.cpu_high", 0.7))
    )
    in_use = chosen(settings=said)
    assert {one(in_use, n).source for n in ("otd.cpu_low", "otd.cpu_high")} == {"configured"}


def test_low_that_is_not_below_high_is_refused_with_both() -> None:
    in_use = chosen(mined(entry("otd.cpu_low", 0.85), entry("otd.cpu_high", 0.7)))
    assert {one(in_use, n).source for n in ("otd.cpu_low", "otd.cpu_high")} == {"configured"}
    assert "is not below" in one(in_use, "otd.cpu_low").text
    config = Config()
    assert in_use.section(ID, "otd", config.otd) == config.otd


def test_setting_that_cannot_be_read_means_the_configured_number() -> None:
    setting = threshold_of_key(ThresholdSetting(topology="flights", name=B, of=["a,b/c"], value=0.7).key)
    assert (setting.topology, setting.name, setting.of, setting.value) == ("flights", B, ["a,b/c"], None)
    found = one(chosen(mined(entry()), settings=(ThresholdSetting(topology="flights", name=R),)))
    assert (found.value, found.source, found.text) == (0.1, "configured", "an operator's setting cannot be read")
    with pytest.raises(UsageError):
        threshold_of_key("flights")


def test_ranges_name_only_thresholds() -> None:
    with pytest.raises(UsageError, match=r"history.*is no threshold"):
        parse("history: {ranges: {decide.mode: [0, 1]}}", "x")
    with pytest.raises(UsageError, match="smaller number first"):
        parse("history: {ranges: {decide.overload_s: [9, 1]}}", "x")


def test_a_proposed_number_is_not_in_force_until_an_operator_freezes_it() -> None:
    proposal = mined(entry(B, 0.5, "a", source="proposed"))
    assert B not in {name for name, _ in chosen(proposal).chosen[ID]} and not chosen(proposal).cpu_limit
    accepted = ThresholdSetting(topology="flights", name=B, of=["a"], value=0.5, frozen=True, by="ops")
    found = chosen(proposal, settings=(accepted,)).cpu_limit["a"]
    assert (found.value, found.source) == (0.5, "operator")


def test_numbers_of_an_old_log_are_not_young_for_being_mined_today() -> None:
    """A mining job that goes on over a log that stopped published them anew each night."""
    late_ms = T0_MS + 46 * DAY_MS
    assert not chosen(mined(entry(value=0.4), at_ms=late_ms), now_ms=late_ms).chosen[ID]
    assert one(chosen(mined(entry(value=0.4), at_ms=late_ms), now_ms=T0_MS + 40 * DAY_MS)).source == "mined"
