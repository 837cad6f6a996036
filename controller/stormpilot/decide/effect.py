"""Effect of a move: a state machine per topology, which measures whether the move helped. `MoveState` is its state.

    none ──published──► moving ──applied──► measuring ──judged──► none          (helped, or no gain: back off)
                          │                     └─worse, or down─► rollback ──published──► moving (not judged)
                          └─ refused, disturbed, overtaken, too late: none, not judged (not started: back off)

The measure is taken over a window as long as the one before the move, per tuple processed, since the rate may have
changed meanwhile. Worse than before by more than the noise, or its workers do not stay up: back to the former
placement, once. Worse, or without any of the gain that was predicted, or to where workers do not start: nothing else is
tried for a time that doubles with each such move in a row.
"""

from __future__ import annotations

import enum
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import msgspec

from stormpilot.config import VerifySection
from stormpilot.decide.events import Event, EventKind
from stormpilot.decide.reasons import Reason
from stormpilot.messages.core import EffectPart, StatusMessage, Worker
from stormpilot.messages.moves import Metric, MoveState, Spent

MAD_TO_SIGMA = 1.4826
NOISE_SIGMAS = 3.0
"""A difference within so many (robust) standard deviations is noise (docs/concepts/control-loop.md)."""
LEAST_SAMPLES = 5
"""With fewer samples the noise is not known."""
HOUR_MS = 3_600_000
WINDOW_SLACK = 0.02
"""A window may be this much shorter than the one before: cycles do not come to the millisecond."""
METRIC_NAMES: Mapping[str, str] = {
    "inter_node_share": "inter-node traffic per tuple processed",
    "load_ratio": "own load on the relieved nodes (part of their CPU, at the throughput before)",
    "us_per_tuple": "time per tuple processed (microseconds; the sources are held)",
}


class Outcome(enum.StrEnum):
    """The outcome of a move (`MoveState.verdict`)."""

    HELPED = "HELPED"
    NO_GAIN = "NO_GAIN"
    WORSE = "WORSE"
    REJECTED = "REJECTED"
    DISTURBED = "DISTURBED"
    OVERTAKEN = "OVERTAKEN"
    TOO_LATE = "TOO_LATE"
    DONE = "DONE"


@dataclass(frozen=True)
class Promise:
    """The expected effect of a move: `predicted` of `metric` against `before`, per tuple processed; see `MoveState`."""

    metric: Metric
    before: float
    predicted: float
    noise_ratio: float
    throughput_tps: float
    nodes: Sequence[str] = ()

    @classmethod
    def of(cls, effect: EffectPart | None, throughput_tps: float = 0.0) -> Promise | None:
        """The promise that a message keeps; None where it keeps none by a metric that is known."""
        if effect is None or effect.metric not in METRIC_NAMES:
            return None
        metric: Metric = effect.metric  # type: ignore[assignment]
        return cls(metric, effect.before, effect.predicted, effect.noise_ratio, throughput_tps, effect.nodes)


@dataclass(frozen=True)
class Facts:
    """Facts about a topology in a cycle.

    `plan_id` is the published plan's (None: there is none, or it cannot be read). `in_place`: it is what runs, whatever
    its status says. `silent`: tasks that it moved never reported from there, though all its supervisors are there.
    `down`: only workers that it restarted are not measured now, since processes are gone or young, though all its
    supervisors are there.
    `measured_s` is the length of the window that was measured under the present placement, 0 while data are missing
    (`missing` says which); `measured` is the metric in it, and `throughput_tps` the tuples/s processed.
    """

    topology: str
    now_ms: int
    plan_id: str | None
    status: StatusMessage | None
    in_place: bool = False
    measured_s: float = 0.0
    measured: float | None = None
    throughput_tps: float = 0.0
    missing: str = ""
    silent: bool = False
    down: bool = False


def noise_ratio(samples: Sequence[float], floor_ratio: float) -> float:
    """The variation of a metric while nothing moves, as a part of it: 3 sigma (robust), at least `floor_ratio`."""
    if len(samples) < LEAST_SAMPLES:
        return floor_ratio
    median = statistics.median(samples)
    if median <= 0:
        return floor_ratio
    deviation = statistics.median(abs(x - median) for x in samples)
    return max(floor_ratio, NOISE_SIGMAS * MAD_TO_SIGMA * deviation / median)


def published(
    state: MoveState,
    *,
    plan_id: str,
    reason: str,
    now_ms: int,
    window_s: float,
    moved: Sequence[int],
    workers: int,
    former: Sequence[Worker],
    promise: Promise | None,
    step_of: str = "",
    relieved: Sequence[str] = (),
) -> MoveState:
    """A plan is published: follow it. Failures and back-off of earlier moves stay; `moved` are start tasks.

    Of a step of a rollout: `step_of` is the plan, and `relieved` are the nodes that it promises to relieve.
    """
    spent = [s for s in spent_by(state) if now_ms - s.at_ms < HOUR_MS]
    if moved:
        nodes = relieved if promise is None else promise.nodes
        relieves = reason == Reason.OVERLOAD or (reason == Reason.APPROVED and bool(nodes))
        cost = Spent(at_ms=now_ms, executors=len(moved), workers=workers, plan=step_of or plan_id)
        if relieves:
            cost = msgspec.structs.replace(cost, relieved=list(nodes), left=list(moved))
        spent = [*spent, cost]
    return MoveState(
        topology_id=state.topology_id,
        phase="moving" if moved else "none",
        plan_id=plan_id,
        reason=reason,
        published_at_ms=now_ms,
        window_s=window_s,
        metric=None if promise is None else promise.metric,
        nodes=[] if promise is None else list(promise.nodes),
        before=None if promise is None else promise.before,
        predicted=None if promise is None else promise.predicted,
        noise_ratio=0.0 if promise is None else promise.noise_ratio,
        throughput_tps=0.0 if promise is None else promise.throughput_tps,
        throughput_before_tps=0.0 if promise is None else promise.throughput_tps,
        moved=list(moved),
        former=list(former) if promise is not None else [],
        failures=state.failures,
        rejections=state.rejections,
        unanswered=state.unanswered,
        back_off_until_ms=state.back_off_until_ms,
        back_off_why=state.back_off_why,
        timed=went_down(state),  # its tasks were down: not for this restart
        spent=spent,
        cpu=state.cpu,
    )


def step(state: MoveState, facts: Facts, config: VerifySection) -> tuple[MoveState, list[Event]]:
    """One cycle later; the very same state when nothing happened."""
    if state.phase == "none":
        return _answered_after_all(state, facts), []
    if facts.plan_id != state.plan_id:
        return _end(state, facts, Outcome.OVERTAKEN, "another plan was published meanwhile")
    if state.phase == "rollback":
        if facts.now_ms - (state.judged_at_ms or 0) > config.timeout_s * 1000:
            return _not_rolled_back(state, facts, f"not rolled back within {config.timeout_s:.0f} s: what runs is kept")
        return state, []
    status = facts.status if facts.status is not None and facts.status.plan_id == state.plan_id else None
    if status is not None and state.unanswered:
        state = msgspec.structs.replace(state, unanswered=False)
    if status is not None and status.state in ("rejected", "degraded", "fallback"):
        outcome = Outcome.REJECTED if status.state == "rejected" else Outcome.DISTURBED
        text = f"{status.state}: {status.code}: {status.text}"
        if status.state == "degraded" and state.phase == "measuring" and facts.silent:
            ended = not_started(state, facts.now_ms, config, text)  # they never reported from there
            rest = f"nothing else is tried for {_back_off_ms(state.failures, config) / 1000:.0f} s"
            text = f"plan {state.plan_id}: {ended.text}; {rest}"
            return ended, [_event(EventKind.MOVE_NOT_JUDGED, ended, facts, text)]
        ended, events = _end(state, facts, outcome, text)
        return msgspec.structs.replace(ended, rejections=state.rejections + never_ran(ended)), events
    if state.phase == "moving" and status is not None and status.state == "applied":
        state = msgspec.structs.replace(state, phase="measuring", applied_at_ms=facts.now_ms, rejections=0)
    if state.phase == "measuring":
        if state.metric is None:
            if state.timed:
                return _end(state, facts, Outcome.DONE, "applied")
        elif facts.measured is not None and facts.measured_s >= state.window_s * (1 - WINDOW_SLACK):
            return _judged(state, facts, config)
    patience_s = config.timeout_s + state.window_s
    if facts.now_ms - state.published_at_ms > patience_s * 1000:
        return _too_late(state, facts, config, answered=status is not None, patience_s=patience_s)
    return state, []


def _too_late(
    state: MoveState, facts: Facts, config: VerifySection, *, answered: bool, patience_s: float
) -> tuple[MoveState, list[Event]]:
    """The end of a move that was not applied and measured in time."""
    if state.metric is None and state.phase == "measuring":
        return _end(state, facts, Outcome.DONE, "applied")
    if state.phase == "moving" and not answered and not facts.in_place:
        text = f"the scheduler plug-in has not answered within {patience_s:.0f} s"
        ended, _ = _end(state, facts, Outcome.REJECTED, text)
        told = _event(EventKind.MOVE_NOT_JUDGED, ended, facts, f"plan {state.plan_id}: {text}")
        return msgspec.structs.replace(ended, unanswered=True), [] if state.unanswered else [told]
    if state.phase == "measuring" and facts.down:
        if facts.now_ms - (state.applied_at_ms or 0) <= config.timeout_s * 1000:
            return state, []  # it was applied late, and they may just be starting
        text = f"its workers do not stay up, or do not report, after {patience_s:.0f} s: {facts.missing}"
        return _worse(msgspec.structs.replace(state, judged_at_ms=facts.now_ms), facts, config, text)
    done = "applied, and not measured" if state.phase == "measuring" else "not applied"
    if state.phase == "moving" and not answered:
        done = "the plan runs, but the scheduler plug-in has not said so"
    why = f": {facts.missing}" if facts.missing and state.phase == "measuring" else ""
    return _end(state, facts, Outcome.TOO_LATE, f"{done} within {patience_s:.0f} s{why}")


def spent_by(state: MoveState) -> list[Spent]:
    """Moves of a topology, but for a last one whose plan never ran: it moved nothing."""
    return [s for s in state.spent if not never_ran(state) or s.at_ms != state.published_at_ms]


def never_ran(state: MoveState) -> bool:
    """Whether the plug-in rejected the plan before it was applied, or never answered to it."""
    return state.verdict == Outcome.REJECTED and state.applied_at_ms is None


def went_down(state: MoveState) -> bool:
    """Whether the last move counts as worse because its workers did not stay up."""
    return state.verdict == Outcome.WORSE and state.measured is None


def effect_of(state: MoveState) -> EffectPart | None:
    """The effect of a plan that ran, with its verdict, for the history; None: nothing was promised, or it goes on."""
    if not state.verdict or never_ran(state) or state.metric is None:
        return None
    assert state.before is not None
    assert state.predicted is not None
    return EffectPart(
        metric=state.metric,
        before=state.before,
        predicted=state.predicted,
        noise_ratio=state.noise_ratio,
        nodes=state.nodes,
        measured=state.measured,
        verdict=state.verdict,
        text=state.text,
        judged_at_ms=state.judged_at_ms,
    )


def _answered_after_all(state: MoveState, facts: Facts) -> MoveState:
    """The plug-in answers late; and tries some plans again for a while after it has rejected them."""
    status = facts.status
    if status is None or status.plan_id != state.plan_id:
        return state
    if state.verdict != Outcome.REJECTED:
        return msgspec.structs.replace(state, unanswered=False) if state.unanswered else state
    if status.state == "rejected" and state.unanswered:
        text, rejections = f"rejected: {status.code}: {status.text}", state.rejections + 1
        return msgspec.structs.replace(state, text=text, rejections=rejections, unanswered=False)
    if status.state in ("degraded", "fallback") and state.unanswered:
        return msgspec.structs.replace(state, unanswered=False)
    if status.state not in ("moving", "applied"):
        return state
    after_all = "applied long after it was published" if state.unanswered else "applied after it was rejected"
    disturbed = Outcome.DISTURBED.value
    return msgspec.structs.replace(state, verdict=disturbed, text=after_all, rejections=0, unanswered=False)


def switched(state: MoveState, plan_id: str) -> bool:
    """Whether this plan, the last one, moved tuples and restarted nothing."""
    return state.plan_id == plan_id and any(
        s.at_ms == state.published_at_ms and s.executors and not s.workers for s in state.spent[-1:]
    )


def backing_off(state: MoveState | None, now_ms: int) -> int | None:
    """Until when nothing else is tried (ms), or None."""
    until_ms = None if state is None else state.back_off_until_ms
    return until_ms if until_ms is not None and now_ms < until_ms else None


def give_up_rollback(state: MoveState, facts: Facts, why: str) -> tuple[MoveState, list[Event]]:
    """The former placement is not possible any more: the running one stays, with an event."""
    return _not_rolled_back(state, facts, f"cannot go back to the former placement: {why}")


def _not_rolled_back(state: MoveState, facts: Facts, text: str) -> tuple[MoveState, list[Event]]:
    ended = msgspec.structs.replace(state, phase="none", former=[], text=text)
    return ended, [_event(EventKind.ROLLBACK_IMPOSSIBLE, ended, facts, text)]


def _judged(state: MoveState, facts: Facts, config: VerifySection) -> tuple[MoveState, list[Event]]:
    assert state.before is not None
    assert state.predicted is not None
    assert facts.measured is not None
    noise = state.noise_ratio * state.before
    promised, won = state.before - state.predicted, state.before - facts.measured
    known = msgspec.structs.replace(
        state, phase="none", measured=facts.measured, judged_at_ms=facts.now_ms, throughput_tps=facts.throughput_tps
    )
    name = METRIC_NAMES[state.metric or "inter_node_share"]
    said = f"{name} was {state.before:.3f}, predicted {state.predicted:.3f}, is {facts.measured:.3f}"
    if won < -noise:
        return _worse(known, facts, config, f"{said}: worse than before")
    if promised > noise and won <= min(noise, promised * config.least_gain_ratio):
        idle = _backs_off(known, Outcome.NO_GAIN, facts.now_ms, config, f"{said}: no gain")
        for_s = _back_off_ms(state.failures, config) / 1000
        text = f"{idle.text}; it stays, nothing else is tried for {for_s:.0f} s"
        return idle, [_event(EventKind.MOVE_WITHOUT_GAIN, idle, facts, text)]
    helped = msgspec.structs.replace(
        known, verdict=Outcome.HELPED.value, text=said, failures=0, back_off_until_ms=None, back_off_why="", former=[]
    )
    return helped, [_event(EventKind.MOVE_HELPED, helped, facts, said)]


def _worse(state: MoveState, facts: Facts, config: VerifySection, text: str) -> tuple[MoveState, list[Event]]:
    """The move made it worse: back off, and back to the former placement if that is wanted and known."""
    worse = _backs_off(state, Outcome.WORSE, facts.now_ms, config, text)
    if wanted := config.rollback and bool(state.former):
        worse = msgspec.structs.replace(worse, phase="rollback", former=state.former)
    rest = "a rollback is pending" if wanted else "what runs is kept"
    told = f"{text}; {rest}, nothing else is tried for {_back_off_ms(state.failures, config) / 1000:.0f} s"
    return worse, [_event(EventKind.MOVE_WORSE, worse, facts, told)]


def _end(state: MoveState, facts: Facts, outcome: Outcome, text: str) -> tuple[MoveState, list[Event]]:
    if state.phase == "rollback":  # it was judged: that stays
        return msgspec.structs.replace(state, phase="none", former=[]), []
    ended = msgspec.structs.replace(state, phase="none", verdict=outcome.value, text=text, former=[])
    judged = state.metric is not None and outcome is not Outcome.REJECTED  # a rejection is told as one
    return ended, [_event(EventKind.MOVE_NOT_JUDGED, ended, facts, f"plan {state.plan_id}: {text}")] if judged else []


def not_started(
    state: MoveState, now_ms: int, config: VerifySection, text: str, former: Sequence[Worker] = ()
) -> MoveState:
    """The end of a move to where workers do not start; `text` says how that was found.

    `former` is what ran before, where they are still to start there: back to it if that is wanted.
    """
    why = f"workers did not start at their new place ({text})"
    if not former:
        return _backs_off(state, Outcome.DISTURBED, now_ms, config, why)
    worse = _backs_off(msgspec.structs.replace(state, judged_at_ms=now_ms), Outcome.WORSE, now_ms, config, why)
    return msgspec.structs.replace(worse, phase="rollback", former=list(former)) if config.rollback else worse


def _backs_off(state: MoveState, outcome: Outcome, now_ms: int, config: VerifySection, why: str) -> MoveState:
    """The end of a move after which nothing else is tried for a while."""
    return msgspec.structs.replace(
        state,
        phase="none",
        verdict=outcome.value,
        text=why,
        former=[],
        failures=state.failures + 1,
        back_off_until_ms=now_ms + _back_off_ms(state.failures, config),
        back_off_why=why,
    )


def _back_off_ms(failures: int, config: VerifySection) -> int:
    return int(1000 * min(config.max_back_off_s, config.back_off_s * 2.0 ** min(failures, 40)))


def _event(kind: EventKind, state: MoveState, facts: Facts, text: str) -> Event:
    return Event(kind, state.topology_id, facts.topology, text, facts.now_ms, state.measured, state.before)
