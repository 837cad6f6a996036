"""Checks of what we stand on: ZooKeeper's servers, clocks, and Storm's settings."""

from __future__ import annotations

import math
from collections.abc import Iterator
from shlex import quote

from stormpilot.doctor.evidence import Evidence, NimbusSaid
from stormpilot.doctor.finding import Finding, Level
from stormpilot.observe.isolation import isolated
from stormpilot.observe.storm_keys import POOLS, Held, held_by_cluster, held_by_topology, isolates_by_user
from stormpilot.operate.placing import PLAN_KEY
from stormpilot.zookeeper.paths import normal_root

SCHEDULER = "io.stormpilot.PilotScheduler"
FALLBACK, DEFAULT_SCHEDULER = "stormpilot.fallback.scheduler", "org.apache.storm.scheduler.DefaultScheduler"
ROOT, DEFAULT_ROOT = "stormpilot.zookeeper.root", "/stormpilot"
STORM_ROOT = "storm.zookeeper.root"
CONTROLLER_ACL = "stormpilot.zookeeper.controller.acl"
ALIKE = {
    "storm.scheduler": "Storm's default",
    ROOT: DEFAULT_ROOT,
    FALLBACK: DEFAULT_SCHEDULER,
    CONTROLLER_ACL: "not set",
}
"""Keys, with their defaults, that must be alike on every Nimbus: another one may lead next."""
KNOWN_ZOOKEEPER = ("3.8.", "3.9.")
LEAST_RETRIES = 30
"""With an interval of 1 s Storm then lives for half a minute without ZooKeeper: a restart of an ensemble."""
SKEW_WARN_S, SKEW_FAIL_S = 2.0, 10.0
"""Ages of reports are compared across hosts; `load.max_report_age_s` is 30 s by default."""


def servers(e: Evidence) -> Iterator[Finding]:
    """Whether the servers of ZooKeeper answer, one by one."""
    down = [s for s in e.servers if s.error]
    for s in down:
        level = Level.fail if len(down) * 2 >= len(e.servers) else Level.warn
        fix = "start it, or correct zookeeper.hosts" if len(e.servers) == 1 else "start it: another may fail too"
        yield Finding("zookeeper", level, f"{s.address} does not serve: {s.error}", fix)
    for s in e.servers:
        if s.error:
            continue
        if not s.version:
            yield Finding("zookeeper", Level.ok, f"{s.address} answers (its version is not known: srvr is not allowed)")
        elif not s.version.startswith(KNOWN_ZOOKEEPER):
            text = f"{s.address} is ZooKeeper {s.version}; tried are 3.8 and 3.9"
            yield Finding("zookeeper", Level.warn, text, "docs/reference/compatibility.md has what was tried")
        else:
            yield Finding("zookeeper", Level.ok, f"{s.address} is ZooKeeper {s.version}, {s.mode}")


def clocks(e: Evidence) -> Iterator[Finding]:
    """Whether the clocks of the hosts go alike, against ZooKeeper's: a stamp, and when it arrived there.

    A message takes time to arrive, so a clock may go less behind than its stamps say: the quickest one counts.
    """
    skews_s: dict[str, float] = {}
    for w in e.written:
        skews_s[w.who] = max(skews_s.get(w.who, -math.inf), (w.wrote_at_ms - w.arrived_at_ms) / 1000)
    skewed = 0
    for who, skew_s in skews_s.items():
        if abs(skew_s) <= SKEW_WARN_S:
            continue
        skewed += 1
        level = Level.fail if abs(skew_s) > SKEW_FAIL_S else Level.warn
        text = f"the clock of {who} is {abs(skew_s):.1f} s {'ahead of' if skew_s > 0 else 'behind'} ZooKeeper's"
        fix = "let NTP (chrony, systemd-timesyncd) set the clock of both hosts"
        if skew_s < 0:
            text += ", or what it writes arrives so late"
            fix += "; where they are set, one of the two is overloaded"
        yield Finding("clocks", level, text, fix)
    behind_s = max([(w.arrived_at_ms - e.now_ms) / 1000 for w in e.written], default=0.0)
    if behind_s > SKEW_WARN_S:
        skewed += 1
        text = f"the clock of this machine is at least {behind_s:.1f} s behind ZooKeeper's"
        yield Finding("clocks", Level.warn, text, "let NTP set it: the ages that commands here print are wrong")
    if not e.written:
        yield Finding("clocks", Level.skipped, "nobody has written anything with a time in it yet")
    elif not skewed:
        yield Finding("clocks", Level.ok, f"{len(skews_s)} writers are within {SKEW_WARN_S:g} s of ZooKeeper")


def nimbus(e: Evidence) -> Iterator[Finding]:
    """Whether Nimbus uses the plug-in, with the root and the ZooKeeper that we look at."""
    said = e.nimbus
    if e.storm_nimbuses == [] and (said is None or said.error):
        yield Finding(
            "nimbus",
            Level.fail,
            "no Nimbus runs: running workers are unaffected, and nothing is placed",
            "start it; where it ends at once its log says why (ClassNotFoundException "
            f"{SCHEDULER}: the plug-in's jar is not in extlib-daemon/ of that host)",
        )
        return
    if said is None:
        yield Finding("nimbus", Level.skipped, "the address of Nimbus is not known", "give --nimbus HOST:PORT")
        return
    if said.error:
        known = bool(e.storm_nimbuses) or e.nimbus_given
        level = Level.fail if known else Level.skipped  # else it is a guess that it listens there
        fix = "give --nimbus HOST:PORT, and run this where Nimbus can be reached"
        if e.nimbus_elsewhere:
            fix = f"Storm's root in ZooKeeper is unknown: {fix}"
        yield Finding("nimbus", level, said.error, fix)
        return
    configured = str(said.conf.get("storm.scheduler") or "Storm's default")
    if configured != SCHEDULER:
        yield Finding(
            "nimbus",
            Level.fail,
            f"Nimbus at {said.address} schedules with {configured}",
            f"put `storm.scheduler: {SCHEDULER}` into its storm.yaml, the jar into extlib-daemon/, and restart it",
        )
    else:
        yield Finding("nimbus", Level.ok, f"{said.address} schedules with the plug-in; {said.leader} leads")
    root = normal_root(str(said.conf.get(ROOT) or DEFAULT_ROOT))
    if root != normal_root(e.root):
        text = f"the plug-in uses the root {root}, this command {e.root}"
        yield Finding("nimbus", Level.fail, text, f"set zookeeper.root in controller.yaml, or say --root {root}")
    for other in said.others:
        yield from _beside(said, other)


def owner(e: Evidence) -> Iterator[Finding]:
    """Whether what is below the root is of the Storm cluster whose Nimbus was asked."""
    path = f"{normal_root(e.root)}/v1/owner"
    if e.owner_error:
        text = f"{path}: {e.owner_error}: the plug-in writes nothing and applies no new plans"
        yield Finding("owner", Level.fail, text, f"if no other Storm cluster uses {e.root}: in zkCli.sh, delete {path}")
        return
    if e.owner is None or e.nimbus is None or e.nimbus.error:
        return
    theirs, ours = normal_root(e.owner.storm_root), normal_root(str(e.nimbus.conf.get(STORM_ROOT) or "/storm"))
    if theirs != ours:
        yield Finding(
            "owner",
            Level.fail,
            f"{e.root} is of the Storm cluster with storm.zookeeper.root {theirs} (Nimbus {e.owner.nimbus}); that of "
            f"Nimbus at {e.nimbus.address} is {ours}: its plug-in writes nothing and applies no plans",
            f"set another {ROOT} in one of the two storm.yaml; where that cluster is gone: in zkCli.sh, delete {path}",
        )
    else:
        yield Finding("owner", Level.ok, f"{e.root} is of this Storm cluster")


def _beside(said: NimbusSaid, other: NimbusSaid) -> Iterator[Finding]:
    """Whether another Nimbus is configured as the one that was asked for everything."""
    if other.error:
        text = other.error
        if other.leads:
            text += f"; it leads, and what is told here is by {said.address}"
        yield Finding("nimbus", Level.skipped, text, "run this where every Nimbus can be reached")
        return
    for key, default in ALIKE.items():
        theirs, ours = other.conf.get(key) or default, said.conf.get(key) or default
        if theirs != ours:
            shown, own = _without_hash(str(theirs)), _without_hash(str(ours))
            own = own if own != shown else "with another hash"
            yield Finding(
                "nimbus",
                Level.fail,
                f"{key} is {shown} on {other.address}{' (it leads)' if other.leads else ''}, {own} on {said.address}",
                "set the same on every Nimbus host, put the jar into its extlib-daemon/, and restart that Nimbus",
            )


def _without_hash(value: str) -> str:
    """Value without the hash of a password, where it is a login of the scheme `digest`."""
    scheme, _, who = value.partition(":")
    return f"{scheme}:{who.partition(':')[0]}:..." if scheme == "digest" else value


def plan_key(e: Evidence) -> Iterator[Finding]:
    """Whether the controller signs plans where Nimbus takes no others; which key each has is not shown."""
    if e.signs is None or e.nimbus is None or e.nimbus.conf.get("storm.scheduler") != SCHEDULER:
        return
    nimbuses = [e.nimbus, *(n for n in e.nimbus.others if n.conf.get("storm.scheduler") == SCHEDULER)]
    asking = ", ".join(n.address for n in nimbuses if n.conf.get(PLAN_KEY))
    open_to_all = ", ".join(n.address for n in nimbuses if not n.conf.get(PLAN_KEY))
    if asking and not e.signs:
        yield Finding(
            "plan key",
            Level.fail,
            f"Nimbus at {asking} takes signed plans only ({PLAN_KEY}), and the controller signs none",
            "set publish.plan_key_file in controller.yaml to a file with the same key",
        )
    elif e.signs and open_to_all:
        yield Finding(
            "plan key",
            Level.warn,
            f"the controller signs plans, and Nimbus at {open_to_all} takes plans without a signature too",
            f"set {PLAN_KEY} in storm.yaml of every Nimbus host to a file with the same key, and restart Nimbus",
        )
    elif asking:
        yield Finding("plan key", Level.ok, "the controller signs plans, and Nimbus takes no others")


def secret_files(e: Evidence) -> Iterator[Finding]:
    """Files of controller.yaml with passwords or keys that every user of this machine can read."""
    for setting, file in e.exposed.items():
        fix = f"chmod o-r {quote(file)}; where others may have read it, replace what is in it"
        yield Finding("files", Level.warn, f"{file} ({setting}) can be read by every user of this machine", fix)


def storm_settings(e: Evidence) -> Iterator[Finding]:
    """Settings of Storm's schedulers that plans do not honour; also before the plug-in is installed."""
    if e.nimbus is None or e.nimbus.error:
        yield Finding("settings", Level.skipped, "settings of Storm's schedulers are not known without Nimbus")
        return
    conf = e.nimbus.conf
    before = str(conf.get("storm.scheduler") or "")
    fallback = str(conf.get(FALLBACK) or "") if before == SCHEDULER else before
    if before not in ("", SCHEDULER, DEFAULT_SCHEDULER) and conf.get(FALLBACK) != before:
        yield Finding(
            "settings",
            Level.warn,
            f"storm.scheduler is {before}, which would place nothing any more once the plug-in takes its place",
            f"put `{FALLBACK}: {before}` into storm.yaml of Nimbus together with the plug-in",
        )
    held = {f"every topology: {h}" for h in held_by_cluster(conf, fallback)}
    if isolates_by_user(fallback) and conf.get(POOLS):
        held.add(f"topologies of users with a pool: {Held(POOLS, str(conf[POOLS]))}")
    names = {name: (name, "") for name in e.nimbus.confs}
    held |= {f"{name}: {key} is {value}" for name, (key, value) in isolated(conf, fallback, names).items()}
    for name, own in e.nimbus.confs.items():
        components = e.nimbus.component_confs.get(name, {})
        held |= {f"{name}: {h}" for h in held_by_topology(own, components, fallback=fallback)}
    for text in sorted(held):
        yield Finding(
            "settings",
            Level.warn,
            f"{text}: plans do not honour that, so Storm's own scheduler places it (UNSUPPORTED_SETTING)",
            "see docs/reference/storm-keys.md; where it does not matter, list it in decide.ignored_storm_keys",
        )
    if not held:
        yield Finding("settings", Level.ok, "no setting of Storm's schedulers that plans do not honour")


def sites(e: Evidence) -> Iterator[Finding]:
    """Components that ask for a site in which there is no supervisor: their executors wait; also before installation.

    A component may have a setting named `site` that was meant for something else.
    """
    if e.nimbus is None or e.nimbus.error:
        yield Finding("sites", Level.skipped, "needs Nimbus")
        return
    cluster = e.seen.cluster
    asked = False
    there = None if cluster is None else {s.meta.get("site") for s in cluster.supervisors}
    for name, components in e.nimbus.component_confs.items():
        wanted: dict[str, list[str]] = {}
        for component, conf in components.items():
            site = conf.get("site")
            if (
                site is not None
                and conf.get("site.required", True) is not False
                and (not there or str(site) not in there)
            ):
                wanted.setdefault(str(site), []).append(component)
        for site, asking in sorted(wanted.items()):
            asked = True
            where = "no supervisor has" if there is not None else "the plug-in places them only on supervisors with"
            tag = f"supervisor.scheduler.meta site: {site}"
            yield Finding(
                "sites",
                Level.warn,
                f"{name}: {', '.join(sorted(asking))} ask for site {site}; {where} {tag}",
                "tag supervisors (docs/guide/sites.md); where their `site` means something else, add "
                "`site.required: false`: it is a wish then",
            )
    if not asked:
        yield Finding("sites", Level.ok, "no component asks for a site in which there is no supervisor")


def retries(e: Evidence) -> Iterator[Finding]:
    """Whether Storm lives through a short absence of ZooKeeper (docs/decisions/0006-without-zookeeper.md)."""
    if e.nimbus is None or e.nimbus.error:
        yield Finding("retries", Level.skipped, "storm.zookeeper.retry.times is not known without Nimbus")
        return
    times = e.nimbus.conf.get("storm.zookeeper.retry.times")
    if not isinstance(times, int) or times < LEAST_RETRIES:
        yield Finding(
            "retries",
            Level.warn,
            f"storm.zookeeper.retry.times is {times}, less than {LEAST_RETRIES}: Storm's supervisors and workers end "
            "soon after ZooKeeper is gone",
            "set in every storm.yaml storm.zookeeper.retry.times: 60, .retry.interval: 1000, "
            ".retry.intervalceiling.millis: 3000; then restart the daemons one by one",
        )
    else:
        yield Finding("retries", Level.ok, f"storm.zookeeper.retry.times is {times} on Nimbus")


def refresh(e: Evidence) -> Iterator[Finding]:
    """Does a rolling move wait until Storm's workers know where its tasks run? (docs/concepts/rolling-moves.md)"""
    waits_s = e.seen.controller.task_refresh_s if e.seen.controller else None
    polls_s = e.nimbus.conf.get("task.refresh.poll.secs") if e.nimbus else None
    if waits_s is None or not isinstance(polls_s, int | float):
        return
    text = f"rollout.task_refresh_s is {waits_s:g}, task.refresh.poll.secs on Nimbus {polls_s:g}"
    if waits_s < polls_s:
        yield Finding(
            "refresh",
            Level.warn,
            f"{text}: tasks get tuples again before all workers know where they run",
            f"set rollout.task_refresh_s: {polls_s:g} in controller.yaml",
        )
    else:
        yield Finding("refresh", Level.ok, text)
