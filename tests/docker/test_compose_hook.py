"""The workers' jar in Storm's image: a topology in which nothing reports is measured, and judged, by its workers."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from typing import Any

import pytest

from docker_stack import Stack
from scene import REPOSITORY, until

pytestmark = pytest.mark.timeout(3600)
NAME = "wordcount_comm"
UNMEASURED = ("NOT_INSTRUMENTED", "INSUFFICIENT_METRICS", "INFEASIBLE")
"""Why no plan is made of it."""
COMMAND = re.compile(r"^    docker compose exec controller (stormpilot submit (?:.*\\\n)*.*)$", re.MULTILINE)


def command_of_the_page() -> list[str]:
    """What docs/guide/install.md tells to type, after `docker compose exec controller`."""
    (found,) = COMMAND.findall((REPOSITORY / "docs" / "guide" / "install.md").read_text("utf-8"))
    return shlex.split(found.replace("\\\n", ""))


@pytest.fixture
def hooked(stack: Stack) -> Iterator[dict[str, Any]]:
    """The snapshot of a topology submitted as the page says."""
    stack.inside("controller", *command_of_the_page())
    try:
        until(lambda: stack.topology(NAME).get("unplaced") == 0, "every executor to be placed")
        yield stack.znode(f"/stormpilot/v1/topologies/{stack.topology(NAME)['id']}")
    finally:
        stack.inside("nimbus", "storm", "kill", NAME, "-w", "0", check=False)
        until(lambda: not stack.topology(NAME), "the topology to be gone")


def test_a_topology_that_reports_nothing_is_measured_in_its_workers(stack: Stack, hooked: dict[str, Any]) -> None:
    folder = f"/stormpilot/v1/load/{hooked['id']}"

    def reports() -> list[dict[str, Any]]:
        return [r for name in stack.children(folder) if (r := stack.znode(f"{folder}/{name}"))]

    wanted = {t for e in hooked["executors"] for t in range(e["start"], e["end"] + 1) if e["component"] != "__system"}
    until(lambda: {t["task"] for r in reports() for t in r["tasks"]} >= wanted, "a report of every task")
    assert all(r["worker"] for r in reports()), "the JVMs of the workers report, nothing else"
    assert {t["host"] for r in reports() for t in r["tasks"]} <= {"supervisor-1", "supervisor-2", "supervisor-3"}

    def judged() -> bool:
        seen = stack.topology(NAME)
        decision = seen.get("decision") or {"reason": "NOT_INSTRUMENTED"}
        return bool(seen.get("totalTps")) and decision["reason"] not in UNMEASURED

    until(judged, "the controller to know its rates, and to judge plans by them")
    assert stack.topology(NAME)["decision"]["missingTasks"] == 0
