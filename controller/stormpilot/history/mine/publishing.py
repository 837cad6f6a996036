"""Mined numbers to `thresholds/<topology-id>` and `profiles/<topology-id>`. No Spark in here."""

from __future__ import annotations

import contextlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol, TypeVar

import msgspec
import structlog

from stormpilot.config import HistorySection
from stormpilot.errors import RefusedError, StormpilotError, UsageError
from stormpilot.history.mine.entries import NOT_KNOWN
from stormpilot.history.mine.findings import Mined
from stormpilot.history.mine.limit import WAITS
from stormpilot.messages.core import decode, encode
from stormpilot.messages.thresholds import CPU_LIMIT_RATIO, ThresholdEntry, Thresholds
from stormpilot.trafficlog.schema import name_of
from stormpilot.tuning.effective_thresholds import too_old
from stormpilot.zookeeper.paths import Paths

log = structlog.get_logger(__name__)
Found = TypeVar("Found")
EARLIER = "; mined earlier, now "
"""Where the text of a kept B(n) goes on with what the newest log says."""


class Store(Protocol):
    """The part of ZooKeeper that is needed."""

    def children(self, paths: Sequence[str]) -> list[list[str]]:
        """Names below each path."""

    def read(self, paths: Sequence[str]) -> Sequence[object]:
        """Value at each path, None where there is nothing."""

    def put(self, path: str, data: bytes) -> None:
        """Write, with parents."""


def publish(mined: Sequence[Mined], store: Store, paths: Paths, history: HistorySection | None = None) -> list[str]:
    """Write what was mined; returns the topology ids that it was written for.

    That is the newest id in the log (unless that is gone for longer than `history.max_age_days`) and every other one
    that runs under the name now: a topology that was submitted again goes on with its history. What replay recommended
    before is kept, also under a former id of the name. So is a B(n) that was mined and that the log does not tell of
    any more (`_limit`), unless it is older than `history.max_age_days`.

    Raises
    ------
    RefusedError, UsageError
        Numbers that cannot be written, the first of them; those of all other topologies are.
    """
    running, known = store.children([paths.topology(), paths.thresholds()])
    former = by_name(known)
    return written_of_each(
        mined,
        lambda m: _publish(m, running, former[m.thresholds.topology_name], store, paths, history),
        lambda m: m.thresholds.topology_name,
    )


def written_of_each(
    found: Iterable[Found], write: Callable[[Found], list[str]], topology_of: Callable[[Found], str]
) -> list[str]:
    """Ids that were written for; what cannot be written for one topology keeps no other, and is raised at the end."""
    written: list[str] = []
    first: StormpilotError | None = None
    for one in found:
        try:
            written += write(one)
        except (RefusedError, UsageError) as e:
            log.warning("what was found cannot be written", topology=topology_of(one), why=e)
            first = first or e
    if first is not None:
        raise first
    return written


def _publish(
    m: Mined, running: Sequence[str], known: Sequence[str], store: Store, paths: Paths, history: HistorySection | None
) -> list[str]:
    written = []
    name = m.thresholds.topology_name
    ids = {m.thresholds.topology_id, *(i for i in running if name_of(i) == name)}
    former = sorted(of_name(store, paths, name, known), key=lambda t: t.mined_at_ms, reverse=True)
    recommended = [t.recommendation for t in former if t.recommendation is not None]
    newest = max(recommended, key=lambda r: r.replayed_at_ms, default=None)
    in_force = [t for t in former if not too_old(t, history or HistorySection(), m.thresholds.mined_at_ms)]
    if too_old(m.thresholds, history or HistorySection(), m.thresholds.mined_at_ms):
        ids &= set(running)  # of one that is gone nobody would use it, and the controller removes it
    for topology_id in sorted(ids):
        before = _before(store, paths.thresholds(topology_id))
        own = None if before is None else before.recommendation
        own_first = sorted(in_force, key=lambda t: t.topology_id != topology_id)  # its own first, then the newest
        thresholds = msgspec.structs.replace(
            m.thresholds,
            topology_id=topology_id,
            entries=[_limit(e, own_first) for e in m.thresholds.entries],
            recommendation=own or newest,
        )
        store.put(paths.thresholds(topology_id), encode(thresholds))
        if m.profile is not None:
            profile = msgspec.structs.replace(m.profile, topology_id=topology_id)
            store.put(paths.profile(topology_id), encode(profile))
        written.append(topology_id)
    return written


def _limit(entry: ThresholdEntry, known: Sequence[Thresholds]) -> ThresholdEntry:
    """The entry, or the mined B(n) that is there before where the log does not tell a number that may be in force.

    A B(n) in force keeps its node below it: once the windows above it have left the log, nothing there tells of it any
    more. It goes when the log tells another one, or that the default is fine.
    """
    if entry.name != CPU_LIMIT_RATIO or not (entry.source == "proposed" or entry.text.startswith(NOT_KNOWN)):
        return entry
    found = (t.entry(entry.name, entry.scope, *entry.of) for t in known)
    before = next((e for e in found if e is not None), None)
    if before is None or before.source != "mined" or before.value is None:
        return entry
    now = entry.text
    if entry.source == "proposed":  # `thresholds freeze` takes the number of the entry, which is the earlier one
        now = f"proposed: {entry.value:.3f}, {now.replace(WAITS, 'it waits for `thresholds set`')}"
    return msgspec.structs.replace(before, text=f"{before.text.partition(EARLIER)[0]}{EARLIER}{now}")


def by_name(topology_ids: Iterable[str]) -> Mapping[str, Sequence[str]]:
    """Ids by the name of their topology; none for a name that has none."""
    found = defaultdict[str, list[str]](list)
    for i in topology_ids:
        found[name_of(i)].append(i)
    return found


def of_name(store: Store, paths: Paths, name: str, topology_ids: Iterable[str]) -> list[Thresholds]:
    """Thresholds of all these ids that a topology had, as far as they can be read."""
    found = list[Thresholds]()
    for path in map(paths.thresholds, topology_ids):
        node = store.read([path])[0]
        if node is not None:
            with contextlib.suppress(UsageError):
                found.append(decode(node.data, Thresholds, path))  # type: ignore[attr-defined]
    return [t for t in found if t.topology_name == name]


def _before(store: Store, path: str) -> Thresholds | None:
    node = store.read([path])[0]
    if node is None:
        return None
    try:
        return decode(node.data, Thresholds, path)  # type: ignore[attr-defined]
    except UsageError as e:
        log.warning("replacing thresholds that cannot be read", why=e)
        return None
