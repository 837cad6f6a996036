"""Checks of the evidence: pure functions, one per thing that is looked at, in the order in which they are shown."""

from __future__ import annotations

from collections.abc import Iterator
from shlex import quote

import stormpilot
from stormpilot.doctor.access import access
from stormpilot.doctor.evidence import Evidence
from stormpilot.doctor.finding import Finding, Level
from stormpilot.doctor.logins import logins
from stormpilot.doctor.placement import placement, plugin
from stormpilot.doctor.surroundings import (
    clocks,
    nimbus,
    owner,
    plan_key,
    refresh,
    retries,
    secret_files,
    servers,
    sites,
    storm_settings,
)
from stormpilot.messages.load import SILENT_PERIODS, report_period_s
from stormpilot.messages.settings import ALL, name_of_setting_key
from stormpilot.operate.shown_settings import exclusion_text, pin_text, shown_settings, without_effect
from stormpilot.operate.status import PREPARING, first_cycle_late_s, limit_s
from stormpilot.printable import age, counted

OLD_REPORT_S = 120.0
"""As the shipped alert has it: four times what the controller takes for too old by default."""
OLD_THRESHOLDS_S = 14 * 86400.0


def examine(e: Evidence) -> list[Finding]:
    """Every finding; without ZooKeeper only what can be known without it."""
    if e.error:
        told = list(servers(e))
        if not told or any(not s.error for s in e.servers):  # else they have said it
            told.append(_unread(e))
        told += [*access(e), *logins(e), *nimbus(e), *plan_key(e), *secret_files(e)]
        return [*told, *storm_settings(e), *sites(e), *retries(e)]
    return [
        *servers(e),
        *access(e),
        *logins(e),
        *clocks(e),
        *nimbus(e),
        *owner(e),
        *plan_key(e),
        *secret_files(e),
        *storm_settings(e),
        *sites(e),
        *retries(e),
        *refresh(e),
        *plugin(e),
        *_controller(e),
        *_pauses(e),
        *_gone(e),
        *_readable(e),
        *placement(e),
        *_reports(e),
        *_thresholds(e),
    ]


def _unread(e: Evidence) -> Finding:
    fix = "its log says more; then run stormpilot doctor again"
    if "access list" in e.error or "login" in e.error:
        login = "zookeeper.auth_file or zookeeper.jaas_file"
        fix = f"run this as whoever may read it: --config controller.yaml with {login} set to Storm's login"
    return Finding("zookeeper", Level.fail, e.error, fix)


def _controller(e: Evidence) -> Iterator[Finding]:
    state, contenders = e.seen.controller, e.seen.contenders
    start = "start it: systemctl start stormpilot, docker compose up -d controller, or stormpilot run controller.yaml"
    if not contenders:
        if state is None:
            yield Finding("controller", Level.fail, "no controller has run here yet", f"{start}; {PREPARING}")
        else:
            ago = age((e.now_ms - state.written_at_ms) / 1000)
            text = f"no controller runs; the last one ended its last cycle {ago} ago. Running workers are unaffected"
            yield Finding("controller", Level.fail, text, start)
        return
    if state is None or state.controller != contenders[0]:
        late_s = first_cycle_late_s(e.seen, e.now_ms)
        if late_s is None:
            text = f"{contenders[0]} leads and has not ended its first cycle"
            yield Finding("controller", Level.warn, text, "wait for it")
        else:
            text = f"{contenders[0]} has led for {age(late_s)}, and not ended its first cycle or not been let write it"
            yield Finding("controller", Level.fail, text, "look into its log, and at what `access` says")
        return
    cycle_s = (e.now_ms - state.written_at_ms) / 1000
    if cycle_s > limit_s(state):
        text = f"{contenders[0]} leads, but its last cycle was {age(cycle_s)} ago (every {state.period_s:g} s expected)"
        yield Finding("controller", Level.fail, text, "look into its log, then restart it: no worker is touched")
    else:
        standby = f", {len(contenders) - 1} standby" if len(contenders) > 1 else ", no standby"
        yield Finding("controller", Level.ok, f"{contenders[0]} leads{standby}; last cycle {age(cycle_s)} ago")
    if state.version != stormpilot.__version__:
        yield Finding(
            "versions",
            Level.warn,
            f"the controller is {state.version}, this command {stormpilot.__version__}",
            "install the same version on both",
        )
    for problem in state.problems:
        yield Finding("controller", Level.warn, f"it reports: {problem}", "see stormpilot status")


def _pauses(e: Evidence) -> Iterator[Finding]:
    """Pauses that somebody may have forgotten: no plan is applied as long as they hold."""
    for key in sorted(e.seen.paused):
        name = "" if key == ALL else name_of_setting_key(key)
        resume = f"stormpilot resume {quote(name)}" if name else "stormpilot resume"
        fix = f"stormpilot status says who paused it, when and why; {resume} ends it"
        text = f"{name or 'everything'} is paused: what runs stays where it is, no plan is applied"
        yield Finding("pause", Level.warn, text, fix)


def _gone(e: Evidence) -> Iterator[Finding]:
    """Drains, pins and exclusions of what is not there: an operator forgot them, or the machine is down for a while."""
    shown = shown_settings(e.seen, e.now_ms, {})
    for d in shown["drains"]:
        if not d["there"]:
            text = f"{d['host']} is drained, and no supervisor is on a host of that name now"
            yield _idle(text, f"stormpilot undrain {quote(d['host'])}")
    for p in shown["pins"]:
        if without_effect(p):
            what = p["component"] if p["task"] is None else f"{p['component']}/{p['task']}"
            removes = f"stormpilot unpin {quote(p['topology'])} {quote(what)}"
            yield _idle(f"a pin of {pin_text(p)}", removes, unknown=p["unknown"])
    for x in shown["exclusions"]:
        if without_effect(x):
            named = (x["host"] or x["supervisor"], x["topology"], x["component"])
            removes = f"stormpilot include {' '.join(quote(v) for v in named if v)}"
            yield _idle(f"an exclusion of {exclusion_text(x)}", removes, unknown=x["unknown"])


def _idle(text: str, removes: str, *, unknown: bool = False) -> Finding:
    """A setting without effect, with what removes it: one of a machine that is only down must stay."""
    when = "where it is not to come" if unknown else "where it does not come back"
    return Finding("gone", Level.warn, text, f"{when}: {removes}")


def _readable(e: Evidence) -> Iterator[Finding]:
    for path, text in sorted(e.problems.items()):
        if "is newer than" in text:
            fix = f"whoever wrote it is newer than this ({stormpilot.__version__}): upgrade the older one"
        elif path.startswith(f"{e.root}/v1/load/"):
            fix = "its reporter writes it anew within seconds; if it stays, look into that worker's log"
        elif "/settings/" in path:
            fix = "set it again with the command that made it (docs/guide/operate.md)"
        elif "/thresholds/" in path:
            fix = "mine them anew: stormpilot trafficlog mine --publish"
        elif "/plans/" in path:
            fix = "the controller writes it anew; if it does not: stormpilot replan TOPOLOGY"
        else:
            fix = "it is written anew when its writer restarts: Nimbus for cluster and topologies, else the controller"
        yield Finding("znodes", Level.fail, text if path in text else f"{path}: {text}", fix)
    if not e.problems:
        yield Finding("znodes", Level.ok, "everything below our root can be read")


def _reports(e: Evidence) -> Iterator[Finding]:
    views = {v.id: v for v in e.seen.controller.topologies} if e.seen.controller else {}
    for i, t in sorted(e.seen.topologies.items()):
        view = views.get(i)
        if view is not None and view.mode == "off":
            yield Finding("reports", Level.ok, f"{t.name}: mode off, none are needed")
        elif i not in e.reports:
            new_s = (e.now_ms - t.launched_at_ms) / 1000
            text = f"{t.name}: no load reports, so it is placed without any measurement"
            fix = "submit it with stormpilot submit, or install the hook (docs/guide/instrument.md, hook.md)"
            if new_s < OLD_REPORT_S:
                text = f"{t.name}: submitted {age(new_s)} ago, no load reports yet"
                fix = f"wait until its workers run; if none come: {fix}"
            yield Finding("reports", Level.warn, text, f"{fix}; or stormpilot mode off {quote(t.name)}")
        elif e.reports[i] > max(OLD_REPORT_S, SILENT_PERIODS * report_period_s(t)):
            yield Finding(
                "reports",
                Level.fail,
                f"{t.name}: the newest load report is {age(e.reports[i])} old",
                "look for stormpilot_load in the log of the worker that runs the collector, and whether that worker "
                "reaches ZooKeeper",
            )
        elif view is not None and view.missing:
            yield Finding(
                "reports",
                Level.warn,
                f"{t.name}: {counted(view.missing, 'task does', 'tasks do')} not report "
                f"(newest report {age(e.reports[i])} ago)",
                "if it lasts longer than a minute: stormpilot explain names the gate; their workers' logs say why",
            )
        else:
            yield Finding("reports", Level.ok, f"{t.name}: newest report {age(e.reports[i])} ago")


def _thresholds(e: Evidence) -> Iterator[Finding]:
    for i, until_ms in sorted(e.thresholds.items()):
        if i not in e.seen.topologies:
            continue
        name, old_s = e.seen.topologies[i].name, (e.now_ms - until_ms) / 1000
        if old_s > OLD_THRESHOLDS_S:
            text = f"{name}: its thresholds are mined from data that ends {age(old_s)} ago"
            yield Finding("thresholds", Level.warn, text, "mine the traffic log anew: stormpilot trafficlog mine")
        else:
            yield Finding("thresholds", Level.ok, f"{name}: mined from data that ends {age(old_s)} ago")
    if not e.thresholds:
        yield Finding("thresholds", Level.ok, "none are mined: the settings of controller.yaml hold")
