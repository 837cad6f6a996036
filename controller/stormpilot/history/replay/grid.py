"""The settings that are tried: every planner over its parameters, and the rules of `decide` around the best of them."""

from __future__ import annotations

import difflib
import itertools
from collections.abc import Sequence

import msgspec

from stormpilot.config.deciding import DecideSection
from stormpilot.config.options import options_of
from stormpilot.errors import UsageError
from stormpilot.history.replay.values import Param, Setting
from stormpilot.planner import PLANNERS, planner_named
from stormpilot.planner.registry import params_of

DEFAULT_PLANNER = "best"
GRID: dict[str, list[dict[str, Param]]] = {
    "default": [{}],
    "dsm": [{}],
    "offline": [{"alpha": a, "beta": b} for a, b in itertools.product((0.0, 0.5), (0.0, 0.5))],
    "online": [{"alpha": a} for a in (0.0, 0.25, 0.5, 1.0)],
    "otd": [{}, {"steps": 1}, {"exact_workers": True}],
    "rsm": [{}, {"network_weight": 4.0}, {"keep_present": True}],
    "ras-order": [{}, {"keep_present": True}],
    "sam": [{}],
    "partition": [{}, {"objective": "network_cost"}],
    "best": [{}, {"objective": "network_cost"}, {"objective": "network_cost", "restart_tps": 1.0}],
    "exact": [{"objective": "network_cost"}],
}
"""Of every planner the parameter sets to try; one that is new here is tried as it comes."""
RULES: list[dict[str, Param]] = [
    {"cpu_limit_ratio": 0.7},
    {"cpu_limit_ratio": 0.6},
    {"fill_ratio": 1.0},
    {"fill_ratio": 0.75},
    {"gain_threshold_ratio": 0.2},
    {"consecutive_hits": 1},
]
"""Rules of `decide` to try with the default planner."""


def grid(default: Setting | None = None, *, forecast: bool = False) -> list[Setting]:
    """Every setting to try, the default (what is configured) first; with `forecast` the default on forecasts too."""
    first = default or Setting(planner=DEFAULT_PLANNER)
    settings = [first, *(Setting(planner=n, params=p) for n in PLANNERS for p in GRID.get(n, [{}]))]
    settings += [msgspec.structs.replace(first, decide=rules) for rules in RULES]
    if forecast:
        settings.append(msgspec.structs.replace(first, forecast=True))
    return list({s.name: s for s in settings}.values())


def asked(planner: str, given: Sequence[str], decide: Sequence[str], *, forecast: bool = False) -> list[Setting]:
    """Settings of one planner; `given` and `decide` are `name=value` or `name=value,value,...`: all combinations."""
    chosen = planner_named(planner)
    params, rules = _choices("--param", given), _choices("--rule", decide)
    for name, values in rules.items():
        _check_rule(name, values)
    settings = []
    for p in _combined(params):
        checked = params_of(chosen, p)
        settings += [
            Setting(planner=planner, params={k: getattr(checked, k) for k in p}, decide=r, forecast=forecast)
            for r in _combined(rules)
        ]
    return settings


def _check_rule(name: str, values: Sequence[Param]) -> None:
    options = {o.name: o for o in options_of(DecideSection)}
    if name not in options:
        near = difflib.get_close_matches(name, options, n=1)
        hint = f"did you mean {near[0]}?" if near else "`stormpilot config explain decide` lists them"
        raise UsageError(f"--rule {name}: decide has no such setting; {hint}")
    for value in values:
        try:
            msgspec.convert({name: value}, DecideSection)
        except msgspec.ValidationError as e:
            raise UsageError(f"--rule {name}: {value!r}, expected {options[name].range or options[name].type}") from e


def _choices(option: str, given: Sequence[str]) -> dict[str, list[Param]]:
    found: dict[str, list[Param]] = {}
    for text in given:
        name, equals, values = text.partition("=")
        if not equals or not name.strip() or not values.strip():
            raise UsageError(f"{option} {text}: expected name=value or name=value,value")
        found[name.strip()] = [_value(v.strip()) for v in values.split(",")]
    return found


def _value(text: str) -> Param:
    try:
        value = msgspec.json.decode(text)
    except msgspec.DecodeError:
        return text
    return value if isinstance(value, float | int | str | bool) or value is None else text


def _combined(choices: dict[str, list[Param]]) -> list[dict[str, Param]]:
    return [dict(zip(choices, values, strict=True)) for values in itertools.product(*choices.values())]
