"""`stormpilot plan history TOPOLOGY` and `stormpilot audit`: which plans a topology had and why; who did what."""

from __future__ import annotations

import re
import time
from datetime import UTC, datetime
from shlex import quote
from typing import TYPE_CHECKING, Annotated, Any

import typer

from stormpilot.cli.live import Live, live_command
from stormpilot.cli.output import print_table, say
from stormpilot.errors import UsageError
from stormpilot.messages.settings import ALL, AuditRecord

if TYPE_CHECKING:
    from stormpilot.messages.core import HistoryEntry
    from stormpilot.operate import HistoryStep

UNITS_S = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
METRICS = {
    "inter_node_share": ("inter-node share", "{:.1%}"),
    "load_ratio": ("load of the relieved nodes", "{:.1%}"),
    "us_per_tuple": ("time per tuple", "{:,.1f} us"),
}
"""Name and form of what a move is judged by."""


@live_command
def plan_history(
    live: Live, topology: Annotated[str, typer.Argument(help="Name or id of a running topology.")]
) -> None:
    """Show the published plans of a topology, newest first.

    With the reason, the predicted and the measured effect, and who approved each. The first column is what `rollback`
    takes, or - where the scheduler plug-in did not apply the plan.
    """
    from stormpilot import operate

    with live.operator() as operator:
        steps = operate.history(operator, operator.topology(topology).id)
    live.answer(steps, lambda: show_plans(topology, steps))


def show_plans(topology: str, steps: list[HistoryStep]) -> None:
    """The plans of a topology, newest first, for people."""
    if not steps:
        say(f"{topology}: no plan was published yet")
        return
    print_table(
        ["back", "published", "plan", "reason", "moved", "inter-node tps", "effect", "by"],
        [
            [
                "-" if s.back is None else s.back,
                clock(s.entry.plan.created_at_ms),
                s.entry.plan.plan_id,
                s.entry.reason,
                s.entry.moved_executors,
                _predicted(s.entry),
                _effect(s.entry, newest=s is steps[0]),
                s.entry.approved_by or "controller",
            ]
            for s in steps
        ],
    )
    for s in steps:
        why = f"; not applied: {s.entry.rejected}" if s.entry.rejected else ""
        say(f"{s.entry.plan.plan_id}: {s.entry.text}{why}")
    if steps[-1].entry.former:
        n = max((s.back for s in steps if s.back is not None), default=0) + 1
        say(f"{n} back: what ran before the first plan (`stormpilot rollback {quote(topology)} {n}`)")


@live_command
def audit(
    live: Live,
    since: Annotated[str | None, typer.Option(help="e.g. 30m, 2h, 7d, or a date: 2026-01-31[T12:00].")] = None,
) -> None:
    """Show who did what and why, oldest first.

    The newest records; with --config all that the controller of this host kept.
    """
    from stormpilot import operate
    from stormpilot.trafficlog import audit

    since_ms = 0 if since is None else moment_ms(since, time.time())
    with live.operator() as operator:
        records = operate.audit(operator, since_ms)
    kept = None if live.settings is None else audit.path_in(live.settings.traffic_log.dir)
    if kept is not None:
        known = {r.id for r in records}
        old = [r for r in audit.read(kept) if r.id not in known and r.at_ms >= since_ms]
        records = sorted([*old, *records], key=lambda r: r.at_ms)
    if not records and live.as_table:
        say("nothing was done" + (f" since {since}" if since else ""))
        return
    columns = ["when", "who", "verb", "what", "result", "why"]
    live.answer(records, lambda: print_table(columns, [audit_row(r) for r in records]))


def audit_row(r: AuditRecord) -> list[str]:
    """An audit record for people."""
    target = "all topologies" if r.target == ALL else r.target
    return [clock(r.at_ms), r.who, r.verb, target, r.result, r.why]


def moment_ms(text: str, now_s: float) -> int:
    """A time ago (`90s`, `30m`, `2h`, `7d`) or a date as milliseconds; `UsageError` for anything else.

    A date is UTC, as dates are shown, unless it says more.
    """
    ago = re.fullmatch(r"(\d+)([smhd])", text)
    try:
        if ago:
            at_s = now_s - int(ago[1]) * UNITS_S[ago[2]]
        else:
            at = datetime.fromisoformat(text)
            at_s = (at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp()
        return max(0, int(at_s * 1000))  # (nothing is older)
    except (ValueError, OverflowError) as e:
        raise UsageError(f"--since is {text!r}, expected e.g. 30m, 2h, 7d or 2026-01-31T12:00") from e


def clock(ms: int) -> str:
    """Date and time as `status` and the page say them, wherever the command runs."""
    return f"{datetime.fromtimestamp(ms / 1000, UTC):%Y-%m-%d %H:%M:%S} UTC"


def _predicted(entry: HistoryEntry) -> str:
    sides: list[Any] = [e.get("inter_node_tps") for e in (entry.plan.expected.before, entry.plan.expected.after)]
    return " -> ".join("?" if v is None else f"{v:,.0f}" for v in sides)


def _effect(entry: HistoryEntry, *, newest: bool = True) -> str | None:
    effect = entry.effect
    if entry.rejected:
        return "not applied"
    if effect is None:
        return None
    if effect.measured is None:
        ended = f"{effect.verdict}: {effect.text}" if effect.verdict else "not measured: another plan came"
        return "is being measured" if newest and not effect.verdict else ended
    name, form = METRICS.get(effect.metric, (effect.metric, "{:.3f}"))
    before, measured, predicted = (form.format(x) for x in (effect.before, effect.measured, effect.predicted))
    return f"{effect.verdict}: {name} {before} -> {measured} (predicted {predicted})"
