"""CPU quotas by control groups, of version 1 (`cpu.cfs_quota_us`) or 2 (`cpu.max`): whichever has the CPU."""

from __future__ import annotations

import errno
import os
import re
import time
from collections.abc import Iterable
from pathlib import Path, PurePosixPath
from typing import Literal, NamedTuple

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


class _Mount(NamedTuple):
    """A mount of the CPU controller. `root`: the group whose folder `control.folder` is, as /proc/PID/cgroup names it.

    In a container without a namespace of groups that is the container's group, by its path on the host.
    """

    root: str
    control: CpuControl


def cpu_control(mounts: str, own: str, controllers: dict[str, str]) -> CpuControl | None:
    """The CPU controller of this machine; None where it has none.

    Parameters
    ----------
    mounts
        `/proc/self/mountinfo`.
    own
        `/proc/self/cgroup`: with version 1, groups are made below our own, so that they stay within its limits.
    controllers
        `cgroup.controllers` of the mounts of version 2, by mount point.

    Raises
    ------
    UnreachableError
        With version 1, our own group is below no mount.
    """
    mounted = _mounted(mounts, controllers)
    if not mounted:
        return None
    first = mounted[0]
    if first.control.version == 2:
        return first.control
    group = _own_group(own)
    for mount in mounted:
        if mount.control.version == 1 and (below := _below(group, mount.root)) is not None:
            return CpuControl(1, mount.control.folder / below)
    raise UnreachableError(
        f"isolated nodes need our own control group (cgroup v1); {group} is not below {first.root}, which is mounted "
        f"at {first.control.folder}: start the container with --cgroupns=private, or mount all groups of the host"
    )


def _own_group(own: str) -> str:
    """Our group of the CPU controller of version 1, a path from its root."""
    for line in own.splitlines():
        _, names, path = line.split(":", 2)
        if "cpu" in names.split(","):
            return path
    return "/"


def _below(group: str, root: str) -> PurePosixPath | None:
    """A group's path from a root; None where it is not below, or outside of our namespace of groups (`/..`)."""
    path = PurePosixPath(group)
    return path.relative_to(root) if path.is_relative_to(root) and ".." not in path.parts else None


def _mounted(mounts: str, controllers: dict[str, str]) -> list[_Mount]:
    """Mounts of the CPU controller, those of version 1 first: all its groups are below them, whoever made them."""
    first, second = [], []
    for line in mounts.splitlines():
        left, _, right = line.partition(" - ")
        if len(fields := left.split()) < 5 or len(kind := right.split()) < 3:
            continue
        root, point = _unescaped(fields[3]), _unescaped(fields[4])
        if kind[0] == "cgroup" and "cpu" in kind[2].split(","):
            first.append(_Mount(root, CpuControl(1, Path(point))))
        elif kind[0] == "cgroup2" and "cpu" in controllers.get(point, "").split():
            second.append(_Mount(root, CpuControl(2, Path(point))))
    return first + second


def _unescaped(path: str) -> str:
    r"""A path of mountinfo, in which the kernel writes spaces and the like as octal numbers (`\040`)."""
    return re.sub(r"\\([0-7]{3})", lambda found: chr(int(found[1], 8)), path)


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
    mounted = _mounted(mounts, controllers)
    if not mounted:
        return []
    widest = min(mounted, key=lambda m: (m.control.version, len(PurePosixPath(m.root).parts)))
    below = os.walk(widest.control.folder)
    return sorted(Path(at) / name for at, names, _ in below for name in names if name.startswith(beginning))


def _of_the_kernel() -> tuple[str, str, dict[str, str]]:
    """Arguments of `cpu_control` on this machine."""
    mounts = (_SELF / "mountinfo").read_text()
    points = [_unescaped(line.split()[4]) for line in mounts.splitlines() if " - cgroup2 " in line]
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
        hint = " (it is the container's: mount it writable, or run privileged)" if e.errno == errno.EROFS else ""
        raise UnreachableError(f"cannot make the control group {group}: {e.strerror}{hint}") from None
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
