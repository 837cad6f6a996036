"""Whether enough of a topology is measured to plan on, and what is missing if not."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection

from stormpilot.config import LoadSection
from stormpilot.messages.core import TopologySnapshot
from stormpilot.messages.load import REPORT_SECS_KEY, report_period_s
from stormpilot.model.readiness import Readiness
from stormpilot.model.values import LOAD_STREAM
from stormpilot.observe.edges import Rates
from stormpilot.printable import counted

ROLE = "stormpilot.role"
"""Key of a component's configuration: that of load reports is a collector."""
FIRST_REPORT_S = 60.0
"""Time after its placement within which a task sends its first report: worker start, Python start, one period."""


def readiness_of(
    snapshot: TopologySnapshot, rates: Rates, load: LoadSection, window_s: float, now_ms: int
) -> Readiness:
    """Readiness of a topology by the rates of its tasks over the last `window_s`."""
    reporting = {c.id for c in snapshot.components if LOAD_STREAM in c.streams}
    component_of = {t: e.component for e in snapshot.executors for t in range(e.start, e.end + 1)}
    own = {t: c for t, c in component_of.items() if c in reporting}
    expected = component_of if _hook_is_everywhere(own, rates, load) else own
    since_ms = snapshot.assigned_since_ms or snapshot.launched_at_ms
    due_ms = since_ms + int(FIRST_REPORT_S * 1000)
    if not expected:
        if now_ms < due_ms:
            text = f"no worker has reported yet; a first report takes up to {FIRST_REPORT_S:.0f} s"
            return Readiness(ready=False, instrumented=False, text=text, expected_at_ms=due_ms)
        return Readiness(
            ready=False,
            instrumented=False,
            text="nothing measures it: install the hook (docs/guide/hook.md), or submit it with `stormpilot submit`",
        )
    if expected is own and (unseen := _unseen(snapshot, reporting)):
        return Readiness(
            ready=False,
            instrumented=False,
            text=f"what {', '.join(unseen)} {'gets' if len(unseen) == 1 else 'get'} is not measured: install the hook, "
            "for components in Java and other languages (docs/guide/hook.md)",
        )
    silent = [t for t in sorted(expected) if t not in rates or rates[t].age_s > load.max_report_age_s]
    ages = [rates[t].age_s for t in expected if t in rates]
    age_s = max(ages) if ages else None
    if silent:
        names = Counter(expected[t] for t in silent)
        parts = ", ".join(f"{component} {n}" for component, n in sorted(names.items()))
        have = "has" if len(silent) == 1 else "have"
        overdue = f"overdue for {(now_ms - due_ms) / 1000:.0f} s" if since_ms and due_ms < now_ms else ""
        return Readiness(
            ready=False,
            text=f"{len(silent)} of {counted(len(expected), 'task')} {have} no recent report ({parts})"
            + (f", {overdue}" if overdue else "")
            + _too_seldom(snapshot, load),
            missing=tuple(silent),
            expected_at_ms=None if overdue or not since_ms else due_ms,
            reports_age_s=age_s,
        )
    needed_s = window_s * load.min_coverage_ratio
    least_s = min(rates[t].covered_s for t in expected)
    if least_s < needed_s:
        short = tuple(t for t in sorted(expected) if rates[t].covered_s < needed_s)
        return Readiness(
            ready=False,
            text=f"{math.floor(10 * least_s) / 10:.1f} s of the {needed_s:.1f} s that are needed are measured "
            f"({counted(len(short), 'task is', 'tasks are')} short)"
            + _restarted(snapshot, min(rates[t].up_s + rates[t].age_s for t in short), now_ms)
            + _too_seldom(snapshot, load),
            missing=short,
            expected_at_ms=now_ms + int((needed_s - least_s) * 1000),
            reports_age_s=age_s,
        )
    return Readiness(ready=True, reports_age_s=age_s)


def _unseen(snapshot: TopologySnapshot, reporting: Collection[str]) -> list[str]:
    """Bolts of the user that report nothing. Who receives counts: a plan would know of no traffic to them."""
    return [
        c.id
        for c in snapshot.components
        if c.kind == "bolt" and c.id not in reporting and c.inputs and c.config.get(ROLE) != "collector"
    ]


def _hook_is_everywhere(own: Collection[int], rates: Rates, load: LoadSection) -> bool:
    """Whether all tasks are to be measured in their workers' JVMs: one is, and none tells of itself (`own`) alone.

    A task that does is in a worker without the hook: it was removed, or is not on every supervisor yet.
    """
    alone = any(t in rates and not rates[t].in_jvm and rates[t].age_s <= load.max_report_age_s for t in own)
    return not alone and any(r.in_jvm for r in rates.values())


def _too_seldom(snapshot: TopologySnapshot, load: LoadSection) -> str:
    """A hint where reports come so seldom that a task is, or may seem, unmeasured between two of them."""
    period_s = report_period_s(snapshot)
    covered_s = (load.window_s // period_s - 1) * period_s if period_s > 0 else load.window_s
    if period_s < load.max_report_age_s and covered_s >= load.window_s * load.min_coverage_ratio:
        return ""
    return (
        f"; they report every {period_s:g} s ({REPORT_SECS_KEY}): too seldom for load.window_s {load.window_s:g} and "
        f"load.max_report_age_s {load.max_report_age_s:g}"
    )


def _restarted(snapshot: TopologySnapshot, age_s: float, now_ms: int) -> str:
    """A hint where a process started long after it was placed: it ended there before."""
    late_s = (now_ms - snapshot.assigned_since_ms) / 1000 - age_s
    if not snapshot.assigned_since_ms or late_s < FIRST_REPORT_S:
        return ""
    return (
        f"; the newest process started {age_s:.0f} s ago, {late_s:.0f} s after it was placed there: where processes "
        "end again and again, worker.log says why"
    )
