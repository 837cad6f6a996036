"""Which load reports are believed: those that can come from where they say, held against Nimbus's own assignment.

A report counts only below its own path, and for tasks that its topology has. A worker reports its own slot alone: what
it says of a task that Nimbus has put elsewhere is refused. A worker that ended leaves its report behind; that one is
left out without a word. Times are ZooKeeper's, so that no clock of a host matters.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain
from typing import Literal

import msgspec

from stormpilot.messages.core import ClusterSnapshot, TopologySnapshot
from stormpilot.messages.load import LoadReport, Pairs, TaskLoad
from stormpilot.model.values import LOAD_STREAM

GRACE_MS = 60_000
"""Time after a change of the placement within which a worker of the former one may still report."""
Slot = tuple[str, int]
Why = Literal["other_topology", "other_name", "other_slot", "second_reporter", "no_collector", "unknown_task"]
_COLLECTOR = re.compile(r"collector-(\d{1,10})(-\d+)?")
_SENTENCES: Mapping[Why, str] = {
    "other_topology": "it reports in the name of another topology",
    "other_name": "it reports in the name of another reporter",
    "other_slot": "{n} tasks of it are assigned to another slot",
    "second_reporter": "another reporter has its slot",
    "no_collector": "it is no collector of the topology",
    "unknown_task": "{n} tasks or counters of it are of tasks that the topology does not have",
}


@dataclass(frozen=True)
class Placement:
    """Reference for the reports of a topology.

    `slots` has every task, with None where it runs nowhere; `former` the placement before, None where that was never
    seen. `collectors` are tasks that collect reports of others; empty where that is not known.
    """

    slots: Mapping[int, Slot | None]
    former: Mapping[int, Slot | None] | None
    changed_ms: int
    collectors: frozenset[int]
    hosts: Mapping[str, str]
    made_of: tuple[TopologySnapshot | None, ClusterSnapshot | None] = field(default=(None, None), compare=False)

    @classmethod
    def of(
        cls, snapshot: TopologySnapshot, cluster: ClusterSnapshot | None, written_at_ms: int, last: Placement | None
    ) -> Placement:
        """That of a snapshot which was written at `written_at_ms`; `last` itself where nothing has changed."""
        if last is not None and last.made_of[0] is snapshot and last.made_of[1] is cluster:
            return last
        made_of = (snapshot, cluster)
        hosts = {} if cluster is None else {s.id: s.host.lower() for s in cluster.supervisors}
        slots: dict[int, Slot | None] = {}
        for e in snapshot.executors:
            slot = None if e.supervisor is None or e.port is None else (e.supervisor, e.port)
            slots |= dict.fromkeys(range(e.start, e.end + 1), slot)
        collecting = {c.id for c in snapshot.components if any(i.stream == LOAD_STREAM for i in c.inputs)}
        collectors = frozenset(t for e in snapshot.executors if e.component in collecting for t in (e.start,))
        if last is not None and last.slots == slots:
            same = (last.collectors, last.hosts) == (collectors, hosts)
            former, changed_ms = last.former, last.changed_ms
            return last if same else cls(slots, former, changed_ms, collectors, hosts, made_of)
        former = None if last is None else last.slots
        return cls(slots, former, written_at_ms, collectors, hosts, made_of)

    def runs_at(self, slot: Slot, host: str, port: int) -> bool | None:
        """Whether a worker of this host and port has the slot; None: the host has a name that nobody else uses."""
        supervisor, assigned_port = slot
        if port != assigned_port:
            return False
        own = self.hosts.get(supervisor)
        if own is not None and same_host(host, own):
            return True
        return False if host in self._names else None

    @cached_property
    def _names(self) -> HostNames:
        return HostNames.of(self.hosts.values())


def same_host(a: str, b: str) -> bool:
    """Whether two names are one host's, with or without its domain."""
    a, b = a.lower(), b.lower()
    return a == b or a.partition(".")[0] == b or b.partition(".")[0] == a


@dataclass(frozen=True)
class HostNames:
    """Names of many hosts: a name is in it that is one host's of them (`same_host`)."""

    whole: frozenset[str]
    short: frozenset[str]

    @classmethod
    def of(cls, hosts: Iterable[str]) -> HostNames:
        """Those of these hosts."""
        whole = frozenset(h.lower() for h in hosts)
        return cls(whole, frozenset(h.partition(".")[0] for h in whole))

    def __contains__(self, name: str) -> bool:
        name = name.lower()
        return name in self.whole or name in self.short or name.partition(".")[0] in self.whole


@dataclass(frozen=True)
class Believed:
    """The accepted part of a report (None: nothing), and how much was refused, by reason.

    `slot` is the one that it reports, with its host; `sure`: its host is known by that name.
    """

    report: LoadReport | None
    refused: Mapping[Why, int] = field(default_factory=dict)
    slot: tuple[Slot, str] | None = None
    sure: bool = True

    @cached_property
    def size(self) -> tuple[int, int]:
        """Number of tasks in it, and of counters of pairs and times."""
        tasks = () if self.report is None else self.report.tasks
        return len(tasks), sum(load.counters for load in tasks)

    def sentence(self, path: str) -> str:
        """Counts of refused values; empty where none was."""
        texts = [_SENTENCES[why].format(n=n) for why, n in sorted(self.refused.items())]
        return f"{path}: {', '.join(texts)}: that is not believed" if texts else ""


def believed(report: LoadReport, topology_id: str, name: str, written_at_ms: int, at: Placement | None) -> Believed:
    """The accepted part of `load/<topology_id>/<name>`, written at `written_at_ms`, is believed."""
    if report.topology_id != topology_id:
        return Believed(None, {"other_topology": 1})
    if report.reporter != name:
        return Believed(None, {"other_name": 1})
    if at is None:
        return Believed(report)
    if report.worker is None and at.collectors:
        told = _COLLECTOR.fullmatch(name)
        if told is None or int(told[1]) not in at.collectors:
            return Believed(None, {"no_collector": 1})
    own = [load.task for load in report.tasks]
    named = (tasks for load in report.tasks for told in (load.received, load.sent) for tasks, _ in told.values())
    clean = all(map(at.slots.__contains__, chain(own, chain.from_iterable(named))))
    if clean and report.worker is None:
        return Believed(report)
    refused: Counter[Why] = Counter()
    tasks, changed, slots, sure = [], False, Counter[tuple[Slot, str]](), True
    for load in report.tasks:
        if load.task not in at.slots:
            refused["unknown_task"] += 1
            continue
        slot = None
        if report.worker is not None:
            verdict = _of_worker(load, report.worker.port, written_at_ms, at)
            if verdict == "refused":
                refused["other_slot"] += 1
            if isinstance(verdict, str):
                continue
            slot, certain = verdict
            sure = sure and certain
        if slot is not None:
            slots[slot, load.host.lower()] += 1
        known = load if clean else _of_known_tasks(load, at)
        if known is not load:
            changed = True
            refused["unknown_task"] += load.counters - known.counters
        tasks.append(known)
    slot_and_host = slots.most_common(1)[0][0] if slots else None
    if report.tasks and not tasks:
        return Believed(None, refused)
    if changed or len(tasks) < len(report.tasks):
        report = msgspec.structs.replace(report, tasks=tasks)
    return Believed(report, refused, slot_and_host, sure)


def _of_worker(
    load: TaskLoad, port: int, written_at_ms: int, at: Placement
) -> tuple[Slot | None, bool] | Literal["refused", "left"]:
    """The slot that a worker reports of a task, and whether its host is known; or why that is not believed."""
    slot = at.slots[load.task]
    if slot is None:
        return None, True  # it runs nowhere now: its worker may not have ended yet
    here = at.runs_at(slot, load.host, port)
    if here is not False:
        return slot, here is True
    if written_at_ms > at.changed_ms + GRACE_MS:
        return "refused"
    if at.former is None:  # nobody knows where it was: only what was written just then can be of the worker before
        return (None, True) if written_at_ms >= at.changed_ms - GRACE_MS else "left"
    before = at.former.get(load.task)
    return (None, True) if before is None or at.runs_at(before, load.host, port) is not False else "left"


def _of_known_tasks(load: TaskLoad, at: Placement) -> TaskLoad:
    """Without the counters of pairs with tasks that the topology does not have (negative ones are Storm's own)."""
    received, sent = _with_known(load.received, at), _with_known(load.sent, at)
    if (received, sent) == (load.received, load.sent):
        return load
    return msgspec.structs.replace(load, received=received, sent=sent)


def _with_known(pairs: Pairs, at: Placement) -> Pairs:
    found: Pairs = {}
    for stream, told in pairs.items():
        known = [(task, tuples) for task, tuples in zip(*told, strict=True) if task in at.slots or task < 0]
        if known:
            found[stream] = [task for task, _ in known], [tuples for _, tuples in known]
    return found


def second_reporters(found: Mapping[str, Believed], written_at_ms: Mapping[str, int]) -> set[str]:
    """Of reports that claim one slot from several hosts, all but those of one host.

    The host that is known wins, else the one that wrote last. Keys are paths.
    """
    by_slot: dict[Slot, dict[str, list[str]]] = {}
    for path, b in found.items():
        if b.report is not None and b.slot is not None:
            slot, host = b.slot
            by_slot.setdefault(slot, {}).setdefault(host, []).append(path)
    refused: set[str] = set()
    for hosts in by_slot.values():
        if len(hosts) > 1:
            ranked = {
                h: (all(found[p].sure for p in paths), max(written_at_ms[p] for p in paths), h)
                for h, paths in hosts.items()
            }
            winner = max(ranked, key=ranked.__getitem__)
            refused |= {p for h, paths in hosts.items() if h != winner for p in paths}
    return refused
