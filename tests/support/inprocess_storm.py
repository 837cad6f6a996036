"""Runs a streamparse topology in one process: Storm's groupings, acknowledgements and time-outs, the real components.

Every task is an instance of its real class that reads and writes multilang messages as it does under Storm; values
pass through the JSON library that is used there. What is missing: processes, threads and a network.
"""

from __future__ import annotations

import importlib.util
import logging
import zlib
from collections import Counter, deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path
from typing import Any

import simplejson
from pystorm.bolt import Bolt
from streamparse import Topology

PROJECT = Path(__file__).parents[2] / "topologies"


def load_topology(name: str) -> type[Topology]:
    """Return the class of `topologies/topologies/<name>.py`."""
    spec = importlib.util.spec_from_file_location(f"topology_{name}", PROJECT / "topologies" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    (found,) = (
        value
        for value in vars(module).values()
        if isinstance(value, type) and issubclass(value, Topology) and value is not Topology
    )
    return found


@dataclass
class Delivery:
    """A tuple on its way to a task, and the spout tuples that it descends from."""

    id: str
    source: str
    source_task: int
    stream: str
    target: int
    values: list
    roots: frozenset[int]


@dataclass
class Tree:
    """A spout tuple and how many tuples that descend from it are not acknowledged."""

    spout_task: int
    tuple_id: str
    open: int = 0


@dataclass
class InProcessStorm:
    """One run of `topology`.

    Parameters
    ----------
    topology : type[Topology]
        As it would be submitted.
    env : str
        Environment by which parallelism dictionaries are resolved.
    conf : Mapping[str, Any]
        Added to the topology's own configuration.
    replace : Mapping[str, type]
        Classes to run instead of a component's own, by component.
    loses : Callable[[str, list], bool]
        Says of a component and the values of a tuple for it whether that tuple gets lost on the way.
    """

    topology: type[Topology]
    env: str = "local"
    conf: Mapping[str, Any] = field(default_factory=dict)
    replace: Mapping[str, type] = field(default_factory=dict)
    loses: Callable[[str, list], bool] = lambda component, values: False

    def __post_init__(self) -> None:
        self.component_of: dict[int, str] = {}
        self.tasks_of: dict[str, list[int]] = {}
        self.instances: dict[int, Any] = {}
        self.delivered: Counter[tuple[str, str, str]] = Counter()
        self._queue: deque[Delivery] = deque()
        self._in_flight: dict[str, Delivery] = {}
        self._trees: dict[int, Tree] = {}
        self._number = 0
        self._turn: Counter[tuple[str, str, str]] = Counter()
        specs = {spec.name: spec for spec in self.topology.specs}
        for name, spec in sorted(specs.items()):
            par = spec.par[self.env] if isinstance(spec.par, dict) else spec.par
            self.tasks_of[name] = list(range(len(self.component_of) + 1, len(self.component_of) + 1 + par))
            self.component_of.update(dict.fromkeys(self.tasks_of[name], name))
        self._streams = {name: spec.common.streams for name, spec in specs.items()}
        self._inputs = {name: spec.common.inputs for name, spec in specs.items()}
        for task, name in self.component_of.items():
            self.start(task, self.replace.get(name, specs[name].component_cls))

    def start(self, task: int, component_cls: type) -> None:
        """Put a new instance in the place of a task, as when its worker starts (again)."""
        instance = component_cls(input_stream=BytesIO(), output_stream=BytesIO())
        instance.send_message = lambda message: self._receive(task, message)
        name = self.component_of[task]
        conf = {"topology.name": "test", "storm.id": "test-1", **self.topology.config, **self.conf}
        fields = {
            stream.componentId: {stream.streamId: self._fields(stream.componentId, stream.streamId)}
            for stream in self._inputs[name]
        }
        context = {
            "taskid": task,
            "componentid": name,
            "task->component": {str(t): c for t, c in self.component_of.items()},
            "source->stream->fields": fields,
        }
        handlers = list(logging.getLogger().handlers)
        instance._setup_component(conf, context)
        logging.getLogger().handlers = handlers  # the component's own handler would write to Storm
        instance.initialize(conf, context)
        self.instances[task] = instance

    def of(self, component: str) -> list[Any]:
        """Return the instances of a component."""
        return [self.instances[task] for task in self.tasks_of[component]]

    def next_tuples(self, component: str) -> None:
        """Ask every task of a spout once for tuples, then let everything that is under way arrive."""
        for task in self.tasks_of[component]:
            self._command(task, {"command": "next"})
        self._drain()

    def tick(self, component: str) -> None:
        """Send a tick to every task of a bolt."""
        for task in self.tasks_of[component]:
            self._deliver(Delivery(self._new_id(), "__system", -1, "__tick", task, [5], frozenset()))
        self._drain()

    def time_out(self) -> int:
        """Fail every spout tuple that is not acknowledged, as Storm does after the message time-out."""
        trees, self._trees = self._trees, {}
        self._in_flight.clear()
        for tree in trees.values():
            self._command(tree.spout_task, {"command": "fail", "id": tree.tuple_id})
        self._drain()
        return len(trees)

    def _fields(self, component: str, stream: str) -> list[str]:
        return self._streams[component][stream].output_fields

    def _command(self, task: int, command: dict) -> None:
        instance = self.instances[task]
        instance._pending_commands.append(command)
        instance._run()

    def _drain(self) -> None:
        while self._queue:
            delivery = self._queue.popleft()
            if self.loses(self.component_of[delivery.target], delivery.values):
                continue
            self._deliver(delivery)

    def _deliver(self, delivery: Delivery) -> None:
        self._in_flight[delivery.id] = delivery
        self.delivered[delivery.source, delivery.stream, self.component_of[delivery.target]] += 1
        command = {
            "id": delivery.id,
            "comp": delivery.source,
            "stream": delivery.stream,
            "task": delivery.source_task,
            "tuple": simplejson.loads(simplejson.dumps(delivery.values)),
        }
        self._command(delivery.target, command)

    def _receive(self, task: int, message: dict) -> None:
        """Take a message of a component."""
        command = message["command"]
        if command == "emit":
            self._emitted(task, message)
        elif command in ("ack", "fail"):
            delivery = self._in_flight.pop(message["id"])
            for root in delivery.roots:
                self._settle(root, failed=command == "fail")
        elif command == "error":
            raise AssertionError(message["msg"])
        else:
            assert command in ("sync", "log"), message

    def _emitted(self, task: int, message: dict) -> None:
        source, stream, values = self.component_of[task], message.get("stream") or "default", message["tuple"]
        assert isinstance(simplejson.loads(simplejson.dumps(values)), list)
        assert len(values) == len(self._fields(source, stream)), f"{source}[{stream}]: {values}"
        if isinstance(self.instances[task], Bolt):
            roots = frozenset().union(*(self._in_flight[anchor].roots for anchor in message["anchors"]))
        else:
            self._number += 1
            self._trees[self._number] = Tree(task, message["id"])
            roots = frozenset([self._number])
        for target in self._targets(source, stream, values):
            for root in roots:
                if root in self._trees:
                    self._trees[root].open += 1
            self._queue.append(Delivery(self._new_id(), source, task, stream, target, values, roots))

    def _settle(self, root: int, failed: bool) -> None:
        tree = self._trees.get(root)
        if tree is None:  # has timed out
            return
        tree.open -= 1
        if failed or not tree.open:
            del self._trees[root]
            self._command(tree.spout_task, {"command": "fail" if failed else "ack", "id": tree.tuple_id})

    def _targets(self, source: str, stream: str, values: list) -> list[int]:
        targets = []
        for component, inputs in self._inputs.items():
            for subscribed, grouping in inputs.items():
                if (subscribed.componentId, subscribed.streamId) != (source, stream):
                    continue
                tasks = self.tasks_of[component]
                if grouping.fields:  # fields grouping
                    names = self._fields(source, stream)
                    key = simplejson.dumps([values[names.index(name)] for name in grouping.fields])
                    targets.append(tasks[zlib.crc32(key.encode()) % len(tasks)])
                elif grouping.fields is not None:  # fields grouping on nothing: global
                    targets.append(tasks[0])
                else:
                    assert grouping.shuffle is not None, f"{component} uses a grouping that is not supported here"
                    self._turn[source, stream, component] += 1
                    targets.append(tasks[self._turn[source, stream, component] % len(tasks)])
        return targets

    def _new_id(self) -> str:
        self._number += 1
        return str(self._number)
