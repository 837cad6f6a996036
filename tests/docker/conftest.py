"""Tests in containers: skipped, with a line that says why, where Docker does not run or images are missing."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from docker_stack import Stack

REPOSITORY = Path(__file__).resolve().parents[2]
NEEDED = ("zookeeper:3.9", "storm:2.8", "python:3.11-slim-bookworm")


def _docker(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["docker", *arguments], capture_output=True, text=True, timeout=300, check=False)


def why_not() -> str | None:
    """Why containers cannot run here; None if they can."""
    if shutil.which("docker") is None:
        return "there is no docker command here"
    if _docker("info").returncode != 0:
        return "the Docker daemon does not answer"
    missing = [i for i in NEEDED if _docker("image", "inspect", i).returncode != 0]
    if missing and os.environ.get("STORMPILOT_TEST_PULL") != "1":
        return f"images are missing: {', '.join(missing)} (docker pull them, or STORMPILOT_TEST_PULL=1)"
    return None


def why_no_build() -> str | None:
    """Why images cannot be built here: a container reaches no Python packages, or none of Debian; None if it does."""
    pip = ("pip", "python:3.11-slim-bookworm", "download", "-q", "--no-deps", "--retries=1", "-d", "/tmp", "kazoo")
    apt = ("apt-get", "storm:2.8", "update", "-qq", "-o", "APT::Update::Error-Mode=any", "-o", "Acquire::Retries=1")
    for what, command in (("Python packages", pip), ("Debian packages", apt)):
        try:
            reached = _docker("run", "--rm", "--user=root", "--entrypoint", *command).returncode == 0
        except subprocess.TimeoutExpired:
            reached = False
        if not reached:
            return f"images cannot be built here, a container reaches no registry of {what}"
    return None


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Everything in this folder is marked `docker`, and skipped where Docker does not run."""
    mine = [i for i in items if Path(i.path).is_relative_to(Path(__file__).parent)]
    reason = why_not() if mine else None
    for item in mine:
        item.add_marker(pytest.mark.docker)
        if reason is not None:
            item.add_marker(pytest.mark.skip(reason=f"Docker: {reason}"))


@pytest.fixture(scope="session")
def stack() -> Iterator[Stack]:
    """The cluster of docker-compose.yml with `flights` submitted; leave it as you found it."""
    made = Stack(REPOSITORY, f"stormpilot-test-{os.getpid()}")
    try:
        made.build()
    except (AssertionError, subprocess.TimeoutExpired):
        if (reason := why_no_build()) is not None:
            pytest.skip(f"Docker: {reason}")
        raise
    try:
        made.up()
        yield made
    finally:
        made.down()
