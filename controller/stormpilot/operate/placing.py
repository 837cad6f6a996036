"""Puts a placement in force that an operator names, where no controller leads: published, and waited for."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
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
from stormpilot.publish.epoch import raise_epoch
from stormpilot.publish.message import PlanSet, history_entry, plan_message
from stormpilot.publish.publisher import Publisher
from stormpilot.zookeeper.client import ZooKeeper
from stormpilot.zookeeper.paths import Paths
from stormpilot.zookeeper.transaction import Append

POLL_S = 0.25
PLAN_KEY = "stormpilot.plan.key.file"
"""Setting of Nimbus: the plug-in takes signed plans only."""


def refuse_paused(seen: StoreSnapshot, name: str) -> None:
    """`RefusedError` for a topology that a pause holds: a plan for it would not be applied."""
    if seen.is_paused(name):
        raise RefusedError(f"{name}: {Reason.PAUSED}: `stormpilot status` says by whom, `stormpilot resume` ends it")


def refuse_unsigned(nimbus_conf: Mapping[str, Any], key: bytes | None) -> None:
    """`RefusedError` where the plug-in would reject a plan for its signature, before anything is changed."""
    if key is None and nimbus_conf.get(PLAN_KEY):
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


def put_in_force(
    zookeeper: ZooKeeper,
    paths: Paths,
    seen: StoreSnapshot,
    topology_id: str,
    workers: Sequence[Worker],
    *,
    verb: str,
    planner: str,
    why: str,
    by: str,
    timeout_s: float,
    key: bytes | None = None,
) -> str:
    """Publish a placement and wait until Nimbus has applied it.

    Parameters
    ----------
    seen
        A reading; what it has of epochs and plans is what is written over.
    verb, planner, why, by
        For history and audit: the command, what made the placement, the reason as a sentence, and who asks.
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
    epoch = raise_epoch(zookeeper, paths, least=0 if seen.cluster is None else seen.cluster.shim.epoch_seen)
    now_ms = time.time_ns() // 1_000_000
    plan = Plan(topologies=[TopologyPlan(id=topology_id, workers=list(workers))], planner=planner)
    plan_set = PlanSet(new_id("r"), epoch.number, now_ms, [topology_id])
    decision = Decision(topology_id, "publish", Reason.APPROVED, why)
    plan_id = new_id("p")
    running = seen.topologies.get(topology_id)
    based_on = BasedOn() if running is None else BasedOn(snapshot_version=running.version, workers=running.workers)
    message = plan_message(plan.topologies[0], plan, decision, plan_set, plan_id, based_on)
    former = seen.plans.get(topology_id)
    versions = {} if former is None else {topology_id: former.version}
    record = AuditRecord(
        id=new_id("a"),
        at_ms=now_ms,
        who=by,
        verb=verb,
        target=topology_id,
        why=why,
        after={"workers": len(workers)},
        plan_id=plan_id,
    )
    also = {topology_id: [Append(paths.audit("e-"), encode(record))]}
    Publisher(zookeeper, paths, epoch, key).publish([history_entry(message, decision, by)], versions, also=also)
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
