"""Reads the load reports of topologies: within bounds for each, and only what is believed of them (`identity.py`).

Whoever can write below `load/<topology-id>` can write much, and often. A topology whose reports are beyond a bound is
left out until they are within it again; the others go on.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from stormpilot.errors import UsageError
from stormpilot.messages.core import ClusterSnapshot, TopologySnapshot, decode
from stormpilot.messages.load import LoadReport
from stormpilot.observe.identity import Believed, Placement, believed, second_reporters
from stormpilot.zookeeper.client import MAY_NOT_READ, DeniedError, Node, NodeStat, ZooKeeper
from stormpilot.zookeeper.paths import Paths

NAMED = 5
"""Reports of a topology of which is said what is wrong with them; the rest is counted."""


@dataclass(frozen=True)
class Bounds:
    """Limits of the reports of one topology together.

    `entries_per_task`: a task is reported by itself and by its worker, and for a while by the worker before.
    """

    reporters: int = 2_000
    packed_bytes: int = 32 * 1024 * 1024
    pairs: int = 1_000_000
    entries_per_task: int = 4


@dataclass(frozen=True)
class ReadReports:
    """One reading. `problems` by path; `over_limit` by topology id; both as sentences."""

    reports: Sequence[LoadReport] = ()
    problems: Mapping[str, str] = field(default_factory=dict)
    over_limit: Mapping[str, str] = field(default_factory=dict)


@dataclass
class _Kept:
    """A znode as it was read last; `report` is None where it cannot be read, `wrong` says why."""

    stat: NodeStat
    report: LoadReport | None
    wrong: str
    placement: Placement | None = None
    verdict: Believed | None = None


class Reports:
    """Remembers what was read: a znode that was not written since is neither read nor decoded again.

    Attributes
    ----------
    refused
        How much was not believed so far, by reason.
    """

    def __init__(self, zookeeper: ZooKeeper, paths: Paths, bounds: Bounds = Bounds()):
        self._zookeeper = zookeeper
        self._paths = paths
        self._bounds = bounds
        self._kept: dict[str, _Kept] = {}
        self._placements: dict[str, Placement] = {}
        self._second: set[str] = set()
        self.refused: Counter[str] = Counter()

    def know(
        self,
        topologies: Mapping[str, TopologySnapshot],
        cluster: ClusterSnapshot | None,
        written_at_ms: Mapping[str, int],
    ) -> None:
        """Hold reports against these snapshots from now on; `written_at_ms` is when each was written."""
        self._placements = {
            i: Placement.of(s, cluster, written_at_ms.get(i, 0), self._placements.get(i)) for i, s in topologies.items()
        }

    def read(self, topology_ids: Sequence[str]) -> ReadReports:
        """Read the reports of these topologies; `UnreachableError` when ZooKeeper is away."""
        p, over = self._paths, dict[str, str]()
        looked_at = self._zookeeper.stats([p.load(i) for i in topology_ids], keep_denied=True)
        folders = dict(zip(topology_ids, looked_at, strict=True))
        ids = []
        for i, folder in folders.items():
            if folder is not None and folder.denied:
                over[i] = MAY_NOT_READ
            elif folder is not None and folder.children > self._bounds.reporters:
                over[i] = f"{folder.children} reporters, at most {self._bounds.reporters} are read"
            elif folder is not None and folder.children:
                ids.append(i)
        names = self._names(ids, over)
        paths = {p.load(i, name): (i, name) for i in ids for name in names[i]}
        stats = dict(zip(paths, self._zookeeper.stats(list(paths), keep_denied=True), strict=True))
        size: Counter[str] = Counter()
        for path, (i, _) in paths.items():
            stat = stats[path]
            size[i] += 0 if stat is None else stat.bytes
        for i in ids:
            if size[i] > self._bounds.packed_bytes:
                over[i] = f"{size[i]} bytes of load reports, at most {self._bounds.packed_bytes} are read"
        wanted = {path: s for path, s in stats.items() if s is not None and paths[path][0] not in over}
        there = {path: s for path, s in wanted.items() if s.bytes or s.denied}
        self._update(there)
        reports: list[LoadReport] = []
        problems: dict[str, str] = {}
        for i in ids:
            own = [p.load(i, name) for name in names[i] if p.load(i, name) in self._kept]
            found, wrong = self._believed(i, {path: paths[path][1] for path in own})
            beyond = self._beyond(i, found)
            if i not in over and beyond:
                over[i] = beyond
            if i not in over:
                reports += [b.report for b in found if b.report is not None]
            problems |= _named(wrong, p.load(i))
        problems |= {p.load(i): f"{p.load(i)}: {text}: the topology is left as it is" for i, text in over.items()}
        return ReadReports(reports, problems, over)

    def _names(self, ids: Sequence[str], over: dict[str, str]) -> dict[str, list[str]]:
        """The reporters of these topologies; `over` is given those whose list we may not see."""
        folders = [self._paths.load(i) for i in ids]
        try:
            return dict(zip(ids, self._zookeeper.children(folders), strict=True))
        except DeniedError:
            names: dict[str, list[str]] = {i: [] for i in ids}
            for i, folder in zip(ids, folders, strict=True):
                try:
                    names[i] = self._zookeeper.children([folder])[0]
                except DeniedError:
                    over[i] = MAY_NOT_READ
            return names

    def _update(self, there: Mapping[str, NodeStat]) -> None:
        """Read and decode what was written since the last time; forget what is gone."""
        kept = {path: k for path, k in self._kept.items() if there.get(path) == k.stat}
        changed = [path for path in there if path not in kept]
        for path, node in zip(changed, self._zookeeper.read(changed, keep_denied=True), strict=True):
            if node is None:
                continue
            try:
                kept[path] = _Kept(there[path], _decoded(node, path), "")
            except UsageError as e:
                kept[path] = _Kept(there[path], None, str(e))
        self._kept = {path: kept[path] for path in there if path in kept}
        self._second &= self._kept.keys()

    def _believed(self, topology_id: str, names: Mapping[str, str]) -> tuple[list[Believed], dict[str, str]]:
        """Accepted reports of a topology, and what is wrong with the others; `names` by path."""
        at = self._placements.get(topology_id)
        verdicts: dict[str, Believed] = {}
        wrong: dict[str, str] = {}
        for path, name in names.items():
            kept = self._kept[path]
            if kept.report is None:
                wrong[path] = kept.wrong
                continue
            if kept.verdict is None or kept.placement is not at:
                kept.placement = at
                kept.verdict = believed(kept.report, topology_id, name, kept.stat.written_at_ms, at)
                self.refused.update({str(why): n for why, n in kept.verdict.refused.items()})
            verdicts[path] = kept.verdict
        second = second_reporters(verdicts, {path: self._kept[path].stat.written_at_ms for path in verdicts})
        for path in second:
            verdicts[path] = Believed(None, {"second_reporter": 1})
        known = {path for path in self._second if path in names}
        if second - known:
            self.refused["second_reporter"] += len(second - known)
        self._second = (self._second - known) | second
        wrong |= {path: text for path, v in verdicts.items() if (text := v.sentence(path))}
        return [v for v in verdicts.values() if v.report is not None], wrong

    def _beyond(self, topology_id: str, found: Collection[Believed]) -> str:
        """Which bound the contents of these reports break; empty: none."""
        entries, pairs = (sum(b.size[i] for b in found) for i in (0, 1))
        if pairs > self._bounds.pairs:
            return f"{pairs} counters of pairs of tasks, at most {self._bounds.pairs} are kept"
        at = self._placements.get(topology_id)
        most = self._bounds.entries_per_task * len(at.slots) if at is not None else self._bounds.pairs
        if entries > most:
            return f"{entries} reports of tasks, at most {most} are kept"
        return ""


def _decoded(node: Node, path: str) -> LoadReport:
    if node.denied:
        raise UsageError(f"{path}: {MAY_NOT_READ}")
    return decode(node.data, LoadReport, path)


def _named(wrong: Mapping[str, str], folder: str) -> dict[str, str]:
    """The first of them, and how many more there are."""
    named = dict(sorted(wrong.items())[:NAMED])
    if len(wrong) > NAMED:
        named[f"{folder}/..."] = f"{folder}: {len(wrong) - NAMED} more load reports that cannot be used"
    return named
