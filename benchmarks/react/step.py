"""From a step in the traffic to a better plan that is applied, on a real cluster: how long, and what of it is Storm's.

`step/` is the job: nine of ten tuples go to one site, and from the moment on in which a file is written anew, to the
other. The component that sends them can be anywhere; where it should be changes with the step. It is made when the
placement has fitted, and has not changed, for a while. The source is bound to a site of its own, and every executor has
a worker of its own: what restarts, rolls or is switched are the executors that sort, and nothing else.
"""

from __future__ import annotations

import statistics
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.command import until
from benchmarks.control.live import Controller, history, take_down, write_config
from benchmarks.demo.measure import Watcher
from benchmarks.flow.jobs import Job, Placer, applied
from stormpilot.config import LoadSection
from stormpilot.errors import UnreachableError
from stormpilot.instrument.reporting import DEFAULT_REPORT_SECS, REPORT_SECS_KEY
from stormpilot.local.cluster import LocalCluster
from stormpilot.local.spec import ClusterSpec
from stormpilot.messages.controller_state import Restart
from stormpilot.messages.rollouts import Rollout
from stormpilot.messages.routable import route_in_force
from stormpilot.model.values import Plan, TopologyPlan, Worker
from stormpilot.submit import submit_topology

PROJECT = Path(__file__).with_name("step")
TICK_S = 0.25
CALM_WITHIN_S, PLACED_WITHIN_S = 300.0, 180.0
LOG_LINES = 8
"""Of the controller's, which say why nothing answered."""
TIMES = ("gain_seen_s", "published_s", "applied_s", "running_s", "downtime_s")


@dataclass(frozen=True)
class Setting:
    """A controller and a Storm; `tuned`: Storm's timings for a laptop, else its defaults.

    `calm_s`: how long the placement must have been as it is before a step, longer than `decide.cool_down_s`, which
    would be measured otherwise; `within_s`: how long its answer may take.

    `rolling`: the job is submitted so that its bolts move without restarts; `standby`: and so that so many executors
    more stand by, enough to have as many as work on every node. `report_s`: time between two reports of a worker.
    """

    name: str
    tuned: bool
    controller: Mapping[str, Mapping[str, Any]]
    rolling: bool = False
    standby: int = 0
    report_s: float = DEFAULT_REPORT_SECS
    calm_s: float = 190.0
    within_s: float = 240.0


NOT_LOOKED_FOR = {"load": {"change_window_s": 0}}
"""As before change points: a step is seen when the windows of whole cycles show it, in so many of them in a row."""
SITES = ("east", "west", "middle")
WORKERS = 5
"""One for each executor, and plans keep to that; with executors that stand by, one for each site."""
RATE_TPS = 60.0
EXPAND = 5
"""Tuples that go to the sites for each that comes from the source, which stays where it is."""
EAST_RATIOS = (0.9, 0.1)
"""The part of the tuples that goes to the east, in turn."""
FITS_SHARE = 0.4
"""A placement with less traffic between nodes than that fits the side that is favoured."""
SETTINGS = (
    Setting("before: restarts", False, NOT_LOOKED_FOR),
    Setting("restarts", False, {}),
    Setting(
        "restarts, reports every 2 s",
        False,
        {"cycle": {"poll_s": 1}, "load": {"change_window_s": 4}},
        report_s=2.0,
    ),
    Setting("before: rolling", False, NOT_LOOKED_FOR, rolling=True),
    Setting("rolling", False, {}, rolling=True),
    Setting("before: standby", False, NOT_LOOKED_FOR, rolling=True, standby=4),
    Setting("standby", False, {}, rolling=True, standby=4),
    Setting(
        "quick: restarts",
        True,
        {
            "cycle": {"period_s": 5, "poll_s": 1},
            "load": {"window_s": 20, "settle_s": 5},
            "decide": {"cool_down_s": 30},
        },
        calm_s=45.0,
    ),
)


def run(setting: Setting, repeat: int, within_s: float, say: Callable[[str], None]) -> dict[str, Any]:
    """Measure so many steps, but begin none after `within_s`; the moments of each, in seconds after it."""
    begun_s = time.monotonic()
    cluster: LocalCluster | None = None
    watcher: Watcher | None = None
    controller: Controller | None = None
    with TemporaryDirectory() as name:
        east, log = Path(name) / "east", Path(name) / "log"
        _favour(east, EAST_RATIOS[0])
        try:
            spec = ClusterSpec(
                name="bench-react",
                supervisors=len(SITES),
                sites=SITES,
                slots=WORKERS,
                cpu_points=100,
                tuned=setting.tuned,
                hook=True,
            )
            cluster = LocalCluster.up(spec, lambda _: None)
            topology_id = submit_topology(
                PROJECT,
                "step",
                "local",
                options={
                    "topology.workers": len(SITES) if setting.standby else WORKERS,
                    "step.east.file": str(east),
                    "step.rate.tps": RATE_TPS / EXPAND,
                    "step.expand": EXPAND,
                    REPORT_SECS_KEY: setting.report_s,
                },
                instrument=False,  # the hook reports: a collector would be one executor more
                routable=setting.rolling,
                standby={"sort": setting.standby} if setting.standby else None,
                nimbus=f"{cluster.nimbus_host}:{cluster.nimbus_port}",
            )
            watcher = Watcher(cluster, topology_id, LoadSection(), 0.8)
            until("Storm places the job", lambda: _unplaced(watcher), PLACED_WITHIN_S)
            _place(cluster, watcher, setting)
            settings: dict[str, Any] = {
                "zookeeper": {"hosts": cluster.zookeeper_hosts},
                "decide": {},
                "api": {"enabled": False},
                "log": {"format": "json"},
                **setting.controller,
            }
            settings["decide"] = {**settings["decide"], "mode": "act"}
            if not setting.standby:
                settings["planner"] = {"params": {"exact_workers": True}}
            controller = Controller("react", write_config(Path(name) / "react.yaml", settings), log)
            say(f"{setting.name}: a cluster is up and runs {topology_id}")
            steps: list[dict[str, Any]] = []
            while len(steps) < repeat and (not steps or time.monotonic() - begun_s < within_s):
                _calm(watcher, setting)
                steps.append(_step(watcher, setting, east, EAST_RATIOS[(len(steps) + 1) % len(EAST_RATIOS)]))
                steps[-1]["strategy"] = _strategy(cluster, topology_id)
                say(f"{setting.name}: {', '.join(f'{k} {v}' for k, v in steps[-1].items())}")
        except BaseException:
            say(f"{setting.name}: the controller's last lines:")
            for line in log.read_text(errors="replace").splitlines()[-LOG_LINES:] if log.exists() else []:
                say(line)
            raise
        finally:
            take_down(cluster, controller, watcher)
    return {
        "setting": setting.name,
        "tuned": setting.tuned,
        "controller": setting.controller,
        "steps": steps,
        "median": {k: round(statistics.median(s[k] for s in steps), 2) for k in TIMES},
    }


def _favour(east: Path, ratio: float) -> None:
    """Replace the file as a whole: the sources read it meanwhile."""
    new = east.with_suffix(".new")
    new.write_text(f"{ratio:g}")
    new.replace(east)


def _calm(watcher: Watcher, setting: Setting) -> None:
    """Wait until the placement fits the side that is favoured now, and nothing has moved for a while."""
    last: tuple[Any, float] = (None, 0.0)

    def missing() -> str | None:
        nonlocal last
        seen = watcher.seen
        snapshot = None if seen is None else seen.topologies.get(watcher.topology_id)
        if seen is None or snapshot is None:
            return "nothing is seen yet"
        move, entry = seen.moves.get(watcher.topology_id), seen.rollouts.get(watcher.topology_id)
        rollout = None if entry is None else entry.message
        places = tuple((e.start, e.supervisor, e.port) for e in snapshot.executors)
        now = places, _plan_id(watcher), None if move is None else move.phase, rollout is not None and rollout.running
        if now != last[0]:
            last = now, time.monotonic()
        state = seen.controller
        share = state.topologies[0].inter_node_share if state is not None and state.topologies else None
        if share is None or share > FITS_SHARE:
            return "nothing is measured yet" if share is None else f"{share:.0%} of the tuples go between nodes"
        if now[3] or now[2] in ("moving", "measuring"):
            return "a move is under way"
        calm_s = time.monotonic() - last[1]
        return None if calm_s >= setting.calm_s else f"the placement is as it is for {calm_s:.0f} s"

    until("the placement fits", missing, CALM_WITHIN_S + 3 * setting.calm_s)


def _unplaced(watcher: Watcher) -> str | None:
    snapshot = None if watcher.seen is None else watcher.seen.topologies.get(watcher.topology_id)
    placed = snapshot is not None and snapshot.executors and all(e.port is not None for e in snapshot.executors)
    return None if placed else "not all executors have a slot"


def _place(cluster: LocalCluster, watcher: Watcher, setting: Setting) -> None:
    """Put the job where it fits the side that is favoured first, before there is a controller that would move it.

    With executors that stand by, each site has as many that sort, in one worker with all else there.
    """
    assert watcher.seen is not None
    snapshot = watcher.seen.topologies[watcher.topology_id]
    active = route_in_force(snapshot, "sort", None).active
    waiting = (site for site in SITES[1:] for _ in active)
    members: defaultdict[tuple[str, int], list[tuple[int, int]]] = defaultdict(list)
    for e in sorted(snapshot.executors, key=lambda e: e.start):
        if e.component == "sort":
            site = SITES[0] if e.start in active else next(waiting)
        else:
            site = "middle" if e.component == "source" else e.component
        members[site, 0 if setting.standby else e.start].append((e.start, e.end))
    nodes = dict(zip(SITES, cluster.description.supervisors, strict=True))
    taken: Counter[str] = Counter()
    workers = []
    for (site, _), executors in members.items():
        workers.append(Worker(supervisor=nodes[site].id, port=nodes[site].slots[taken[site]], executors=executors))
        taken[site] += 1
    plan = Plan(topologies=[TopologyPlan(id=watcher.topology_id, workers=workers)])
    with closing(Placer(cluster)) as placer:
        ids = placer.publish({watcher.topology_id: plan})
    applied([Job("step", watcher.topology_id, watcher, range(8))], ids)


def _step(watcher: Watcher, setting: Setting, east: Path, ratio: float) -> dict[str, Any]:
    """Make a step, and wait for the plan that answers it; seconds since the step.

    Of a rollout, `phases` are the moments in which its phases began: `1 draining` is that of its first step.
    """
    before, step_s = _plan_id(watcher), time.time()
    _favour(east, ratio)
    seen_s = None
    phases: dict[str, float] = {}
    while time.time() < step_s + setting.within_s:
        seen = watcher.seen
        assert seen is not None
        state, plan = seen.controller, _plan(watcher)
        if seen_s is None and state is not None and state.topologies:
            view = state.topologies[0]
            if view.reason == "GAIN_NOT_SUSTAINED" and state.written_at_ms / 1000 > step_s:
                seen_s = state.written_at_ms / 1000 - step_s
        timed = _timed(state.restarts if state is not None else [], None if plan is None else plan.plan_id)
        rollout = _rollout(watcher, step_s)
        if rollout is not None:
            began_s, since_s = rollout.started_at_ms / 1000 - step_s, rollout.since_ms / 1000 - step_s
            phases.setdefault(f"{rollout.step + 1} {rollout.phase}", round(since_s, 1))
            if not rollout.running:
                if rollout.outcome != "DONE":
                    raise UnreachableError(f"the rollout ended as {rollout.outcome}: {rollout.text}")
                return _times(seen_s, began_s, since_s, since_s, 0.0) | {"phases": phases}
        elif timed is not None and plan is not None and plan.plan_id != before:
            published_s = plan.created_at_ms / 1000 - step_s
            ends_s = (published_s + timed.applied_s, published_s + timed.recovery_s)
            return _times(seen_s, published_s, *ends_s, timed.downtime_s) | {"phases": {}}
        time.sleep(TICK_S)
    reason = "" if watcher.seen is None or watcher.seen.controller is None else watcher.seen.controller.sentence
    raise UnreachableError(f"no plan answered the step within {setting.within_s:.0f} s; the controller says: {reason}")


def _times(
    seen_s: float | None, published_s: float, applied_s: float, running_s: float, downtime_s: float
) -> dict[str, float]:
    """The moments of a step, as `TIMES` names them; a gain that no cycle waited for was seen with its plan."""
    moments = (published_s if seen_s is None else seen_s, published_s, applied_s, running_s, downtime_s)
    return {key: round(s, 1) for key, s in zip(TIMES, moments, strict=True)}


def _rollout(watcher: Watcher, step_s: float) -> Rollout | None:
    """The rollout that began after the step; None: there is none."""
    entry = None if watcher.seen is None else watcher.seen.rollouts.get(watcher.topology_id)
    rollout = None if entry is None else entry.message
    return rollout if rollout is not None and rollout.started_at_ms / 1000 >= step_s else None


def _strategy(cluster: LocalCluster, topology_id: str) -> str:
    """Move strategy of the newest plan, as the controller decided it."""
    entries = [e for e in history(cluster.zookeeper_hosts, topology_id) if not e.rollout_of]
    return entries[-1].move_strategy if entries else ""


def _timed(restarts: list[Restart], plan_id: str | None) -> Restart | None:
    return next((r for r in restarts if r.plan_id == plan_id), None)


def _plan(watcher: Watcher) -> Any:
    entry = None if watcher.seen is None else watcher.seen.plans.get(watcher.topology_id)
    return None if entry is None else entry.message


def _plan_id(watcher: Watcher) -> str | None:
    plan = _plan(watcher)
    return None if plan is None else plan.plan_id
