"""Profiles each task on isolated nodes, some times over.

A run that was interrupted, or that `--minutes` ended, goes on when it is started again; `--restart` begins anew. Tasks
that it does not measure keep the profiles of docs/results/profile.json; with `--beside` those that it measures too.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from benchmarks.command import STARTED_S, exit_with, results_of, resumable, say
from benchmarks.profile import page, service, speed
from stormpilot.local.cluster import LocalCluster
from stormpilot.local.spec import ClusterSpec, NodeSpec

REPOSITORY = Path(__file__).resolve().parents[2]
OUT = REPOSITORY / "build" / "bench" / "profile"
RESULTS = REPOSITORY / "docs" / "results"
PROJECT = REPOSITORY / "topologies"
CLUSTER = "bench-profile"
TASKS = {
    "xml": "micro_tasks.parse_xml:ParseXml",
    "pi": "micro_tasks.pi:Pi",
    "file": "micro_tasks.file_write:BatchFileWrite",
    "blob": "micro_tasks.blob_download:BlobDownload",
    "table": "micro_tasks.table_query:TableQuery",
}
WAITING = ("blob", "table")
"""Tasks that wait for a storage service: azurite (npm), behind a slow link."""
WAITING_STEP, WAITING_THREADS = 3, 13
"""Threads of them that are added at a time, and the most: one thread leaves most of its slot unused."""
TIMES, WAITING_TIMES = ("--warm-up", "1.5", "--trial", "4.5"), ("--warm-up", "2", "--trial", "9")
"""Of trials. Tasks that wait do a few tuples/s, which show little in the time of one that does hundreds."""
CORES, MBIT, MEMORY_MB = 0.4, 200.0, 1024.0
SOURCE_CORES = 1.0
"""Of the node with source and sink: they are not to be what limits a trial."""
RULES = (
    *("--rate-step", "10%", "--settle", "6"),
    # An executor without tuples sleeps at once: Storm's default of 1000 rounds of spinning is CPU that the task lacks.
    *("-O", "topology.bolt.wait.progressive.level2.count=0"),
    # Threads take turns, as in the sizes that are made of these models. By default Storm draws among threads whose load
    # is the same, so that one gets several tuples in a row, and they queue below the rate that all sustain.
    *("-O", "topology.disable.loadaware.messaging=true"),
)


def main() -> int:
    """Run what is missing; 0 when everything was measured and repetitions agree."""
    parser = argparse.ArgumentParser(prog="make bench-profile", description=__doc__)
    parser.add_argument("--repetitions", type=int, default=2, help="of every profile")
    parser.add_argument("--max-threads", type=int, default=5, help="of a task that does not wait")
    parser.add_argument("--only", choices=list(TASKS), help="one task")
    parser.add_argument("--beside", action="store_true", help="new repetitions stand beside the published ones")
    resumable(parser, "docs/results/profile.md")
    arguments = parser.parse_args()
    results_of(OUT, restart=arguments.restart)
    if not arguments.report:
        ends_s = STARTED_S + 60 * arguments.minutes
        wanted = [
            (task, n)
            for n in range(1, arguments.repetitions + 1)
            for task in TASKS
            if arguments.only in (None, task) and not result(task, n).exists()
        ]
        if wanted:
            profiles(wanted, ends_s, arguments.max_threads)
    found = page.collect(OUT, list(TASKS), arguments.repetitions, RESULTS / "profile.json", beside=arguments.beside)
    (OUT.parent / "profile.json").write_text(json.dumps(found, indent=1) + "\n")
    page.show(found)
    if arguments.publish:
        page.publish(found, OUT, RESULTS)
    return 0 if page.good(found) else 1


def result(task: str, repetition: int) -> Path:
    """The model of a repetition, which is there when it is complete."""
    return OUT / f"{task}-{repetition}.json"


def profiles(wanted: list[tuple[str, int]], ends_s: float, max_threads: int) -> None:
    """Profile on one cluster, one task after the other, until the time is over."""
    spec = ClusterSpec(
        name=CLUSTER,
        supervisors=2,
        slots=1,
        memory_mb=MEMORY_MB,
        hook=True,
        isolate=True,
        nodes=(NodeSpec(cores=CORES, mbit=MBIT), NodeSpec(cores=SOURCE_CORES, mbit=MBIT)),
    )
    cluster = LocalCluster.up(spec, lambda _: None)
    try:
        say("an isolated cluster is up")
        for task, repetition in wanted:
            minutes = (ends_s - time.monotonic()) / 60
            if minutes < 1:
                say("the time is over; start again to go on")
                return
            say(f"{task}, repetition {repetition}; load average {os.getloadavg()[0]:.1f}")
            done = profile(cluster, task, repetition, minutes, max_threads)
            if done:
                load = {"loadAverage": round(os.getloadavg()[0], 2)}
                (OUT / f"{task}-{repetition}.load.json").write_text(json.dumps(load) + "\n")
    finally:
        cluster.down(purge=True)


def profile(cluster: LocalCluster, task: str, repetition: int, minutes: float, max_threads: int) -> bool:
    """Run `stormpilot profile`; whether the model is complete."""
    unfinished = OUT / f"{task}-{repetition}.part.json"
    with ExitStack() as stack:
        asked: list[Any] = ["--max-threads", max_threads, *TIMES]
        if task in WAITING:
            connection = stack.enter_context(service.running(cluster.nimbus_host, service.Link()))
            programs = service.install()
            asked = ["--max-threads", WAITING_THREADS, *WAITING_TIMES]
            asked += ["--runner", programs / "stormpilot_run", "-O", f"micro.storage.connection={connection}"]
            asked += ["--thread-step", WAITING_STEP, "--first-rate", 1]
        return _profiled(cluster, task, repetition, minutes, unfinished, asked)


def _profiled(
    cluster: LocalCluster,
    task: str,
    repetition: int,
    minutes: float,
    unfinished: Path,
    asked: list[Any],
) -> bool:
    command: list[Any] = [
        sys.executable,
        *("-m", "stormpilot", "profile", TASKS[task], "--project", PROJECT, "-e", "local", "--name", task),
        *("-o", unfinished, "--state", OUT / f"{task}-{repetition}.trials.jsonl"),
        *("--plot", OUT / f"{task}-{repetition}.svg", "--limit", f"{max(minutes - 0.5, 0.5):.2f}"),
        *("--nimbus", str(cluster.nimbus_address), "--zookeeper", cluster.zookeeper_hosts),
        *("--on", "supervisor-01", "--source-on", "supervisor-02", *RULES, *asked),
    ]
    with speed.Speeds(OUT / f"{task}-{repetition}.trials.jsonl", OUT / f"{task}-{repetition}.speed.jsonl"):
        ended = subprocess.run([str(c) for c in command], check=False)
    if ended.returncode == 0:
        unfinished.replace(result(task, repetition))
    return ended.returncode == 0


if __name__ == "__main__":
    exit_with("bench-profile", main)
