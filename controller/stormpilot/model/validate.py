"""Everything that is wrong with a model document, not only the first: field, what is wrong, what was expected.

Errors are what `compile_model` or the reader refuses; warnings are what is planned, and probably not meant. A test
holds the two to the same rules.
"""

from __future__ import annotations

import types
import typing
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Literal

import msgspec

from stormpilot.errors import UsageError
from stormpilot.model.bounds import MOST, MOST_CORES, MOST_INT, MOST_PORT, is_amount, is_port, wrong_tasks
from stormpilot.model.compiled import compile_model
from stormpilot.model.load import node_load_mhz
from stormpilot.model.values import Edge, Model, Supervisor, Topology, Value
from stormpilot.printable import counted, first_few, whole

GROUPINGS = ("SHUFFLE", "LOCAL_OR_SHUFFLE", "FIELDS", "ALL", "GLOBAL", "NONE", "DIRECT", "CUSTOM")
MOST_ALIKE = 20
"""Problems of one kind that are listed; the rest is counted."""


class Problem(Value, frozen=True, kw_only=True):
    """`field` is a path such as `topologies[0].workers`; `kind` groups what is alike."""

    level: Literal["error", "warning"]
    kind: str
    field: str
    text: str


def validate(document: Any) -> tuple[Model | None, list[Problem]]:
    """Check a decoded JSON document; the model is None where its fields cannot be read.

    References and numbers are only checked once every field has its type.
    """
    problems = list(_mismatches(document, Model, ""))
    if problems:
        return None, problems
    model = msgspec.convert(document, Model)
    if model.schema != 1:
        return None, [_error("schema", "schema", f"this version reads 1, the document has {model.schema}")]
    problems = [*_errors(model)]
    if not problems:
        try:
            compile_model(model)
        except UsageError as e:
            problems = [_error("model", "(model)", str(e))]
    return model, [*problems, *_warnings(model)]


def shortened(problems: Iterable[Problem], most: int = MOST_ALIKE) -> list[Problem]:
    """At most so many of a kind; one more says how many are left out."""
    seen: Counter[tuple[str, str]] = Counter()
    kept: list[Problem] = []
    for p in problems:
        seen[p.level, p.kind] += 1
        if seen[p.level, p.kind] <= most:
            kept.append(p)
    for (level, kind), count in seen.items():
        if count > most:
            text = f"and {count - most} more of this kind ({kind})"
            kept.append(Problem(level=typing.cast(Any, level), kind=kind, field="...", text=text))
    return kept


def _error(kind: str, field: str, text: str) -> Problem:
    return Problem(level="error", kind=kind, field=field, text=text)


def _warning(kind: str, field: str, text: str) -> Problem:
    return Problem(level="warning", kind=kind, field=field, text=text)


# --- types ------------------------------------------------------------------------------------------------------------


def _mismatches(value: Any, kind: Any, path: str) -> Iterator[Problem]:
    """Every field that has not its type; what is right as a whole is not taken apart."""
    try:
        msgspec.convert(value, kind)
        return
    except msgspec.ValidationError as e:
        text = str(e).partition(" - at `")[0]
    if typing.get_origin(kind) is list and isinstance(value, list):
        (item,) = typing.get_args(kind)
        for i, v in enumerate(value):
            yield from _mismatches(v, item, f"{path}[{i}]")
    elif isinstance(kind, type) and issubclass(kind, msgspec.Struct) and isinstance(value, dict):
        hints = typing.get_type_hints(kind, include_extras=True)  # an annotation has the limits of a number
        for f in msgspec.structs.fields(kind):
            at = f"{path}.{f.encode_name}" if path else f.encode_name
            if f.encode_name in value:
                yield from _mismatches(value[f.encode_name], hints[f.name], at)
            elif f.required:
                yield _error("missing", at, f"is missing, expected {_expected(hints[f.name])}")
    elif typing.get_origin(kind) is typing.Literal:
        yield _error("type", path, f"{value!r}, expected {_expected(kind)}")
    else:
        yield _error("type", path or "(document)", text[:1].lower() + text[1:])


def _expected(hint: Any) -> str:
    if typing.get_origin(hint) is typing.Annotated:
        return _expected(typing.get_args(hint)[0])
    if typing.get_origin(hint) is list:
        return "a list"
    if typing.get_origin(hint) is typing.Literal:
        return f"one of {', '.join(typing.get_args(hint))}"
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        return " or ".join(_expected(h) for h in typing.get_args(hint))
    return {str: "text", int: "a whole number", float: "a number"}.get(hint, getattr(hint, "__name__", str(hint)))


# --- errors -----------------------------------------------------------------------------------------------------------


def _errors(model: Model) -> Iterator[Problem]:
    yield from _twice([s.id for s in model.supervisors], "supervisors", "id")
    for i, s in enumerate(model.supervisors):
        yield from _supervisor_errors(f"supervisors[{i}]", s)
    yield from _twice([t.id for t in model.topologies], "topologies", "id")
    slots = {(s.id, port) for s in model.supervisors for port in s.slots}
    for i, t in enumerate(model.topologies):
        yield from _topology_errors(f"topologies[{i}]", t, slots)
    starts = {t.id: {e.start for e in t.executors} for t in model.topologies}
    for i, edge in enumerate(model.traffic):
        yield from _traffic_errors(f"traffic[{i}]", edge, starts)


def _supervisor_errors(at: str, s: Supervisor) -> Iterator[Problem]:
    yield from _twice(s.slots, f"{at}.slots", "")
    for j, port in enumerate(s.slots):
        if not is_port(port):
            yield _error("port", f"{at}.slots[{j}]", f"{s.id}: is {port}, expected a port from 0 to {MOST_PORT}")
    for name, most in (("cores", MOST_CORES), ("mhz", MOST)):
        number = getattr(s, name)
        if not 0 < number <= most:
            yield _error("number", f"{at}.{name}", f"{s.id}: is {number:g}, expected a number > 0, at most {most:g}")
    for name in ("memory_mb", "cpu_limit_mhz"):
        if not is_amount(number := getattr(s, name)):
            yield _error("number", f"{at}.{name}", f"{s.id}: is {number:g}, expected a number >= 0, at most {MOST:g}")


def _traffic_errors(at: str, edge: Edge, starts: Mapping[str, set[int]]) -> Iterator[Problem]:
    """Errors of a rate; `starts` are the executors of each topology by their first tasks."""
    own = starts.get(edge.topology)
    if own is None:
        yield _error("traffic", f"{at}.topology", f"there is no topology {edge.topology!r}")
        return
    for name, task in (("from", edge.from_), ("to", edge.to)):
        if task not in own:
            yield _error("traffic", f"{at}.{name}", f"{edge.topology} has no executor that starts at task {task}")
    if not is_amount(edge.rate):
        yield _error("number", f"{at}.rate", f"is {edge.rate:g}, expected tuples/s >= 0, at most {MOST:g}")


def _topology_errors(at: str, t: Topology, slots: set[tuple[str, int]]) -> Iterator[Problem]:
    if not 1 <= t.workers <= MOST_INT:
        yield _error("workers", f"{at}.workers", f"{t.id}: is {t.workers}, expected at least 1, at most {MOST_INT}")
    if t.worker_executors is not None and t.worker_executors > MOST_INT:
        text = f"{t.id}: is {t.worker_executors}, expected at least 1, at most {MOST_INT}"
        yield _error("workers", f"{at}.worker_executors", text)
    if abs(t.priority) > MOST_INT:
        yield _error("priority", f"{at}.priority", f"{t.id}: is {t.priority}, expected at most {MOST_INT}")
    yield from _twice([c.id for c in t.components], f"{at}.components", "id")
    yield from _twice([e.start for e in t.executors], f"{at}.executors", "start")
    known = {c.id for c in t.components}
    for j, e in enumerate(t.executors):
        if e.component not in known:
            yield _error("component", f"{at}.executors[{j}].component", f"{t.id} lists no component {e.component!r}")
        for name in ("cpu_mhz", "polling_mhz", "memory_mb", "queue_tuples"):
            if not is_amount(number := getattr(e, name)):
                text = f"is {number:g}, expected a number >= 0, at most {MOST:g}"
                yield _error("number", f"{at}.executors[{j}].{name}", text)
    order = sorted(range(len(t.executors)), key=lambda j: t.executors[j].start)
    for j, last in zip(order, [None, *order], strict=False):
        if wrong := wrong_tasks(t.executors[j], None if last is None else t.executors[last]):
            yield _error("tasks", f"{at}.executors[{j}].{wrong[0]}", wrong[1])
    for j, (a, b) in enumerate(t.apart):
        for name in {a, b} - known:
            yield _error("component", f"{at}.apart[{j}]", f"{t.id} lists no component {name!r}")
        if a == b:
            yield _error("component", f"{at}.apart[{j}]", f"{a!r} is apart from itself, expected two components")
    assigned = set()
    for j, start in enumerate(a.start for a in t.assignment):
        if start in assigned:
            yield _error("twice", f"{at}.assignment[{j}].start", f"{t.id}: executor {start} is assigned twice")
        assigned.add(start)
    existing = {e.start for e in t.executors}
    used = {(a.supervisor, a.port) for a in t.assignment if a.start in existing}
    for j, slot in enumerate(t.fixed_workers):
        if slot not in used or slot not in slots:
            text = f"{slot[0]}:{slot[1]} holds no worker of {t.id} on a supervisor of the model"
            yield _error("fixed-worker", f"{at}.fixed_workers[{j}]", text)


def _twice(values: list[Any], at: str, field: str) -> Iterator[Problem]:
    seen = set()
    for i, v in enumerate(values):
        if v in seen:
            yield _error("twice", f"{at}[{i}]{'.' if field else ''}{field}", f"{v!r} is there twice")
        seen.add(v)


# --- warnings ---------------------------------------------------------------------------------------------------------


def _warnings(model: Model) -> Iterator[Problem]:
    if not model.topologies:
        yield _warning("empty", "topologies", "there is nothing to place")
    slots = sum(len(s.slots) for s in model.supervisors)
    if not slots:
        yield _warning("slots", "supervisors", "no supervisor has a slot: nothing can be placed")
    elif len(model.topologies) > slots:
        yield _warning("slots", "supervisors", f"{slots} slots for {len(model.topologies)} topologies: not all fit")
    for i, s in enumerate(model.supervisors):
        if s.cpu_limit_mhz is not None and s.cpu_limit_mhz > s.cpu_mhz * (1 + 1e-9):
            limit, have = whole(s.cpu_limit_mhz), whole(s.cpu_mhz)
            text = f"{s.id}: {limit} MHz is more than the {have} MHz that it has (cores x mhz)"
            yield _warning("cpu", f"supervisors[{i}].cpu_limit_mhz", text)
    yield from _demand(model)
    yield from _slots_named_twice(model)
    yield from _references(model)
    sending = {(e.topology, e.from_) for e in model.traffic} | {(e.topology, e.to) for e in model.traffic}
    for i, t in enumerate(model.topologies):
        yield from _topology_warnings(model, f"topologies[{i}]", t, sending)


def _demand(model: Model) -> Iterator[Problem]:
    """More than the cluster has, and present load above what may be filled."""
    demand = sum(e.cpu_mhz for t in model.topologies for e in t.executors)
    have = sum(s.limit_mhz for s in model.supervisors)
    if demand > have:
        text = f"executors need {whole(demand)} MHz, supervisors may be filled to {whole(have)} MHz: not all fit"
        yield _warning("cpu", "supervisors", text)
    load = node_load_mhz(model)
    for i, s in enumerate(model.supervisors):
        if load[s.id] > s.limit_mhz * (1 + 1e-9):
            needs, limit = whole(load[s.id]), whole(s.limit_mhz)
            text = f"{s.id}: what runs there needs {needs} MHz of the {limit} MHz that may be filled"
            yield _warning("overload", f"supervisors[{i}]", text)


def _slots_named_twice(model: Model) -> Iterator[Problem]:
    """Slots in which several topologies say that they run: one of them was seen at another moment."""
    users: defaultdict[tuple[str, int], list[int]] = defaultdict(list)
    for i, t in enumerate(model.topologies):
        existing = {e.start for e in t.executors}
        for slot in sorted({(a.supervisor, a.port) for a in t.assignment if a.start in existing}):
            users[slot].append(i)
    for (supervisor, port), several in users.items():
        for i in several[1:]:
            text = (
                f"{model.topologies[i].id} runs on {supervisor}:{port}, and so does {model.topologies[several[0]].id}"
            )
            text += ": only one of them is planned as running there"
            yield _warning("assignment", f"topologies[{i}].assignment", text)


def _references(model: Model) -> Iterator[Problem]:
    """Exclusions that name what is not there: they do nothing."""
    supervisors = {s.id for s in model.supervisors}
    components = {t.id: {c.id for c in t.components} for t in model.topologies}
    for i, x in enumerate(model.exclusions):
        if x.supervisor not in supervisors:
            yield _warning("exclusion", f"exclusions[{i}].supervisor", f"there is no supervisor {x.supervisor!r}")
        if x.topology is not None and x.topology not in components:
            yield _warning("exclusion", f"exclusions[{i}].topology", f"there is no topology {x.topology!r}")
        elif x.component is not None:
            known = components.values() if x.topology is None else [components[x.topology]]
            if not any(x.component in c for c in known):
                yield _warning("exclusion", f"exclusions[{i}].component", f"there is no component {x.component!r}")


def _topology_warnings(model: Model, at: str, t: Topology, sending: set[tuple[str, int]]) -> Iterator[Problem]:
    if not t.executors:
        yield _warning("empty", f"{at}.executors", f"{t.id} has no executors")
        return
    if t.workers > len(t.executors):
        executors, used = counted(len(t.executors), "executor"), counted(len(t.executors), "is used", "are used")
        text = f"{t.id}: {t.workers} workers for {executors}: {used}"
        yield _warning("workers", f"{at}.workers", text)
    sites = {s.site for s in model.supervisors}
    ids = {c.id for c in t.components}
    for j, c in enumerate(t.components):
        if c.site is not None and c.site not in sites:
            what = "no executor of it can be placed" if c.site_required else "the wish will be given up"
            yield _warning("site", f"{at}.components[{j}].site", f"{c.id}: no supervisor is of site {c.site!r}: {what}")
        for k, source in enumerate(c.inputs):
            if source.component not in ids:
                text = f"{c.id} receives from {source.component!r}, which {t.id} does not list"
                yield _warning("input", f"{at}.components[{j}].inputs[{k}].component", text)
            if not source.grouping.upper().startswith(GROUPINGS):  # CUSTOM_OBJECT, CUSTOM_SERIALIZED
                text = f"{source.grouping!r} is none of {', '.join(GROUPINGS)}: it counts as the last"
                yield _warning("input", f"{at}.components[{j}].inputs[{k}].grouping", text)
    known = {s.id for s in model.supervisors}
    for j, e in enumerate(t.executors):
        if e.pin is not None and e.pin not in known:
            text = f"executor {e.start} is pinned to {e.pin!r}, which is no supervisor of the model"
            yield _warning("pin", f"{at}.executors[{j}].pin", text)
    yield from _measured(at, t, sending)
    yield from _assignment_warnings(model, at, t)


def _measured(at: str, t: Topology, sending: set[tuple[str, int]]) -> Iterator[Problem]:
    """Executors whose numbers nobody measured, by component."""
    declared = Counter(e.component for e in t.executors if not e.measured)
    for component, n in declared.items():
        text = f"{t.id}: {counted(n, 'executor')} of {component} never measured: CPU and memory are as declared"
        yield _warning("unmeasured", f"{at}.executors", text)
    silent = Counter(e.component for e in t.executors if (t.id, e.start) not in sending)
    if silent.total() == len(t.executors):
        yield _warning("traffic", f"{at}", f"{t.id} has no traffic: where its executors are makes no difference")
        return
    for component, n in silent.items():
        what = "neither sends nor receives" if n == 1 else "neither send nor receive"
        yield _warning("traffic", f"{at}.executors", f"{t.id}: {counted(n, 'executor')} of {component} {what}")


def _assignment_warnings(model: Model, at: str, t: Topology) -> Iterator[Problem]:
    slots = {(s.id, port) for s in model.supervisors for port in s.slots}
    existing = {e.start for e in t.executors}
    placed = {a.start for a in t.assignment}
    gone = sorted({f"{a.supervisor}:{a.port}" for a in t.assignment if (a.supervisor, a.port) not in slots})
    if gone:
        text = f"{t.id} runs on slots that the model does not list: {first_few(gone, 3)}"
        yield _warning("assignment", f"{at}.assignment", text)
    if strange := len(placed - existing):
        text = f"{t.id}: {counted(strange, 'assigned executor does', 'assigned executors do')} not exist (any more)"
        yield _warning("assignment", f"{at}.assignment", text)
    if placed and (missing := len(existing - placed)):
        yield _warning(
            "assignment", f"{at}.assignment", f"{t.id}: {missing} of {counted(len(existing), 'executor')} run nowhere"
        )
