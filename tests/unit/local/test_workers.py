"""Workers of a local cluster: told from the daemons and from Storm's log writer by their command line."""

from __future__ import annotations

from stormpilot.local.processes import Process
from stormpilot.local.workers import Worker, workers_among

MAIN = "org.apache.storm.daemon.worker.Worker"


def process(pid: int, *argv: str) -> Process:
    return Process(pid, 1, float(pid), argv)


def test_workers_are_listed_by_supervisor_and_port_and_nothing_else_is() -> None:
    def worker(pid: int, supervisor: str, port: int) -> Process:
        return process(pid, "java", "-cp", "x", MAIN, "flights-1", supervisor, "6627", str(port), "w")

    found = workers_among(
        [
            worker(12, "b", 6701),
            worker(11, "b", 6700),
            process(13, "java", "org.apache.storm.LogWriter", "java", MAIN, "flights-1", "b", "6627", "6700", "w"),
            process(14, "java", "org.apache.storm.daemon.nimbus.Nimbus"),
            worker(15, "a", 6702),
        ]
    )
    assert found == [
        Worker("a", 6702, 15, "flights-1", 15.0),
        Worker("b", 6700, 11, "flights-1", 11.0),
        Worker("b", 6701, 12, "flights-1", 12.0),
    ]
