"""Prepares a submission from a project, and sends it to the leading Nimbus."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from stormpilot.errors import RefusedError, UnreachableError, UsageError
from stormpilot.logins.jaas import SaslLogin
from stormpilot.nimbus import DEFAULT_TIMEOUT_S, Address, Nimbus, with_own_login
from stormpilot.submit.assembly import assemble, has_java_components, python_classes
from stormpilot.submit.jar import build_jar, source_files
from stormpilot.submit.options import resolve_options
from stormpilot.submit.project import Environment, Project
from stormpilot.submit.routable import add_standby, make_routable, mark_handovers
from stormpilot.user_files import LARGE_BYTES, read_bytes

_KILL_DEADLINE_S = 120.0
_LISTED_S = 30.0


@dataclass(frozen=True)
class Submission:
    """Everything that is sent: what `--dry-run` shows.

    `jar` is a file to upload, or None when `remote_jar` names one that Nimbus has, or the jar is built from `sources`.
    """

    name: str
    nimbus: Address
    conf: dict[str, Any]
    topology: Any
    reporting: list[str]
    runner: str
    sources: Path
    jar: Path | None = None
    remote_jar: str | None = None
    routable: list[str] = field(default_factory=list)

    def jar_entries(self) -> list[str]:
        """The files of a jar that is built; empty where one is given."""
        return [] if self.jar or self.remote_jar else [f.as_posix() for f in source_files(self.sources)]


def prepare(
    project: Path,
    name: str | None = None,
    environment: str | None = None,
    options: Mapping[str, Any] | None = None,
    nimbus: str | None = None,
    instrument: bool = True,
    runner: str | None = None,
    override_name: str | None = None,
    config_file: Path | None = None,
    jar: Path | None = None,
    remote_jar: str | None = None,
    timeout_s: float = DEFAULT_TIMEOUT_S,
    routable: bool = False,
    standby: Mapping[str, int] | None = None,
    nimbus_login: SaslLogin | None = None,
) -> Submission:
    """Work out what a submit would send; asks Nimbus only where the environment lists no workers.

    Parameters
    ----------
    project
        Directory of the streamparse project.
    name, environment
        Topology file (without `.py`) and entry of `envs`; None for the only one.
    options
        Topology options that win over those of the class and of the environment.
    nimbus
        `host:port` that wins over the environment's.
    instrument
        Whether components report their load.
    runner
        Command that runs Python components on worker hosts; None: that of the virtualenv where the environment uses
        one, of this interpreter where Nimbus is on loopback, else from the `PATH` of the worker hosts.
    override_name
        Run under this name instead of `name`.
    jar, remote_jar
        A prebuilt jar here, or one that Nimbus has: nothing is built.
    routable
        Whether groupings follow routes; the worker's jar must be on the supervisors.
    standby
        Executors more per bolt, which wait for a route; makes the topology routable.
    nimbus_login
        As whom to ask Nimbus by SASL digest; None: without SASL.
    """
    read = Project.read(project, config_file)
    topology_name, file = read.topology_file(name)
    env = read.environment(environment)
    topology_class = read.load_topology(file)
    submitted_name = override_name or topology_name
    address = replace(Address.parse(nimbus, "--nimbus") if nimbus else env.nimbus(), login=nimbus_login)
    if has_java_components(topology_class) and not jar and not remote_jar:
        raise UsageError(f"{file} has Java components: give a jar that holds their classes and your src/ (--jar)")
    if jar and not jar.is_file():
        raise UsageError(f"{jar} not found: --jar names a jar to upload")

    def storm_workers() -> list[str]:
        with Nimbus.connect_leader(address, timeout_s) as client:
            return [s.host for s in client.supervisors()]

    conf = resolve_options(options or {}, topology_class.config, env, submitted_name, storm_workers)
    conf["topology.original_name"] = topology_name
    command = runner or default_runner(conf, env, submitted_name, address, instrument)
    serializer = env.values.get("serializer", read.config.get("serializer"))
    topology, reporting = assemble(topology_class, env.name, command, serializer, instrument, where=str(file))
    routed = make_routable(topology) if routable or standby else []
    add_standby(topology, standby or {}, routed, str(file), conf)
    mark_handovers(topology, python_classes(topology_class), routed)
    return Submission(
        name=submitted_name,
        nimbus=address,
        conf=conf,
        topology=topology,
        reporting=reporting,
        runner=command,
        sources=read.sources,
        jar=jar,
        remote_jar=remote_jar,
        routable=routed,
    )


def send(
    submission: Submission,
    active: bool = True,
    force: bool = False,
    wait_s: int = 5,
    timeout_s: float = DEFAULT_TIMEOUT_S,
    on_upload: Callable[[int, int], None] | None = None,
) -> str:
    """Send a submission to the leading Nimbus; returns the topology id.

    What can be wrong on this side is refused, and the jar is at Nimbus, before `force` kills anything.

    Parameters
    ----------
    force
        Kill a topology of that name first, with `wait_s` seconds for its tuples.
    on_upload
        Hears (bytes sent, bytes in all) while the jar goes up.
    """
    conf = with_own_login(submission.conf)
    jar = b"" if submission.remote_jar else _jar(submission)
    with Nimbus.connect_leader(submission.nimbus, timeout_s) as nimbus:
        if not force:
            _check_name(nimbus, submission.name)
        location = submission.remote_jar or _upload(nimbus, jar, on_upload)
        if force:
            _kill_and_wait(nimbus, submission.name, wait_s)
            _check_name(nimbus, submission.name)
        nimbus.submit(submission.name, location, conf, submission.topology, active)
        return _id_of_submitted(nimbus, submission.name)


def submit_topology(project: Path, *args: Any, **kwargs: Any) -> str:
    """Submit a topology of a project and return its id; arguments as of `prepare`."""
    return send(prepare(project, *args, **kwargs))


def uses_virtualenv(conf: Mapping[str, Any], nimbus: Address) -> bool:
    """Whether components run in a virtualenv of their topology, as streamparse makes them; not by a local Nimbus."""
    return bool(conf.get("use_virtualenv", not nimbus.on_loopback))


def default_runner(
    conf: Mapping[str, Any], environment: Environment, name: str, nimbus: Address, instrument: bool
) -> str:
    """The command that runs Python components when none was given."""
    program = "stormpilot_run" if instrument else "streamparse_run"
    if uses_virtualenv(conf, nimbus):
        root = environment.values.get("virtualenv_root") or environment.values.get("virtualenv_path")
        if not root:
            raise UsageError(
                f"{environment.where}: virtualenv_root is missing, expected the directory of virtualenvs on the worker "
                "hosts (or set use_virtualenv to false, or give --runner)"
            )
        return f"{root}/{conf.get('virtualenv_name', name)}/bin/{program}"
    if nimbus.on_loopback:
        here = Path(sys.executable).parent / program
        if os.access(here, os.X_OK):
            return str(here)
    return program


def _check_name(nimbus: Nimbus, name: str) -> None:
    if nimbus.name_allowed(name):
        return
    running = nimbus.find(name)
    if running is None:
        raise RefusedError(f"Nimbus does not allow the topology name {name!r}")
    raise RefusedError(
        f"a topology named {name!r} runs already ({running.id}, {running.status}): kill it or use --force"
    )


def _kill_and_wait(nimbus: Nimbus, name: str, wait_s: int) -> None:
    running = nimbus.find(name)
    if running is None:
        return
    if running.status != "KILLED":
        nimbus.kill(name, wait_s)
    deadline = time.monotonic() + wait_s + _KILL_DEADLINE_S
    while nimbus.find(name) is not None:
        if time.monotonic() > deadline:
            raise UnreachableError(f"topology {name!r} was killed and is still there after {_KILL_DEADLINE_S:.0f} s")
        time.sleep(0.5)


def _id_of_submitted(nimbus: Nimbus, name: str) -> str:
    """The id of a topology that Nimbus has taken; it may list it a moment later."""
    deadline = time.monotonic() + _LISTED_S
    while nimbus.find(name) is None and time.monotonic() < deadline:
        time.sleep(0.1)
    return nimbus.topology_id(name)


def _jar(submission: Submission) -> bytes:
    if submission.jar is None:
        return build_jar(submission.sources)
    try:
        return read_bytes(submission.jar, LARGE_BYTES)
    except OSError as e:
        raise UsageError(f"{submission.jar} cannot be read: {e.strerror}") from e


def _upload(nimbus: Nimbus, jar: bytes, on_upload: Callable[[int, int], None] | None) -> str:
    sent = 0

    def count(size: int) -> None:
        nonlocal sent
        sent += size
        if on_upload:
            on_upload(sent, len(jar))

    return nimbus.upload([jar], count)
