"""Planners and how one is run: `Planner` and `run`."""

from __future__ import annotations

import dataclasses
import math
import types
import typing
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from stormpilot.errors import UsageError
from stormpilot.model import cost
from stormpilot.model.compiled import Compiled, Ints, compile_model
from stormpilot.model.values import Infeasible, Model, Plan
from stormpilot.planner.placement.feasibility import surplus_fixed
from stormpilot.planner.placement.layout import Frame, Layout, frame_of
from stormpilot.planner.placement.problem import (
    LeftS,
)
from stormpilot.planner.placement.result import Result
from stormpilot.planner.placement.slots import to_slots

Value = float | int | str | bool | None
KIND_NAMES = {int: "a whole number", float: "a number", bool: "true or false", type(None): "none"}
MOST_ROUNDS = 4
"""Plans that are made to find which wishes for sites cannot be met; after that all are given up."""


Place = Callable[[Frame, Any, np.random.Generator, LeftS], "Layout | Result | Infeasible"]


@dataclass(frozen=True)
class Planner:
    """A method: `place` puts executors into workers on nodes; `params` is its frozen, checked dataclass.

    What it can is said here, so that nobody asks for a planner by its name: `exact_workers`: it uses exactly min(W, E)
    workers of every topology; `minimises_flow`: it can minimise what shuffles will send, not only measured pairs;
    `composite`: it takes what other planners answer as candidates, and may use a time budget to its end.
    """

    name: str
    summary: str
    source: str
    params: type[Any]
    place: Place
    exact_workers: bool = False
    minimises_flow: bool = False
    composite: bool = False

    def plan(
        self,
        model: Model,
        params: Any,
        rng: np.random.Generator,
        left_s: LeftS = lambda: math.inf,
        compiled: Compiled | None = None,
    ) -> Plan | Infeasible:
        """Plan every topology of the model.

        Parameters
        ----------
        params : an instance of `self.params`.
        rng : the only source of chance: same model, parameters and generator state give the same plan.
        left_s : how many seconds are left, by the caller's clock. A planner that is cut short says so in `Plan.notes`.
        compiled : the model's arrays, where they are known; that saves compiling it.

        Returns
        -------
        A plan with its metrics that keeps every hard constraint (`check.violations`), or why there is none.
        """
        wishes = {
            (t.id, c.id) for t in model.topologies for c in t.components if c.site is not None and not c.site_required
        }
        known = compiled if compiled is not None and compiled.model is model else compile_model(model)
        given_up = wishes & _hopeless(known)
        answer = self._plan(compile_model(model, given_up=given_up) if given_up else known, params, rng, left_s)
        rounds = 0
        while isinstance(answer, Infeasible) and given_up < wishes:
            named = wishes & _components(model, answer.executors)
            rounds += 1
            some = named - given_up and rounds < MOST_ROUNDS and left_s() > 0
            given_up = given_up | named if some else wishes
            answer = self._plan(compile_model(model, given_up=given_up), params, rng, left_s)
        if isinstance(answer, Plan) and (broken := broken_wishes(known, answer)):
            sites = {(t.id, c.id): c.site for t in model.topologies for c in t.components}
            names = ", ".join(sorted({f"{c} ({sites[t, c]})" for t, c in broken}))
            note = f"wishes for a site that are not required were given up: {names}"
            return Plan(topologies=answer.topologies, metrics=answer.metrics, notes=[*answer.notes, note])
        return answer

    def _plan(self, compiled: Compiled, params: Any, rng: np.random.Generator, left_s: LeftS) -> Plan | Infeasible:
        if compiled.executors and not len(compiled.slot_node):
            text = "no supervisor has a slot" if compiled.nodes else "there is no supervisor"
            waiting = [compiled.name(e) for e in range(compiled.executors)]
            return Infeasible(constraint="slots", text=text, executors=waiting, proved=True)
        if (surplus := surplus_fixed(compiled)) is not None:
            return surplus
        frame = frame_of(compiled)
        answer = self.place(frame, params, rng, left_s)
        if isinstance(answer, Infeasible):
            return answer
        result = answer if isinstance(answer, Result) else Result(answer)
        placement = to_slots(frame, result.layout)
        plan = compiled.plan_of(placement)
        return Plan(topologies=plan.topologies, metrics=cost.metrics(compiled, placement), notes=list(result.notes))


def params_of(planner: Planner, given: Mapping[str, Value]) -> Any:
    """The planner's parameters from names and values (text is converted); `UsageError` names what is wrong."""
    kinds = typing.get_type_hints(planner.params)
    fields = {f.name for f in dataclasses.fields(planner.params)}
    unknown = sorted(set(given) - fields)
    if unknown:
        known = ", ".join(sorted(fields)) or "none"
        raise UsageError(f"planner {planner.name} has no parameter {unknown[0]!r}; it has: {known}")
    return planner.params(**{name: _converted(planner.name, name, value, kinds[name]) for name, value in given.items()})


def _converted(planner: str, name: str, value: Value, kind: Any) -> Value:
    options = typing.get_args(kind) if typing.get_origin(kind) in (typing.Union, types.UnionType) else (kind,)
    words = [w for o in options if typing.get_origin(o) is typing.Literal for w in typing.get_args(o)]
    if value is None or (isinstance(value, str) and value.lower() in ("none", "null")):
        if type(None) in options:
            return None
    elif value in words:
        return value
    elif bool in options:
        switch = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}
        if str(value).lower() in switch:
            return switch[str(value).lower()]
    elif not isinstance(value, bool):
        for option in (int, float):
            if option in options:
                try:
                    converted = option(value)
                except (TypeError, ValueError):
                    continue
                if isinstance(value, str) or converted == value:
                    return converted
    names = [KIND_NAMES.get(o, str(o)) for o in options if typing.get_origin(o) is not typing.Literal]
    raise UsageError(f"planner {planner}: {name} is {value!r}, expected {' or '.join([*words, *names])}")


def run(
    planner: Planner,
    model: Model,
    params: Mapping[str, Value],
    seed: int,
    left_s: LeftS = lambda: math.inf,
    compiled: Compiled | None = None,
) -> Plan | Infeasible:
    """Run a planner with a seeded generator; the plan carries planner, parameters and seed.

    `compiled`: arrays of this model, or of another one, which are of no use then.
    """
    checked = params_of(planner, params)
    answer = planner.plan(model, checked, np.random.default_rng(seed), left_s, compiled)
    if isinstance(answer, Infeasible):
        return answer
    return Plan(
        planner=planner.name,
        params=dataclasses.asdict(checked),
        seed=seed,
        topologies=answer.topologies,
        metrics=answer.metrics,
        notes=answer.notes,
    )


def without_given_up(model: Model, plan: Plan) -> Compiled:
    """The arrays of a model, without the wishes for sites that the plan has given up: then they forbid nothing."""
    compiled = compile_model(model)
    return without_broken(compiled, compiled.slots_of(plan))


def without_broken(compiled: Compiled, placement: Ints) -> Compiled:
    """The arrays of the same model, without the wishes for sites that a complete placement (E -> slot) breaks."""
    broken = _broken(compiled, placement)
    return compile_model(compiled.model, given_up=broken) if broken else compiled


def broken_wishes(compiled: Compiled, plan: Plan) -> set[tuple[str, str]]:
    """Components (topology id, component id) that a plan places where they may not be, but for what must stay."""
    return _broken(compiled, compiled.slots_of(plan))


def _broken(compiled: Compiled, placement: Ints) -> set[tuple[str, str]]:
    if not compiled.executors:
        return set()
    node = compiled.slot_node[placement]
    wrong = np.flatnonzero(~(compiled.allowed[compiled.klass, node] | compiled.fixed))
    return {_component(compiled, e) for e in wrong.tolist()}


def _hopeless(compiled: Compiled) -> set[tuple[str, str]]:
    """Components of which an executor may be on no node that has a slot."""
    possible = np.asarray(compiled.allowed[:, compiled.slots_per_node() > 0].any(axis=1), dtype=np.bool_)
    nowhere = np.flatnonzero(~(possible[compiled.klass] | compiled.fixed))
    return {_component(compiled, e) for e in nowhere.tolist()}


def _component(compiled: Compiled, executor: int) -> tuple[str, str]:
    t, name = compiled.component_names[int(compiled.component[executor])]
    return compiled.model.topologies[t].id, name


def _components(model: Model, executors: Collection[tuple[str, int]]) -> set[tuple[str, str]]:
    """Components of these executors (topology id, first task)."""
    asked = set(executors)
    return {(t.id, e.component) for t in model.topologies for e in t.executors if (t.id, e.start) in asked}
