"""`stormpilot assess` against a Nimbus that speaks real Thrift and never heard of us."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import pytest
from streamparse import thrift as storm

from doubles.commands import Run
from doubles.fake_nimbus import FakeNimbus, serving
from interrupts import interrupt, sigint
from stormpilot.model.load import node_load_mhz
from stormpilot.model.values import RESERVED_CPU, Model

RAS = "org.apache.storm.scheduler.resource.ResourceAwareScheduler"
S = 600
LINES, WORDS = ("lines", "default"), ("split", "default")
PLACED = {1: "node-1", 2: "node-2", 3: "node-1", 4: "node-2", 5: "node-1", 6: "node-2"}
COMPONENT = {1: "lines", 2: "lines", 3: "split", 4: "split", 5: "count", 6: "count"}
EMITTED_TPS = {1: 300, 2: 100, 3: 400, 4: 400}
EXECUTED_TPS = {3: {LINES: 200}, 4: {LINES: 200}, 5: {WORDS: 600}, 6: {WORDS: 200}}
EXECUTE_MS = 0.5


def windows(of: dict[Any, Any]) -> dict[str, dict[Any, Any]]:
    return {str(S): of, ":all-time": of}


def executor(task: int, execute_ms: float) -> Any:
    """Its counters after an hour."""
    executed = {storm.GlobalStreamId(*source): tps * S for source, tps in EXECUTED_TPS.get(task, {}).items()}
    bolt = storm.BoltStats(
        acked=windows(executed),
        failed=windows({}),
        process_ms_avg=windows(dict.fromkeys(executed, 9.0)),
        executed=windows(executed),
        execute_ms_avg=windows(dict.fromkeys(executed, execute_ms)),
    )
    spout = storm.SpoutStats(
        acked=windows({"default": EMITTED_TPS.get(task, 0) * S}), failed=windows({}), complete_ms_avg=windows({})
    )
    specific = storm.ExecutorSpecificStats(bolt=bolt) if task > 2 else storm.ExecutorSpecificStats(spout=spout)
    emitted = {"default": EMITTED_TPS[task] * S} if task in EMITTED_TPS else {}
    return storm.ExecutorSummary(
        executor_info=storm.ExecutorInfo(task_start=task, task_end=task),
        component_id=COMPONENT[task],
        host=PLACED[task],
        port=6700 + task % 2,
        uptime_secs=3600,
        stats=storm.ExecutorStats(emitted=windows(emitted), transferred=windows(emitted), specific=specific, rate=0.05),
    )


@dataclass
class CountingNimbus(FakeNimbus):
    """With one topology, `words`, whose executors counted."""

    conf: dict[str, Any] = field(default_factory=dict)
    component_conf: dict[str, Any] = field(default_factory=dict)
    scheduler: str = ""
    resources: dict[str, float] = field(default_factory=dict)
    execute_ms: float = EXECUTE_MS
    refused: dict[str, Exception] = field(default_factory=dict)
    workers: int | None = 2
    used_slots: int | None = 0

    def getNimbusConf(self) -> str:  # noqa: N802
        return json.dumps({"storm.scheduler": self.scheduler})

    def getClusterInfo(self) -> Any:  # noqa: N802
        summary = super().getClusterInfo()
        for s in summary.supervisors:
            s.total_resources = self.resources
            s.num_used_workers = s.num_used_workers if self.used_slots is None else self.used_slots
        for t in summary.topologies:
            t.num_workers = t.num_workers if self.workers is None else self.workers
        return summary

    def getTopologyConf(self, id: str) -> str:  # noqa: N802
        return json.dumps({"topology.workers": 2, **self.conf})

    def getTopologyInfo(self, id: str) -> Any:  # noqa: N802
        if (e := self.refused.get(id.partition("-")[0])) is not None:
            raise e
        executors = [executor(t, self.execute_ms) for t in PLACED]
        return storm.TopologyInfo(
            id=id, name="words", uptime_secs=3600, status="ACTIVE", errors={}, executors=executors
        )

    def getUserTopology(self, id: str) -> Any:  # noqa: N802
        conf = json.dumps(self.component_conf)

        def common(inputs: dict[Any, Any]) -> Any:
            return storm.ComponentCommon(inputs=inputs, streams={}, parallelism_hint=2, json_conf=conf)

        def bolt(source: tuple[str, str], grouping: Any) -> Any:
            return storm.Bolt(
                bolt_object=storm.ComponentObject(shell=storm.ShellComponent("python", "x")),
                common=common({storm.GlobalStreamId(*source): grouping}),
            )

        spout = storm.SpoutSpec(
            spout_object=storm.ComponentObject(shell=storm.ShellComponent("python", "x")), common=common({})
        )
        return storm.StormTopology(
            spouts={"lines": spout},
            bolts={
                "split": bolt(LINES, storm.Grouping(shuffle=storm.NullStruct())),
                "count": bolt(WORDS, storm.Grouping(fields=["word"])),
            },
            state_spouts={},
        )


@pytest.fixture
def nimbus() -> Iterator[CountingNimbus]:
    with serving(CountingNimbus(running={"words": "ACTIVE"})) as served:
        assert isinstance(served, CountingNimbus)
        yield served


def assess(run: Run, nimbus: FakeNimbus, *more: str | Path) -> dict[str, Any]:
    done = run("assess", "--nimbus", f"{nimbus.host}:{nimbus.port}", "--budget", "2", "-f", "json", *more)
    assert done.code == 0, done.err
    found: dict[str, Any] = json.loads(done.out)
    return found


def test_the_model_has_what_storm_counted(run: Run, nimbus: CountingNimbus, tmp_path: Path) -> None:
    assess(run, nimbus, "-o", tmp_path / "model.json")
    model = msgspec.json.decode((tmp_path / "model.json").read_bytes(), type=Model)
    rates = {(e.from_, e.to): e.rate for e in model.traffic}
    assert rates[1, 3] == pytest.approx(150)
    assert rates[2, 3] == pytest.approx(50)
    assert rates[3, 5] == pytest.approx(300)
    assert rates[4, 6] == pytest.approx(100)
    assert sum(rates.values()) == pytest.approx(400 + 800)
    (topology,) = model.topologies
    cpu = {e.start: e.cpu_mhz / 1000 for e in topology.executors}
    assert cpu[5] == pytest.approx(600 * EXECUTE_MS / 1000 + 0.006 + 600 * 3e-6)
    assert {(c.id, c.kind): [(i.component, i.grouping) for i in c.inputs] for c in topology.components} == {
        ("lines", "spout"): [],
        ("split", "bolt"): [("lines", "SHUFFLE")],
        ("count", "bolt"): [("split", "FIELDS")],
    }
    assert {s.host: len(s.slots) for s in model.supervisors} == {"node-1": 4, "node-2": 4, "node-3": 4}


def test_what_would_be_won_is_told_and_what_it_rests_on(run: Run, nimbus: CountingNimbus) -> None:
    found = assess(run, nimbus)
    (words,) = found["topologies"]
    assert words["totalTps"] == pytest.approx(1200)
    assert 0 < words["interNodeTps"] < 1200
    assert words["plannedInterNodeTps"] == 0, "six executors fit on one node"
    assert words["movedExecutors"] > 0
    assert words["countedS"] == S
    assert words["assumedShare"] == pytest.approx(800 / 1200), "who hears whom by key is assumed"
    assert words["leastSamples"] == pytest.approx(400 * S * 0.05), "Storm samples one tuple of twenty"
    assert words["heldBy"] == []


def test_a_topology_that_would_be_held_stays_as_it_is_and_its_key_is_named(run: Run, nimbus: CountingNimbus) -> None:
    nimbus.conf = {"topology.spread.components": ["count"]}
    (words,) = assess(run, nimbus)["topologies"]
    assert words["movedExecutors"] == 0
    assert words["plannedInterNodeTps"] == words["interNodeTps"]
    assert "topology.spread.components" in words["heldBy"][0]
    done = run("assess", "--nimbus", f"{nimbus.host}:{nimbus.port}")
    assert "held: words: topology.spread.components is" in " ".join(done.out.split())


def test_default_capacity_is_nobodys_statement(run: Run, nimbus: CountingNimbus, tmp_path: Path) -> None:
    """Hosts of 16 cores whose owners declared nothing: Storm says 400 points, and they do more than that."""
    nimbus.resources, nimbus.execute_ms = {"cpu.pcore.percent": 400.0}, 15.0
    found = assess(run, nimbus, "-o", tmp_path / "model.json")
    model = msgspec.json.decode((tmp_path / "model.json").read_bytes(), type=Model)
    busy = node_load_mhz(model)
    assert max(busy.values()) > 4000
    assert {s.host: s.limit_mhz for s in model.supervisors} == {
        s.host: pytest.approx(max(3200.0, 1.2 * busy[s.id])) for s in model.supervisors
    }
    assert any("what a plan may use of Storm's default" in note for note in found["notes"])
    nimbus.resources = {"cpu.pcore.percent": 401.0}
    done = run("assess", "--nimbus", f"{nimbus.host}:{nimbus.port}", "--cpu-limit", "1", "--budget", "1")
    assert (done.code, "no plan (cpu)" in done.err, "--cpu-limit 1" in done.err) == (1, True, False)


def test_a_rebalanced_topology_has_the_workers_that_it_has(run: Run, nimbus: CountingNimbus, tmp_path: Path) -> None:
    """Its configuration says what was submitted."""
    nimbus.workers = 3
    assess(run, nimbus, "-o", tmp_path / "model.json")
    model = msgspec.json.decode((tmp_path / "model.json").read_bytes(), type=Model)
    assert [t.workers for t in model.topologies] == [3]
    nimbus.workers, nimbus.conf = 1, {"topology.workers": 1, "topology.spread.components": ["count"]}
    assert assess(run, nimbus)["topologies"][0]["movedExecutors"] == 0, "held, on more workers than it asks for"


def test_slots_of_topologies_that_are_not_active_are_taken(run: Run, nimbus: CountingNimbus, tmp_path: Path) -> None:
    nimbus.used_slots = 3
    assess(run, nimbus, "-o", tmp_path / "model.json")
    model = msgspec.json.decode((tmp_path / "model.json").read_bytes(), type=Model)
    own = {(a.supervisor, a.port) for t in model.topologies for a in t.assignment}
    used = {s.id: len([1 for supervisor, _ in own if supervisor == s.id]) for s in model.supervisors}
    assert {s.id: len(s.slots) for s in model.supervisors} == {i: n + (4 - max(3, n)) for i, n in used.items()}


def test_a_topology_that_may_not_be_read_is_left_out_and_named(
    run: Run, nimbus: CountingNimbus, tmp_path: Path
) -> None:
    """It ended the command; three of four slots of each supervisor are in use, by Nimbus's count."""
    nimbus.running, nimbus.used_slots = {"secret": "ACTIVE", "words": "ACTIVE"}, 3
    nimbus.refused = {"secret": storm.AuthorizationException(msg="olga is not authorized")}
    found = assess(run, nimbus, "-o", tmp_path / "model.json")
    assert [t["name"] for t in found["topologies"]] == ["words"]
    (note,) = [n for n in found["notes"] if "secret" in n]
    assert "olga is not authorized" in note
    model = msgspec.json.decode((tmp_path / "model.json").read_bytes(), type=Model)
    assert [t.name for t in model.topologies] == ["words"]
    assert {s.host: len(s.slots) for s in model.supervisors} == {"node-1": 2, "node-2": 2, "node-3": 1}
    nimbus.running = {"secret": "ACTIVE"}
    done = run("assess", "--nimbus", f"{nimbus.host}:{nimbus.port}")
    assert (done.code, "no topology can be read: secret is left out" in done.err) == (1, True)


def test_a_topology_that_ends_while_it_is_read_is_left_out(run: Run, nimbus: CountingNimbus) -> None:
    nimbus.running = {"ending": "ACTIVE", "words": "ACTIVE"}
    nimbus.refused = {"ending": storm.NotAliveException(msg="ending-1 is not alive")}
    found = assess(run, nimbus)
    assert [t["name"] for t in found["topologies"]] == ["words"]
    assert not any("ending" in n for n in found["notes"])


def test_people_read_it_too(run: Run, nimbus: CountingNimbus) -> None:
    done = run("assess", "--nimbus", f"{nimbus.host}:{nimbus.port}", "--budget", "2")
    text = " ".join(done.out.split())
    assert "supervisors: 3, running topologies: 1, placed by Storm's default scheduler. Nothing was changed." in text
    assert "of 1,200 tuples/s now, 0 (0%) as planned" in text
    assert "memory is not part of it" in text


def test_an_interruption_ends_it_with_the_best_plan_so_far(
    run: Run, nimbus: CountingNimbus, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It ended without a word."""
    interrupt(monkeypatch, after=1)
    with sigint():
        done = run("assess", "--nimbus", f"{nimbus.host}:{nimbus.port}", "--budget", "600", "-p", "online")
    assert done.code == 0
    assert "interrupted after" in done.err
    assert "as planned" in done.out


def test_what_does_not_run_as_a_whole_is_planned_and_has_no_now(run: Run, nimbus: CountingNimbus) -> None:
    """The supervisor of half of it is gone, and Nimbus has not noticed yet."""
    nimbus.supervisors = ["node-1", "node-3"]
    found = assess(run, nimbus)
    (words,) = found["topologies"]
    assert words["interNodeTps"] is None
    assert words["plannedInterNodeTps"] == 0
    assert (found["totalTps"], found["interNodeTps"]) == (0, 0)
    done = run("assess", "--nimbus", f"{nimbus.host}:{nimbus.port}", "--budget", "2")
    assert "words: not all of it runs on supervisors that live" in " ".join(done.out.split())


def workers(model: Model, plan: dict[str, Any]) -> list[list[str]]:
    """Components of each worker of a plan."""
    component = {e.start: e.component for e in model.topologies[0].executors}
    return [[component[start] for start, _ in w["executors"]] for w in plan["topologies"][0]["workers"]]


def test_what_users_declared_for_the_resource_aware_scheduler_is_kept(
    run: Run, nimbus: CountingNimbus, tmp_path: Path
) -> None:
    """Two executors to a heap, counts apart from splits, and points for four executors on a node."""
    nimbus.scheduler = RAS
    nimbus.resources = {"cpu.pcore.percent": 100.0, "memory.mb": 2000.0, "gpu": 1.0, "gpu.memory.mb": 8.0}
    nimbus.component_conf = {"topology.component.cpu.pcore.percent": 25.0}
    nimbus.conf = {
        "topology.component.resources.onheap.memory.mb": 300.0,
        "topology.component.resources.offheap.memory.mb": 100.0,
        "topology.worker.max.heap.size.mb": 700.0,
        "topology.ras.constraints": {"count": {"incompatibleComponents": ["split"]}},
    }
    found = assess(run, nimbus, "-o", tmp_path / "model.json", "--cpu-limit", "1")
    (words,) = found["topologies"]
    assert words["heldBy"] == []
    assert words["plannedInterNodeTps"] > 0, "six executors do not fit on one node"
    assert found["notes"][0].startswith("memory that components share is not told")
    model = msgspec.json.decode((tmp_path / "model.json").read_bytes(), type=Model)
    (topology,) = model.topologies
    assert {e.memory_mb for e in topology.executors} == {400.0}
    assert (topology.worker_heap_mb, topology.apart) == (700.0, [("count", "split")])
    assert model.supervisors[0].resources == {"gpu": 1.0, "gpu.memory.mb": 8.0, RESERVED_CPU: 100.0}
    assert model.supervisors[0].memory_mb == 2000.0
    done = run("plan", "compute", "-m", tmp_path / "model.json", "-o", tmp_path / "plan.json", "--budget", "2")
    assert done.code == 0, done.err
    inside = workers(model, json.loads((tmp_path / "plan.json").read_text()))
    assert max(len(w) for w in inside) <= 2
    assert not any({"count", "split"} <= set(w) for w in inside)


def test_it_is_a_page_too_with_its_json(run: Run, nimbus: CountingNimbus, tmp_path: Path) -> None:
    nimbus.conf = {"topology.spread.components": ["<count>"]}
    found = assess(run, nimbus, "--page", tmp_path / "new" / "assess.html")
    text = (tmp_path / "new" / "assess.html").read_text()
    assert "of 1,200 tuples/s now" in text
    assert "held: words: topology.spread.components is" in text
    assert "&lt;count&gt;" in text
    assert json.loads((tmp_path / "new" / "assess.json").read_text()) == found
    done = run("assess", "--nimbus", f"{nimbus.host}:{nimbus.port}", "--page", tmp_path / "assess.json")
    assert (done.code, "expected the name of a page" in done.err) == (2, True)


def test_it_tells_how_far_chance_may_put_a_rate_off(run: Run, nimbus: CountingNimbus) -> None:
    """12,000 samples of the rarest edge: two in a hundred, 95 times of a hundred."""
    (words,) = assess(run, nimbus)["topologies"]
    assert words["errorRatio"] == pytest.approx(1.96 / math.sqrt(12_000))


@pytest.mark.parametrize("execute_ms", [math.nan, math.inf, -1.0, 1e300])
def test_what_no_worker_can_have_measured_counts_for_nothing(
    run: Run, nimbus: CountingNimbus, execute_ms: float
) -> None:
    nimbus.execute_ms = execute_ms
    (words,) = assess(run, nimbus)["topologies"]
    assert words["plannedInterNodeTps"] == 0


def test_a_cluster_without_topologies_and_a_nimbus_that_is_none_are_told(run: Run, nimbus: CountingNimbus) -> None:
    nimbus.running.clear()
    done = run("assess", "--nimbus", f"{nimbus.host}:{nimbus.port}")
    assert (done.code, "no topology runs" in done.err) == (4, True)
    nimbus.hangs_up = True
    done = run("assess", "--nimbus", f"{nimbus.host}:{nimbus.port}")
    assert done.code == 3
