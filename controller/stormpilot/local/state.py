"""Where a cluster keeps what, and the two files that describe it.

`cluster.json` says what was built and is written once, by the command that starts the cluster; `processes.json` says
what runs and is written by the keeper alone.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeVar

import msgspec

from stormpilot.errors import UsageError
from stormpilot.local.home import own_folder
from stormpilot.local.isolation import Isolation
from stormpilot.local.spec import ClusterSpec, check_name

T = TypeVar("T")


def state_root() -> Path:
    """Parent of the clusters' folders: below `$STORMPILOT_STATE`, else `~/.local/state/stormpilot`."""
    return own_folder("STORMPILOT_STATE", ".local/state/stormpilot") / "clusters"


@dataclass(frozen=True)
class Layout:
    """The folder of one cluster."""

    directory: Path

    @classmethod
    def of(cls, name: str) -> Layout:
        """The folder of the cluster of this name, existing or not."""
        check_name(name)
        return cls(state_root() / name)

    @classmethod
    def known(cls, name: str) -> Layout:
        """The folder of the cluster of this name; UsageError with the known ones if there is none."""
        layout = cls.of(name)
        if not layout.description_file.is_file():
            known = ", ".join(one.directory.name for one in cls.existing()) or "none"
            raise UsageError(f"no local cluster is named {name} (known: {known}); `stormpilot local up` starts one")
        return layout

    @classmethod
    def existing(cls) -> Iterator[Layout]:
        """The folders of all clusters, running or not, by name."""
        root = state_root()
        for directory in sorted(root.iterdir()) if root.is_dir() else []:
            layout = cls(directory)
            if layout.description_file.is_file():
                yield layout

    @property
    def description_file(self) -> Path:
        """State of the built cluster."""
        return self.directory / "cluster.json"

    @property
    def processes_file(self) -> Path:
        """Running processes."""
        return self.directory / "processes.json"

    @property
    def keeper_socket(self) -> Path:
        """Where the keeper listens."""
        return self.directory / "keeper.sock"

    @property
    def conf(self) -> Path:
        """Configuration of each daemon."""
        return self.directory / "conf"

    @property
    def data(self) -> Path:
        """Local folders of the daemons; worthless once the cluster is down."""
        return self.directory / "data"

    @property
    def logs(self) -> Path:
        """One folder per daemon; workers' logs are in their supervisor's."""
        return self.directory / "logs"

    @property
    def extlib(self) -> Path:
        """Jars for daemons and workers."""
        return self.directory / "extlib"

    @property
    def extlib_daemon(self) -> Path:
        """Jars for daemons: the scheduler."""
        return self.directory / "extlib-daemon"


class Daemon(msgspec.Struct, frozen=True):
    """One daemon of the cluster and how to start it.

    `host` and `port` are where clients reach it; `env` comes on top of the keeper's environment.
    """

    id: str
    kind: Literal["zookeeper", "nimbus", "supervisor", "forwarder"]
    host: str
    port: int
    argv: list[str]
    env: dict[str, str]
    log: Path
    output: Path


class SupervisorNode(msgspec.Struct, frozen=True):
    """Resources that a supervisor declares to Storm; None: none."""

    id: str
    host: str
    rack: str
    site: str | None
    slots: list[int]
    cpu_points: float | None
    memory_mb: float | None


class Description(msgspec.Struct, frozen=True):
    """`cluster.json`. `id` is what all processes carry in their environment, `created_at` seconds since the epoch."""

    schema: int
    name: str
    id: str
    created_at: float
    storm_version: str
    storm_home: Path
    spec: ClusterSpec
    daemons: list[Daemon]
    supervisors: list[SupervisorNode]
    isolation: Isolation | None = None

    def of_kind(self, kind: str) -> list[Daemon]:
        """Daemons of one kind."""
        return [d for d in self.daemons if d.kind == kind]


class Remains(msgspec.Struct, frozen=True):
    """The part of a `cluster.json` that tells what may be left of the cluster, whichever version wrote it."""

    id: str
    isolation: Any = None


class DaemonProcess(msgspec.Struct):
    """A daemon's process: `pid` is None when it does not run.

    `exit_code` (minus a signal's number) says how the process before ended, if one did. `restarts`: how often it was
    started again because it had ended by itself, since somebody started it.
    """

    pid: int | None = None
    started_at: float | None = None
    exit_code: int | None = None
    restarts: int = 0


class Processes(msgspec.Struct):
    """`processes.json`."""

    keeper_pid: int
    state: Literal["starting", "up", "ending", "down"]
    daemons: dict[str, DaemonProcess]


def read_description(layout: Layout) -> Description:
    """Read `cluster.json`; UsageError if there is none or it is not ours."""
    with _saying(f"`stormpilot local down --name {layout.directory.name} --purge` ends and removes it"):
        return _read(layout.description_file, Description)


def read_remains(layout: Layout) -> Remains | None:
    """Read that much of `cluster.json`; None if there is none, UsageError if it is not ours."""
    if not layout.description_file.is_file():
        return None
    with _saying(f"if nothing of it runs, rm -r {layout.directory}"):
        return _read(layout.description_file, Remains)


def read_processes(layout: Layout) -> Processes | None:
    """Read `processes.json`; None before the keeper has written it."""
    if not layout.processes_file.is_file():
        return None
    return _read(layout.processes_file, Processes)


def write(path: Path, value: Any) -> None:
    """Write a file that only its owner may read, at once and completely or not at all."""
    scratch = path.with_name(f".{path.name}.{os.getpid()}")
    with os.fdopen(os.open(scratch, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
        file.write(msgspec.json.format(msgspec.json.encode(value, enc_hook=_encode), indent=2) + b"\n")
    scratch.replace(path)


@contextmanager
def _saying(advice: str) -> Iterator[None]:
    try:
        yield
    except UsageError as e:
        raise UsageError(f"{e}; another version of stormpilot may have written it: {advice}") from None


def _read(path: Path, kind: type[T]) -> T:
    try:
        return msgspec.json.decode(path.read_bytes(), type=kind, dec_hook=_decode)
    except FileNotFoundError:
        raise UsageError(f"{path}: no such file") from None
    except OSError as e:
        raise UsageError(f"{path}: cannot read it: {e.strerror}") from None
    except msgspec.MsgspecError as e:
        raise UsageError(f"{path}: {e}") from None


def _encode(value: Any) -> Any:
    # NotImplementedError is how msgspec wants a hook to say that it does not know a type.
    if isinstance(value, Path):
        return str(value)
    raise NotImplementedError(f"cannot write a {type(value).__name__}")


def _decode(kind: type, value: Any) -> Any:
    # As above.
    if issubclass(kind, Path):
        return kind(value)
    raise NotImplementedError(f"cannot read a {kind.__name__}")
