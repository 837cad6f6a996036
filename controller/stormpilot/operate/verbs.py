"""Every verb once: the HTTP routes are made from this table, and the command line registers it.

A new verb has three places: its function in this folder, its row here, and its row in `stormpilot.cli.commands`. The
function's signature says what the verb takes (positional: an argument on the command line; keyword-only: an option;
both: a field of the HTTP body), the first paragraph of its docstring is its help.
"""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

from msgspec import Meta

from stormpilot.operate.change import Change
from stormpilot.operate.pauses import mode, pause, resume
from stormpilot.operate.places import drain, exclude, include, pin, undrain, unpin
from stormpilot.operate.requests import approve, discard, replan, rollback
from stormpilot.operate.rollouts import abort_rollout, pause_rollout, resume_rollout
from stormpilot.operate.routes import activate_task, deactivate_task, reset_routes, shift_route
from stormpilot.operate.thresholds import freeze_threshold, set_threshold, unset_threshold


@dataclass(frozen=True)
class Parameter:
    """A parameter of a verb; `kind` is its annotated type, `default` is `REQUIRED` where it has none."""

    REQUIRED: ClassVar[Any] = inspect.Parameter.empty
    name: str
    kind: Any
    default: Any
    positional: bool

    @property
    def optional(self) -> bool:
        """Whether None stands for something, e.g. for every topology."""
        return type(None) in typing.get_args(self.kind.__origin__)

    @property
    def meta(self) -> Meta:
        """Its range; `description` says what it means."""
        return next(m for m in self.kind.__metadata__ if isinstance(m, Meta))


@dataclass(frozen=True)
class Verb:
    """Verb: an action of an operator on a running system.

    Attributes
    ----------
    name
        As typed (`rollout pause`); over HTTP `POST /api/v1/rollout/pause`.
    do
        Called with an `Operator` and the parameters.
    asks
        A person confirms it where its `Change` has a `danger`.
    request
        The leading controller carries it out; `outcome` tells what became of it.
    admin_for_all
        Over HTTP it needs the role admin where it concerns every topology.
    over_http
        False where somebody has to stay until it is over, as the command line does.
    """

    name: str
    do: Callable[..., Change]
    asks: bool = False
    request: bool = False
    admin_for_all: bool = False
    over_http: bool = True

    @property
    def help(self) -> str:
        """The first paragraph of its function's docstring."""
        return " ".join((inspect.getdoc(self.do) or "").partition("\n\n")[0].split())

    @property
    def parameters(self) -> list[Parameter]:
        """Arguments of the verb, beside the operator."""
        hints = typing.get_type_hints(self.do, include_extras=True)
        own = list(inspect.signature(self.do).parameters.values())[1:]
        return [Parameter(p.name, hints[p.name], p.default, p.kind is p.POSITIONAL_OR_KEYWORD) for p in own]


VERBS: tuple[Verb, ...] = (
    Verb("mode", mode, asks=True),
    Verb("pause", pause),
    Verb("resume", resume),
    Verb("approve", approve, asks=True, request=True),
    Verb("discard", discard, request=True),
    Verb("replan", replan, asks=True, request=True),
    Verb("rollback", rollback, asks=True, request=True),
    Verb("drain", drain, asks=True),
    Verb("undrain", undrain),
    Verb("pin", pin, asks=True),
    Verb("unpin", unpin),
    Verb("exclude", exclude, asks=True, admin_for_all=True),
    Verb("include", include, admin_for_all=True),
    Verb("rollout pause", pause_rollout),
    Verb("rollout resume", resume_rollout),
    Verb("rollout abort", abort_rollout, asks=True),
    Verb("routes shift", shift_route, over_http=False),
    Verb("routes deactivate", deactivate_task, over_http=False),
    Verb("routes activate", activate_task, over_http=False),
    Verb("routes reset", reset_routes, asks=True, over_http=False),
    Verb("thresholds set", set_threshold, asks=True, admin_for_all=True),
    Verb("thresholds freeze", freeze_threshold),
    Verb("thresholds unset", unset_threshold, admin_for_all=True),
)


def verb_named(name: str) -> Verb:
    """The verb of that name."""
    return next(v for v in VERBS if v.name == name)
