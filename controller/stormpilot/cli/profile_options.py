"""Options of `stormpilot profile`: what they make, and what is wrong with them."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from stormpilot.cli.files import read
from stormpilot.errors import UsageError

if TYPE_CHECKING:
    from stormpilot.config.sections import CapacitySource
    from stormpilot.sizing.profiling import RateGrid
    from stormpilot.trials.component import Specimen
    from stormpilot.trials.feeder import Times


def check_plot(file: Path) -> None:
    """`UsageError` for a plot whose name has another ending."""
    from stormpilot.trials.output import UNDATED

    endings = [f".{kind}" for kind in UNDATED]
    if file.suffix.lower() not in endings:
        raise UsageError(f"--plot {file}: expected a name that ends in {', '.join(endings)}")


def specimen_of(
    component: str,
    project: Path,
    environment: str | None,
    jar: Path | None,
    outputs: str,
    argument: list[str] | None,
    fields: str,
    tuples: Path | None,
    sources: int,
) -> Specimen:
    """The component and its feed; `UsageError` names the option or the file that is wrong."""
    from stormpilot.submit.options import parse_options
    from stormpilot.trials.component import Specimen, check_tuples

    names = _words(fields)
    if not names:
        raise UsageError("--fields: expected at least one name")
    if jar is not None and not jar.is_file():
        raise UsageError(f"{jar} not found: --jar names the jar that has {component}")
    if tuples is None and len(names) > 1:
        raise UsageError(f"--fields has {len(names)} names: give --tuples with {len(names)} values each")
    rows: list[list[Any]] = []
    if tuples is not None:
        try:
            rows = check_tuples(msgspec.json.decode(read(tuples, "tuples")), names, str(tuples))
        except msgspec.DecodeError as e:
            raise UsageError(f"{tuples}: not valid JSON: {e}") from e
    arguments = [parse_options([f"argument={a}"])["argument"] for a in argument or ()]
    return Specimen(
        name=component,
        project=project,
        environment=environment,
        jar=jar,
        outputs=_words(outputs),
        arguments=tuple(arguments),
        fields=names,
        tuples=rows,
        sources=sources,
    )


def conditions(
    fed: Specimen,
    grid: RateGrid,
    times: Times,
    options: dict[str, Any],
    runner: str | None,
    capacity: CapacitySource,
) -> dict[str, Any]:
    """All that trials depend on, by option; of tuples, jar and sources (`code`) the digest of their content."""
    from stormpilot.submit.jar import build_jar
    from stormpilot.submit.project import Project

    python: dict[str, Any] = {}
    if fed.jar is None:
        project = Project.read(fed.project or Path())
        own = project.environment(fed.environment).mapping("options")
        python = {"code": _digest(build_jar(project.sources)), "options of the environment": own}
    return {
        "component": fed.name,
        "grid": list(grid),
        "times": list(vars(times).values()),
        "sources": fed.sources,
        "tuples": _digest(msgspec.json.encode(fed.tuples)) if fed.tuples else "",
        "options": options,
        "project": str(fed.project.resolve()) if fed.project is not None and fed.jar is None else "",
        "environment": fed.environment or "",
        "jar": _digest(read(fed.jar, "jar", packed=True)) if fed.jar is not None else "",
        "outputs": fed.outputs,
        "argument": fed.arguments,
        "fields": fed.fields,
        "runner": runner or "",
        "capacity": capacity,
        **python,
    }


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def beside(output: Path, suffix: str) -> Path:
    """A file with the name of the output and another ending."""
    return output.with_suffix(suffix) if output.name else output


def _words(text: str) -> tuple[str, ...]:
    return tuple(w.strip() for w in text.split(",") if w.strip())


def rate_grid(first: float, step: str, most: float) -> RateGrid:
    """The rates that are tried (tuples/s); `UsageError` names the option that is wrong."""
    from stormpilot.sizing.profiling import RateGrid

    relative = step.strip().endswith("%")
    try:
        number = float(step.strip().removesuffix("%")) / (100 if relative else 1)
    except ValueError:
        number = 0.0
    if not 0 < number < 1e9:
        raise UsageError(f"--rate-step is {step!r}, expected tuples/s above 0, or a part such as 10%")
    if most < first:
        raise UsageError(f"--max-rate is {most:g}, expected at least --first-rate ({first:g})")
    return RateGrid(first, number, relative, most)


def nimbus_address(specimen: Specimen, nimbus: str | None) -> Any:
    """The address of Nimbus: the option's, else that of the project's config.json; `UsageError` without one."""
    from stormpilot.nimbus import Address
    from stormpilot.submit.project import Project

    if nimbus is not None:
        return Address.parse(nimbus, "--nimbus")
    if specimen.jar is not None:
        raise UsageError("--nimbus is missing: a Java class has no config.json that names one")
    return Project.read(specimen.project or Path()).environment(specimen.environment).nimbus()
