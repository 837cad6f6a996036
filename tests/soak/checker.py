"""The independent checker of a soak: it reads a history, nothing else, and shares no code with the product.

    python -m soak.checker build/soak/seed-1/history.jsonl [--publish docs/results/soak]

Each rule is a function from a history to violations. A rule accuses only of what the history proves: what nobody looked
at in time is no violation.
"""

from __future__ import annotations

import argparse
import itertools
import json
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from soak import history
from soak.history import Record
from soak.placements import nothing_outside_its_rules, of_kind, placed_soon, placements_stand, workers_stay

Rule = Callable[[Sequence[Record]], Iterator["tuple[float, str]"]]


KINDS = {
    "faults": "faults",
    "settings": "settings written",
    "asked": "asked of the leader, also what it refused",
    "plans": "plans that were new",
    "broken": "rules broken",
}
"""Counts in a run's figures, and what the page calls them."""
HEAD = """# Soak

Four supervisors, three ZooKeepers, two controllers and two topologies under faults and operators' verbs that a seed
draws; a checker then reads the history of the run and nothing else
([what it asks](../concepts/fault-tolerance.md#soak)).

`make soak ARGS="--minutes 90 --seed N"` writes a history; the checker writes this page from histories:

    export PYTHONPATH=.:tests:tests/support
    .venv/bin/python -m soak.checker build/soak/seed-N/history.jsonl --publish docs/results/soak
"""


@dataclass(frozen=True)
class Violation:
    """What a history proves against the product: the rule, when (seconds since the run began), and how."""

    rule: str
    t: float
    text: str


# --- leaders ----------------------------------------------------------------------------------------------------------


def one_leader_per_epoch(records: Sequence[Record]) -> Iterator[tuple[float, str]]:
    """No two controllers say, sign or log that they lead the same epoch."""
    leaders: dict[int, str] = {}
    for r in of_kind(records, "claim"):
        first = leaders.setdefault(r["epoch"], r["controller"])
        if first != r["controller"]:
            yield r["t"], f"epoch {r['epoch']} is led by {first} and by {r['controller']}"


def epochs_rise(records: Sequence[Record]) -> Iterator[tuple[float, str]]:
    """In the order of ZooKeeper's transactions the number of the epoch rises with every write."""
    seen = sorted({(r["zxid"], r["value"], r["t"]) for r in of_kind(records, "epoch")})
    for (zxid, value, _), (next_zxid, next_value, t) in itertools.pairwise(seen):
        if (next_zxid > zxid and next_value <= value) or (next_zxid == zxid and next_value != value):
            yield t, f"epoch {next_value} was written after epoch {value}"


def no_plan_of_a_deposed_leader(records: Sequence[Record]) -> Iterator[tuple[float, str]]:
    """In the order of transactions no plan is written whose epoch is over; what a hand wrote is not meant."""
    epochs = sorted({(r["zxid"], r["value"]) for r in of_kind(records, "epoch")})
    by_hand = hostile_transactions(records)
    for r in of_kind(records, "plan"):
        current = max((value for zxid, value in epochs if zxid < r["zxid"]), default=0)
        if r["zxid"] not in by_hand and r["epoch"] < current:
            yield r["t"], f"plan {r['plan_id']} of epoch {r['epoch']} was written in epoch {current}"


def no_old_plan_applied(records: Sequence[Record]) -> Iterator[tuple[float, str]]:
    """The plug-in applies only plans that a controller published, and after one of an epoch none of an older one."""
    by_hand = hostile_transactions(records)
    published = {r["plan_id"]: r for r in of_kind(records, "plan") if r["zxid"] not in by_hand}
    newest: dict[str, int] = {}
    applied: set[tuple[str, str]] = set()
    for r in of_kind(records, "status"):
        if r["state"] not in ("applied", "moving") or r["plan_id"] is None:
            continue
        topology, plan = r["topology"], published.get(r["plan_id"])
        if plan is None or plan["topology"] != topology:
            yield r["t"], f"{topology}: plan {r['plan_id']} is {r['state']}, and no controller published it"
            continue
        if plan["epoch"] < newest.get(topology, 0) and (topology, r["plan_id"]) not in applied:
            text = f"{topology}: plan {r['plan_id']} of epoch {plan['epoch']} is {r['state']}"
            yield r["t"], f"{text} after one of epoch {newest[topology]}"
        newest[topology] = max(newest.get(topology, 0), plan["epoch"])
        applied.add((topology, r["plan_id"]))


def hostile_transactions(records: Sequence[Record]) -> set[int]:
    """Transactions with which the run itself wrote what no controller would."""
    return {zxid for r in of_kind(records, "hostile") for zxid in r["zxids"].values()}


# --- settings: registers ----------------------------------------------------------------------------------------------


@dataclass
class _Write:
    """One write of a register. `end` is infinite where nobody knows whether, or when, it was carried out."""

    value: Any
    begin: float
    end: float
    acknowledged: bool


def no_setting_lost(records: Sequence[Record]) -> Iterator[tuple[float, str]]:
    """Every setting that is read is what an operator wrote, and no acknowledged later write had replaced it by then.

    A write is out of date for a read when another, acknowledged one began after it had ended, and ended before the read
    began. The value before all writes is that there is none.
    """
    writes: dict[str, list[_Write]] = defaultdict(list)
    open_: dict[int, _Write] = {}
    reads: list[Record] = []
    for r in of_kind(records, "write", "settings"):
        if r["kind"] == "settings":
            reads.append(r)
        elif r["phase"] == "begin":
            open_[r["op"]] = _Write(r["value"], r["t"], float("inf"), acknowledged=False)
            writes[r["path"]].append(open_[r["op"]])
        elif r["phase"] == "ok":
            write = open_.pop(r["op"])
            write.value, write.end, write.acknowledged = r["value"], r["t"], True
        elif r["phase"] == "refused":
            writes[r["path"]].remove(open_.pop(r["op"]))
    by_hand = {path for r in of_kind(records, "hostile") for path in r["zxids"]}
    for r in reads:
        for path in sorted({*writes, *r["values"]} - by_hand):
            value = r["values"].get(path)
            text = _wrong_read(value, r, writes.get(path, []))
            if text:
                yield r["t"], f"{path}: {text}"


def _wrong_read(value: Any, read: Record, writes: Sequence[_Write]) -> str:
    """Why no write explains a value that was read; empty where one does."""
    initial = _Write(None, float("-inf"), float("-inf"), acknowledged=True)
    begun = [initial, *(w for w in writes if w.begin <= read["t"])]
    sources = [w for w in begun if w.value == value]
    if not sources:
        return f"{json.dumps(value)} was read, which nobody wrote"
    later = [w for w in begun if w.acknowledged and w.end < read["began"]]
    if all(any(w.begin > s.end for w in later) for s in sources):
        newest = max(later, key=lambda w: w.end)
        return (
            f"{json.dumps(value)} was read at {read['began']:.1f} s, after {json.dumps(newest.value)} was acknowledged"
        )
    return ""


# --- processes and liveness -------------------------------------------------------------------------------------------


def nimbus_stays(records: Sequence[Record]) -> Iterator[tuple[float, str]]:
    """Nimbus is the same process, unless a fault ended it."""
    before: int | None = None
    for r in of_kind(records, "daemons", "fault"):
        if r["kind"] == "fault":
            if "nimbus" in r["ends"]:
                before = None
            continue
        pid = r["pids"].get("nimbus")
        if before is not None and pid != before and not _nimbus_is_meant_to_be_down(records, r["t"]):
            yield r["t"], f"Nimbus was process {before} and is {pid}"
        before = pid


def _nimbus_is_meant_to_be_down(records: Sequence[Record], t: float) -> bool:
    ended = [r["t"] for r in of_kind(records, "fault") if "nimbus" in r["ends"] and r["phase"] == "begin"]
    healed = [r["t"] for r in of_kind(records, "fault") if "nimbus" in r["ends"] and r["phase"] == "end"]
    return any(b - 5 <= t <= min((h for h in healed if h >= b), default=float("inf")) + 5 for b in ended)


def settles(records: Sequence[Record]) -> Iterator[tuple[float, str]]:
    """When all faults are over, the system comes back to work within the deadline, each time that was waited for."""
    for r in of_kind(records, "settled"):
        for problem in r["problems"]:
            yield r["t"], problem


def no_error_logged(records: Sequence[Record]) -> Iterator[tuple[float, str]]:
    """Controllers and plug-in log no error of their own."""
    for r in of_kind(records, "log"):
        yield r["t"], f"{r['source']}: {r['line']}"


RULES: dict[str, Rule] = {
    "one leader per epoch": one_leader_per_epoch,
    "epochs rise": epochs_rise,
    "no plan of a deposed leader": no_plan_of_a_deposed_leader,
    "no old plan applied": no_old_plan_applied,
    "no setting lost": no_setting_lost,
    "Nimbus stays": nimbus_stays,
    "workers stay": workers_stay,
    "placements stand": placements_stand,
    "placed soon": placed_soon,
    "nothing outside its rules": nothing_outside_its_rules,
    "settles": settles,
    "no error logged": no_error_logged,
}


def check(records: Sequence[Record]) -> list[Violation]:
    """All violations, in the order of time."""
    found = [Violation(name, t, text) for name, rule in RULES.items() for t, text in rule(records)]
    return sorted(found, key=lambda v: v.t)


def figures(records: Sequence[Record]) -> dict[str, Any]:
    """What was done in a run, and how often each rule was broken: a value for JSON."""
    broken = Counter(v.rule for v in check(records))
    return {
        "seed": next((r["seed"] for r in of_kind(records, "start")), None),
        "minutes": round(records[-1]["t"] / 60, 1) if records else 0.0,
        "records": len(records),
        "epochs": len({r["epoch"] for r in of_kind(records, "claim")}),
        "faults": Counter(r["name"] for r in of_kind(records, "fault") if r["phase"] == "begin"),
        "settings": Counter(r["verb"] for r in of_kind(records, "write") if r["phase"] == "begin"),
        "asked": Counter(r["verb"] for r in of_kind(records, "asked")),
        "plans": Counter(r["reason"] for r in of_kind(records, "plan") if r["reason"]),
        "broken": {name: broken[name] for name in RULES},
    }


def summary(done: dict[str, Any]) -> str:
    """What was done in a run, in a few lines."""
    faults, settings = done["faults"], done["settings"]
    return "\n".join(
        [
            f"{done['minutes']} minutes, {done['records']:,} records, {done['epochs']} leaders' epochs",
            f"faults: {sum(faults.values())} ({_counts(faults)})",
            f"settings written: {sum(settings.values())} ({_counts(settings)}); "
            f"asked of the leader: {_counts(done['asked']) or 'nothing'}",
            f"plans: {_counts(done['plans']) or 'none'}",
        ]
    )


def _counts(counts: dict[str, int]) -> str:
    return ", ".join(f"{n} {name}" for name, n in sorted(counts.items()))


def report(records: Sequence[Record]) -> int:
    """Print what was done and what is wrong; how many violations there are."""
    found = check(records)
    done = figures(records)
    print(summary(done))
    for name, times in done["broken"].items():
        print(f"  {name:<28}{times or 'kept'}")
    for v in found:
        print(f"{v.t:9.1f} s  {v.rule}: {v.text}")
    return len(found)


def publish(runs: Sequence[dict[str, Any]], page: Path) -> None:
    """Write `page`.json with the figures of all runs, and `page`.md with a table of each kind."""
    page.with_suffix(".json").write_text(json.dumps(runs, indent=1) + "\n")
    lines = [HEAD, "| | " + " | ".join(f"seed {run['seed']}" for run in runs) + " |", "|---|" + "---:|" * len(runs)]

    def row(name: str, values: Sequence[Any]) -> None:
        lines.append(f"| {name} | " + " | ".join(f"{v:,}" for v in values) + " |")

    for name in ("minutes", "records", "epochs"):
        row(name, [run[name] for run in runs])
    for kind, says in KINDS.items():
        row(f"**{says}**", [sum(run[kind].values()) for run in runs])
        for name in sorted({name for run in runs for name in run[kind]}):
            row(name, [run[kind].get(name, 0) for run in runs])
    page.with_suffix(".md").write_text("\n".join(lines) + "\n")


def main() -> int:
    """Check the histories that are named."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("history", type=Path, nargs="+")
    parser.add_argument(
        "--publish", type=Path, metavar="PAGE", help="write their figures: PAGE.md, and PAGE.json beside"
    )
    asked = parser.parse_args()
    read = [history.read(path) for path in asked.history]
    if asked.publish:
        publish([figures(records) for records in read], asked.publish)
    return 1 if sum([report(records) for records in read]) else 0


if __name__ == "__main__":
    sys.exit(main())
