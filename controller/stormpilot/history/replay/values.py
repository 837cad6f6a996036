"""Values of replay. Rates are means over a step; a *step* is some windows of the log taken together."""

from __future__ import annotations

from typing import Any

import msgspec

from stormpilot.model.values import Model, Value

PACES = 60
Param = float | int | str | bool | None


class Step(Value, frozen=True, kw_only=True):
    """The cluster from `from_ms` to `to_ms` (epoch): `model` has the placement and the traffic that were measured.

    `unmeasured` are topologies (ids) whose reports were not complete in any window of the step, or that another one
    followed within it (these are not in `model`): nothing is decided for them, and the step does not count. `pace`: by
    topology, the CPU that it used in each of `PACES` equal parts of the step against its mean over the step, so that a
    short overload is not lost in a long step; none: steady.
    """

    from_ms: int
    to_ms: int
    model: Model
    unmeasured: list[str] = msgspec.field(default_factory=list)
    pace: dict[str, list[float]] = msgspec.field(default_factory=dict)

    @property
    def length_s(self) -> float:
        """Seconds."""
        return (self.to_ms - self.from_ms) / 1000


class Setting(Value, frozen=True, kw_only=True, rename="camel"):
    """A candidate: a planner with parameters, settings of `decide` that differ, plans for the coming step or not."""

    planner: str
    params: dict[str, Param] = msgspec.field(default_factory=dict)
    decide: dict[str, Param] = msgspec.field(default_factory=dict)
    forecast: bool = False

    @property
    def name(self) -> str:
        """As a person reads it, e.g. `best objective=network_cost, decide.consecutive_hits=1, forecast`."""
        parts = [f"{k}={_text(v)}" for k, v in sorted(self.params.items())]
        parts += [f"decide.{k}={_text(v)}" for k, v in sorted(self.decide.items())]
        parts += ["forecast"] if self.forecast else []
        return f"{self.planner} {', '.join(parts)}".rstrip()


def _text(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value).lower() if isinstance(value, bool) else str(value)


class Move(Value, frozen=True, kw_only=True):
    """Change at the end of a step: executors that moved, workers that restarted, tuples that this held up."""

    reason: str
    executors: int
    workers: int
    held_up_tuples: float


class Played(Value, frozen=True, kw_only=True):
    """One topology in one step under one setting.

    `inter_node_tps`, `network_cost_tps` (tuples/s x distance) and `total_tps` as in `model/cost.py`.
    `overloaded_node_s`: seconds in which the nodes that it runs on have a load of B(n) or more, added up over them;
    `overloaded_tps`: tuples/s that arrive at its executors then and there, as a mean over the step. `refused`: why
    there was no plan, where one was asked for.
    """

    topology_id: str
    from_ms: int
    length_s: float
    inter_node_tps: float
    network_cost_tps: float
    total_tps: float
    busiest_load_ratio: float
    overloaded_node_s: float
    overloaded_tps: float
    reason: str = ""
    refused: str = ""
    move: Move | None = None


class Run(Value, frozen=True, kw_only=True):
    """A setting over all steps; `topologies` (ids) were planned by it, the others stood as they really did.

    `plans`: how often it planned, `planning_s`: what that took.
    """

    setting: Setting
    topologies: list[str]
    played: list[Played]
    plans: int = 0
    planning_s: float = 0.0
