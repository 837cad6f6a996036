"""Views for operators: the plans of a topology, the audit, and how far a drain is. Nothing is written."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Mapping, Sequence
from shlex import quote

import msgspec

from stormpilot.errors import RefusedError, UsageError
from stormpilot.messages.controller_state import ControllerState, TopologyView
from stormpilot.messages.core import ClusterSnapshot, HistoryEntry, PlanMessage, TopologySnapshot, decode, plan_checksum
from stormpilot.messages.moves import MoveState
from stormpilot.messages.rollouts import Rollout, belongs_to, whole_plans
from stormpilot.messages.settings import AuditRecord, DrainSetting
from stormpilot.observe.plausible import read_message
from stormpilot.observe.reader import PublishedPlan, StoreSnapshot
from stormpilot.operate.operator import Operator
from stormpilot.operate.places import host_name, known_hosts, unread_names
from stormpilot.zookeeper.client import Node, ZooKeeper
from stormpilot.zookeeper.paths import Paths


class HistoryStep(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A published plan; `back` is how many steps back it is, what `rollback` takes.

    0 is the newest, or the plan that a rollout leads to: until its last step that is in no history. None: the scheduler
    plug-in did not apply it, so nothing can go back to it.
    """

    back: int | None
    entry: HistoryEntry


class Remaining(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Executors that still run on a host by topology name, and the decision for each since the host is drained.

    `there`: whether a supervisor is on a host of that name now, as far as that is known.
    """

    host: str
    there: bool
    executors: dict[str, int]
    decisions: dict[str, str] = {}
    unread: str = ""
    """Text about topologies that cannot be read and may run there, or about the cluster snapshot; empty: none."""

    @property
    def total(self) -> int:
        """Executors of all topologies."""
        return sum(self.executors.values())


def history(operator: Operator, topology_id: str) -> list[HistoryStep]:
    """The plans of a topology, newest first; steps on the way to one, and what cannot be read, are left out."""
    names = operator.zookeeper.children([operator.paths.plan_history(topology_id)])[0]
    paths = [operator.paths.plan_history(topology_id, n) for n in sorted(names, reverse=True)]
    entries = []
    for path, node in zip(paths, operator.zookeeper.read(paths, keep_denied=True), strict=True):
        if node is not None:
            try:
                entries.append(decode(node.data, HistoryEntry, path))
            except UsageError:
                continue
    plans = [
        e
        for e, is_whole in zip(entries, whole_plans(entries), strict=True)
        if is_whole or (e.rejected and not e.rollout_of)
    ]
    whole = [e for e in plans if not e.rejected]
    rollout, _ = operator.read(operator.paths.rollout(topology_id), Rollout)
    first = 0
    if rollout is not None and rollout.running:
        target = rollout.entry.plan.plan_id
        if whole and whole[0].rollout_of == target:
            plans.remove(whole.pop(0))
        first = 0 if whole and belongs_to(whole[0], target) else 1
    backs = itertools.count(first)
    return [HistoryStep(back=None if e.rejected else next(backs), entry=e) for e in plans]


def proposals(zookeeper: ZooKeeper, paths: Paths, seen: StoreSnapshot) -> dict[str, HistoryEntry]:
    """Proposals by topology id that are newer than what is published, and can be read."""
    found, at = {}, {i: paths.proposal(i) for i in sorted(seen.topologies)}
    for (i, path), node in zip(at.items(), zookeeper.read([*at.values()], keep_denied=True), strict=True):
        with contextlib.suppress(UsageError):
            entry = None if node is None else read_message(node, HistoryEntry, path)
            if entry is not None and node is not None and is_newer(entry, node, seen.plans.get(i)):
                found[i] = entry
    return found


def is_newer(proposal: HistoryEntry, node: Node, published: PublishedPlan | None) -> bool:
    """Whether a proposal, which lies in `node`, is newer than what is published.

    By the controller's clock or by the order of writing: the clock may have been set between them, and a plan that was
    signed anew was written again.
    """
    if published is None or published.message is None:
        return True
    made_later = proposal.plan.created_at_ms > published.message.created_at_ms
    return made_later or node.transaction > published.transaction


def before_first(operator: Operator, topology_id: str, kept: Sequence[HistoryStep]) -> HistoryEntry | None:
    """The placement before the first plan, which has no plan before it, as a plan to go back to; None: not known.

    The history keeps it, or the rollout of that plan, or its effect check until it is over.
    """
    rollout, _ = operator.read(operator.paths.rollout(topology_id), Rollout)
    move, _ = operator.read(operator.paths.moves(topology_id), MoveState)
    begun = None if rollout is None or not rollout.running else rollout.entry
    first = kept[-1].entry if kept else begun
    if first is None:
        return None
    former = first.former
    if not former and rollout is not None and belongs_to(first, rollout.entry.plan.plan_id):
        former = rollout.former
    elif not former and move is not None and move.plan_id == first.plan.plan_id:
        former = move.former
    if not former:
        return None
    plan_id = f"before-{first.plan.plan_id}"
    plan = PlanMessage(
        plan_id=plan_id,
        plan_set=plan_id,
        topology_id=topology_id,
        epoch=0,
        created_at_ms=first.plan.created_at_ms,
        planner="rollback",
        workers=former,
        checksum=plan_checksum(topology_id, plan_id, plan_id, 0, former),
    )
    return HistoryEntry(plan=plan, reason="", text="the placement before the first plan")


def audit(operator: Operator, since_ms: int = 0) -> list[AuditRecord]:
    """The newest records in ZooKeeper, oldest first (the controller's `audit.jsonl` holds all)."""
    names = operator.zookeeper.children([operator.paths.audit()])[0]
    paths = [operator.paths.audit(n) for n in sorted(names, key=lambda n: n[-10:])]
    found = []
    for path, node in zip(paths, operator.zookeeper.read(paths, keep_denied=True), strict=True):
        if node is not None:
            try:
                record = decode(node.data, AuditRecord, path)
            except UsageError:
                continue
            if record.at_ms >= since_ms:
                found.append(record)
    return found


def _proposed(view: TopologyView) -> str:
    """The next step of an operator where the executors leave by a plan that is proposed only."""
    return f"; the mode is advise: stormpilot approve {quote(view.name)}" if view.action == "advise" else ""


def executors_on(snapshot: TopologySnapshot, host: str, hosts: Mapping[str, str]) -> int:
    """Executors of a topology on a host; `hosts` by supervisor, as far as they are known to Storm now.

    Where the host has no supervisor, those of supervisors that are gone count: their workers may still run there.
    """
    gone = host not in hosts.values()
    on = (hosts.get(e.supervisor, host if gone else None) for e in snapshot.executors if e.supervisor)
    return sum(1 for h in on if h == host)


def draining(operator: Operator, host: str) -> Remaining:
    """Executors that still run on a host, drained or not.

    Where the host has no supervisor now, those of supervisors that are gone count: their workers may still run there.
    Decisions of a cycle that began before the host was drained are left out: those of a state that was written within
    a period of the drain, unless their reason is new since then.
    """
    cluster, _ = operator.read(operator.paths.cluster, ClusterSnapshot)
    hosts = {} if cluster is None else {s.id: s.host for s in cluster.supervisors}
    state, written = operator.read(operator.paths.controller, ControllerState)
    setting, drained = operator.read(operator.paths.drain(host_name(host)), DrainSetting)
    if host not in hosts.values() and drained is None:  # "empty" would be told of a name that was misspelt
        raise RefusedError(f"there is no supervisor on {host!r}, and it is not drained ({known_hosts(operator)})")
    decisions: dict[str, str] = {}
    if state is not None and written is not None:
        seen_ms = None if drained is None else drained.written_at_ms + int(state.period_s * 1000)
        since_ms = 0 if setting is None else setting.since_ms
        for v in state.topologies:
            if seen_ms is None or written.written_at_ms > seen_ms or v.since_ms >= since_ms:
                decisions[v.name] = v.sentence + _proposed(v)
    left: dict[str, int] = {}
    snapshots = operator.snapshots()
    for snapshot in (s for s in snapshots.values() if s is not None):
        if cluster is not None and (n := executors_on(snapshot, host, hosts)):
            left[snapshot.name] = left.get(snapshot.name, 0) + n
    held = {t: s for t, s in decisions.items() if t in left}
    unread = "the cluster snapshot cannot be read" if cluster is None else unread_names(snapshots)
    there = cluster is None or host in hosts.values()
    return Remaining(host=host, there=there, executors=left, decisions=held, unread=unread)
