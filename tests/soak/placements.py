"""Rules of the checker about where executors are: slots, pins, drains, exclusions, and workers that stay."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any

from soak.history import Record

EXPLAINED_S = 180.0
"""So long after a plan, a fault or a submission what runs may still change because of it."""
SOON_S = 30.0
"""A worker may end so long before Nimbus's snapshot says why."""
RULE_S = 60.0
"""So long after a setting was acknowledged a plan may still come of what was seen before it."""
UNPLACED_S = 45.0
"""Nimbus shows executors of a lost place unassigned until a round has placed them; Python on a busy machine is slow."""
Executors = dict[tuple[int, int], str | None]


def of_kind(records: Sequence[Record], *kinds: str) -> list[Record]:
    """The records of these kinds, in their order."""
    return [r for r in records if r["kind"] in kinds]


def placements_stand(records: Sequence[Record]) -> Iterator[tuple[float, str]]:
    """Every executor is in one slot that exists, no slot holds two topologies, and nothing moves without a cause.

    Causes: a plan that says so, a fault that took the slot, a topology that was submitted or killed.
    """
    slots: set[str] = set()
    now: dict[str, Executors] = {}
    for r in of_kind(records, "cluster", "placement"):
        if r["kind"] == "cluster":
            slots |= {f"{s}:{port}" for s, part in r["supervisors"].items() for port in part["ports"]}
            continue
        topology = r["topology"]
        if r["executors"] is None:
            now.pop(topology, None)
            continue
        placed = {(start, end): slot for start, end, _, slot in r["executors"]}
        if len(placed) != len(r["executors"]):
            yield r["t"], f"{topology}: an executor is there twice"
        for slot in sorted({s for s in placed.values() if s is not None} - slots):
            yield r["t"], f"{topology}: executors in {slot}, which does not exist"
        before = now.get(topology)
        if before is not None:
            yield from _unexplained(records, r, before, placed)
        now[topology] = placed
    yield from _shared_slots(records)


def _unexplained(
    records: Sequence[Record], r: Record, before: Executors, after: Executors
) -> Iterator[tuple[float, str]]:
    t, topology = r["t"], r["topology"]
    moved = {e for e in after if before.get(e) is not None and after[e] is not None and before[e] != after[e]}
    if not moved:
        return
    planned = [p for p in _plans(records, topology, t) if all(p.get(e) == _node(after[e]) for e in moved)]
    if planned or not {e for e in moved if not _taken(records, topology, before[e], t)}:
        return
    who = sorted(moved)[0]
    text = f"{len(moved)} executors moved, e.g. {who[0]} from {before[who]} to {after[who]}"
    yield t, f"{topology}: {text}, and neither a plan nor a fault says why"


def _plans(records: Sequence[Record], topology: str, t: float) -> list[Executors]:
    """Nodes in the plans of a topology that were written not long before; the newest is valid as long as it is.

    Only nodes: a worker whose executors change starts on a fresh port of its node where one is free.
    """
    written = [r for r in of_kind(records, "plan") if r["topology"] == topology and r["t"] <= t + 5]
    recent = [r for i, r in enumerate(written) if r["t"] >= t - EXPLAINED_S or i == len(written) - 1]
    return [{(start, end): w["supervisor"] for w in r["workers"] for start, end in w["executors"]} for r in recent]


def _node(slot: str | None) -> str:
    return (slot or "").partition(":")[0]


def _taken(records: Sequence[Record], topology: str, slot: str | None, t: float) -> bool:
    """Whether a fault took this slot away, or the topology came or went, not long before."""
    for r in of_kind(records, "fault"):
        touched = slot in r["slots"] or topology in r["topologies"]
        if touched and r["t"] - 5 <= t <= r["t"] + EXPLAINED_S:
            return True
    return False


def _shared_slots(records: Sequence[Record]) -> Iterator[tuple[float, str]]:
    """Two topologies in one slot, for longer than one look takes (their snapshots are two znodes)."""
    now: dict[str, set[str]] = {}
    since: dict[str, float] = {}
    told: set[str] = set()
    for r in of_kind(records, "placement"):
        held = {slot for *_, slot in r["executors"] or [] if slot is not None}
        now[r["topology"]] = held
        holders: dict[str, list[str]] = defaultdict(list)
        for topology, slots in now.items():
            for slot in slots:
                holders[slot].append(topology)
        shared = {slot: names for slot, names in holders.items() if len(names) > 1}
        since = {slot: since.get(slot, r["t"]) for slot in shared}
        for slot in sorted(shared.keys() - told):
            if r["t"] - since[slot] > 5:
                told.add(slot)
                yield r["t"], f"{slot} holds {' and '.join(sorted(shared[slot]))}"


def workers_stay(records: Sequence[Record]) -> Iterator[tuple[float, str]]:
    """No worker ends but by a fault, or because its slot now holds other executors."""
    changes = _changed_slots(records)
    before: dict[str, Any] = {}
    for r in of_kind(records, "workers"):
        for slot, (pid, topology) in before.items():
            if r["slots"].get(slot, [None])[0] == pid:
                continue
            planned = any(-SOON_S <= r["t"] - t <= EXPLAINED_S for t in changes[topology, slot])
            if not planned and not _taken(records, topology, slot, r["t"]):
                yield r["t"], f"the worker of {topology} in {slot} (process {pid}) ended, and nothing says why"
        before = r["slots"]


def _changed_slots(records: Sequence[Record]) -> dict[tuple[str, str], list[float]]:
    """When the executors of a topology in a slot became others."""
    found: dict[tuple[str, str], list[float]] = defaultdict(list)
    now: dict[str, dict[str, set[int]]] = {}
    for r in of_kind(records, "placement"):
        slots: dict[str, set[int]] = defaultdict(set)
        for start, _, _, slot in r["executors"] or []:
            if slot is not None:
                slots[slot].add(start)
        before = now.get(r["topology"], {})
        for slot in {*before, *slots}:
            if before.get(slot, set()) != slots.get(slot, set()):
                found[r["topology"], slot].append(r["t"])
        now[r["topology"]] = slots
    return found


def placed_soon(records: Sequence[Record]) -> Iterator[tuple[float, str]]:
    """No executor is without a slot for long, but while Nimbus or ZooKeeper or too many hosts are broken."""
    since: dict[str, float] = {}
    told: set[tuple[str, float]] = set()
    end = records[-1]["t"] if records else 0.0
    spans: list[tuple[str, float, float]] = []
    for r in of_kind(records, "placement"):
        lacking = r["executors"] is not None and any(slot is None for *_, slot in r["executors"])
        if lacking:
            since.setdefault(r["topology"], r["t"])
        elif r["topology"] in since:
            spans.append((r["topology"], since.pop(r["topology"]), r["t"]))
    spans += [(topology, t, end) for topology, t in since.items()]
    for topology, begin, over in spans:
        if over - begin - _broken_s(records, begin, over) > UNPLACED_S and (topology, begin) not in told:
            told.add((topology, begin))
            yield over, f"{topology}: executors were without a slot for {over - begin:.0f} s"


def _broken_s(records: Sequence[Record], begin: float, over: float) -> float:
    """How much of a span overlaps faults in which nobody can be placed."""
    total, open_ = 0.0, {}
    for r in of_kind(records, "fault"):
        if not r["blocks"]:
            continue
        if r["phase"] == "begin":
            open_[r["n"]] = r["t"]
        elif r["n"] in open_:
            total += max(0.0, min(over, r["t"] + 30) - max(begin, open_.pop(r["n"])))
    return total + sum(max(0.0, over - max(begin, t)) for t in open_.values())


def nothing_outside_its_rules(records: Sequence[Record]) -> Iterator[tuple[float, str]]:
    """A plan puts nothing where a pin, a drain or an exclusion forbids it that was acknowledged a while before.

    It may keep what runs there already: the plug-in, which repairs what was lost, knows no such rules.
    """
    rules: dict[str, tuple[float, Any]] = {}
    hosts: dict[str, str] = {}
    components: dict[str, tuple[str, dict[tuple[int, int], str]]] = {}
    ran: dict[str, list[tuple[float, Executors]]] = defaultdict(list)
    by_hand = {zxid for r in of_kind(records, "hostile") for zxid in r["zxids"].values()}
    for r in records:
        if r["kind"] == "write" and r["phase"] == "ok" and r["rule"] is not None:
            rules.pop(r["path"], None)
            if r["value"] is not None:
                rules[r["path"]] = (r["t"], r["rule"])
        elif r["kind"] == "write" and r["phase"] in ("begin", "unknown"):
            rules.pop(r["path"], None)  # until it is acknowledged nobody knows what holds
        elif r["kind"] == "cluster":
            hosts.update({s: part["host"] for s, part in r["supervisors"].items()})
        elif r["kind"] == "placement" and r["executors"] is not None:
            components[r["topology"]] = (r["name"], {(s, e): c for s, e, c, _ in r["executors"]})
            ran[r["topology"]].append((r["t"], {(s, e): slot for s, e, _, slot in r["executors"]}))
        elif r["kind"] == "plan" and r["zxid"] not in by_hand and r["topology"] in components:
            in_force = [rule for t, rule in rules.values() if t <= r["t"] - RULE_S]
            for text in sorted(_broken(r, in_force, hosts, components[r["topology"]], ran[r["topology"]])):
                yield r["t"], f"plan {r['plan_id']} ({r['reason']}) of {r['topology']}: {text}"


def _broken(
    plan: Record,
    rules: Sequence[Any],
    hosts: dict[str, str],
    topology: tuple[str, dict[tuple[int, int], str]],
    ran: Sequence[tuple[float, Executors]],
) -> set[str]:
    name, components = topology
    found = set()
    for w in plan["workers"]:
        supervisor = w["supervisor"]
        for start, end in w["executors"]:
            component = components.get((start, end))
            stays = any(
                (placed.get((start, end)) or "").split(":")[0] == supervisor
                for t, placed in ran
                if t >= plan["t"] - RULE_S or placed is ran[-1][1]
            )
            for rule in [] if stays else rules:
                own = rule.get("topology") in (None, name) and rule.get("component") in (None, component)
                if rule["kind"] == "pin" and own and rule["supervisor"] != supervisor:
                    found.add(f"{component} is pinned to {rule['supervisor']} and put on {supervisor}")
                if rule["kind"] == "exclude" and own and rule["where"] in (supervisor, hosts.get(supervisor)):
                    found.add(f"{component} is put on {supervisor}, from where it is excluded")
                if rule["kind"] == "drain" and rule["host"] == hosts.get(supervisor):
                    found.add(f"{component} comes to {supervisor}, which is drained")
    return found
