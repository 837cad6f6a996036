"""Settings of operators and what they asked for, as `stormpilot status` and the HTTP API show it."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from shlex import quote
from typing import Any

from stormpilot.messages.settings import ALL, PauseSetting, name_of_setting_key
from stormpilot.observe.reader import StoreSnapshot
from stormpilot.printable import age, listed


def shown_settings(seen: StoreSnapshot, now_ms: int, pauses: Mapping[str, PauseSetting]) -> dict[str, Any]:
    """Settings and requests of operators; `remaining`: executors by topology name.

    Of a pin or an exclusion, `there`: whether its host or supervisor is; `unknown`: whether its topology runs without
    what it names.
    """
    s = seen.settings
    parts = [] if seen.cluster is None else seen.cluster.supervisors
    host = {p.id: p.host for p in parts}
    names = {i: t.name for i, t in seen.topologies.items()}
    alive = {*names, *seen.unreadable_topologies}  # what was asked for one that is gone is removed after a while

    def head(x: Any) -> dict[str, Any]:
        since_s = round((now_ms - x.since_ms) / 1000, 1) if x.since_ms else None  # one that cannot be read has no time
        return {"by": x.by, "why": x.why, "sinceS": since_s}

    unread, unseen = sorted(seen.unreadable_topologies), seen.cluster is None
    running: defaultdict[tuple[str, str], list[range]] = defaultdict(list)
    for t in seen.topologies.values():
        for e in t.executors:
            running[t.name, e.component].append(range(e.start, e.end + 1))

    def unknown(topology: str | None, component: str | None, task: int | None = None) -> bool:
        if topology is None or component is None or topology not in names.values():
            return False
        return not any(task is None or task in some for some in running.get((topology, component), []))

    on = {h: Counter[str]() for h in (None, *host.values())}  # None: of supervisors that are gone, as `executors_on`
    for t in seen.topologies.values():
        for e in t.executors:
            if e.supervisor:
                on[host.get(e.supervisor)][t.name] += 1

    def left(there: str) -> dict[str, int]:
        return {} if unseen else dict(sorted(on[there if there in on else None].items()))

    def named(key: str) -> str:
        return "everything" if key == ALL else name_of_setting_key(key)

    modes = [(named(n), m) for n, m in sorted(seen.modes.items())]
    paused = [(named(n), pauses.get(n, PauseSetting(by="unreadable setting"))) for n in sorted(seen.paused)]
    return {
        "pauses": [{"topology": n, **head(p)} for n, p in paused],
        "modes": [{"topology": n, "mode": m.mode, **head(m)} for n, m in modes],
        "drains": [
            {
                "host": d.host,
                "remaining": left(d.host),
                "unread": unread,
                "there": unseen or d.host in on,
                "unseen": unseen,
                **head(d),
            }
            for _, d in sorted(s.drains.items())
        ],
        "pins": [
            {
                "topology": p.topology,
                "component": p.component,
                "task": p.task,
                "supervisor": p.supervisor,
                "there": unseen or p.supervisor in host,
                "unknown": unknown(p.topology, p.component, p.task),
                **head(p),
            }
            for p in s.pins
        ],
        "exclusions": [
            {
                "host": x.host,
                "supervisor": x.supervisor,
                "topology": x.topology,
                "component": x.component,
                "there": unseen or x.supervisor in host or x.host in host.values(),
                "unknown": unknown(x.topology, x.component),
                **head(x),
            }
            for x in s.exclusions
        ],
        "holds": [
            {
                "topology": names.get(i, i),
                "cause": h.cause,
                "plan": h.plan_id,
                # one from the future, after a clock was set back, holds no longer than it was made for
                "leftS": None if h.end_ms is None else round((h.end_ms - max(now_ms, h.since_ms)) / 1000, 1),
                **head(h),
            }
            for i, h in sorted(s.holds.items())
            if i in alive and h.until_ms > now_ms
        ],
        "requests": [
            {
                "topology": names.get(i, i),
                "verb": None if p.request is None else p.request.verb,
                "by": None if p.request is None else p.request.by,
                "ageS": None if p.request is None else round((now_ms - p.request.at_ms) / 1000, 1),
            }
            for i, p in sorted(s.requests.items())
            if i in alive
        ],
        "unreadable": [{"topology": t, "text": why} for t, why in sorted(s.frozen.items())],
    }


def settings_lines(settings: dict[str, Any]) -> list[tuple[str, str]]:
    """The same as (head, text) for people; only what there is."""

    def by(x: dict[str, Any]) -> str:
        ago = "" if x["sinceS"] is None else f" {age(x['sinceS'])} ago"
        return f"by {x['by']}{ago}" + (f": {x['why']}" if x["why"] else "")

    lines = [("paused", f"{p['topology']} ({by(p)})") for p in settings["pauses"]]
    for m in settings["modes"]:
        lines.append(("mode", f"{m['topology']}: {m['mode']} ({by(m)})"))
    for d in settings["drains"]:
        left = ", ".join(f"{n} of {t}" for t, n in d["remaining"].items())
        empty = f"not known to be empty, {listed(d['unread'])} cannot be read" if d["unread"] else "empty"
        if d["unseen"]:
            empty = "not known to be empty, there is no cluster snapshot"
        missing = "" if d["there"] else ", no supervisor is on a host of that name now"
        lines.append(("drained", f"{d['host']}: {left + ' to be moved' if left else empty}{missing} ({by(d)})"))
    for p in settings["pins"]:
        lines.append(("pinned", f"{pin_text(p)} ({by(p)})"))
    for x in settings["exclusions"]:
        lines.append(("excluded", f"{exclusion_text(x)} ({by(x)})"))
    for h in settings["holds"]:
        until = (
            f"until `stormpilot replan {quote(h['topology'])}`" if h["leftS"] is None else f"for {age(h['leftS'])} more"
        )
        cause = "" if h["leftS"] is None else f"{h['cause']} {h['plan']} "
        lines.append(("on hold", f"{h['topology']} {until}: {cause}({by(h)})"))
    for r in settings["requests"]:
        text = "a request that cannot be read" if r["verb"] is None else f"{r['verb']} by {r['by']}"
        since = "" if r["ageS"] is None else f", {age(r['ageS'])} ago"
        lines.append(("pending", f"{r['topology']}: {text}{since}; waits for the leading controller"))
    for u in settings["unreadable"]:
        lines.append(("unreadable", f"{u['text']}: nothing of {u['topology']} moves"))
    return lines


def pin_text(p: dict[str, Any]) -> str:
    """Executors and supervisor of a pin, and where it has no effect, why."""
    what = "/".join(str(x) for x in (p["topology"], p["component"], p["task"]) if x is not None)
    return f"{what} to {p['supervisor']}{without_effect(p)}"


def exclusion_text(x: dict[str, Any]) -> str:
    """Executors and machine of an exclusion, and where it has no effect, why."""
    what = "/".join(v for v in (x["topology"], x["component"]) if v) or "everything"
    return f"{what} from {x['host'] or x['supervisor']}{without_effect(x)}"


def without_effect(x: dict[str, Any]) -> str:
    """A clause on a pin or an exclusion that names what is not there; else empty."""
    if x["unknown"]:
        return f", but {x['topology']} has no such executor: no effect"
    return "" if x["there"] else ", which is gone: no effect"
