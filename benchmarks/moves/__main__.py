"""Moves of executors on a real local cluster, one a period: what is missing meanwhile, what fails, what is late.

Each row is kept when it is measured: a run that was interrupted, or that `--within` ended, goes on with what is missing
when it is started again with `--add`.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import shutil
import textwrap
import time
import zipfile
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from rich.console import Console

from benchmarks.command import STARTED_S, console, cpu_name, exit_with
from benchmarks.hook.__main__ import topologies
from benchmarks.moves import otd, page
from benchmarks.moves.measured import Move, Second, read, summary
from benchmarks.moves.variants import Bench, Variant, until, variants
from stormpilot.local.cluster import LocalCluster
from stormpilot.local.spec import ClusterSpec
from stormpilot.nimbus import Nimbus
from stormpilot.submit.jar import build_jar
from stormpilot.submit.submission import prepare, send
from stormpilot.zookeeper.client import connect

REPOSITORY = Path(__file__).resolve().parents[2]
PROJECT = Path(__file__).with_name("project")
BENCH = REPOSITORY / "build" / "bench"
RESULTS = REPOSITORY / "docs" / "results" / "moves.md"
TARGETS = ("java", "python")
WIDTH = 118
CALM_S = 20.0
PERIOD_S = page.PERIOD_S
PAUSE_S = 10.0
"""Least time between two moves, where there is so much."""
ROW_S = 75.0
"""Seconds that a row takes beside its minutes."""
LEAST_FLOW_S = 5
TRIES = 3


def main() -> int:
    """Run the variants; 0 when nothing that was wanted was missed."""
    names = list(variants())
    parser = argparse.ArgumentParser(prog="make bench-moves", description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0, help="of every variant and kind of targets")
    parser.add_argument("--period", type=float, default=PERIOD_S, help="seconds from one move to the next")
    parser.add_argument("--within", type=float, default=600.0, help="minutes; no row is begun that would end later")
    parser.add_argument("--rate", type=float, default=100.0, help="tuples/s of the source")
    parser.add_argument("--variants", default=",".join(names), help=f"of {', '.join(names)}")
    parser.add_argument("--targets", default=",".join(TARGETS), help="java, python")
    parser.add_argument(
        "--add", action="store_true", help="keep the rows that are in build/bench/moves.json, measure the others"
    )
    parser.add_argument(
        "--otd", default="", help="forms of the word count to move one task at a time: communication, computation"
    )
    parser.add_argument("--steps", type=int, default=otd.MOST_STEPS, help="of each form at most")
    parser.add_argument("--publish", action="store_true", help="write docs/results/moves.md too")
    arguments = parser.parse_args()
    file = BENCH / "moves.json"
    kept = json.loads(file.read_text()) if arguments.add and file.exists() else {}
    rows: list[dict[str, Any]] = kept.get("rows", [])
    forms: dict[str, Any] = kept.get("otd", {})
    order = [(v, t) for v in names for t in TARGETS]
    chosen = [p for p in order if p[0] in arguments.variants.split(",") and p[1] in arguments.targets.split(",")]
    there = {(r["variant"], r["targets"]) for r in rows if r["period_s"] == arguments.period}
    chosen = [p for p in chosen if p not in there]
    if chosen:
        with Cluster() as cluster:
            for n, (variant, targets) in enumerate(chosen):
                left_s = 60 * arguments.within - (time.monotonic() - STARTED_S)
                if left_s < 60 * arguments.minutes + ROW_S:
                    console.print(f"{len(chosen) - n} rows are left; start again with --add")
                    break
                console.print(f"{variant}, {targets}: row {n + 1} of {len(chosen)}")
                row = measure(cluster.up, variants()[variant](), variant, targets, arguments)
                rows = [*rows, row]
                rows.sort(key=lambda r: (order.index((r["variant"], r["targets"])), -r["period_s"]))
                write(rows, forms, arguments)  # what was measured is kept when a later variant fails
    for form in filter(None, arguments.otd.split(",")):
        forms[form] = otd.run(otd.checked(form), arguments, console.print)
        write(rows, forms, arguments)
    page.show(rows, Console(width=150))
    lines = [line for form in forms.values() for line in otd.judged(form)]
    for line in lines:
        Console(width=150).print(line, highlight=False)
    if arguments.publish:
        shutil.copyfile(BENCH / "moves.json", RESULTS.with_suffix(".json"))
        RESULTS.write_text("\n".join(published(rows, forms, arguments)) + "\n")
    return 0 if not any("missed" in line for line in page.judged(rows) + lines) else 1


class Cluster:
    """Three supervisors whose workers are measured."""

    def __enter__(self) -> Cluster:
        conf = {"stormpilot.initial.plan.wait.secs": 10}  # for the controller's first plan on a busy machine
        spec = ClusterSpec(name="bench-moves", supervisors=3, slots=4, cpu_points=400, hook=True, conf=conf)
        self.up = LocalCluster.up(spec)
        return self

    def __exit__(self, *_: object) -> None:
        self.up.down()


def measure(
    cluster: LocalCluster, variant: Variant, name: str, targets: str, arguments: argparse.Namespace
) -> dict[str, Any]:
    """One row: submit, wait until it flows, a calm time, then a move a minute."""
    with TemporaryDirectory() as folder:
        source = Path(folder) / "source.jsonl"
        zookeeper = connect(cluster.zookeeper_hosts)
        bench = Bench(cluster, zookeeper, Path(folder), f"moving-{name}-{targets}")
        try:
            variant.prepare(bench)
            for again in range(TRIES):
                if again:
                    end(bench)
                bench.topology_id = submit(bench, variant, targets, source, arguments.rate)
                until("tuples to flow", lambda: flows(read(source), arguments.rate))
                if variant.ready(bench):
                    break
            calm_s = time.time()
            time.sleep(CALM_S)
            begin_s = time.time()
            moves: list[Move] = []
            while not moves or time.time() < begin_s + 60 * arguments.minutes:
                moves.append(variant.move(bench, len(moves)))
                say(name, targets, moves[-1], read(source))
                until_s = moves[0].begun_s + arguments.period * len(moves)
                time.sleep(max(until_s - time.time(), min(PAUSE_S, arguments.period / 4)))
            end_s = time.time()
            row = summary(read(source), ended(moves, read(source), arguments.rate), (calm_s, begin_s), end_s)
        except BaseException:
            log = bench.folder / "controller.log"
            if log.exists():
                console.print("\n".join(log.read_text().splitlines()[-12:]), markup=False)
            raise  # the topology ends with its cluster, which is next
        else:
            bench.stop()
            end(bench)
        finally:
            bench.stop()
            zookeeper.stop()
    at = time.strftime("%Y-%m-%d %H:%M", time.gmtime())
    notes = sorted({m.note for m in moves if m.note})
    load = round(os.getloadavg()[0], 1)
    return {
        **{"variant": name, "title": variant.title, "targets": targets},
        **row,
        **{"period_s": arguments.period, "load_average": load, "notes": notes, "at": at, "cpu": cpu_name()},
    }


def submit(bench: Bench, variant: Variant, targets: str, source: Path, rate_tps: float) -> str:
    """Submit the topology with its Java classes; its id."""
    buffer = io.BytesIO(build_jar(PROJECT / "src"))
    with zipfile.ZipFile(buffer, "a") as whole, zipfile.ZipFile(topologies()) as java:
        for name in java.namelist():
            if name.endswith(".class"):
                whole.writestr(name, java.read(name))
    jar = bench.folder / "moving.jar"
    jar.write_bytes(buffer.getvalue())
    submission = prepare(
        PROJECT,
        f"moving_{targets}",
        options={"bench.rate.tps": rate_tps, "bench.source.file": str(source), "stormpilot.report.secs": 1},
        nimbus=str(bench.cluster.nimbus_address),
        instrument=False,
        override_name=bench.name,
        jar=jar,
        routable=variant.routable,
        standby=variant.standby,
    )
    return send(submission)


def end(bench: Bench) -> None:
    """Kill the topology and wait until its workers are gone."""
    if not bench.topology_id:
        return
    with Nimbus.connect_leader(bench.cluster.nimbus_address) as nimbus:
        nimbus.kill(bench.name, wait_s=0)
    until("the workers to end", lambda: not bench.cluster.workers(), 90)


def flows(seconds: dict[int, Second], rate_tps: float) -> bool:
    """Whether tuples were acked at nearly the rate in each of the last seconds."""
    now = int(time.time())
    return all(seconds.get(s, Second()).acked >= 0.9 * rate_tps for s in range(now - 1 - LEAST_FLOW_S, now - 1))


def ended(moves: list[Move], seconds: dict[int, Second], rate_tps: float) -> list[Move]:
    """The moves, each until throughput was back for three seconds as well."""
    found = []
    for move in moves:
        s = int(move.ended_s)
        while s < max(seconds, default=0) and any(
            seconds.get(k, Second()).acked < 0.8 * rate_tps for k in (s, s + 1, s + 2)
        ):
            s += 1
        found.append(Move(move.begun_s, max(move.ended_s, float(s)), move.executors, move.note))
    return found


def say(name: str, targets: str, move: Move, seconds: dict[int, Second]) -> None:
    """One line per move."""
    during = [seconds.get(s, Second()) for s in range(int(move.begun_s), int(move.ended_s))]  # whole seconds
    console.print(
        f"{name}, {targets}: {move.executors} executors in {move.ended_s - move.begun_s:.1f} s, at least "
        f"{min((s.acked for s in during), default=0)} tuples in a second, {sum(s.failed for s in during)} failed"
        + (f" ({move.note})" if move.note else "")
    )


def write(rows: list[dict[str, Any]], forms: dict[str, Any], arguments: argparse.Namespace) -> None:
    """`build/bench/moves.json`."""
    result = {
        "benchmark": "moves",
        "parameters": {"minutes": arguments.minutes, "rate_tps": arguments.rate, "period_s": arguments.period},
        "rows": rows,
        "otd": forms,
    }
    BENCH.mkdir(parents=True, exist_ok=True)
    (BENCH / "moves.json").write_text(json.dumps(result, indent=1) + "\n")


def published(rows: list[dict[str, Any]], forms: dict[str, Any], arguments: argparse.Namespace) -> list[str]:
    """`docs/results/moves.md`."""
    loads, cpus = [r["load_average"] for r in rows], sorted({r["cpu"] for r in rows})
    told = (
        f"`make bench-moves`, Storm 2.8.3, a shared virtual machine of 2 cores ({' or '.join(cpus)}), load "
        f"average {min(loads):g} to {max(loads):g}, three supervisors with the local cluster's quick timings. A "
        f"source, two tasks that send on (shuffled), two that count (by key); {arguments.rate:g} tuples/s, a move "
        f"every {PERIOD_S:g} s, as in the N-Storm paper, where a row says nothing else. Columns `>= n%` are seconds "
        "in which at least n% of the normal throughput (tuples acked at the source) was missing, over all moves; "
        "failed tuples include those that timed out (15 s); p99 is of the complete latency, outside of moves and "
        "from the beginning of a move until throughput is back. `storm rebalance` goes to two workers and back to "
        "three; by default it switches the sources off for 30 s first. The assignment change and the rolling "
        "moves carry out the same plan, from Storm's placement on three nodes to one node and back: four "
        "executors, all that can be routed, each time. [moves.json](moves.json) has every number."
    )
    return [
        "# What moving executors costs",
        "",
        *textwrap.wrap(told, WIDTH, break_long_words=False, break_on_hyphens=False),
        "",
        *page.markdown(rows),
        "",
        *(line for form in forms.values() for line in otd.markdown(form)),
        f"Measured {min(r['at'] for r in rows)} to {max(r['at'] for r in rows)} UTC.",
    ]


if __name__ == "__main__":
    exit_with("bench-moves", main)
