"""Everything in ZooKeeper as values, read in one go; what cannot be read is named and never stops the rest."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from stormpilot.errors import UsageError
from stormpilot.messages.controller_state import ControllerState
from stormpilot.messages.core import (
    ClusterSnapshot,
    Message,
    PlanMessage,
    StatusMessage,
    TopologySnapshot,
    decode,
)
from stormpilot.messages.handover import KeyedTask
from stormpilot.messages.load import LoadReport
from stormpilot.messages.moves import MoveState
from stormpilot.messages.rollouts import Rollout
from stormpilot.messages.routes import Routes
from stormpilot.messages.settings import ALL, ModeSetting, setting_key
from stormpilot.messages.thresholds import Profile, Thresholds
from stormpilot.observe.last_good import LastGood
from stormpilot.observe.listing import Listing
from stormpilot.observe.plausible import read_message
from stormpilot.observe.reports import Reports
from stormpilot.observe.settings import Settings, SettingsReader
from stormpilot.zookeeper.client import MAY_NOT_READ, Node, Watch, ZooKeeper
from stormpilot.zookeeper.paths import Paths

M = TypeVar("M", bound=Message)

MAX_NAME_BYTES = 200
NO_SNAPSHOT = (
    "no cluster snapshot yet: put `storm.scheduler: io.stormpilot.PilotScheduler` into storm.yaml of Nimbus, and "
    "restart it; where that is done, stormpilot doctor tells what is wrong"
)


@dataclass(frozen=True)
class PublishedPlan:
    """A znode of `plans/`: `message` is None when it cannot be read; `version` is for compare-and-set.

    `ahead_ms`: by how much it seemed to be from the future when it was first read. `transaction`: see `Node`.
    """

    message: PlanMessage | None
    version: int
    written_at_ms: int
    ahead_ms: int = 0
    transaction: int = 0

    @property
    def since_ms(self) -> int:
        """Since when it is published, by our clock."""
        at_ms = self.written_at_ms if self.message is None else self.message.created_at_ms
        return at_ms - self.ahead_ms


@dataclass(frozen=True)
class Versioned(Generic[M]):
    """Content of a znode (None: it cannot be read), and its version for compare-and-set.

    `ahead_ms`: by how much it seemed to be from the future when it was first read. `transaction`: see `Node`.
    """

    message: M | None
    version: int
    ahead_ms: int = 0
    transaction: int = 0


@dataclass(frozen=True)
class StoreSnapshot:
    """One reading. `problems` maps the path of what could not be read to the reason.

    `no_cluster`: where there is no cluster snapshot, why. `paused` and `modes` are by `setting_key`.
    `leading_since_ms`: when the epoch was raised last, by ZooKeeper's clock.
    """

    cluster: ClusterSnapshot | None = None
    no_cluster: str = NO_SNAPSHOT
    topologies: Mapping[str, TopologySnapshot] = field(default_factory=dict)
    plans: Mapping[str, PublishedPlan] = field(default_factory=dict)
    statuses: Mapping[str, StatusMessage] = field(default_factory=dict)
    paused: frozenset[str] = frozenset()
    modes: Mapping[str, ModeSetting] = field(default_factory=dict)
    controller: ControllerState | None = None
    moves: Mapping[str, MoveState] = field(default_factory=dict)
    rollouts: Mapping[str, Versioned[Rollout]] = field(default_factory=dict)
    tables: Mapping[str, Versioned[Routes]] = field(default_factory=dict)
    contenders: tuple[str, ...] = ()
    leading_since_ms: int | None = None
    unreadable_topologies: frozenset[str] = frozenset()
    settings: Settings = field(default_factory=Settings)
    thresholds: Mapping[str, Thresholds] = field(default_factory=dict)
    problems: Mapping[str, str] = field(default_factory=dict)

    def is_paused(self, name: str) -> bool:
        """Whether a topology of this name is paused, by itself or with all others."""
        return bool({ALL, setting_key(name)} & self.paused)

    @property
    def running_rollouts(self) -> dict[str, Rollout]:
        """Rollouts that go on, by topology id."""
        return {t: v.message for t, v in self.rollouts.items() if v.message is not None and v.message.running}

    def plan(self, topology_id: str) -> PlanMessage | None:
        """The published plan of a topology; None: there is none, or it cannot be read."""
        published = self.plans.get(topology_id)
        return None if published is None else published.message

    def table(self, topology_id: str) -> Routes | None:
        """The routing table of a topology; None: there is none, or it cannot be read."""
        kept = self.tables.get(topology_id)
        return None if kept is None else kept.message

    def mode_setting(self, name: str) -> ModeSetting | None:
        """The mode that an operator set for a topology of this name alone."""
        return self.modes.get(setting_key(name))


class Reader:
    """Reads the tree below `paths`.

    A snapshot that was readable once and is not any more (somebody wrote into it) stays believed as it was: slots that
    it holds must not look free. A load report that cannot be read is left out: its tasks grow old.

    Attributes
    ----------
    over_limit
        Topologies (ids) whose load reports were beyond a bound when they were read last, and which.
    """

    def __init__(self, zookeeper: ZooKeeper, paths: Paths, watch: Watch | None = None):
        self._zookeeper = zookeeper
        self._paths = paths
        self._watch = watch
        self._listing = Listing(zookeeper, watch)
        self._last_good = LastGood()
        self._decode = self._last_good.decode
        self._reports = Reports(zookeeper, paths)
        self._whole: dict[str, PlanMessage] = {}
        self.over_limit: Mapping[str, str] = {}
        self._settings = SettingsReader(zookeeper, paths, watch)

    def read(self) -> StoreSnapshot:
        """Read everything but load reports, leaving watches; `UnreachableError` when ZooKeeper is away."""
        p = self._paths
        problems: dict[str, str] = {}
        ids, plan_ids, status_ids, paused, mode_names, locks, mined_ids = self._listing.children(
            [p.topology(), p.plan(), p.status(), p.pause(""), p.mode(), p.leader, p.thresholds()], problems
        )
        if self._listing.unknown & {p.pause(""), p.mode()}:
            paused = [*paused, ALL]  # whoever is paused, or off, is in there
        watched = [
            p.cluster,
            *(p.topology(i) for i in ids),
            *(p.plan(i) for i in plan_ids),
            *(p.status(i) for i in status_ids),
            *(p.mode(n) for n in mode_names),
            *(p.thresholds(i) for i in mined_ids),
        ]
        ours = [p.controller, p.epoch, *(f(i) for f in (p.moves, p.rollout, p.routes) for i in ids)]  # not watched
        nodes = dict(zip(watched, self._zookeeper.read(watched, self._watch, keep_denied=True), strict=True))
        nodes |= dict(zip(ours, self._zookeeper.read(ours, keep_denied=True), strict=True))
        lock_paths = [f"{p.leader}/{n}" for n in sorted(locks, key=lambda n: n[-10:])]
        lock_nodes = dict(zip(lock_paths, self._zookeeper.read(lock_paths, keep_denied=True), strict=True))

        topologies = {
            i: s for i in ids if (s := self._decode(nodes[p.topology(i)], TopologySnapshot, p.topology(i), problems))
        }
        plans = {}
        for i in plan_ids:
            node = nodes[p.plan(i)]
            if node is not None:
                plan = self._plan(node, p.plan(i), problems)
                plans[i] = PublishedPlan(plan, node.version, node.written_at_ms, transaction=node.transaction)
        written_at_ms = {i: n.written_at_ms for i in ids if (n := nodes[p.topology(i)]) is not None}
        statuses = {
            i: m for i in status_ids if (m := self._decode(nodes[p.status(i)], StatusMessage, p.status(i), problems))
        }
        modes = {n: o for n in mode_names if (o := self._decode(nodes[p.mode(n)], ModeSetting, p.mode(n), problems))}
        for name in mode_names:
            if name not in modes and nodes[p.mode(name)] is not None:
                modes[name] = ModeSetting(mode="advise", by="unreadable setting")
        self._last_good.keep_only(nodes)
        self._whole = {path: plan for path, plan in self._whole.items() if nodes.get(path) is not None}
        cluster = self._decode(nodes[p.cluster], ClusterSnapshot, p.cluster, problems)
        self._reports.know(topologies, cluster, written_at_ms)
        for wrong in [] if cluster is None else cluster.problems:
            path = f"{p.base}/{wrong.path}"
            problems[f"{path} (plug-in)"] = f"{path}: the plug-in cannot read it: {wrong.reason} {wrong.text}"
        return StoreSnapshot(
            cluster=cluster,
            no_cluster=problems.get(p.cluster, NO_SNAPSHOT),
            topologies=topologies,
            plans=plans,
            statuses=statuses,
            paused=frozenset(paused),
            modes=modes,
            controller=self._decode(nodes[p.controller], ControllerState, p.controller, problems),
            moves={i: v for i in ids if (v := self._decode(nodes[p.moves(i)], MoveState, p.moves(i), problems))},
            rollouts=self._versioned(nodes, {i: p.rollout(i) for i in ids}, Rollout, problems),
            tables=self._versioned(nodes, {i: p.routes(i) for i in ids}, Routes, problems),
            contenders=tuple(_contender(n, path, problems) for path, n in lock_nodes.items() if n is not None),
            leading_since_ms=None if (epoch := nodes[p.epoch]) is None or epoch.denied else epoch.written_at_ms,
            unreadable_topologies=frozenset(i for i in ids if i not in topologies and nodes[p.topology(i)] is not None),
            settings=self._settings.read(problems),
            thresholds={
                i: mined
                for i in mined_ids
                if (mined := self._decode(nodes[p.thresholds(i)], Thresholds, p.thresholds(i), problems))
            },
            problems=problems,
        )

    def read_profiles(self, topology_ids: list[str]) -> dict[str, Profile]:
        """Profiles of weeks of these topologies, by id; what is not there or cannot be read is left out."""
        paths = [self._paths.profile(i) for i in topology_ids]
        found = {}
        for i, path, node in zip(topology_ids, paths, self._zookeeper.read(paths, keep_denied=True), strict=True):
            with contextlib.suppress(UsageError):
                if node is not None:
                    found[i] = read_message(node, Profile, path)
        return found

    @property
    def refused(self) -> Mapping[str, int]:
        """Counts of refused values of load reports, by reason."""
        return self._reports.refused

    def read_loads(self, topology_ids: list[str]) -> tuple[list[LoadReport], dict[str, str]]:
        """Read the load reports of these topologies; also what is wrong with others (path -> reason).

        They are held against the snapshots that were read last. One that was not written since the last time is the
        same object again: decoding is what costs.
        """
        found = self._reports.read(topology_ids)
        self.over_limit = found.over_limit
        return list(found.reports), dict(found.problems)

    def _versioned(
        self, nodes: Mapping[str, Node | None], paths: Mapping[str, str], kind: type[M], problems: dict[str, str]
    ) -> dict[str, Versioned[M]]:
        found: dict[str, Versioned[M]] = {}
        for i, path in paths.items():
            node = nodes[path]
            if node is None:
                continue
            try:
                message = self._last_good.read(node, kind, path)
                found[i] = Versioned(message, node.version, transaction=node.transaction)
            except UsageError as e:
                problems[path] = str(e)
                found[i] = Versioned(None, node.version)
        return found

    def read_keyed(self, topology_id: str, tasks: Iterable[int]) -> dict[int, KeyedTask]:
        """Hand-over states of these tasks of a topology; what cannot be read counts as no answer.

        Their folder is the owner's, who may put into it, and deny, what he likes: it is not listed.
        """
        return read_keyed(self._zookeeper, self._paths, topology_id, tasks)

    def _plan(self, node: Node, path: str, problems: dict[str, str]) -> PlanMessage | None:
        try:
            plan = self._last_good.read(node, PlanMessage, path)
        except UsageError as e:
            problems[path] = str(e)
            return None
        if self._whole.get(path) is plan:
            return plan
        if plan.checksum != plan.expected_checksum():
            problems[path] = f"{path}: the checksum does not fit: it was changed after it was published"
            return None
        self._whole[path] = plan
        return plan


def read_keyed(zookeeper: ZooKeeper, paths: Paths, topology_id: str, tasks: Iterable[int]) -> dict[int, KeyedTask]:
    """Hand-over states of tasks, as `Reader.read_keyed` has them."""
    wanted = {task: paths.keyed(topology_id, "tasks", str(task)) for task in sorted({*tasks})}
    found = {}
    for (task, path), node in zip(wanted.items(), zookeeper.read([*wanted.values()], keep_denied=True), strict=True):
        with contextlib.suppress(UsageError):
            wrote = None if node is None else decode(node.data, KeyedTask, path)
            if wrote is not None and wrote.task == task:
                found[task] = wrote
    return found


def _contender(node: Node, path: str, problems: dict[str, str]) -> str:
    """Name of a controller in the election; whoever denies it waits there, or leads, all the same."""
    if node.denied:
        problems[path] = f"{path}: {MAY_NOT_READ}"
        return "unreadable"
    return node.data[:MAX_NAME_BYTES].decode(errors="replace")
