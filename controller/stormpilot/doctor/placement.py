"""Checks of what the plug-in does: whether it follows Storm, and whether topologies run as planned."""

from __future__ import annotations

from collections.abc import Iterator
from shlex import quote

import stormpilot
from stormpilot.doctor.evidence import Evidence
from stormpilot.doctor.finding import Finding, Level
from stormpilot.doctor.surroundings import SCHEDULER
from stormpilot.messages.core import TopologySnapshot
from stormpilot.observe.storm_keys import resource_aware
from stormpilot.printable import age, counted

TRIED = ("2.4.", "2.5.", "2.6.", "2.7.", "2.8.")
"""Storms on whose clusters the plug-in was tried."""
LASTING = {
    "SIGNATURE": "give both the same key: stormpilot.plan.key.file on Nimbus hosts (read when Nimbus starts), "
    "publish.plan_key_file in controller.yaml",
    "SCHEMA_NEWER": "the plug-in is older than the controller: install the same version on both "
    "(docs/guide/runbook.md, Upgrade)",
}
"""Codes by which every further plan is rejected too, with what ends that."""
PLAN_S = 60.0
"""A plan that the plug-in has not answered for so long is stuck."""


def plugin(e: Evidence) -> Iterator[Finding]:
    """Whether the plug-in is loaded and alive: what it wrote last against what Storm has."""
    cluster = e.seen.cluster
    if cluster is None:
        text = "the scheduler plug-in has written nothing that can be read: it is not loaded, or cannot write"
        fix = (
            "on the Nimbus hosts copy the plug-in's jar into extlib-daemon/, put `storm.scheduler: "
            "io.stormpilot.PilotScheduler` into storm.yaml, and restart Nimbus; its log then names PilotScheduler"
        )
        yield Finding("plug-in", Level.fail, text, fix)
        return
    shim = cluster.shim
    supervisors = e.nimbus.supervisors if e.nimbus and not e.nimbus.error else e.storm_supervisors
    topologies = e.nimbus.topologies if e.nimbus and not e.nimbus.error else e.storm_topologies
    lag = _difference([s.id for s in cluster.supervisors], supervisors, "supervisors")
    lag += _difference(list(e.seen.topologies), topologies, "topologies")
    if lag:
        yield Finding(
            "plug-in",
            Level.fail,
            f"what it wrote is not what Storm has: {'; '.join(lag)}. Just changed, or it is not loaded any more",
            "run this again in a minute; if it stays, look at storm.scheduler and the log of the leading Nimbus",
        )
    elif e.nimbus and not e.nimbus.error and e.nimbus.conf.get("storm.scheduler") != SCHEDULER:
        text = f"{shim.version} was in Nimbus {shim.nimbus}, which does not use it any more"
        yield Finding("plug-in", Level.skipped, text)
    elif e.storm_nimbuses == [] and (e.nimbus is None or e.nimbus.error):
        yield Finding("plug-in", Level.skipped, f"{shim.version}, but no Nimbus runs that it could run in")
    else:
        wrote = age((e.now_ms - cluster.written_at_ms) / 1000)
        yield Finding("plug-in", Level.ok, f"{shim.version} in Nimbus {shim.nimbus}, last change {wrote} ago")
    if shim.version != stormpilot.__version__:
        yield Finding(
            "versions",
            Level.warn,
            f"the plug-in is {shim.version}, this command {stormpilot.__version__}",
            "install the same version on both: docs/guide/runbook.md, Upgrade",
        )
    if not shim.storm_version.startswith(TRIED):
        tried = f"{TRIED[0]}x to {TRIED[-1]}x"
        text = f"Storm is {shim.storm_version or 'of an unknown version'}; the plug-in was tried with {tried}"
        yield Finding("versions", Level.warn, text, "docs/reference/compatibility.md has what was tried")
    black = sorted(s.host for s in cluster.supervisors if s.blacklisted)
    if black:
        text = f"Storm has blacklisted {', '.join(black)}: nothing new is placed there"
        yield Finding("supervisors", Level.warn, text, "Nimbus's log says why, their own logs say what is wrong")


def placement(e: Evidence) -> Iterator[Finding]:
    """Whether every executor runs, and published plans are in force."""
    for i, t in sorted(e.seen.topologies.items()):
        lost = sum(1 for x in t.executors if x.supervisor is None)
        if lost:
            text = f"{t.name}: {lost} of {counted(len(t.executors), 'executor')} run nowhere"
            yield Finding("placement", Level.fail, text, "too few free slots? stormpilot status says what it waits for")
        plan, status = e.seen.plans.get(i), e.seen.statuses.get(i)
        if plan is None or plan.message is None:
            continue
        said = "" if status is None else f": {status.state} {status.code}: {status.text}"
        late_s = (e.now_ms - plan.written_at_ms) / 1000
        if (status is None or status.plan_id != plan.message.plan_id) and late_s > PLAN_S:
            text = f"{t.name}: plan {plan.message.plan_id} was published {age(late_s)} ago and has no answer{said}"
            yield Finding(
                "placement",
                Level.fail,
                text,
                "the plug-in is not loaded, or older than the plan: see `plug-in`",
            )
        elif status is not None and status.state == "rejected" and status.code in LASTING:
            yield Finding("placement", Level.fail, f"{t.name}{said}", LASTING[status.code])
        elif status is not None and status.state in ("rejected", "degraded"):
            fix = f"the controller plans anew; stormpilot explain {quote(t.name)} says what holds it"
            yield Finding("placement", Level.warn, f"{t.name}{said}", fix)
        elif status is not None and status.state == "applied" and not lost:
            text = f"{t.name}: plan {plan.message.plan_id} is applied{_fewer_workers(e, t)}"
            yield Finding("placement", Level.ok, text)


def _fewer_workers(e: Evidence, t: TopologySnapshot) -> str:
    """Where Storm's own scheduler would give it more workers, and so place it anew once the plug-in is gone."""
    if e.seen.cluster is None or resource_aware(e.seen.cluster.shim.fallback):
        return ""
    used = len({(x.supervisor, x.port) for x in t.executors})
    return f", in {used} of the {t.workers} workers that it asks for" if used < t.workers else ""


def _difference(written: list[str], there: list[str] | None, what: str) -> list[str]:
    if there is None:
        return []
    unknown, gone = sorted(set(there) - set(written)), sorted(set(written) - set(there))
    return [
        *([f"{what} {', '.join(unknown)} missing in it"] if unknown else []),
        *([f"{what} {', '.join(gone)} not there any more"] if gone else []),
    ]
