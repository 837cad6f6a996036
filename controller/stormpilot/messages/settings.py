"""Messages of operators: settings, requests, and the audit of what was done.

Settings outlive every process. A request is acted upon once, by the leading controller, which removes it in the
transaction in which it does what was asked. The rules of `core.py` hold for these messages too.
"""

from __future__ import annotations

from typing import Any, Literal, get_args
from urllib.parse import quote, unquote

import msgspec

from stormpilot.errors import UsageError
from stormpilot.messages.core import HistoryEntry, Message

Mode = Literal["off", "advise", "act"]
"""Work of the controller on a topology: none, proposals, plans that it publishes."""
MODES: tuple[Mode, ...] = get_args(Mode)
NO_END_MS = 2**53
"""The end of a hold that cannot be read, which holds on."""
ALL = "_all"
"""The key that stands for every topology; `setting_key` gives it to no topology."""


def setting_key(topology: str | None) -> str:
    """The key of a topology name (None: of all topologies) in `settings/pause`, `settings/mode` and thresholds.

    The key is the name itself, but `%5Fall` for a topology named `_all`, and `%25...` for a name that begins with `%`.
    """
    if topology is None:
        return ALL
    if topology == ALL or topology.startswith("%"):
        return f"%{ord(topology[0]):02X}{topology[1:]}"
    return topology


def name_of_setting_key(key: str) -> str:
    """The topology name of a key other than `ALL`."""
    return unquote(key[:3]) + key[3:] if key.startswith("%") else key


class PauseSetting(Message, frozen=True, kw_only=True):
    """`settings/pause/_all` or `settings/pause/<setting_key>`: exists = paused (nothing new is applied)."""

    since_ms: int = 0
    by: str = ""
    why: str = ""


class ModeSetting(Message, frozen=True, kw_only=True):
    """`settings/mode/_all` or `settings/mode/<setting_key>`: overrides the mode of `controller.yaml`."""

    mode: Mode
    since_ms: int = 0
    by: str = ""
    why: str = ""


class DrainSetting(Message, frozen=True, kw_only=True):
    """`settings/drain/<host>`: while it exists, executors leave the supervisors of this host, and none come."""

    host: str
    since_ms: int = 0
    by: str = ""
    why: str = ""


class PinSetting(Message, frozen=True, kw_only=True):
    """`settings/pin/<topology-name>,<component>,<task>`: this component (this task's executor) runs on `supervisor`."""

    topology: str
    component: str
    task: int | None = None
    supervisor: str
    since_ms: int = 0
    by: str = ""
    why: str = ""

    @property
    def key(self) -> str:
        """Name of the znode."""
        return pin_key(self.topology, self.component, self.task)


class ExcludeSetting(Message, frozen=True, kw_only=True):
    """`settings/exclude/<host or supervisor>,<topology-name>,<component>`: what may not run there.

    Either `host` or `supervisor`; of one component, of one topology, or (both None) of all. The znode's name says it
    all, so that one whose content is damaged stays in force.
    """

    host: str | None = None
    supervisor: str | None = None
    topology: str | None = None
    component: str | None = None
    since_ms: int = 0
    by: str = ""
    why: str = ""

    @property
    def key(self) -> str:
        """Name of the znode."""
        where = f"host:{_quoted(self.host)}" if self.host is not None else f"supervisor:{_quoted(self.supervisor)}"
        return f"{where},{_quoted(self.topology)},{_quoted(self.component)}"


class ThresholdSetting(Message, frozen=True, kw_only=True):
    """`settings/thresholds/<topology-name or _all>,<name>,<of>`: the threshold is `value`, whatever is mined.

    `topology` is a `setting_key`; `name` and `of` as in `ThresholdEntry`; `frozen` tells that the value is one that was
    mined. A setting that cannot be read has no value: then the configured one holds, since the mined one is not wanted.
    """

    topology: str
    name: str
    of: list[str] = msgspec.field(default_factory=list)
    value: float | None = None
    frozen: bool = False
    since_ms: int = 0
    by: str = ""
    why: str = ""

    @property
    def key(self) -> str:
        """Name of the znode."""
        return ",".join(_quoted(x) for x in (self.topology, self.name, *self.of))


def threshold_of_key(key: str) -> ThresholdSetting:
    """Threshold that the name of a znode stands for, when its content cannot be read; `UsageError` when it is none."""
    topology, *rest = (unquote(x) for x in key.split(","))
    if not topology or not rest:
        raise UsageError(f"{key!r} is not the name of a threshold, expected TOPOLOGY,NAME")
    return ThresholdSetting(topology=topology, name=rest[0], of=rest[1:])


def pin_key(topology: str, component: str, task: int | None = None) -> str:
    """Name of the znode of a pin."""
    return f"{_quoted(topology)},{_quoted(component)},{'' if task is None else task}"


def exclusion_of_key(key: str) -> ExcludeSetting:
    """The exclusion that a znode's name says; `UsageError` when it says none."""
    parts = key.split(",")
    kind, _, place = parts[0].partition(":")
    if len(parts) != 3 or kind not in ("host", "supervisor") or not place:
        raise UsageError(f"{key!r} is not the name of an exclusion, expected host:NAME,TOPOLOGY,COMPONENT")
    topology, component = (unquote(p) or None for p in parts[1:])
    if kind == "host":
        return ExcludeSetting(host=unquote(place), topology=topology, component=component)
    return ExcludeSetting(supervisor=unquote(place), topology=topology, component=component)


def topology_of_key(key: str) -> str:
    """The topology name of a pin's znode."""
    return unquote(key.split(",")[0])


def _quoted(text: str | None) -> str:
    return quote(text or "", safe="")


Verb = Literal["approve", "discard", "rollback", "replan"]


class Request(Message, frozen=True, kw_only=True):
    """`requests/<topology-id>`: what the leading controller is asked to do with a topology, once.

    `entry` is the plan that the operator looked at (`approve`, `discard`), `steps` how far to go back (`rollback`).
    """

    id: str
    verb: Verb
    topology_id: str
    at_ms: int
    by: str
    why: str = ""
    steps: int = 1
    entry: HistoryEntry | None = None


class Hold(Message, frozen=True, kw_only=True):
    """`holds/<topology-id>`: the topology stays as it is until then, because of a rollback or a discarded plan."""

    topology_id: str
    since_ms: int
    until_ms: int
    cause: Literal["rollback", "discard"]
    plan_id: str = ""
    by: str = ""
    why: str = ""

    @property
    def end_ms(self) -> int | None:
        """The end by itself; None: it holds until an operator ends it."""
        return None if self.until_ms >= NO_END_MS else self.until_ms


class AuditRecord(Message, frozen=True, kw_only=True):
    """`audit/e-<number>`: who did what to what, why, what was before and after, and how it ended.

    `request_id` ties what was asked for to what became of it; `inputs_hash` is the SHA-256 of the model that a plan was
    made from; `carried_out_by` names the controller that acted.
    """

    id: str
    at_ms: int
    who: str
    verb: str
    target: str
    why: str = ""
    before: Any = None
    after: Any = None
    result: str = "done"
    request_id: str = ""
    plan_id: str = ""
    inputs_hash: str = ""
    carried_out_by: str = ""
