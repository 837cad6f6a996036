"""The trial topology source -> component -> sink, around a component of a streamparse project or a Java class."""

from __future__ import annotations

import io
import json
import re
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from streamparse import Bolt, Grouping, JavaBolt
from streamparse.dsl.topology import Topology, TopologyType

from stormpilot.errors import UsageError
from stormpilot.instrument.trial import TUPLES_KEY, TrialSink, TrialSource
from stormpilot.nimbus import Address
from stormpilot.submit.assembly import assemble
from stormpilot.submit.jar import RESOURCES
from stormpilot.submit.options import resolve_options
from stormpilot.submit.project import Environment, Project
from stormpilot.submit.submission import Submission, default_runner, uses_virtualenv

COMPONENT, SOURCE, SINK = "component", "source", "sink"
MOST_TUPLES_BYTES = 256 * 1024


@dataclass(frozen=True)
class Specimen:
    """The specimen and its feed.

    Attributes
    ----------
    name
        `module:Class` of a Python component, or the full name of a Java class.
    project
        The streamparse project; of a Java class None.
    jar
        The jar with a Java class; of a Python component None.
    outputs
        Fields of the default stream of a Java class.
    arguments
        Of a Java class's constructor.
    fields, tuples
        Fields and values that the source sends in turn; without `tuples` one number that goes up.
    config
        The component's own configuration.
    sources
        Tasks of the source, and of the sink.
    """

    name: str
    project: Path | None = None
    environment: str | None = None
    jar: Path | None = None
    outputs: tuple[str, ...] = ("value",)
    arguments: tuple[str | int | float | bool, ...] = ()
    fields: tuple[str, ...] = ("message_id",)
    tuples: Sequence[Sequence[Any]] = ()
    config: Mapping[str, Any] = field(default_factory=dict)
    sources: int = 2

    @property
    def short(self) -> str:
        """The name of the class alone."""
        return re.split(r"[.:$]", self.name)[-1]

    @property
    def topology_name(self) -> str:
        """The name that the trial topology runs under."""
        return f"profile-{self.short}"


def submission(
    specimen: Specimen, threads: int, nimbus: Address, options: Mapping[str, Any], runner: str | None
) -> Submission:
    """Configuration for trials with that many threads; `options` are the topology's.

    Raises
    ------
    UsageError
        The class is not there, is no bolt, or needs what was not given.
    """
    source = TrialSource.spec(par=specimen.sources)
    if specimen.jar is not None:
        spec = JavaBolt.spec(
            full_class_name=specimen.name,
            args_list=list(specimen.arguments),
            inputs={source: Grouping.SHUFFLE},
            par=threads,
            config=dict(specimen.config),
            outputs=list(specimen.outputs),
        )
    else:
        component = _bolt_class(specimen)
        own = {**(component.config or {}), **specimen.config}
        spec = component.spec(inputs={source: Grouping.SHUFFLE}, par=threads, config=own)
    parts: dict[str, Any] = {"config": {}, SOURCE: source, COMPONENT: spec}
    streams = [s for s in spec.common.streams or {} if not (spec.common.streams[s].direct)]
    if streams:
        parts[SINK] = TrialSink.spec(inputs={spec[s]: Grouping.SHUFFLE for s in streams}, par=specimen.sources)
    topology_class: type[Topology] = TopologyType("Trial", (Topology,), parts)
    topology_class.thrift_topology.spouts[SOURCE].common.streams["default"].output_fields = list(specimen.fields)

    environment, serializer, sources = _environment(specimen)
    conf = resolve_options(_options(specimen, options), {}, environment, specimen.topology_name, lambda: ["any"])
    if runner is None and uses_virtualenv(conf, nimbus):
        _refuse_without_virtualenv(conf, environment)
    command = runner or default_runner(conf, environment, specimen.topology_name, nimbus, instrument=True)
    topology, _ = assemble(topology_class, environment.name, command, serializer, instrument=False, where=specimen.name)
    return Submission(
        name=specimen.topology_name,
        nimbus=nimbus,
        conf=conf,
        topology=topology,
        reporting=[],
        runner=command,
        sources=sources,
        jar=specimen.jar,
    )


def _refuse_without_virtualenv(conf: Mapping[str, Any], environment: Environment) -> None:
    """`UsageError` where the virtualenv would be named after the trial topology: nobody has made that one."""
    root = environment.values.get("virtualenv_root") or environment.values.get("virtualenv_path")
    if root and "virtualenv_name" not in conf:
        raise UsageError(
            f"{environment.where}: components run in a virtualenv of their topology there, and the profile has a "
            "topology of its own: name that of a topology with -O virtualenv_name=NAME, or give --runner"
        )


def check_tuples(rows: Any, fields: Sequence[str], where: str) -> list[list[Any]]:
    """Values for the source, each a list of as many values as there are fields; `UsageError` names the line."""
    if not isinstance(rows, list) or not rows:
        raise UsageError(f"{where}: expected a list of tuples, each a list of {len(fields)} values")
    for i, row in enumerate(rows, 1):
        if not isinstance(row, list) or len(row) != len(fields):
            raise UsageError(f"{where}: tuple {i}: expected a list of {len(fields)} values ({', '.join(fields)})")
    if (size := len(json.dumps(rows, default=str))) > MOST_TUPLES_BYTES:
        raise UsageError(f"{where}: {size:,} bytes as JSON, expected at most {MOST_TUPLES_BYTES:,}: a sample will do")
    return rows


def jar_with_resources(jar: Path) -> bytes:
    """A Java component's jar with the folder that Python components are started in."""
    data = io.BytesIO(jar.read_bytes())
    with zipfile.ZipFile(data, "a") as archive:
        if not any(name.startswith(f"{RESOURCES}/") for name in archive.namelist()):
            archive.writestr(f"{RESOURCES}/", b"")
    return data.getvalue()


def _options(specimen: Specimen, options: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "topology.workers": 2,
        "topology.acker.executors": 1,
        "topology.message.timeout.secs": 3600,  # what is under way is under way until it comes through
        "topology.executor.receive.buffer.size": 1024,
        "topology.max.spout.pending": None,  # the source limits itself: what the environment says is for its own spouts
        "stormpilot.report.secs": 1,
        **options,
        **({TUPLES_KEY: [list(t) for t in specimen.tuples]} if specimen.tuples else {}),
    }


def _bolt_class(specimen: Specimen) -> type[Bolt]:
    module, colon, name = specimen.name.partition(":")
    if not colon or not module or not name:
        raise UsageError(f"{specimen.name!r}: expected module:Class of a project's src/ (or a Java class, with --jar)")
    project = Project.read(specimen.project or Path())
    found = project.load_class(module, name)
    if not issubclass(found, Bolt):
        raise UsageError(f"{specimen.name} is no streamparse Bolt: spouts take in nothing that could be measured")
    return found


def _environment(specimen: Specimen) -> tuple[Environment, str | None, Path]:
    """Environment, serializer and sources; those of a Java class are ours."""
    if specimen.jar is not None:
        return Environment("java", {"use_virtualenv": False}, specimen.name), "json", Path()
    project = Project.read(specimen.project or Path())
    environment = project.environment(specimen.environment)
    return environment, environment.values.get("serializer", project.config.get("serializer")), project.sources
