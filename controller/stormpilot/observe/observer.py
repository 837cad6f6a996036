"""The eyes of the controller: reads ZooKeeper, keeps load windows, and says what it believes."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from stormpilot.config import Config, LoadSection
from stormpilot.messages.core import ClusterSnapshot, TopologySnapshot
from stormpilot.messages.handover import KeyedTask
from stormpilot.messages.load import LoadReport, TaskLoad
from stormpilot.messages.routes import Routes
from stormpilot.messages.thresholds import Profile, Thresholds
from stormpilot.model.constraints import constrained
from stormpilot.model.readiness import Readiness
from stormpilot.model.short_of_cpu import with_room_for_what_runs
from stormpilot.model.unmeasured_cpu import with_guesses_that_fit
from stormpilot.observe.build import ModelWithReadiness, build
from stormpilot.observe.capacity import AWAY_MS, HostCapacity, last_there, measured, remembered, sharing_of
from stormpilot.observe.change_points import ChangePoints
from stormpilot.observe.cpu_law import Evidence
from stormpilot.observe.cpu_learner import CpuLearner
from stormpilot.observe.edges import Rates
from stormpilot.observe.heap import HeapLearner
from stormpilot.observe.last_measured import LastMeasured
from stormpilot.observe.load import LoadHistory, Reading, Return
from stormpilot.observe.past import Past
from stormpilot.observe.reader import Reader, StoreSnapshot
from stormpilot.observe.settings import Settings
from stormpilot.observe.standby import as_before_the_step
from stormpilot.observe.storm_keys import resource_aware
from stormpilot.tuning.effective_thresholds import EffectiveThresholds, choose, thresholds_of, too_old

PROFILES_KEPT_MS = 600_000
LOOKS = 2
"""Cycles that a change of the traffic starts: as many as `decide.consecutive_hits` by default."""


@dataclass(frozen=True)
class Observation:
    """One look: what was read, and what we believe (None while there is no cluster snapshot).

    `since_ms` is where the window of each topology begins: `window_s` ago (earlier where a long cycle kept reports from
    being read), or when its present placement and routes had settled, or when its traffic changed. `window_ratio` is
    the part of a whole window that this is.
    `changed` are the topologies whose window begins with a change of their traffic.
    `assigned_ms`: since when its executors are assigned as they are, by our clock.
    `reporting` are the tasks that ever reported, `returns` those that started anew since the last plan that is still
    followed, both by topology id. `in_use` are the thresholds that hold, `profiles` and `mined` what history says, by
    topology id, `cpu` what is known of the CPU that follows from places.
    """

    at_ms: int
    seen: StoreSnapshot
    belief: ModelWithReadiness | None
    rates: Mapping[str, Rates]
    since_ms: Mapping[str, int]
    window_ratio: Mapping[str, float] = field(default_factory=dict)
    assigned_ms: Mapping[str, int] = field(default_factory=dict)
    changed: frozenset[str] = frozenset()
    reporting: Mapping[str, frozenset[int]] = field(default_factory=dict)
    returns: Mapping[str, Mapping[int, Return]] = field(default_factory=dict)
    in_use: EffectiveThresholds = field(default_factory=EffectiveThresholds)
    profiles: Mapping[str, Profile] = field(default_factory=dict)
    mined: Mapping[str, Thresholds] = field(default_factory=dict)
    cpu: Mapping[str, Evidence] = field(default_factory=dict)

    @property
    def signature(self) -> object:
        """Changes that make a cycle run at once: who is there, what runs where, what operators want."""
        s = self.seen
        return (
            tuple(sorted((i, t.version, t.assigned_since_ms) for i, t in s.topologies.items())),
            None if s.cluster is None else tuple(sorted(x.id for x in s.cluster.supervisors if not x.blacklisted)),
            tuple(sorted((i, t.state, t.code, t.plan_id) for i, t in s.statuses.items())),
            s.paused,
            tuple(sorted((n, m.mode) for n, m in s.modes.items())),
            s.settings.signature,
            tuple(sorted((i, m.mined_at_ms) for i, m in s.thresholds.items())),
        )


class Observer:
    """Looks at ZooKeeper; between looks, `poll_loads` keeps the windows filled.

    With `config` thresholds that were mined or set hold instead of those in it; without, none do.

    Attributes
    ----------
    counters
        What was not believed or could not be used so far, by kind.
    """

    def __init__(self, reader: Reader, load: LoadSection, cpu_limit_ratio: float, config: Config | None = None):
        self._reader = reader
        self._config = config
        self._load = load
        self._cpu_limit_ratio = cpu_limit_ratio
        self._history = LoadHistory(load.window_s)
        self._placements: dict[str, tuple[object, int]] = {}
        self._assigned: dict[str, tuple[object, int]] = {}
        self._read_placements: dict[str, tuple[TopologySnapshot, frozenset[object]]] = {}
        self._change_points = ChangePoints(load.window_s)
        self._changed_ms: dict[str, int] = {}
        self._looks_left: dict[str, int] = {}
        self._followed: frozenset[str] = frozenset()
        self._ignored: Counter[str] = Counter()
        self._topology_ids: list[str] = []
        self._reports: list[LoadReport] = []
        self._load_problems: dict[str, str] = {}
        self._polls_ms: deque[int] = deque()
        self._hosts: dict[str, HostCapacity] = {}
        self._hosts_ms: dict[str, int] = {}
        self._lately: dict[str, tuple[str, int]] = {}
        self._cpu = CpuLearner()
        self._heaps = HeapLearner()
        self._last_measured = LastMeasured()
        self._past = Past()
        self._kept_profiles: tuple[object, int, dict[str, Profile]] | None = None

    def use(self, load: LoadSection, cpu_limit_ratio: float, config: Config | None = None) -> None:
        """Go on with other settings; the reports that were read stay."""
        self._load, self._cpu_limit_ratio, self._config = load, cpu_limit_ratio, config
        self._history.resize(load.window_s)

    @property
    def counters(self) -> dict[str, int]:
        """Cumulative since the start."""
        rejected = {f"load_rejected_{why}": n for why, n in sorted(self._history.rejected.items())}
        refused = {f"load_refused_{why}": n for why, n in sorted(self._reader.refused.items()) if n}
        return rejected | refused | {f"load_ignored_{why}": n for why, n in sorted(self._ignored.items())}

    def poll_loads(self, now_ms: int) -> None:
        """Read the load reports of the topologies of the last look, and see whether their traffic changed."""
        self._reports, self._load_problems = self._reader.read_loads(self._topology_ids)
        self._polled(now_ms)
        told = self._history.take(self._reports, now_ms)
        if self._load.change_window_s <= 0:
            return
        for t in self._topology_ids:
            if t in self._followed or (t not in told and self._change_points.knows(t)):
                continue  # a move changes the traffic, and is measured over whole windows
            changed_ms = self._change_points.take(t, self._history.counted(t), now_ms)
            if changed_ms is not None:
                self._changed_ms[t] = changed_ms
                self._looks_left[t] = LOOKS
            elif (suspected_ms := self._change_points.suspected_ms(t)) is not None:
                self._history.keep_apart(t, suspected_ms)

    def newly_changed(self, now_ms: int) -> list[str]:
        """Topologies whose traffic changed, and is measured since for long enough to plan on.

        Each is told as often as a plan that restarts workers wants to see its gain (`LOOKS`), a `change_window_s` after
        the other.
        """
        ready = []
        for t, left in sorted(self._looks_left.items()):
            since_ms, looks_s = self._changed_ms.get(t), (LOOKS + 1 - left) * self._load.change_window_s
            if since_ms is None or now_ms - since_ms >= self._load.window_s * 1000:
                del self._looks_left[t]  # placed anew meanwhile, or not measured: no haste
            elif now_ms - since_ms >= looks_s * 1000:
                needed_s = looks_s * self._load.min_coverage_ratio
                rates = self._history.rates(t, since_ms, now_ms).values()
                if all(r.covered_s >= needed_s or r.age_s > self._load.max_report_age_s for r in rates):
                    ready.append(t)
        self._looks_left = {t: left - (t in ready) for t, left in self._looks_left.items() if left > (t in ready)}
        return ready

    def observe(self, now_ms: int) -> Observation:
        """Read everything and build the model; `UnreachableError` when ZooKeeper is away."""
        seen = self._past.of(self._reader.read(), now_ms)
        self._topology_ids = sorted(seen.topologies)
        self._history.know(seen.topologies)
        self.poll_loads(now_ms)
        seen = replace(seen, problems={**seen.problems, **self._load_problems})
        self._history.keep_only(self._topology_ids)
        self._change_points.keep_only(set(self._topology_ids))
        self._changed_ms = {t: at_ms for t, at_ms in self._changed_ms.items() if t in seen.topologies}
        self._placements = {t: p for t, p in self._placements.items() if t in seen.topologies}
        self._assigned = {t: p for t, p in self._assigned.items() if t in seen.topologies}
        self._read_placements = {t: p for t, p in self._read_placements.items() if t in seen.topologies}
        oldest_ms = self._oldest_ms(now_ms)
        since_ms = {t: self._since_ms(s, seen.table(t), oldest_ms, now_ms) for t, s in seen.topologies.items()}
        window_ms = int(self._load.window_s * 1000)
        rates = {t: self._history.rates(t, since_ms[t], now_ms) for t in self._topology_ids}
        self._cpu.keep_only(set(self._topology_ids))
        self._last_measured.keep_only(self._topology_ids)
        self._cpu.remember(seen.moves)
        self._heaps.take(seen.topologies, self._reports, now_ms)
        belief = None if seen.cluster is None else self._believe(seen, seen.cluster, rates, now_ms)
        if belief is not None:
            self._cpu.take(belief.model, seen.topologies, rates, since_ms, self._load.window_s, now_ms)
        if belief is not None and belief.failed:
            failed = {f"{t} (reports)": text for t, text in belief.failed.items()}
            seen = replace(seen, problems={**seen.problems, **failed})
        in_use = EffectiveThresholds()
        if self._config is not None:
            in_use = choose(self._config, seen.topologies, seen.thresholds, seen.settings.thresholds, now_ms)
        if belief is not None and seen.cluster is not None:
            if self._load.cpu != "declared":  # what is declared fills nodes as a whole
                model, short = with_room_for_what_runs(in_use.limited(belief.model), self._last_measured.cpu_mhz)
                belief = replace(belief, model=model, short_of_cpu=short)
            belief = _as_operators_want(belief, seen.settings, seen.cluster.shim.fallback)
        followed = {t: m.published_at_ms for t, m in seen.moves.items() if m.phase in ("moving", "measuring")}
        self._followed = frozenset(followed) | seen.running_rollouts.keys()
        return Observation(
            now_ms,
            seen,
            belief,
            rates,
            since_ms,
            window_ratio={t: min(1.0, max(0, now_ms - ms) / window_ms) for t, ms in since_ms.items()},
            assigned_ms={t: at_ms for t, (_, at_ms) in self._assigned.items()},
            changed=frozenset(self._changed_ms),
            reporting={t: self._history.tasks(t) for t in followed},
            returns={t: self._history.returns(t, at_ms) for t, at_ms in followed.items()},
            in_use=in_use,
            profiles=self._profiles(seen, now_ms),
            cpu=dict(self._cpu.evidence),
            mined={i: m for i, s in seen.topologies.items() if (m := thresholds_of(s, seen.thresholds)) is not None},
        )

    def newest(self, topology_id: str) -> Mapping[Reading, TaskLoad]:
        """The newest report of every task of a topology, by (task, whether its worker measured it)."""
        return self._history.newest(topology_id)

    def keyed(self, topology_id: str, tasks: Iterable[int]) -> Mapping[int, KeyedTask]:
        """Hand-over states of tasks."""
        return self._reader.read_keyed(topology_id, tasks)

    def _profiles(self, seen: StoreSnapshot, now_ms: int) -> Mapping[str, Profile]:
        """By topology id, where they are wanted; they are large and change seldom, so they are read now and then."""
        history = None if self._config is None else self._config.history
        if history is None or not (history.proactive or history.use_recommendation):
            return {}
        mined = {i: thresholds_of(s, seen.thresholds) for i, s in seen.topologies.items()}
        key = tuple(sorted((i, m.topology_id, m.mined_at_ms) for i, m in mined.items() if m is not None))
        if self._kept_profiles is None or self._kept_profiles[0] != key or now_ms >= self._kept_profiles[1]:
            known = self._reader.read_profiles([was for _, was, _ in key])
            fresh = {was for was, p in known.items() if not too_old(p, history, now_ms)}
            profiles = {i: known[was] for i, was, _ in key if was in fresh}
            self._kept_profiles = key, now_ms + PROFILES_KEPT_MS, profiles
        return self._kept_profiles[2]

    def _believe(
        self, seen: StoreSnapshot, cluster: ClusterSnapshot, rates: Mapping[str, Rates], now_ms: int
    ) -> ModelWithReadiness:
        tables = {t: v.message for t, v in seen.tables.items() if v.message is not None}
        for t, rollout in seen.running_rollouts.items():
            if t in tables and t in seen.topologies:
                tables[t] = as_before_the_step(tables[t], rollout, seen.topologies[t])
        if seen.controller is not None:
            self._hosts = remembered(seen.controller.capacities, cluster.supervisors) | self._hosts
        loads = {t: self._history.newest(t).values() for t in seen.topologies}
        self._hosts_ms = last_there(self._hosts_ms, cluster.supervisors, now_ms)
        self._hosts |= measured(seen.topologies, loads, cluster.supervisors, self._hosts_ms)
        self._hosts = {h: known for h, known in self._hosts.items() if h in self._hosts_ms}
        self._lately = {s: x for s, x in self._lately.items() if now_ms - x[1] <= AWAY_MS}
        self._lately |= {s.id: (s.host, now_ms) for s in cluster.supervisors}
        host_of = {s: host for s, (host, _) in self._lately.items()}
        belief = build(
            cluster,
            seen.topologies,
            rates,
            self._load,
            self._cpu_limit_ratio,
            now_ms,
            tables,
            self._reader.over_limit,
            self._hosts,
            {t: min(self._load.window_s, self._load.change_window_s) for t in self._changed_ms},
            self._cpu.evidence,
            self._heaps.needs,
            sharing_of(host_of, cluster.supervisors, seen.topologies.values()),
            self._hosts_ms,
        )
        belief = self._last_measured.filled_in(belief)
        self._ignored.update(belief.ignored)
        refused = {t: ms for t, ms in self._history.ahead_ms.items() if not self._history.newest(t)}
        readiness = {t: _with_clock(r, refused[t]) if t in refused else r for t, r in belief.readiness.items()}
        return replace(belief, readiness=readiness)

    def _polled(self, now_ms: int) -> None:
        self._polls_ms.append(now_ms)
        while len(self._polls_ms) > 1 and self._polls_ms[1] <= now_ms - self._load.window_s * 1000:
            self._polls_ms.popleft()

    def _oldest_ms(self, now_ms: int) -> int:
        """Begin of the window where nothing changed.

        Reports are not read while a cycle plans. Where that took so long that too little of a window would be covered,
        it begins with the last readings before, as long as the history keeps them.
        """
        window_ms = int(self._load.window_s * 1000)
        spare_ms = int((1 - self._load.min_coverage_ratio) * window_ms)
        oldest_ms = now_ms - window_ms
        before_ms, *after_ms = self._polls_ms
        paused = (after_ms[0] if after_ms else now_ms) - oldest_ms > spare_ms
        kept = oldest_ms - window_ms <= before_ms - spare_ms <= oldest_ms
        return before_ms - spare_ms if paused and kept else oldest_ms

    def _since_ms(self, snapshot: TopologySnapshot, table: Routes | None, oldest_ms: int, now_ms: int) -> int:
        """Begin of the window: not while the placement, the routes or the traffic were others, nor while that settled.

        A change of the traffic that is longer ago than a window is forgotten.
        """
        routes = [] if table is None else table.components
        read, assignment = self._read_placements.get(snapshot.id, (None, frozenset()))
        if read is not snapshot:
            assignment = frozenset((e.start, e.supervisor, e.port) for e in snapshot.executors)
            self._read_placements[snapshot.id] = snapshot, assignment
        if snapshot.id not in self._assigned:
            self._assigned[snapshot.id] = assignment, min(now_ms, snapshot.assigned_since_ms or 0)
        elif self._assigned[snapshot.id][0] != assignment:
            self._assigned[snapshot.id] = assignment, now_ms
        placement = assignment, [(r.component, r.active, r.partitions) for r in routes]
        last = self._placements.get(snapshot.id)
        if last is None:
            written_ms = 0 if table is None else table.written_at_ms
            changed_ms = min(now_ms, max(snapshot.assigned_since_ms or now_ms, written_ms))
        else:
            changed_ms = last[1] if last[0] == placement else now_ms
        self._placements[snapshot.id] = (placement, changed_ms)
        settled_ms = changed_ms + int(self._load.settle_s * 1000)
        if settled_ms > now_ms:
            self._change_points.forget(snapshot.id)
        begin_ms = max(oldest_ms, settled_ms)
        if (traffic_ms := self._changed_ms.get(snapshot.id, begin_ms)) > begin_ms:
            return traffic_ms
        self._changed_ms.pop(snapshot.id, None)
        return begin_ms


def _with_clock(r: Readiness, ahead_ms: int) -> Readiness:
    """With a word on reports that are there and refused, since their clock is far from ours."""
    apart = f"{abs(ahead_ms) / 60_000:,.0f} min {'ahead of' if ahead_ms > 0 else 'behind'}"
    text = f"{r.text}; reports are refused: {apart} the controller's clock (stormpilot doctor compares clocks)"
    return replace(r, text=text)


def _as_operators_want(belief: ModelWithReadiness, settings: Settings, fallback: str) -> ModelWithReadiness:
    """With drains, pins and exclusions in the model; guessed CPU binds only where Storm's own scheduler keeps to it."""
    model = constrained(belief.model, settings.drains, settings.pins, settings.exclusions)
    if not resource_aware(fallback):
        model = with_guesses_that_fit(model, {t for t, r in belief.readiness.items() if not r.ready})
    return replace(belief, model=model)
