"""Puts a placement in force that an operator names: published, and waited for; or for what a rebalance will make."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from stormpilot.decide.decision import Decision
from stormpilot.decide.reasons import Reason
from stormpilot.errors import RefusedError, UnreachableError
from stormpilot.messages.core import BasedOn, StatusMessage, TopologySnapshot, Worker, decode, encode
from stormpilot.messages.settings import AuditRecord, Mode
from stormpilot.model.values import Plan, TopologyPlan
from stormpilot.observe.reader import Reader, StoreSnapshot
from stormpilot.operate.operator import new_id
from stormpilot.printable import counted
from stormpilot.publish.epoch import Epoch, present_epoch, raise_epoch
from stormpilot.publish.message import PlanSet, history_entry, plan_message
from stormpilot.publish.publisher import Publisher
from stormpilot.zookeeper.client import Node, ZooKeeper
from stormpilot.zookeeper.paths import Paths
from stormpilot.zookeeper.transaction import Append, Put

POLL_S = 0.25
AFTER_REBALANCE_S = 60
"""So long after the time of a rebalance a plan for what it makes is waited with: Nimbus may be late."""
PLAN_KEY = "stormpilot.plan.key.file"
"""Setting of Nimbus: the plug-in takes signed plans only."""


def refuse_paused(seen: StoreSnapshot, name: str) -> None:
    """`RefusedError` for a topology that a pause holds: a plan for it would not be applied."""
    if seen.is_paused(name):
        raise RefusedError(f"{name}: {Reason.PAUSED}: `stormpilot status` says by whom, `stormpilot resume` ends it")


def lacks_key(nimbus_conf: Mapping[str, Any], key: bytes | None) -> bool:
    """Whether the plug-in takes signed plans only, and there is no key to sign by."""
    return key is None and bool(nimbus_conf.get(PLAN_KEY))


def refuse_unsigned(nimbus_conf: Mapping[str, Any], key: bytes | None) -> None:
    """`RefusedError` where the plug-in would reject a plan for its signature, before anything is changed."""
    if lacks_key(nimbus_conf, key):
        raise RefusedError(
            f"Nimbus takes signed plans only ({PLAN_KEY}): give --config with a controller.yaml whose "
            "publish.plan_key_file is a file with the same key"
        )


def refuse_where_a_controller_leads(seen: StoreSnapshot) -> None:
    """`RefusedError` where a controller stands for election: it would plan over what is placed by hand."""
    if seen.contenders:
        raise RefusedError(
            f"a profile places executors itself, and a controller leads ({seen.contenders[0]}): stop it first, or use "
            "a cluster without one"
        )


def await_snapshot(
    zookeeper: ZooKeeper,
    paths: Paths,
    topology_id: str,
    ready: Callable[[TopologySnapshot], bool],
    timeout_s: float,
) -> StoreSnapshot:
    """A reading in which the plug-in has told of the topology, and `ready` of what it told."""
    deadline = time.monotonic() + timeout_s
    reader = Reader(zookeeper, paths)
    while True:
        seen = reader.read()
        snapshot = seen.topologies.get(topology_id)
        if snapshot is not None and ready(snapshot):
            return seen
        if time.monotonic() > deadline:
            told = "no snapshot of it"
            if snapshot is not None:
                told = f"one with {counted(len(snapshot.executors), 'executor')}"
            raise UnreachableError(
                f"{topology_id}: in {timeout_s:.0f} s the plug-in in Nimbus wrote {told}: check storm.scheduler on "
                f"Nimbus, and that its stormpilot.zookeeper.root is {paths.root}"
            )
        time.sleep(POLL_S)


@dataclass(frozen=True)
class Origin:
    """Origin of a placement, for history and audit: the command, what made it, why as a sentence, and who asks."""

    verb: str
    planner: str
    why: str
    by: str


@dataclass(frozen=True)
class Ahead:
    """A plan that is published for what a rebalance on its way will make; `former` is the znode before."""

    publisher: Publisher
    topology_id: str
    plan_id: str
    former: Node | None

    def withdraw(self, why: str) -> None:
        """Put the plan before back, which the plug-in has in force or set aside, where nobody published another.

        Without one before, this plan stays: the plug-in has rejected it, or does so when its time is over.
        """
        with suppress(RefusedError, UnreachableError):
            if self.former is not None:
                path = self.publisher.paths.plan(self.topology_id)
                self.publisher.write([Put(path, self.former.data, self.former.version + 1)])
            self.publisher.reject(self.topology_id, self.plan_id, why)


def publish_ahead(
    zookeeper: ZooKeeper,
    paths: Paths,
    topology_id: str,
    workers: Sequence[Worker],
    origin: Origin,
    *,
    rebalance_s: int,
    key: bytes | None = None,
) -> Ahead | None:
    """Publish a placement of what a rebalance will make in `rebalance_s`: Nimbus carries both out at once.

    Under a leader's epoch where one leads. None: it could not be published, or a rollout goes on.
    """
    with suppress(RefusedError, UnreachableError):
        seen = Reader(zookeeper, paths).read()
        (former,) = zookeeper.read([paths.plan(topology_id)])
        epoch = present_epoch(zookeeper, paths) if seen.contenders else _next_epoch(zookeeper, paths, seen)
        if epoch is not None and topology_id not in seen.running_rollouts:
            publisher = Publisher(zookeeper, paths, epoch, key)
            based_on = BasedOn(workers=len(workers), rebalance_s=rebalance_s + AFTER_REBALANCE_S)
            version = None if former is None else former.version
            plan_id = _publish(publisher, topology_id, workers, origin, based_on, version)
            return Ahead(publisher, topology_id, plan_id, former)
    return None


def put_in_force(
    zookeeper: ZooKeeper,
    paths: Paths,
    seen: StoreSnapshot,
    topology_id: str,
    workers: Sequence[Worker],
    origin: Origin,
    *,
    timeout_s: float,
    key: bytes | None = None,
) -> str:
    """Publish a placement and wait until Nimbus has applied it.

    Parameters
    ----------
    seen
        A reading; what it has of epochs and plans is what is written over.
    key
        By which the plan is signed; None: it is not.

    Returns
    -------
    str
        The id of the plan.

    Raises
    ------
    RefusedError
        The plug-in rejected the plan; the text has its reason.
    UnreachableError
        It was not applied in time.
    """
    running, former = seen.topologies.get(topology_id), seen.plans.get(topology_id)
    based_on = BasedOn() if running is None else BasedOn(snapshot_version=running.version, workers=running.workers)
    publisher = Publisher(zookeeper, paths, _next_epoch(zookeeper, paths, seen), key)
    plan_id = _publish(publisher, topology_id, workers, origin, based_on, None if former is None else former.version)
    return await_applied(zookeeper, paths, topology_id, plan_id, timeout_s)


def await_applied(zookeeper: ZooKeeper, paths: Paths, topology_id: str, plan_id: str, timeout_s: float) -> str:
    """The id of a published plan, once Nimbus has applied it; errors as of `put_in_force`."""
    deadline = time.monotonic() + timeout_s
    state = "not heard of"
    while time.monotonic() < deadline:
        (node,) = zookeeper.read([paths.status(topology_id)])
        if node is not None:
            status = decode(node.data, StatusMessage, paths.status(topology_id))
            state = f"{status.state} {status.code} {status.text}".strip()
            if status.plan_id == plan_id and status.state == "applied":
                return plan_id
            if status.plan_id == plan_id and status.state == "rejected":
                raise RefusedError(f"the plug-in rejected the placement of {topology_id}: {status.code} {status.text}")
        time.sleep(POLL_S)
    raise UnreachableError(f"the placement of {topology_id} was not applied within {timeout_s:.0f} s: {state}")


def placed_by(name: str, controller: str, mode: Mode | None) -> str:
    """A clause: who places what was rebalanced."""
    if mode == "off":
        return f"Storm's own scheduler places its threads, for {name} is in mode off"
    if mode == "advise":
        return f"Storm's own scheduler places its threads, and {controller} proposes where they go (mode advise)"
    return f"{controller} places its threads"


def _next_epoch(zookeeper: ZooKeeper, paths: Paths, seen: StoreSnapshot) -> Epoch:
    return raise_epoch(zookeeper, paths, least=0 if seen.cluster is None else seen.cluster.shim.epoch_seen)


def _publish(
    publisher: Publisher,
    topology_id: str,
    workers: Sequence[Worker],
    origin: Origin,
    based_on: BasedOn,
    version: int | None,
) -> str:
    """The id of the plan, which is published over that version of the znode (None: there is none)."""
    now_ms = time.time_ns() // 1_000_000
    plan = Plan(topologies=[TopologyPlan(id=topology_id, workers=list(workers))], planner=origin.planner)
    plan_set = PlanSet(new_id("r"), publisher.epoch.number, now_ms, [topology_id])
    decision = Decision(topology_id, "publish", Reason.APPROVED, origin.why)
    plan_id = new_id("p")
    message = plan_message(plan.topologies[0], plan, decision, plan_set, plan_id, based_on)
    record = AuditRecord(
        id=new_id("a"),
        at_ms=now_ms,
        who=origin.by,
        verb=origin.verb,
        target=topology_id,
        why=origin.why,
        after={"workers": len(workers)},
        plan_id=plan_id,
    )
    also = {topology_id: [Append(publisher.paths.audit("e-"), encode(record))]}
    versions = {} if version is None else {topology_id: version}
    publisher.publish([history_entry(message, decision, origin.by)], versions, also=also)
    return plan_id
