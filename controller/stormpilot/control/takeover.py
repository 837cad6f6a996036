"""A new leader and the one before: what that one left, and by how much their clocks differ."""

from __future__ import annotations

from stormpilot.decide.admit import ANSWER_MS
from stormpilot.decide.policy import chosen_mode
from stormpilot.errors import UsageError
from stormpilot.messages.controller_state import ConfiguredModes, ControllerState
from stormpilot.messages.core import PlanMessage, decode
from stormpilot.messages.settings import ALL
from stormpilot.observe.reader import StoreSnapshot
from stormpilot.operate.status import FAILED
from stormpilot.publish.epoch import Epoch, newest_epoch
from stormpilot.zookeeper.client import Node, ZooKeeper
from stormpilot.zookeeper.paths import Paths


def epoch_seen(snapshot: StoreSnapshot) -> int:
    """The newest epoch that the plug-in has seen, or will see in a plan: it rejects plans of older ones."""
    seen = 0 if snapshot.cluster is None else snapshot.cluster.shim.epoch_seen
    return newest_epoch(seen, (p.message.epoch for p in snapshot.plans.values() if p.message is not None))


def unanswered(snapshot: StoreSnapshot, now_ms: int, modes: ConfiguredModes) -> list[tuple[PlanMessage, int]]:
    """Plans, with the versions of their znodes, that were published just now and that no round of Nimbus has looked at.

    For the epoch of the leader before it rejects them. Plan sets are whole: a part of one is never applied. Topologies
    that have another mode by our `modes` than by those of that leader are left out.
    """
    found = {}
    for t in snapshot.plans.keys() & snapshot.topologies.keys():
        published, status = snapshot.plans[t], snapshot.statuses.get(t)
        plan = published.message
        if plan is None or now_ms - published.since_ms >= ANSWER_MS or _mode_changed(snapshot, t, modes):
            continue
        if status is None or status.plan_id != plan.plan_id or status.code == "EPOCH_OLD":
            found[t] = plan, published.version
    sets = {t: plan.plan_set for t, (plan, _) in found.items()}
    members = {t: [m for m in plan.plan_set_topologies if m in snapshot.topologies] for t, (plan, _) in found.items()}
    return [found[t] for t in found if all(sets.get(m) == sets[t] for m in members[t])]


def _mode_changed(snapshot: StoreSnapshot, topology_id: str, modes: ConfiguredModes) -> bool:
    """Whether a topology has another mode by these than by those of the leader before, where they are known."""
    if snapshot.controller is None or snapshot.controller.modes is None:
        return False
    topology = snapshot.topologies[topology_id]
    operators = [None if m is None else m.mode for m in (snapshot.mode_setting(topology.name), snapshot.modes.get(ALL))]
    before, now = (
        chosen_mode(topology.name, topology.config, m, *operators)[0] for m in (snapshot.controller.modes, modes)
    )
    return before != now


def state_before(zookeeper: ZooKeeper, paths: Paths) -> ControllerState | None:
    """The state that the leader before has written last; None: there is none that can be read."""
    (wrote,) = zookeeper.read([paths.controller], keep_denied=True)
    return _state(wrote, paths)


def _state(node: Node | None, paths: Paths) -> ControllerState | None:
    if node is None or node.denied:
        return None
    try:
        return decode(node.data, ControllerState, paths.controller)
    except UsageError:
        return None


def owed_ms(zookeeper: ZooKeeper, paths: Paths, epoch: Epoch, raised_at_ms: int, own_ms: int | None) -> int:
    """By how much times of rollouts are to be later, so that limits end when they would have ended by the clock before.

    `own_ms`: time then by the clock of the leadership before, where that was our own, in one process: ours was set by
    the rest. After another leader they are only made later: what seems to be from the future counts from now anyway.
    """
    if own_ms is not None:
        return raised_at_ms - own_ms
    return max(0, ahead_ms(zookeeper, paths, epoch, raised_at_ms))


def ahead_ms(zookeeper: ZooKeeper, paths: Paths, epoch: Epoch, raised_at_ms: int) -> int:
    """Lead of our clock over that of the leader before, each held against ZooKeeper's, in ms; 0: not known.

    `epoch` was raised when our clock showed `raised_at_ms`.
    """
    wrote, raised = zookeeper.read([paths.controller, paths.epoch], keep_denied=True)
    state = _state(wrote, paths)
    if state is None or wrote is None or raised is None or raised.denied:
        return 0
    if state.epoch != epoch.number - 1 or state.sentence.startswith(FAILED):  # the time of a failed cycle is older
        return 0
    return (raised_at_ms - raised.written_at_ms) - (state.written_at_ms - wrote.written_at_ms)
