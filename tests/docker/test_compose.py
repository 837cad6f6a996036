"""docker-compose.yml from built images to a placed topology, and its controller restarted."""

from __future__ import annotations

import json
import subprocess

import pytest
import requests

from docker_stack import Stack
from scene import until

pytestmark = pytest.mark.timeout(3600)
SERVICES = ("zookeeper", "nimbus", "supervisor-1", "supervisor-2", "supervisor-3", "controller")


def docker(*arguments: str) -> str:
    return subprocess.run(["docker", *arguments], check=True, capture_output=True, text=True, timeout=300).stdout


def test_one_command_brings_up_flights_placed_by_us(stack: Stack) -> None:
    """What that took is in build/compose-up.json."""
    flights = stack.topology("flights")
    assert flights["plan"].startswith("p-")
    assert flights["mode"] == "act"
    placed = stack.hosts()
    assert "" not in placed
    assert set(placed) <= {"supervisor-1", "supervisor-2", "supervisor-3"}
    cluster = stack.znode("/stormpilot/v1/cluster")
    tags = {s["host"]: (s["meta"]["site"], s["meta"]["rack"]) for s in cluster["supervisors"]}
    assert tags["supervisor-1"] == ("east", "/east-1")
    assert tags["supervisor-3"] == ("west", "/west-1")


def test_plans_are_signed_with_a_key_that_nimbus_and_the_controller_share(stack: Stack) -> None:
    plans = [stack.znode(f"/stormpilot/v1/plans/{name}") for name in stack.children("/stormpilot/v1/plans")]
    assert plans
    assert all(plan["signature"] for plan in plans)
    seen = {s for s in SERVICES if stack.inside(s, "sh", "-c", "ls /run/stormpilot 2>/dev/null; true").strip()}
    assert seen == {"nimbus", "controller"}


def test_no_process_of_it_is_root_and_every_container_is_healthy(stack: Stack) -> None:
    for service in SERVICES:
        uids = docker("top", stack.container(service), "-eo", "uid,pid,comm").splitlines()[1:]
        assert uids
        assert not [line for line in uids if line.split()[0] == "0"], service
        state = json.loads(docker("inspect", stack.container(service)))[0]
        assert state["State"]["Health"]["Status"] == "healthy", service
        assert state["HostConfig"]["CapDrop"] == ["ALL"]
    ports = json.loads(docker("inspect", stack.container("controller")))[0]["NetworkSettings"]["Ports"]["8470/tcp"]
    assert [p["HostIp"] for p in ports] == ["127.0.0.1"]


def test_the_published_port_serves_what_prometheus_wants_and_changes_nothing(stack: Stack) -> None:
    port = json.loads(docker("inspect", stack.container("controller")))[0]["NetworkSettings"]["Ports"]["8470/tcp"][0]
    url = f"http://127.0.0.1:{port['HostPort']}"
    assert "stormpilot_leader 1.0" in requests.get(f"{url}/metrics", timeout=300).text
    assert requests.post(f"{url}/api/v1/pause", json={}, timeout=300).status_code == 403


def test_the_doctor_finds_nothing_wrong(stack: Stack) -> None:
    def wrong() -> list[str]:
        said = json.loads(stack.inside("controller", "stormpilot", "doctor", "-f", "json", check=False))
        return [f"{f['check']}: {f['text']}" for f in said["findings"] if f["level"] == "fail"]

    until(lambda: not wrong(), "a healthy installation")


def test_a_restarted_controller_leads_again_and_no_worker_restarts(stack: Stack) -> None:
    until(lambda: stack.runs("flights"), "every executor to run")
    stack.inside("controller", "stormpilot", "pause", "--why", "test")
    try:
        until(stack.workers_run, "a worker for every slot of the placement")
        workers, epoch = stack.workers(), stack.status()["controller"]["epoch"]
        assert any(workers.values())
        docker("restart", "-t", "10", stack.container("controller"))

        def leads() -> bool:
            controller = stack.status().get("controller", {})
            return bool(controller.get("up")) and controller.get("epoch", 0) > epoch

        until(leads, "the restarted controller to lead")
        assert stack.workers() == workers
    finally:
        stack.inside("controller", "stormpilot", "resume", check=False)
