"""A whole replay: read the log, play the settings, judge them; what `stormpilot trafficlog replay` does.

With a planner given all topologies are planned together by it, as the controller would have: that answers what the past
would have looked like. Without one every setting of the grid is tried for each topology by itself, the others standing
as they really did: that finds the best setting of each.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import msgspec

from stormpilot import clock
from stormpilot.config import DecideSection
from stormpilot.errors import UsageError
from stormpilot.history.mine.findings import Mined
from stormpilot.history.mine.reading import SparkLog
from stormpilot.history.replay.choose import Tried, Verdict, Yardsticks, choose, of_each_name, tried
from stormpilot.history.replay.coming import coming_of, looks_ahead, without_forecast
from stormpilot.history.replay.confirm import DAY_MS, LEAST_DAYS
from stormpilot.history.replay.limits import differing, sentences
from stormpilot.history.replay.past import past, yardstick
from stormpilot.history.replay.play import Rules
from stormpilot.history.replay.read import past_of
from stormpilot.history.replay.score import Weights
from stormpilot.history.replay.spread import Job, spread
from stormpilot.history.replay.values import Played, Run, Setting, Step
from stormpilot.model.values import Topology, Value
from stormpilot.planner import planner_named
from stormpilot.planner.registry import params_of


@dataclass(frozen=True)
class Question:
    """Question of a study. The last `hold_out_s` of the time are not chosen by; `together`: plan all topologies as one.

    `hold_out_s` None: as many days as `hold_out_days` says.
    """

    settings: Sequence[Setting]
    together: bool
    step_s: int = 3600
    hold_out_s: float | None = None
    rules: Rules = field(default_factory=Rules)
    weights: Weights = field(default_factory=Weights)


class Replay(Value, frozen=True, kw_only=True, rename="camel"):
    """The answer: a verdict per topology, and what it rests on. `split_ms`: from then on steps are held out.

    `cpu_limit_ratio`: B(n) of settings that have none of their own.
    """

    log: str
    from_ms: int
    to_ms: int
    split_ms: int | None
    step_s: int
    steps: int
    edge_rows: int
    together: bool
    budget_s: float
    weights: Weights
    verdicts: list[Verdict]
    cpu_limit_ratio: float = DecideSection().cpu_limit_ratio
    took_s: float = 0.0
    at_ms: int = 0
    notes: list[str] = msgspec.field(default_factory=list)


Evidence = dict[str, list[Played]]
"""Every step of every run by the name of its setting, and what really happened (no name)."""
Say = Callable[[str], None]
Progress = Callable[[int, int], None]


def study(
    log: SparkLog,
    question: Question,
    mined: Sequence[Mined] = (),
    say: Say = lambda _: None,
    progress: Progress | None = None,
    compared: Sequence[Mined] | None = None,
) -> tuple[Replay, Evidence]:
    """Answer a question about a log. `mined` is what settings with a forecast make it from.

    Mined B(n) of `compared` (None: of `mined`) is compared with that of what is recommended.
    """
    started_s = time.monotonic()
    for s in question.settings:
        params_of(planner_named(s.planner), s.params)
        question.rules.of(s)
    found = past_of(log, question.step_s)
    steps = found.steps
    names = {t.id: t.name for step in steps for t in step.model.topologies}
    split_ms = _split(steps, question.hold_out_s)
    say(
        f"{len(steps)} steps of {question.step_s / 60:g} min from {found.edge_rows:,} rows of edges, "
        f"{len(names)} topologies; {len(question.settings)} settings"
    )
    rules = dataclasses.replace(question.rules, lower_limits=not question.together)
    if rules.measured:
        rules = dataclasses.replace(rules, restart_s=found.restart_s(split_ms))
    history = rules.config.history
    coming = coming_of(mined, history.max_forecast_error_ratio, history.lead_s) if mined else None
    groups = [tuple(names)] if question.together else [(t,) for t in names]
    jobs = [Job(g, s) for g in groups for s in question.settings]
    runs = spread(log.spark, steps, jobs, rules, coming, progress)
    last = {t.id: t for step in steps for t in step.model.topologies}
    verdicts: list[Verdict] = []
    evidence: Evidence = {}
    for topology in last.values():
        own = [r for r in runs if topology.id in r.topologies]
        verdict, played = _judged(
            topology, own, steps, split_ms, rules, question, mined, mined if compared is None else compared
        )
        verdicts.append(verdict)
        for name, rows in played.items():
            evidence.setdefault(name, []).extend(rows)
    replay = Replay(
        log=log.path,
        from_ms=steps[0].from_ms,
        to_ms=steps[-1].to_ms,
        split_ms=split_ms,
        step_s=question.step_s,
        steps=len(steps),
        edge_rows=found.edge_rows,
        together=question.together,
        budget_s=rules.budget_s,
        weights=question.weights,
        verdicts=verdicts,
        cpu_limit_ratio=rules.config.decide.cpu_limit_ratio,
        took_s=time.monotonic() - started_s,
        at_ms=clock.now_ms(),
        notes=_notes(steps, mined, question, verdicts),
    )
    return replay, evidence


def hold_out_days(days: float) -> int:
    """Of so many days so many are held out: half, at most a week, and as many as a verdict needs where two are left."""
    return min(7, max(int(days) // 2, min(LEAST_DAYS, int(days) - 2), 0))


def _split(steps: Sequence[Step], hold_out_s: float | None) -> int | None:
    if hold_out_s is None:
        hold_out_s = DAY_MS / 1000 * hold_out_days((steps[-1].to_ms - steps[0].from_ms) / DAY_MS)
    if hold_out_s <= 0:
        return None
    split_ms = steps[-1].to_ms - int(hold_out_s * 1000)
    if split_ms <= steps[0].from_ms:
        have = (steps[-1].to_ms - steps[0].from_ms) / DAY_MS
        raise UsageError(
            f"--hold-out is {hold_out_s / 86_400:g} days, expected less than the {have:.2g} days of the log"
        )
    return split_ms


def _judged(
    topology: Topology,
    runs: Sequence[Run],
    steps: Sequence[Step],
    split_ms: int | None,
    rules: Rules,
    question: Question,
    mined: Sequence[Mined],
    compared: Sequence[Mined],
) -> tuple[Verdict, dict[str, list[Played]]]:
    t, restart_s, weights = topology.id, rules.stands_s(topology), question.weights
    really = past(steps, {t}, rules)
    played = {"": really}
    tries = []
    for run in runs:
        rows = [p for p in run.played if p.topology_id == t]
        tries.append(tried(run.setting, rows, split_ms, restart_s, weights, run))
        played[run.setting.name] = rows
    was = tried(None, really, split_ms, restart_s, weights)
    known = [s for s in steps if split_ms is None or s.from_ms < split_ms]
    rest = [] if split_ms is None else [s for s in steps if s.from_ms >= split_ms]
    begin_ms = steps[0].from_ms if split_ms is None else split_ms
    off = Yardsticks(chosen_by=yardstick(known, t, begin_ms), held_out=yardstick(rest, t, begin_ms))
    own = [m for m in mined if m.thresholds.topology_name == topology.name]
    verdict = choose(t, topology.name, tries, was, restart_s, off, _barred(runs, own, split_ms))
    limits = differing(
        (e for m in compared if m.thresholds.topology_name == topology.name for e in m.thresholds.entries),
        verdict.recommended.setting,
        rules.config.decide.cpu_limit_ratio,
    )
    return msgspec.structs.replace(verdict, limits=limits), played


def _barred(runs: Sequence[Run], own: Sequence[Mined], split_ms: int | None) -> dict[str, str]:
    """Settings whose forecasts know the days held out."""
    if split_ms is None or not looks_ahead(own, split_ms):
        return {}
    why = "its profile was made from the days held out, too: mine with --until before them"
    return {r.setting.name: why for r in runs if r.setting.forecast}


def _notes(steps: Sequence[Step], mined: Sequence[Mined], question: Question, verdicts: Sequence[Verdict]) -> list[str]:
    """Gaps of this log, for people."""
    notes = []
    blind = sorted({t.name for s in steps for t in s.model.topologies if not any(c.inputs for c in t.components)})
    if blind:
        notes.append(
            f"the log does not know the groupings of {', '.join(blind)}: every pair is taken to keep its traffic "
            "wherever it runs, also where a shuffle would follow the placement"
        )
    if any(s.forecast for s in question.settings) and (known := looks_ahead(mined, steps[0].from_ms)):
        notes.append(
            f"the profiles of {', '.join(known)} were made from time that is replayed too: forecasts look better than "
            "they can be; mine with --until before the replayed time"
        )
    if any(s.forecast for s in question.settings):
        notes += without_forecast(mined, question.rules.config.history.max_forecast_error_ratio)
    for name, chosen in of_each_name(verdicts).items():
        ids = [v.topology_id for v in verdicts if v.topology_name == name]
        if len(ids) > 1 and not question.together:
            notes.append(f"{name} ran as {', '.join(ids)}: what was found for {chosen.topology_id} counts (most steps)")
    for v in verdicts:
        notes += [f"{v.topology_name}: {text}" for text in sentences(v.limits)]
    unmeasured = sum(len(s.unmeasured) for s in steps)
    if unmeasured:
        notes.append(f"{unmeasured} steps of topologies were not measured whole, or had a successor: they do not count")
    return notes


def best_first(verdict: Verdict, limit: int) -> list[Tried]:
    """The rows that a person wants to see: the best ones, and the default wherever it stands."""
    rows = list(verdict.tried[:limit])
    return rows if verdict.default in rows else [*rows, verdict.default]
