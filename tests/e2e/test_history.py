"""The log of a controller on a real cluster is mined with Spark, and that controller goes by what was found."""

from __future__ import annotations

import json
import os
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.dataset as ds
import pytest

from scene import STORMPILOT, Scene, scene_on, until
from small_spark import SMALL
from stormpilot.local.spec import PATIENT, ClusterSpec

pytestmark = [pytest.mark.cluster, pytest.mark.long, pytest.mark.timeout(1800)]

NAME, WORDS = "wordcount_comm", 7
R, FLOOR = "decide.gain_threshold_ratio", "verify.noise_floor_ratio"
WINDOWS = 8


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    """A controller that advises and keeps windows of five seconds; half a minute of them is to be enough."""
    with scene_on(
        ClusterSpec(name=f"history-{os.getpid()}", supervisors=2, slots=2, cpu_points=400, conf=PATIENT),
        tmp_path,
        Scene,
    ) as scene:
        scene.config.write_text(
            f'zookeeper: {{hosts: "{scene.cluster.zookeeper_hosts}"}}\n'
            "cycle: {period_s: 1, poll_s: 1}\n"
            "load: {window_s: 5, settle_s: 2}\n"
            "planner: {name: online, budget_s: 1}\n"
            "decide: {mode: advise, gain_threshold_ratio: 0.03, consecutive_hits: 1, payback_s: 86400}\n"
            f"history: {{enough: {{span_h: 0.008, noise_windows: 5, hours: 1}}, ranges: {{{R}: [0.001, 1]}}}}\n"
            "traffic_log: {dir: log}\n"
            "api: {enabled: false}\n"
        )
        scene.start_controller()
        until(scene.leads, "the controller to lead")
        options = {"topology.workers": 2, "wordcount.rate.tps": 40, "wordcount.sentence.words": WORDS}
        scene.topology_id = scene.submit(NAME, NAME, **options, **{"stormpilot.report.secs": 1})
        yield scene


def said(*words: str | Path) -> str:
    """The command line as an operator uses it."""
    done = subprocess.run([STORMPILOT, *words], capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def rows(scene: Scene, table: str) -> list[dict[str, Any]]:
    """What the log has by now."""
    folder = scene.folder / "log" / table
    if not folder.exists():
        return []
    found: list[dict[str, Any]] = ds.dataset(folder, format="parquet").to_table().to_pylist()
    return sorted(found, key=lambda row: row.get("window_to") or row["at"])


def steady(scene: Scene) -> int:
    """Whole windows with traffic between nodes, of one hour under one placement: noise is that of an hour."""
    whole = [w for w in rows(scene, "windows") if w["measured"] and w["inter_node_tps"] > 0]
    hours = Counter((w["assigned_since"], f"{w['window_to']:%F %H}") for w in whole)
    return max(hours.values(), default=0)


def judged_by(scene: Scene, source: str) -> bool:
    found = scene.view()
    return found is not None and found.reason == "GAIN" and found.threshold_from.startswith(source)


def test_a_running_controller_goes_by_what_was_mined_of_its_own_log(scene: Scene) -> None:
    until(lambda: judged_by(scene, ""), "a plan to be proposed")
    assert (scene.view().threshold, scene.view().threshold_from) == (0.03, "")
    until(lambda: steady(scene) >= WINDOWS, "a log that is long enough")
    controller = scene.controller
    assert controller is not None

    out = scene.folder / "mined.json"
    small = [part for k, v in SMALL.items() for part in ("--conf", f"{k}={v}")]
    told = said("trafficlog", "mine", "--config", scene.config, "--publish", "--master", "local[2]", "-o", out, *small)
    (mined,) = json.loads(out.read_text())["topologies"]
    entries = {(e["name"], *e["of"]): e for e in mined["thresholds"]["entries"]}
    gain = entries[R,]
    assert gain["source"] == "mined" and gain["rows"] >= 5, gain["text"]
    assert gain["value"] >= 0.05, "never below the floor of verify.noise_floor_ratio"
    assert [x["text"] for (name, *_), x in entries.items() if name == "decide.overload_s"] == [
        "not known: no overloads that ended by themselves"
    ], "what the log does not tell keeps its default, and says so"
    split = entries["selectivity", "split", "default", "count"]
    assert split["value"] == pytest.approx(WORDS, rel=0.1), "words of a sentence"
    assert R in told

    until(lambda: judged_by(scene, "mined"), "the controller to judge by it")
    assert scene.view().threshold == pytest.approx(gain["value"])
    assert controller.poll() is None and controller is scene.controller, "without a restart"
    where = ["--zookeeper", scene.cluster.zookeeper_hosts]
    shown = json.loads(said("thresholds", "show", NAME, "-f", "json", *where))["thresholds"]
    assert {t["name"]: t["source"] for t in shown if not t["of"]}[R] == "mined"
    explained = said("explain", NAME, "--measure", "0", *where)
    assert "the threshold is not as configured: mined: " in explained
    assert f"{gain['rows']:,} rows" in " ".join(explained.split())
    assert " mined" in next(line for line in said("status", *where).splitlines() if "thresholds:" in line)
    until(lambda: (rows(scene, "decisions")[-1]["threshold_from"] or "").startswith("mined"), "the log to tell it too")
