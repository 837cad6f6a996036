"""The input of `stormpilot size`: a topology with its rate, performance models, what a slot is, and the VMs on offer.

YAML or JSON; an unknown key is an error that names the nearest known one, and every error names file, line and field.
"""

from __future__ import annotations

import difflib
import json
import os
import re
import typing
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
import networkx as nx
import yaml
from msgspec import Meta

from stormpilot.config.reading import looks_like, read_yaml, yaml_problem
from stormpilot.config.section import NAME, in_words
from stormpilot.errors import UsageError
from stormpilot.sizing.performance import Performance

MOST_NODES = 1_000_000
"""Values of a YAML file, with what its aliases repeat."""
ALIKE = 0.05
"""Part by which a slot may differ from the one that a model was measured on."""
PARTS = ("rate_tps", "components", "models", "slot", "vms")
"""Keys of which a topology to size has at least one."""
Name = Annotated[str, Meta(min_length=1)]
Grouping = Literal["SHUFFLE", "LOCAL_OR_SHUFFLE", "FIELDS"]
Shuffle = Literal["local", "even"]


class Section(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Base of the parts of the file."""


class Stream(Section, frozen=True, kw_only=True):
    """A subscription: `selectivity` tuples arrive for each tuple that `component` takes in.

    Only groupings that leave the thread open can be sized (fields: keys are taken as evenly spread).
    """

    component: Name
    stream: Name = "default"
    grouping: Grouping = "SHUFFLE"
    selectivity: Annotated[float, Meta(ge=0, le=1e6)] = 1.0


class Static(Section, frozen=True, kw_only=True):
    """A component that needs the same at any rate; shares of one slot, of each thread."""

    threads: Annotated[int, Meta(ge=1, le=100_000)] = 1
    cpu_share: Annotated[float, Meta(ge=0, le=1)]
    memory_share: Annotated[float, Meta(ge=0, le=1)]


class Component(Section, frozen=True, kw_only=True):
    """A spout (without `inputs`) or a bolt, with a performance model (its name) or `static` needs.

    A spout takes in `source_share` times the rate that is asked for.
    """

    id: Name
    model: Name | None = None
    static: Static | None = None
    source_share: Annotated[float, Meta(gt=0, le=1e6)] = 1.0
    inputs: list[Stream] = []

    def __post_init__(self) -> None:
        if (self.model is None) == (self.static is None):
            given = "neither" if self.model is None else "both"
            raise ValueError(f"component {self.id}: {given} of model and static given, expected one of them")
        if self.inputs and self.source_share != 1.0:
            raise ValueError(f"component {self.id}: source_share is given, expected only where there are no inputs")


class Slot(Section, frozen=True, kw_only=True):
    """One slot: a core of `cpu_mhz` and `memory_mb`; performance models hold for such a slot."""

    cpu_mhz: Annotated[float, Meta(gt=0, le=1e6)]
    memory_mb: Annotated[float, Meta(gt=0, le=1e9)]


class VmSize(Section, frozen=True, kw_only=True):
    """A VM on offer, by how many slots it has."""

    name: Annotated[str, Meta(pattern=NAME)]
    slots: Annotated[int, Meta(ge=1, le=1024)]


class Problem(Section, frozen=True, kw_only=True):
    """The whole file. `rate_tps` is what each spout takes in (times its `source_share`).

    `shuffle`: where shuffles send tuples: `local`, to threads in the sender's worker, else on its supervisor, else
    anywhere (Storm 2); `even`, to all threads (`topology.disable.loadaware.messaging`, and the paper's Storm 1.0).
    """

    schema: Literal[1] = 1
    name: Name
    rate_tps: Annotated[float, Meta(gt=0, le=1e9)]
    components: Annotated[list[Component], Meta(min_length=1)]
    models: list[Performance] = []
    slot: Slot
    vms: Annotated[list[VmSize], Meta(min_length=1)]
    shuffle: Shuffle = "local"

    def __post_init__(self) -> None:
        for what, names in (
            ("components", [c.id for c in self.components]),
            ("models", [m.name for m in self.models]),
            ("vms", [v.name for v in self.vms]),
        ):
            for i, name in enumerate(names):
                if name in names[:i]:
                    raise ValueError(f"{what}: {name} is there twice")
        known, models = {c.id for c in self.components}, {m.name for m in self.models}
        for c in self.components:
            if c.model is not None and c.model not in models:
                raise ValueError(f"component {c.id}: model {c.model} is not there{_near(c.model, models)}")
            for s in c.inputs:
                if s.component not in known:
                    raise ValueError(
                        f"component {c.id}: its input {s.component} is not a component{_near(s.component, known)}"
                    )
        graph = self.graph()
        if not nx.is_directed_acyclic_graph(graph):
            cycle = " -> ".join(a for a, _ in nx.find_cycle(graph))
            raise ValueError(f"components: {cycle} is a cycle, expected none")

    def graph(self) -> nx.DiGraph:
        """Component ids, with an edge from the one that emits to the one that receives."""
        graph = nx.DiGraph()
        graph.add_nodes_from(c.id for c in self.components)
        graph.add_edges_from((s.component, c.id) for c in self.components for s in c.inputs)
        return graph

    def performance(self, component: Component) -> Performance:
        """The performance model of a component that has one."""
        return next(m for m in self.models if m.name == component.model)


def parse(text: str, where: str, other: Callable[[str], Problem] | None = None) -> Problem:
    """Read a file's text; `where` names the file in errors. Raises `UsageError`.

    `other` reads the file that an entry `{file: NAME}` of `models` names; its one model takes the place of the entry.
    """
    if where.endswith(".json"):
        try:
            value, root = json.loads(text), None
        except json.JSONDecodeError as e:
            raise UsageError(f"{where}:{e.lineno}: not valid JSON: {e.msg}") from e
        except (RecursionError, ValueError) as e:
            raise UsageError(f"{where}: not valid JSON: {e}") from e
    else:
        try:
            value, root = read_yaml(text, where, MOST_NODES)
        except yaml.YAMLError as e:
            mark = getattr(e, "problem_mark", None)
            line = f":{mark.line + 1}" if mark else ""
            raise UsageError(f"{where}{line}: not valid YAML: {yaml_problem(e)}") from e
        except (RecursionError, ValueError) as e:
            raise UsageError(f"{where}: not valid YAML: {e}") from e
        for line_number, key in _repeated(root):
            raise UsageError(f"{where}:{line_number}: {key}: given twice")
    if not isinstance(value, dict) or not set(PARTS) & set(value):
        looks = looks_like(value) if isinstance(value, dict) else ""
        raise UsageError(
            f"{where}: {f'looks like {looks}, ' if looks else ''}expected a topology to size, "
            f"with {', '.join(PARTS)} and its name"
        )
    measured_on = _include(value, root, where, other)
    try:
        found = msgspec.convert(value, Problem)
    except msgspec.ValidationError as e:
        raise UsageError(_explained(str(e), root, where)) from e
    for name, slot in measured_on.items():
        for field in Slot.__struct_fields__:
            has, needs = getattr(found.slot, field), getattr(slot, field)
            if abs(has - needs) > ALIKE * needs:
                raise UsageError(
                    f"{where}: slot: {field} is {has:g}, and the model of {name} was measured on a slot with {needs:g}"
                )
    return found


def read_problem(path: Path, text_of: Callable[[Path], str], above: tuple[Path, ...] = ()) -> Problem:
    """A file with those that it names; `text_of` reads one. `above`: those on the way to it.

    Raises
    ------
    UsageError
        A file cannot be used, or names itself, maybe through others.
    """
    whole = Path(os.path.normpath(path))
    if whole in above:
        raise UsageError(f"{path}: the files in its models lead back to it, expected files of `stormpilot profile`")
    return parse(text_of(path), str(path), lambda name: read_problem(path.parent / name, text_of, (*above, whole)))


def _include(value: Any, root: yaml.Node | None, where: str, other: Callable[[str], Problem] | None) -> dict[str, Slot]:
    """Put models of other files in the place of `{file: NAME}`; by file the slot that they hold for."""
    models = value.get("models") if isinstance(value, dict) else None
    slots: dict[str, Slot] = {}
    if not isinstance(models, list):
        return {}
    for i, entry in enumerate(models):
        if other is None or not isinstance(entry, dict) or set(entry) != {"file"}:
            continue
        try:
            read = other(str(entry["file"]))
        except UsageError as e:
            raise UsageError(f"{where}{_line(root, ['models', i])}: models[{i}].file: {e}") from e
        if len(read.models) != 1:
            raise UsageError(
                f"{where}{_line(root, ['models', i])}: models[{i}].file: {entry['file']} has {len(read.models)} "
                "models, expected one, as `stormpilot profile` writes it"
            )
        models[i] = msgspec.to_builtins(read.models[0])
        slots[str(entry["file"])] = read.slot
    return slots


def _explained(error: str, root: yaml.Node | None, where: str) -> str:
    """File, line, field and what was expected, from msgspec's sentence."""
    text, _, path = error.partition(" - at `$")
    steps = [int(n) if n else name for n, name in re.findall(r"\[(\d+)\]|\.(\w+)", path)]
    if unknown := re.fullmatch(r"Object contains unknown field `(.+)`", text):
        known = _keys(Problem, steps)
        near = _near(unknown[1], known)
        text = f"unknown key{near}" if near else f"unknown key; expected one of {', '.join(known)}"
        steps.append(unknown[1])
    elif wrong := re.fullmatch(r"Invalid enum value ('.*')", text):
        text = f"{wrong[1]}, expected one of {', '.join(_choices(steps))}"
    text = in_words(text)
    field = "".join(f"[{s}]" if isinstance(s, int) else f".{s}" for s in steps).lstrip(".")
    return f"{where}{_line(root, steps)}: {field + ': ' if field else ''}{text}"


def _near(name: str, known: Iterable[str]) -> str:
    near = difflib.get_close_matches(name, sorted(known), n=1)
    return f"; did you mean {near[0]}?" if near else ""


def _keys(kind: Any, steps: list[str | int]) -> list[str]:
    """The keys that the object at the path has."""
    return list(_struct(kind, steps).__struct_fields__)


def _choices(steps: list[str | int]) -> tuple[str, ...]:
    """The words that the field at the path may be."""
    *above, field = steps
    return typing.get_args(typing.get_type_hints(_struct(Problem, above))[str(field)])


def _struct(kind: Any, steps: list[str | int]) -> Any:
    """The class of the object at the path."""
    for step in steps:
        if isinstance(step, str):
            kind = typing.get_type_hints(kind)[step]
            kind = next(k for k in (kind, *typing.get_args(kind)) if hasattr(k, "__struct_fields__"))
    return kind


def _line(node: yaml.Node | None, steps: list[str | int]) -> str:
    """`:line` of the field, or of the nearest thing around it; empty for JSON."""
    if node is None:
        return ""
    line = node.start_mark.line
    for step in steps:
        if isinstance(node, yaml.SequenceNode) and isinstance(step, int):
            node = node.value[step]
            line = node.start_mark.line
        elif isinstance(node, yaml.MappingNode):
            found = next(((k, v) for k, v in node.value if k.value == step), None)
            if found is None:
                break
            line, node = found[0].start_mark.line, found[1]
    return f":{line + 1}"


def _repeated(node: yaml.Node | None) -> Iterator[tuple[int, str]]:
    """Keys that stand twice in one mapping, as (line, key): YAML would take the last one silently."""
    if isinstance(node, yaml.SequenceNode):
        for item in node.value:
            yield from _repeated(item)
    elif isinstance(node, yaml.MappingNode):
        seen: set[str] = set()
        for key, value in node.value:
            if key.value in seen:
                yield key.start_mark.line + 1, key.value
            seen.add(key.value)
            yield from _repeated(value)
