"""A day's rates, played fast: one size for the peak against sizes that follow the controller's proposals.

The operator of the others is this program: it carries out what `stormpilot status` proposes, when it does.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from benchmarks.command import cpu_name
from benchmarks.control.live import STORMPILOT, Controller, write_config
from benchmarks.flow.jobs import until
from benchmarks.markdown import filled, table
from benchmarks.sizes.cases import Case
from benchmarks.sizes.cluster import PLACED_S, Run, Say, isolated
from benchmarks.sizes.compare import Models
from benchmarks.sizes.dags import linear_of
from stormpilot.local.cluster import LocalCluster
from stormpilot.observe.reader import Reader
from stormpilot.sizing.problem import Problem, Static, VmSize
from stormpilot.trials.feeder import Feeder
from stormpilot.zookeeper.client import connect
from stormpilot.zookeeper.paths import Paths

NAME, TASKS = "day", ("xml", "pi")
HOURS_TPS = (
    *(60.0, 45.0, 30.0, 30.0, 30.0, 45.0, 75.0, 120.0, 180.0, 225.0, 255.0, 270.0),
    *(285.0, 285.0, 270.0, 255.0, 225.0, 210.0, 180.0, 150.0, 120.0, 90.0, 75.0, 60.0),
)
"""Of the source, by the hour: a night, a morning that rises more than ninefold, an evening that falls."""
SOURCE_NEEDS = Static(threads=1, cpu_share=0.25, memory_share=0.19)
"""A Python source that sends up to 285 tuples/s, with its JVM."""
HOUR_S = 30.0
HEADROOM_RATIO = 0.25
"""The controller's, for the size of the peak too."""
WATCHING = {"after_s": 5.0, "headroom_ratio": HEADROOM_RATIO}
"""Five minutes of a real day are 2.5 s of this one; load reports come every second, a cycle is 5 s."""
DECIDING = {"cool_down_s": 1.5, "overload_s": 0.5}
"""Three minutes and one of a real day, the controller's defaults: they are six hours and two of this one."""
STORM_DEFAULTS = {"topology.message.timeout.secs": 30}
"""A tuple that a restart loses counts as under way until then, and the source waits once there are enough of these."""
VARIANTS = ("peak", "followed", "standby")
STANDBY_WORKERS, STANDBY_TASKS = 3, 2
"""Workers, and tasks of each component for each thread that the peak needs: Storm places them evenly."""
STANDBY_TEXT = (
    f" `standby`: as `followed`, on {STANDBY_WORKERS} workers with {STANDBY_TASKS} executors for each thread that the "
    "peak needs, all but one of a component on standby at first: `apply-size` has more or fewer of them get tuples, "
    "and nothing restarts; the slots stay."
)
DAY_S = len(HOURS_TPS) * HOUR_S + 240.0
"""Seconds for a variant; none is begun with less time left."""
PROPOSED = re.compile(r"(SCALE_UP|SCALE_DOWN): .* --rate ([\d.e+]+)")
POLL_S = 1.0


def measure(out: Path, project: Path, models: Models, ends_s: float, say: Say) -> None:
    """Play the day under the variants that `out` lacks, as long as there is time."""
    for variant in VARIANTS:
        if not result(out, variant).exists() and time.monotonic() + DAY_S < ends_s:
            say(f"{variant}: a day of {len(HOURS_TPS)} hours of {HOUR_S:g} s")
            found = _played(variant, project, models, say)
            result(out, variant).write_text(json.dumps(found, indent=1) + "\n")


def result(out: Path, variant: str) -> Path:
    """The file of a variant."""
    return out / f"day-{variant}.json"


def problem_of(models: Models, rate_tps: float) -> Problem:
    """The line of the tasks on the measured models, for a rate."""
    line = linear_of(TASKS, [rate_tps])
    return msgspec.structs.replace(
        line.problem(models.by_task, models.slot),
        name=NAME,
        vms=[VmSize(name="node", slots=1)],
        components=line.components(models.by_task, SOURCE_NEEDS),
    )


@dataclass
class Counting:
    """Tuples that came through, by the hour. A source that starts again begins to count at 0."""

    completed: dict[int, int] = field(default_factory=lambda: defaultdict(int))
    _last: dict[int, tuple[int, int]] = field(default_factory=dict)

    def count(self, hour: int, trial: int, sources: list[dict[str, Any]]) -> None:
        """Add what came through since the last look at this trial."""
        for s in sources:
            seen = self._last.get(s["task"], (0, 0))
            before = seen[1] if seen[0] == trial and s["completed"] >= seen[1] else 0
            self.completed[hour] += s["completed"] - before
            self._last[s["task"]] = (trial, s["completed"])


def _played(variant: str, project: Path, models: Models, say: Say) -> dict[str, Any]:
    first_tps = max(HOURS_TPS) if variant == "peak" else HOURS_TPS[0]
    problem = problem_of(models, round(first_tps * (1 + HEADROOM_RATIO), 1))
    most = Case(problem_of(models, max(HOURS_TPS) * (1 + HEADROOM_RATIO)), "mba", "sam").threads
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        file = folder / "day.json"
        file.write_bytes(msgspec.json.encode(problem))
        cluster = stack.enter_context(isolated("bench-day", models.slot.memory_mb, models.cores))
        session = connect(cluster.zookeeper_hosts)
        stack.callback(session.stop)
        standby = variant == "standby"
        options = STORM_DEFAULTS | ({"topology.workers": STANDBY_WORKERS} if standby else {})
        case = Case(problem, "mba", "sam")
        run = Run(cluster, session, project, case, file, models.cores, options, None, say, standby)
        feeder, _ = stack.enter_context(
            run.carried_out({c: n * STANDBY_TASKS for c, n in most.items()} if standby else most)
        )
        if variant == "peak":
            return _hours(cluster, feeder, lambda: None, say)
        config = {
            "zookeeper": {"hosts": cluster.zookeeper_hosts},
            "decide": {"mode": "advise" if standby else "act", **DECIDING},
            "cycle": {"period_s": 5.0},
            "load": {"window_s": 10.0},
            "sizing": {"files": {NAME: str(file)}, **WATCHING},
            "api": {"enabled": False},
        }
        log = folder / "log"
        controller = Controller("day", write_config(folder / "controller.yaml", config), log)
        stack.callback(controller.stop)
        reader = Reader(session, Paths())
        until("a controller leads", lambda: None if reader.read().controller else log.read_text()[-500:], PLACED_S)
        operator = Operator(cluster, reader, feeder.topology_id, file)
        stack.callback(operator.wait)
        return _hours(cluster, feeder, operator.look, say)


class Operator:
    """Carries out every proposal, one after the other, as somebody would who only does what `status` says."""

    def __init__(self, cluster: LocalCluster, reader: Reader, topology_id: str, file: Path) -> None:
        self._cluster, self._reader, self._topology_id, self._file = cluster, reader, topology_id, file
        self._running: subprocess.Popen[bytes] | None = None

    def look(self) -> str | None:
        """Begin what is proposed now, unless something is being carried out; in words."""
        if self._running is not None and self._running.poll() is None:
            return None
        state = self._reader.read().controller
        sizes = [t.size for t in state.topologies if t.id == self._topology_id] if state is not None else []
        found = PROPOSED.search(" ".join(sizes))
        if found is None:
            return None
        command = [
            *(str(STORMPILOT), "apply-size", str(self._file), "--rate", found[2], "--yes"),
            *("--nimbus", str(self._cluster.nimbus_address), "--zookeeper", self._cluster.zookeeper_hosts),
        ]
        self._running = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        return f"{found[1]}, for {found[2]}/s"

    def wait(self) -> None:
        """Wait for what is being carried out."""
        if self._running is not None:
            self._running.wait()


def _hours(cluster: LocalCluster, feeder: Feeder, look: Callable[[], str | None], say: Say) -> dict[str, Any]:
    counting = Counting()
    hours: list[dict[str, Any]] = []
    changes: list[dict[str, Any]] = []
    loads: list[float] = []
    for hour, tps in enumerate(HOURS_TPS):
        trial = feeder.send(tps, HOUR_S)
        ends_s = time.monotonic() + HOUR_S
        slots: list[int] = []
        while time.monotonic() < ends_s:
            time.sleep(POLL_S)
            counting.count(hour, trial, feeder.sources(trial))
            slots.append(sum(w.topology_id == feeder.topology_id for w in cluster.workers()))
            if (change := look()) is not None:
                changes.append({"hour": hour, "what": change})
                say(f"hour {hour}: {change}")
        through_tps = counting.completed[hour] / HOUR_S
        hours.append({"tps": tps, "throughTps": round(through_tps, 2), "slots": round(sum(slots) / len(slots), 2)})
        loads.append(round(os.getloadavg()[0], 2))
        say(f"hour {hour}: {through_tps:.1f} of {tps:g} tuples/s came through on {hours[-1]['slots']:g} slots")
    loads_told = [min(loads), max(loads)]
    told = {"cpu": cpu_name(), "loadAverage": loads_told, "restartsOnce": True}
    return {"hourS": HOUR_S, "hours": hours, "changes": changes, **told}


def summary(found: dict[str, Any]) -> dict[str, float]:
    """Slot hours, the part of all tuples that came through, and the hours in which less than 95% did.

    `missingS`: for how many seconds what did not come through was sent.
    """
    hours = found["hours"]
    missing = [(1 - h["throughTps"] / h["tps"]) * found["hourS"] for h in hours]
    return {
        "missingS": sum(max(0.0, s) for s in missing),
        "slotHours": round(sum(h["slots"] for h in hours), 1),
        "throughRatio": sum(h["throughTps"] for h in hours) / sum(h["tps"] for h in hours),
        "shortHours": sum(h["throughTps"] < 0.95 * h["tps"] for h in hours),
    }


def paragraphs(found: dict[str, dict[str, Any]], cores: int) -> list[str]:
    """The page's section, for as many variants as there are."""
    if not found:
        return []
    rows, told = [], []
    for variant, one in found.items():
        s = summary(one)
        asked = {(c["hour"], c["what"]) for c in one["changes"]}  # one is asked for again until the next cycle
        changed = Counter(what.partition(",")[0] for _, what in asked)
        rows.append(
            [variant, f"{s['slotHours']:g}", f"{s['throughRatio']:.1%}", f"{s['shortHours']:g}"]
            + [str(changed[kind]) for kind in ("SCALE_UP", "SCALE_DOWN")]
        )
        told.append("{}, load average {} to {}".format(one["cpu"], *one["loadAverage"]))
    names = list(found)
    by_hour = [
        [str(h), f"{tps:g}"]
        + [f"{x:g}" for v in names for x in (found[v]["hours"][h]["slots"], found[v]["hours"][h]["throughTps"])]
        for h, tps in enumerate(HOURS_TPS)
    ]
    return [
        "## Growing and shrinking over a day",
        filled(
            f"A line of {', '.join(TASKS)} under a day's rates, an hour in {HOUR_S:g} s, on isolated nodes of a "
            f"machine of {cores} cores ({', '.join(told)}). `peak`: sized once, for {1 + HEADROOM_RATIO:.0%} of the "
            "highest rate. `followed`: sized for the first hour; a controller watches the size (`sizing.files`), and "
            "each proposal is carried out by `stormpilot apply-size`, which is a rebalance: workers restart. Its "
            "cool-down and X(n) are as many times shorter than the defaults as the day is. Both have the same tasks."
            + (STANDBY_TEXT if "standby" in found else "")
        ),
        table(
            ["size", "slot hours", "of all tuples came through", "hours below 95%", "grown", "shrunk"],
            rows,
        ),
        *_restarts(found),
        table(["hour", "tuples/s", *(f"{v}: {x}" for v in names for x in ("slots", "through/s"))], by_hour),
    ]


def _restarts(found: dict[str, dict[str, Any]]) -> list[str]:
    """Cost of the changes by rebalances, where `peak` and `followed` were played.

    A day without `restartsOnce` is one of an `apply-size` that placed after the rebalance.
    """
    if not {"peak", "followed"} <= set(found):
        return []
    peak, followed = summary(found["peak"]), summary(found["followed"])
    where = after = ""
    if not found["followed"].get("restartsOnce"):
        where = ", or were where Storm's rebalance had put them until the controller had measured them"
        after = (
            " That was played when `apply-size` put its placement in force after the rebalance; now it does so "
            "together with it, and workers restart once."
        )
    return [
        filled(
            f"`followed` takes {1 - followed['slotHours'] / peak['slotHours']:.0%} fewer slot hours. What did not come "
            f"through is what is sent in {followed['missingS']:.0f} s, while workers restarted{where}: "
            f"{followed['missingS'] / HOUR_S:.1f} hours of this day, and {followed['missingS'] / 86_400:.2%} of a real "
            f"one.{after}"
        )
    ]
