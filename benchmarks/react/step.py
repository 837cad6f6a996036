"""From a step in the traffic to a better plan that is applied, on a real cluster: how long, and what of it is Storm's.

`step/` is the job: nine of ten tuples go to one site, and from the moment on in which a file is written anew, to the
other. The components that send them can be anywhere; where they should be changes with the step. It is made when the
placement has fitted, and has not changed, for a while.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.control.live import Controller, until, write_config
from benchmarks.demo.measure import Watcher
from stormpilot.config import LoadSection
from stormpilot.errors import UnreachableError
from stormpilot.local.cluster import LocalCluster
from stormpilot.local.spec import ClusterSpec
from stormpilot.messages.controller_state import Restart
from stormpilot.submit import submit_topology

PROJECT = Path(__file__).with_name("step")
TICK_S = 0.25
CALM_WITHIN_S = 300.0


@dataclass(frozen=True)
class Setting:
    """A controller and a Storm; `tuned`: Storm's timings for a laptop, else its defaults.

    `calm_s`: how long the placement must have been as it is before a step; `within_s`: how long its answer may take.

    `rolling`: the job is submitted so that its bolts move without restarts; each of them then sends `expand` tuples on
    for one, so that bolts alone are worth moving.
    """

    name: str
    tuned: bool
    controller: Mapping[str, Mapping[str, Any]]
    rolling: bool = False
    expand: int = 1
    calm_s: float = 75.0
    within_s: float = 240.0


NOT_LOOKED_FOR = {"load": {"change_window_s": 0}}
"""As before change points: a step is seen when the windows of whole cycles show it, in so many of them in a row."""
RATE_TPS = 60.0
EXPAND = 5
EAST_RATIOS = (0.9, 0.1)
"""The part of the tuples that goes to the east, in turn."""
FITS_SHARE = 0.4
"""A placement with less traffic between nodes than that fits the side that is favoured."""
SETTINGS = (
    Setting("before: restarts", False, NOT_LOOKED_FOR),
    Setting("restarts", False, {}),
    Setting("before: rolling", False, NOT_LOOKED_FOR, rolling=True, expand=EXPAND),
    Setting("rolling", False, {}, rolling=True, expand=EXPAND),
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
        east = Path(name) / "east"
        _favour(east, EAST_RATIOS[0])
        try:
            spec = ClusterSpec(
                name="bench-react", supervisors=2, slots=4, cpu_points=100, tuned=setting.tuned, hook=setting.rolling
            )
            cluster = LocalCluster.up(spec, lambda _: None)
            settings: dict[str, Any] = {
                "zookeeper": {"hosts": cluster.zookeeper_hosts},
                "decide": {},
                "api": {"enabled": False},
                "log": {"format": "json"},
                **setting.controller,
            }
            settings["decide"] = {**settings["decide"], "mode": "act"}
            controller = Controller("react", write_config(Path(name) / "react.yaml", settings), Path(name) / "log")
            topology_id = submit_topology(
                PROJECT,
                "step",
                "local",
                options={
                    "topology.workers": 2,
                    "step.east.file": str(east),
                    "step.rate.tps": RATE_TPS / setting.expand,
                    "step.expand": setting.expand,
                },
                routable=setting.rolling,
                nimbus=f"{cluster.nimbus_host}:{cluster.nimbus_port}",
            )
            watcher = Watcher(cluster, topology_id, LoadSection(), 0.8)
            say(f"{setting.name}: a cluster is up and runs {topology_id}")
            steps: list[dict[str, float]] = []
            while len(steps) < repeat and (not steps or time.monotonic() - begun_s < within_s):
                _calm(watcher, setting)
                steps.append(_step(watcher, setting, east, EAST_RATIOS[(len(steps) + 1) % len(EAST_RATIOS)]))
                say(f"{setting.name}: {', '.join(f'{k} {v:g}' for k, v in steps[-1].items())}")
        finally:
            if watcher is not None:
                watcher.close()
            if controller is not None:
                controller.stop()
            if cluster is not None:
                cluster.down()
    return {
        "setting": setting.name,
        "tuned": setting.tuned,
        "controller": setting.controller,
        "steps": steps,
        "median": {k: round(statistics.median(s[k] for s in steps), 2) for k in steps[0]},
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


def _step(watcher: Watcher, setting: Setting, east: Path, ratio: float) -> dict[str, float]:
    """Make a step, and wait for the plan that answers it; seconds since the step."""
    before, step_s = _plan_id(watcher), time.time()
    _favour(east, ratio)
    seen_s = published_s = None
    while time.time() < step_s + setting.within_s:
        seen = watcher.seen
        assert seen is not None
        state, plan = seen.controller, _plan(watcher)
        if seen_s is None and state is not None and state.topologies:
            view = state.topologies[0]
            if view.reason == "GAIN_NOT_SUSTAINED" and state.written_at_ms / 1000 > step_s:
                seen_s = state.written_at_ms / 1000 - step_s
        if published_s is None and plan is not None and plan.plan_id != before:
            published_s = plan.created_at_ms / 1000 - step_s
        timed = _timed(state.restarts if state is not None else [], None if plan is None else plan.plan_id)
        if setting.rolling and published_s is not None and (carried_out_s := _carried_out(watcher, step_s)):
            return {
                "gain_seen_s": round(seen_s if seen_s is not None else published_s, 1),
                "published_s": round(published_s, 1),
                "applied_s": round(carried_out_s, 1),
                "running_s": round(carried_out_s, 1),
                "downtime_s": 0.0,
                "storm_share": round(1 - published_s / carried_out_s, 3),
            }
        if timed is not None and published_s is not None and plan is not None and plan.plan_id != before:
            return {
                "gain_seen_s": round(seen_s if seen_s is not None else published_s, 1),
                "published_s": round(published_s, 1),
                "applied_s": round(published_s + timed.applied_s, 1),
                "running_s": round(published_s + timed.recovery_s, 1),
                "downtime_s": round(timed.downtime_s, 1),
                "storm_share": round(timed.recovery_s / (published_s + timed.recovery_s), 3),
            }
        time.sleep(TICK_S)
    reason = "" if watcher.seen is None or watcher.seen.controller is None else watcher.seen.controller.sentence
    raise UnreachableError(f"no plan answered the step within {setting.within_s:.0f} s; the controller says: {reason}")


def _carried_out(watcher: Watcher, step_s: float) -> float | None:
    """Seconds from the step to the end of the rollout that began after it; None: not over yet."""
    entry = None if watcher.seen is None else watcher.seen.rollouts.get(watcher.topology_id)
    rollout = None if entry is None else entry.message
    if rollout is None or rollout.running or rollout.started_at_ms / 1000 < step_s:
        return None
    return rollout.since_ms / 1000 - step_s


def _timed(restarts: list[Restart], plan_id: str | None) -> Restart | None:
    return next((r for r in restarts if r.plan_id == plan_id), None)


def _plan(watcher: Watcher) -> Any:
    entry = None if watcher.seen is None else watcher.seen.plans.get(watcher.topology_id)
    return None if entry is None else entry.message


def _plan_id(watcher: Watcher) -> str | None:
    plan = _plan(watcher)
    return None if plan is None else plan.plan_id
