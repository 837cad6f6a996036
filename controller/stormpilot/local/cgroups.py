"""CPU quotas by control groups, of version 1 (`cpu.cfs_quota_us`) or 2 (`cpu.max`): whichever has the CPU."""

from __future__ import annotations

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
    found = [
        (parts[1], parts[2], parts[3].split(",")) for line in mounts.splitlines() if len(parts := line.split()) > 3
    ]
    for point, kind, options in found:
        if kind == "cgroup" and "cpu" in options:
            paths = [
                p for _, names, p in (line.split(":", 2) for line in own.splitlines()) if "cpu" in names.split(",")
            ]
            return CpuControl(1, Path(point) / (paths[0].lstrip("/") if paths else ""))
    for point, kind, _ in found:
        if kind == "cgroup2" and "cpu" in controllers.get(point, "").split():
            return CpuControl(2, Path(point))
    return None


def of_this_machine() -> CpuControl:
    """The CPU controller of this machine; `UnreachableError` where it has none."""
    mounts = Path("/proc/self/mounts").read_text()
    points = [line.split()[1] for line in mounts.splitlines() if " cgroup2 " in line]
    files = {p: Path(p) / "cgroup.controllers" for p in points}
    controllers = {p: file.read_text() for p, file in files.items() if file.is_file()}
    found = cpu_control(mounts, Path("/proc/self/cgroup").read_text(), controllers)
    if found is None:
        raise UnreachableError("isolated nodes need a CPU controller (cgroup v1 or v2), and this machine mounts none")
    return found


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
