"""Metrics for Prometheus: `stormpilot_*`, in a registry of its own. docs/reference/api.md has the table.

What happens is counted when it happens; what is, is read off the board at the scrape, so that an input that is not
renewed, or a cycle that hangs, is seen to grow old. Topologies are named, not numbered: a series goes on when one is
submitted again. Counts of a topology begin at 0 when it is first seen, and end with it, all others at the start:
Prometheus takes no increase from a series that begins with its first event.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, get_args

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Histogram,
    ProcessCollector,
    disable_created_metrics,
    generate_latest,
)
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

import stormpilot
from stormpilot import clock
from stormpilot.api.board import CompletedCycle, ProcessStatus
from stormpilot.decide.events import EventKind
from stormpilot.decide.reasons import reasons_table
from stormpilot.decide.report import CycleReport
from stormpilot.decide.status_changes import ANSWERS
from stormpilot.messages.controller_state import TopologyView
from stormpilot.messages.core import TopologySnapshot
from stormpilot.messages.rollouts import Outcome
from stormpilot.messages.settings import MODES

BUCKETS_S = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 20.0, 40.0, 80.0)
CONTENT_TYPE = "text/plain; version=0.0.4"
PARTS = ("starting", "standby", "leading", "stopping")
disable_created_metrics()  # type: ignore[no-untyped-call]  # a second series for each, which nobody asks for


class Metrics:
    """Counts what the daemon tells of; `text` is the answer to a scrape.

    Parameters
    ----------
    limit_s
        How old the last cycle of a leader may be.
    notifications
        Events by outcome (sent, failed, dropped), cumulative, and how many wait: of the notifier.
    """

    def __init__(
        self,
        board: ProcessStatus,
        *,
        limit_s: Callable[[], float],
        notifications: Callable[[], tuple[Mapping[str, int], int]] = lambda: ({}, 0),
        now_ms: Callable[[], int] = clock.now_ms,
    ):
        self.registry = r = CollectorRegistry()
        self.decisions = _counter(r, "decisions", "Decisions per cycle and topology.", "action", "reason")
        self.refusals = _counter(r, "refusals", "Decisions to leave a topology as it is, by reason.", "reason")
        self.published = _counter(r, "plans_published", "Plans published.", "topology", "planner")
        self.moved = _counter(r, "moved_executors", "Executors that published plans move.", "topology")
        self.answers = _counter(
            r, "plan_answers", "What the scheduler plug-in said to plans, when it changed.", "topology", "state", "code"
        )
        self.events = _counter(r, "events", "What moves did when measured afterwards, and alerts.", "topology", "kind")
        self.rollouts = _counter(r, "rollouts_ended", "Rollouts that ended, by outcome.", "topology", "outcome")
        self.requests = _counter(r, "api_requests", "HTTP requests answered.", "method", "route", "status")
        self.duration = Histogram(
            "stormpilot_cycle_duration_seconds", "Time from observing to publishing.", registry=r, buckets=BUCKETS_S
        )
        self._ended: dict[str, tuple[str, int]] | None = None
        self._of_topology: dict[str, set[tuple[Counter, tuple[str, ...]]]] = {}
        for row in reasons_table():
            if row.kind == "gate":
                self.decisions.labels("skip", row.code)
                self.refusals.labels(row.code)
            elif row.kind == "trigger":
                self.decisions.labels("publish", row.code)
                self.decisions.labels("advise", row.code)
        r.register(_OnScrape(board, limit_s, notifications, now_ms))
        ProcessCollector(registry=r)

    def led_anew(self) -> None:
        """Begin anew: rollouts that ended while another controller led were counted by that one."""
        self._ended = None

    def cycle_done(self, looked: CompletedCycle) -> None:
        """Count a cycle."""
        report = looked.report
        self._begin_and_end(looked)
        self.duration.observe(looked.took_s)
        for d in report.decisions.values():
            self.decisions.labels(d.action, d.reason.value).inc()
            if d.action == "skip":
                self.refusals.labels(d.reason.value).inc()
        self.published_plans(report)
        for event in report.events:
            self._count(self.events, event.topology, event.kind.value)
        self._answers(report)
        self._rollouts(looked)

    def published_plans(self, report: CycleReport) -> None:
        """Count the plans that were published."""
        for topology_id, entry in report.plans.items():
            name = report.names[topology_id]
            self._count(self.published, name, entry.plan.planner)
            self._count(self.moved, name, by=entry.moved_executors)

    def text(self) -> bytes:
        """The answer to a scrape."""
        return generate_latest(self.registry)

    def _answers(self, report: CycleReport) -> None:
        for change in report.status_changes:
            if change.status.plan_id is not None:
                self._count(self.answers, change.topology, change.status.state, change.status.code)

    def _rollouts(self, looked: CompletedCycle) -> None:
        """Count those that ended since the cycle before; what ended before the first cycle was counted then."""
        seen, before = looked.observation.seen, self._ended
        self._ended = {}
        for t, kept in seen.rollouts.items():
            m = kept.message
            if m is None or m.running:
                continue
            now = self._ended[t] = (m.entry.plan.plan_id, m.started_at_ms)
            if before is not None and before.get(t) != now and t in seen.topologies:
                self._count(self.rollouts, seen.topologies[t].name, m.outcome)

    def _begin_and_end(self, looked: CompletedCycle) -> None:
        """Counts of the topologies that are there begin at 0; those of others end."""
        names = {s.name for s in looked.observation.seen.topologies.values()}
        for gone in self._of_topology.keys() - names:
            for counter, labels in self._of_topology.pop(gone):
                counter.remove(*labels)
        for name in names:
            self._count(self.moved, name, by=0)
            for kind in EventKind:
                self._count(self.events, name, kind.value, by=0)
            for state, codes in ANSWERS.items():
                for code in codes:
                    self._count(self.answers, name, state, code, by=0)
            for outcome in filter(None, get_args(Outcome)):
                self._count(self.rollouts, name, outcome, by=0)
            for planner in () if looked.state is None else (looked.state.planner, "rollback"):
                self._count(self.published, name, planner, by=0)

    def _count(self, counter: Counter, topology: str, *labels: str, by: float = 1) -> None:
        self._of_topology.setdefault(topology, set()).add((counter, (topology, *labels)))
        counter.labels(topology, *labels).inc(by)


def _counter(registry: CollectorRegistry, name: str, text: str, *labels: str) -> Counter:
    return Counter(f"stormpilot_{name}", text, labels, registry=registry)


class _OnScrape(Collector):
    """Metrics that are read from the board at each scrape."""

    def __init__(
        self,
        board: ProcessStatus,
        limit_s: Callable[[], float],
        notifications: Callable[[], tuple[Mapping[str, int], int]],
        now_ms: Callable[[], int],
    ):
        self._board = board
        self._limit_s = limit_s
        self._notifications = notifications
        self._now_ms = now_ms

    def describe(self) -> Iterable[Metric]:
        """Nothing: there is something to see only after a cycle."""
        return []

    def collect(self) -> Iterator[Metric]:
        """All of it."""
        yield from self._process()
        last = self._board.last  # once: it goes when the leadership ends
        if last is not None:
            yield from self._cluster(last)
            yield from self._topologies(last)

    def _process(self) -> Iterator[Metric]:
        b = self._board
        yield _gauge("build_info", "The version that runs.", ["version"], {(stormpilot.__version__,): 1.0})
        yield _gauge("part", "What this process does: 1 for one of them.", ["part"], {(p,): p == b.part for p in PARTS})
        yield _one("leader", "1 while this process leads.", b.part == "leading")
        yield _one("epoch", "Epoch of this leadership, 0 without one.", b.epoch)
        yield _total(
            "cycles", "Cycles, by how they ended.", ["outcome"], {("done",): b.cycles, ("failed",): b.failed_cycles}
        )
        cycle_s = b.cycle_s
        since_s = b.became_s if cycle_s is None and b.part == "leading" else cycle_s
        if since_s is not None:
            text = "Since the last cycle ended; before the first one, since this process leads."
            yield _one("last_cycle_age_seconds", text, b.clock_s() - since_s)
        text = "How old the last cycle may be: by cycle.period_s and planner.budget_s."
        yield _one("last_cycle_limit_seconds", text, self._limit_s())
        yield _one("zookeeper_connected", "1 while the session stands and is connected.", b.zookeeper_connected())
        yield _total("zookeeper_sessions_lost", "Sessions that ended.", [], {(): b.sessions_lost()})
        outcomes, waiting = self._notifications()
        by_outcome = {(o,): n for o, n in outcomes.items()}
        yield _total("notifications", "Events for the webhook, by what became of them.", ["outcome"], by_outcome)
        yield _one("notifications_waiting", "Events that are not delivered yet.", waiting)

    def _cluster(self, last: CompletedCycle) -> Iterator[Metric]:
        seen, now_ms = last.observation.seen, self._now_ms()
        if seen.cluster is not None:
            age_s = (now_ms - seen.cluster.written_at_ms) / 1000
            yield _one(
                "cluster_snapshot_age_seconds", "Since the plug-in last wrote the cluster (when changed).", age_s
            )
            states = {("live",): 0.0, ("blacklisted",): 0.0}
            for s in seen.cluster.supervisors:
                states["blacklisted" if s.blacklisted else "live",] += 1
            yield _gauge("supervisors", "Supervisors as Nimbus sees them.", ["state"], states)
        yield _one("unreadable_znodes", "Things in ZooKeeper that cannot be read.", len(seen.problems))
        yield _one("observation_age_seconds", "Since ZooKeeper was read.", (now_ms - last.observation.at_ms) / 1000)
        counters = last.state.counters if last.state else {}
        yield _total("traffic_log_rows", "Rows written.", [], {(): counters.get("log_rows_written", 0)})
        yield _total("traffic_log_rows_lost", "Rows lost.", [], {(): counters.get("log_rows_lost", 0)})
        lost = "Records of the audit lost, since its file could not be written."
        yield _total("audit_records_lost", lost, [], {(): counters.get("audit_records_lost", 0)})
        doubts = {(k.removeprefix("load_"),): n for k, n in counters.items() if k.startswith("load_")}
        yield _total("load_counts_not_used", "What load reports said and was not used, by why.", ["reason"], doubts)

    def _topologies(self, last: CompletedCycle) -> Iterator[Metric]:
        seen, now_ms = last.observation.seen, self._now_ms()
        since_s = (now_ms - last.observation.at_ms) / 1000
        snapshots: dict[str, TopologySnapshot] = {s.name: s for _, s in sorted(seen.topologies.items())}
        views: dict[str, TopologyView] = {v.name: v for v in (last.state.topologies if last.state else [])}

        def per(name: str, text: str, values: Mapping[str, float | None]) -> Metric:
            return _gauge(name, text, ["topology"], {(t,): v for t, v in values.items() if v is not None})

        yield per(
            "topology_snapshot_age_seconds",
            "Since the plug-in last wrote the topology (when changed).",
            {t: (now_ms - s.written_at_ms) / 1000 for t, s in snapshots.items()},
        )
        yield per(
            "load_report_age_seconds",
            "Age of the oldest of the load reports that are expected.",
            {t: None if v.reports_age_s is None else v.reports_age_s + since_s for t, v in views.items()},
        )
        yield per("unmeasured_tasks", "Tasks without a usable load report.", {t: v.missing for t, v in views.items()})
        yield per("executors", "Executors.", {t: len(s.executors) for t, s in snapshots.items()})
        yield per(
            "unplaced_executors",
            "Executors that run nowhere.",
            {t: sum(1 for e in s.executors if e.supervisor is None) for t, s in snapshots.items()},
        )
        modes = {(t, m): float(m == v.mode) for t, v in views.items() for m in MODES}
        yield _gauge("topology_mode", "1 for the mode of the topology.", ["topology", "mode"], modes)
        yield per("topology_paused", "1 while paused.", {t: seen.is_paused(t) for t in snapshots})
        tps, share = {}, {}
        for t, v in views.items():
            for placement, value in (("running", v.inter_node_tps), ("planned", v.planned_inter_node_tps)):
                if value is not None:
                    tps[t, placement] = value
                    if v.total_tps:
                        share[t, placement] = value / v.total_tps
        text = "Tuples between nodes, as it runs and as the newest plan would have it"
        labels = ["topology", "placement"]
        yield _gauge("inter_node_tuples_per_second", f"{text}.", labels, tps)
        yield _gauge("inter_node_ratio", f"{text}: the part of all tuples.", labels, share)
        yield from self._rollouts(last, now_ms)
        moves = {last.report.names.get(t, t): m for t, m in sorted(last.moves.items()) if m.before}
        yield per(
            "gain_predicted_ratio",
            "By what part of itself the last move was to lower what it is judged by (inter-node share or load).",
            {t: _gain(m.before, m.predicted) for t, m in moves.items()},
        )
        yield per(
            "gain_measured_ratio",
            "By what part of itself the last move lowered what it is judged by, once that was measured.",
            {t: _gain(m.before, m.measured) for t, m in moves.items()},
        )

    def _rollouts(self, last: CompletedCycle, now_ms: int) -> Iterator[Metric]:
        """Progress of rollouts; topologies without one are not listed."""
        seen = last.observation.seen
        rollouts = sorted(seen.running_rollouts.items())
        running = {seen.topologies[t].name: m for t, m in rollouts if t in seen.topologies}
        labels = ["topology"]
        steps = {(t,): float(len(m.steps)) for t, m in running.items()}
        yield _gauge("rollout_steps", "Steps of the running rollout.", labels, steps)
        done = {(t,): float(m.step) for t, m in running.items()}
        yield _gauge("rollout_steps_done", "How many of them are done.", labels, done)
        ages_s = {(t, m.phase): (now_ms - m.since_ms) / 1000 for t, m in running.items()}
        yield _gauge(
            "rollout_phase_age_seconds", "How long the present step is in its phase.", ["topology", "phase"], ages_s
        )


def _gain(before: float | None, after: float | None) -> float | None:
    return None if not before or after is None else (before - after) / before


def _one(name: str, text: str, value: float) -> Metric:
    return _gauge(name, text, [], {(): value})


def _gauge(name: str, text: str, labels: list[str], values: Mapping[Any, float]) -> Metric:
    family = GaugeMetricFamily(f"stormpilot_{name}", text, labels=labels)
    for key, value in values.items():
        family.add_metric(key, float(value))
    return family


def _total(name: str, text: str, labels: list[str], values: Mapping[Any, float]) -> Metric:
    family = CounterMetricFamily(f"stormpilot_{name}", text, labels=labels)
    for key, value in values.items():
        family.add_metric(key, float(value))
    return family
