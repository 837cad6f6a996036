"""Settings of operators, as values: drains, pins, exclusions, holds, requests. What cannot be read counts the safe way.

A drain or an exclusion is in force for as long as its znode exists, whatever it holds: its name says enough. A pin says
where only inside: while one cannot be read, nothing of its topology moves. A hold that cannot be read holds on. What
was readable before stays believed as it was.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeVar
from urllib.parse import unquote

from stormpilot.errors import UsageError
from stormpilot.messages.core import Message
from stormpilot.messages.settings import (
    ALL,
    NO_END_MS,
    DrainSetting,
    ExcludeSetting,
    Hold,
    PinSetting,
    Request,
    ThresholdSetting,
    exclusion_of_key,
    setting_key,
    threshold_of_key,
    topology_of_key,
)
from stormpilot.observe.last_good import LastGood
from stormpilot.observe.listing import Listing
from stormpilot.zookeeper.client import Watch, ZooKeeper
from stormpilot.zookeeper.paths import Paths

M = TypeVar("M", bound=Message)
UNREADABLE = "unreadable setting"


@dataclass(frozen=True)
class Pending:
    """A request, None when it cannot be read, and the version of its znode."""

    request: Request | None
    version: int


@dataclass(frozen=True)
class Settings:
    """One reading. Drains by host, holds and requests by topology id; `frozen`: why nothing moves, by `setting_key`.

    `asked` are the transactions that wrote drains, pins and exclusions, with the name of the topology that each is of
    (None: of all); what cannot be read is none of them. `hold_transactions` wrote the holds.
    """

    drains: Mapping[str, DrainSetting] = field(default_factory=dict)
    pins: tuple[PinSetting, ...] = ()
    exclusions: tuple[ExcludeSetting, ...] = ()
    holds: Mapping[str, Hold] = field(default_factory=dict)
    hold_versions: Mapping[str, int] = field(default_factory=dict)
    hold_transactions: Mapping[str, int] = field(default_factory=dict)
    asked: tuple[tuple[str | None, int], ...] = ()
    requests: Mapping[str, Pending] = field(default_factory=dict)
    frozen: Mapping[str, str] = field(default_factory=dict)
    thresholds: tuple[ThresholdSetting, ...] = ()

    def overrule(self, name: str, transaction: int) -> bool:
        """Whether a drain, or a pin or an exclusion for a topology of this name, was made after that transaction.

        Times do not tell: the one who asks has a clock of his own.
        """
        return any(at > transaction and topology in (None, name) for topology, at in self.asked)

    @property
    def signature(self) -> object:
        """Changes that make a cycle run at once."""
        return (
            tuple(sorted(self.drains)),
            tuple((p.key, p.supervisor) for p in self.pins),
            tuple(x.key for x in self.exclusions),
            tuple(sorted((t, h.until_ms) for t, h in self.holds.items())),
            tuple(sorted((t, p.version) for t, p in self.requests.items())),
            tuple(sorted(self.frozen)),
            tuple((t.key, t.value) for t in self.thresholds),
        )


class SettingsReader:
    """Reads the settings below `paths`, with watches."""

    def __init__(self, zookeeper: ZooKeeper, paths: Paths, watch: Watch | None = None):
        self._zookeeper = zookeeper
        self._paths = paths
        self._watch = watch
        self._listing = Listing(zookeeper, watch)
        self._last_good = LastGood()
        self._decode = self._last_good.decode

    def read(self, problems: dict[str, str]) -> Settings:
        """Read all; `problems` is given what cannot be read, by path."""
        p = self._paths
        parents = [p.drain(), p.pin(), p.exclusion(), p.hold(), p.request(), p.threshold_setting()]
        found = self._listing.children(parents, problems)
        paths = [f"{parent}/{n}" for parent, names in zip(parents, found, strict=True) for n in names]
        nodes = dict(zip(paths, self._zookeeper.read(paths, self._watch, keep_denied=True), strict=True))
        drain, pin, exclude, hold, request, threshold = (
            {n: (f"{parent}/{n}", node) for n in names if (node := nodes[f"{parent}/{n}"]) is not None}
            for parent, names in zip(parents, found, strict=True)
        )
        frozen: dict[str, str] = {}
        for path in self._listing.unknown:
            frozen[ALL] = f"settings cannot be read, there are too many ({path})"
        asked: list[tuple[str | None, int]] = []
        drains = []
        for n, (path, node) in drain.items():
            drained = self._decode(node, DrainSetting, path, problems)
            drains.append(drained or DrainSetting(host=unquote(n), by=UNREADABLE))
            asked += [(None, node.transaction)] if drained is not None else []
        pins = []
        for n, (path, node) in pin.items():
            setting = self._decode(node, PinSetting, path, problems)
            if setting is not None:
                pins.append(setting)
                asked.append((setting.topology, node.transaction))
            else:
                frozen[setting_key(topology_of_key(n) or None)] = f"a pin cannot be read ({path})"
        exclusions = []
        for n, (path, node) in exclude.items():
            try:
                excluded = self._decode(node, ExcludeSetting, path, problems)
                exclusions.append(excluded or exclusion_of_key(n))
                asked += [(excluded.topology, node.transaction)] if excluded is not None else []
            except UsageError:
                frozen[ALL] = f"an exclusion cannot be read ({path})"
        holds = {
            n: self._decode(node, Hold, path, problems)
            or Hold(topology_id=n, since_ms=0, until_ms=NO_END_MS, cause="discard", by=UNREADABLE)
            for n, (path, node) in hold.items()
        }
        requests = {
            n: Pending(self._decode(node, Request, path, problems), node.version) for n, (path, node) in request.items()
        }
        thresholds = []
        for n, (path, node) in threshold.items():
            with contextlib.suppress(UsageError):  # a znode that names no threshold sets none
                thresholds.append(self._decode(node, ThresholdSetting, path, problems) or threshold_of_key(n))
        self._last_good.keep_only(nodes)
        return Settings(
            drains={d.host: d for d in drains},
            pins=tuple(sorted(pins, key=lambda s: s.key)),
            exclusions=tuple(sorted(exclusions, key=lambda s: s.key)),
            holds=holds,
            hold_versions={n: node.version for n, (_, node) in hold.items()},
            hold_transactions={n: node.transaction for n, (_, node) in hold.items()},
            asked=tuple(sorted(asked, key=lambda a: a[1])),
            requests=requests,
            frozen=frozen,
            thresholds=tuple(sorted(thresholds, key=lambda s: s.key)),
        )
