"""A supervisor that is killed, and one that the network cuts off.

The last of the compose cluster's tests: a supervisor that was away stays on Nimbus's blacklist for half an hour, and
what two supervisors have room for is less than the tests before need.
"""

from __future__ import annotations

import json
import subprocess

import pytest

from docker_stack import Stack
from scene import until

pytestmark = pytest.mark.timeout(3600)


def docker(*arguments: str) -> str:
    return subprocess.run(["docker", *arguments], check=True, capture_output=True, text=True, timeout=300).stdout


def test_a_killed_supervisor_container_is_done_without_and_comes_back(stack: Stack) -> None:
    until(lambda: stack.runs("flights"), "every executor to run")
    lost = stack.busiest()
    container = stack.container(lost)
    docker("kill", container)
    try:
        until(lambda: lost not in stack.supervisors(), f"Nimbus to miss {lost}")
        until(lambda: not {lost, ""} & set(stack.hosts()), "its executors to run elsewhere")
    finally:
        docker("start", container)
    until(lambda: lost in stack.supervisors(), f"{lost} to be back")
    until(lambda: stack.runs("flights"), "every executor to run")


def test_a_supervisor_without_network_is_done_without_and_comes_back(stack: Stack) -> None:
    until(lambda: stack.runs("flights"), "every executor to run")
    lost = stack.busiest()
    container = stack.container(lost)
    (network,) = json.loads(docker("inspect", container))[0]["NetworkSettings"]["Networks"]
    docker("network", "disconnect", network, container)
    try:
        until(lambda: lost not in stack.supervisors(), f"Nimbus to miss {lost}")
        until(lambda: not {lost, ""} & set(stack.hosts()), "its executors to run elsewhere")
    finally:
        docker("network", "connect", "--alias", lost, network, container)
    until(lambda: lost in stack.supervisors(), f"{lost} to be back")
    until(lambda: stack.runs("flights"), "every executor to run")
