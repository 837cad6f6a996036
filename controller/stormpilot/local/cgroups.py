"""CPU quotas by control groups, of version 1 (`cpu.cfs_quota_us`) or 2 (`cpu.max`): whichever has the CPU."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Literal

import msgspec

from stormpilot.errors import UnreachableError

PERIOD_US = 100_000
"""As containers with `--cpus` have it."""
WEIGHT = 10
"""Processes of the machine that a group counts as where CPU is short: as one, a node would not get what it has."""
REMOVED_WITHIN_S = 10.0
_SELF = Path("/proc/self")


class CpuControl(msgspec.Struct, frozen=True):
    """Where control groups with a CPU quota are made, and how their quota is written."""

    version: Literal[1, 2]
    folder: Path

    def quota(self, cores: float) -> list[tuple[str, str]]:
        """Files of a group and what to write into them, in order."""
        quota_us = max(1000, round(cores * PERIOD_US))
        if self.version == 2:
            return [("cpu.max", f"{quota_us} {PERIOD_US}"), ("cpu.weight", str(100 * WEIGHT))]
        quota = [("cpu.cfs_period_us", str(PERIOD_US)), ("cpu.cfs_quota_us", str(quota_us))]
        return [*quota, ("cpu.shares", str(1024 * WEIGHT))]


def cpu_control(mounts: str, own: str, controllers: dict[str, str]) -> CpuControl | None:
    """The CPU controller of this machine; None where it has none.

    Parameters
    ----------
    mounts
        `/proc/self/mounts`.
    own
        `/proc/self/cgroup`: with version 1, groups are made below our own, so that they stay within its limits.
    controllers
        `cgroup.controllers` of the mounts of version 2, by mount point.
    """
    top = _mounted(mounts, controllers)
    if top is None or top.version == 2:
        return top
    paths = [p for _, names, p in (line.split(":", 2) for line in own.splitlines()) if "cpu" in names.split(",")]
    return CpuControl(1, top.folder / (paths[0].lstrip("/") if paths else ""))


def _mounted(mounts: str, controllers: dict[str, str]) -> CpuControl | None:
    """Where the CPU controller is mounted: of all groups, whoever made them."""
    found = [
        (parts[1], parts[2], parts[3].split(",")) for line in mounts.splitlines() if len(parts := line.split()) > 3
    ]
    for point, kind, options in found:
        if kind == "cgroup" and "cpu" in options:
            return CpuControl(1, Path(point))
    for point, kind, _ in found:
        if kind == "cgroup2" and "cpu" in controllers.get(point, "").split():
            return CpuControl(2, Path(point))
    return None


def of_this_machine() -> CpuControl:
    """The CPU controller of this machine; `UnreachableError` where it has none."""
    found = cpu_control(*_of_the_kernel())
    if found is None:
        raise UnreachableError("isolated nodes need a CPU controller (cgroup v1 or v2), and this machine mounts none")
    return found


def named(beginning: str) -> list[Path]:
    """Groups of this machine whose names begin so, sorted.

    With version 1 they are below the group of who made them: another service than that which looks for them, perhaps.
    """
    mounts, _, controllers = _of_the_kernel()
    top = _mounted(mounts, controllers)
    if top is None:
        return []
    below = os.walk(top.folder)
    return sorted(Path(at) / name for at, names, _ in below for name in names if name.startswith(beginning))


def _of_the_kernel() -> tuple[str, str, dict[str, str]]:
    """Arguments of `cpu_control` on this machine."""
    mounts = (_SELF / "mounts").read_text()
    points = [line.split()[1] for line in mounts.splitlines() if " cgroup2 " in line]
    files = {p: Path(p) / "cgroup.controllers" for p in points}
    controllers = {p: file.read_text() for p, file in files.items() if file.is_file()}
    return mounts, (_SELF / "cgroup").read_text(), controllers


def create(control: CpuControl, name: str, cores: float) -> Path:
    """Make a group that may use so many cores."""
    group = control.folder / name
    try:
        if control.version == 2:
            (control.folder / "cgroup.subtree_control").write_text("+cpu")
        group.mkdir()
        for file, text in control.quota(cores):
            (group / file).write_text(text)
    except OSError as e:
        raise UnreachableError(f"cannot make the control group {group}: {e.strerror}") from None
    return group


def remove(groups: Iterable[Path]) -> None:
    """Remove groups; their processes have been ended, and leave them within moments."""
    deadline = time.monotonic() + REMOVED_WITHIN_S
    for group in groups:
        while group.exists():
            try:
                group.rmdir()
            except OSError as e:
                if time.monotonic() > deadline:
                    raise UnreachableError(f"cannot remove the control group {group}: {e.strerror}") from None
                time.sleep(0.05)
