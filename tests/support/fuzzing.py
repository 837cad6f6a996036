"""Hostile input for everything that reads what others write: `make fuzz` runs each kind, the unit tests a little.

    python tests/support/fuzzing.py --count 10000 --seconds 1800

A target takes a source of chance and raises when something breaks that must not. What broke is kept as a case (target
and seed) in `tests/data/fuzz/`, which `tests/unit/test_fuzz_cases.py` runs for ever after.
"""

from __future__ import annotations

import argparse
import functools
import json
import logging
import random
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec
import structlog

from contract.test_messages import KINDS
from doubles.hostile import hostile, mangled, mutated
from doubles.models import SPREAD, model, topology
from doubles.world import World
from stormpilot.config import LoadSection, parse
from stormpilot.errors import UsageError
from stormpilot.messages.core import Message, PlanMessage, decode, encode
from stormpilot.messages.routes import Routes
from stormpilot.messages.settings import pin_key
from stormpilot.model.compiled import compile_model
from stormpilot.model.validate import validate
from stormpilot.observe.build import build
from stormpilot.observe.plausible import read_message
from stormpilot.zookeeper.client import Node
from stormpilot.zookeeper.paths import Paths

TESTS = Path(__file__).resolve().parents[1]
CASES = TESTS / "data" / "fuzz"
EXAMPLE = TESTS.parent / "docs" / "reference" / "controller.example.yaml"
SLOWEST_S = 5.0
"""CPU time that one input may take."""
MOST_BROKEN = 20
"""A target stops after so many broken inputs: they have one cause as a rule."""
PROGRESS_S = 15.0
GOOD = {("a", 6700): (1, 2), ("b", 6700): (3, 4, 5, 6)}
OTHER = {("a", 6701): (1, 2), ("b", 6701): (3, 4, 5, 6)}
BETTER = {("a", 6702): (1, 2, 3, 4, 5, 6)}
ELSEWHERE = {("b", 6702): (1, 2, 3, 4, 5, 6)}
ROUNDS = 6
WRITE_RATIO = 0.4
"""The controller's target: rounds of an input, and how many of the znodes are written over in each."""
WRITTEN: Counter[str] = Counter()
"""How many hostile znodes the controllers of this process have met, by folder."""
Target = Callable[[random.Random], object]


def message(name: str) -> Target:
    """Decode something nearly like the example of this message: a value of its kind, or `UsageError` with its place."""
    example, kind = (TESTS / "contract" / f"{name}.json").read_bytes(), KINDS[name]

    def decoded(chance: random.Random) -> Message | None:
        try:
            found = decode(hostile(example, chance), kind, "/x/here")
        except UsageError as e:
            assert str(e).startswith("/x/here: "), e
            return None
        assert isinstance(found, kind)
        encode(found)
        return found

    return decoded


def configuration(chance: random.Random) -> None:
    """Read a configuration with some of its bytes changed."""
    text = mangled(EXAMPLE.read_bytes(), chance).decode(errors="replace")
    try:
        parse(text, "c.yaml")
    except UsageError as e:
        assert str(e).startswith("c.yaml")


def model_file(chance: random.Random) -> None:
    """Validate a model with some values changed; what has no error compiles, the rest does not."""
    sound = json.loads(msgspec.json.encode(model(topology(SPREAD))))
    changed = json.loads(json.dumps(mutated(sound, chance, chance.randint(1, 3))))
    read, problems = validate(changed)
    if read is None or any(p.level == "error" for p in problems):
        return
    compile_model(read)


def snapshots(chance: random.Random) -> None:
    """Read snapshots with some values changed; of those that are believed, a model is made that compiles."""
    read: dict[str, Any] = {}
    for name in ("cluster", "topology"):
        example = json.loads((TESTS / "contract" / f"{name}.json").read_text())
        changed = mutated(example, chance, chance.randint(0, 3))
        path = f"/x/{example.get('id', name)}"
        try:
            read[name] = read_message(Node(json.dumps(changed).encode(), 0, 0), KINDS[name], path)
        except UsageError as e:
            assert str(e).startswith(f"{path}: "), e
            return
    topology = read["topology"]
    compile_model(build(read["cluster"], {topology.id: topology}, {}, LoadSection(), 0.8, 0).model)


class HostileWorld(World):
    """Its plug-in, too, reads what others wrote: a plan or a table that is broken is none."""

    def plan(self, topology_id: str) -> PlanMessage | None:
        try:
            found = super().plan(topology_id)
        except UsageError:
            return None
        return found if found is not None and found.checksum == found.expected_checksum() else None

    def routes(self, topology_id: str) -> Routes | None:
        try:
            return super().routes(topology_id)
        except UsageError:
            return None


def controller(chance: random.Random) -> None:
    """Cycles while somebody writes into every znode of one topology; the other one is planned as if it did not."""
    cycles_under_fire(chance, of_topology)


def steered_controller(chance: random.Random) -> None:
    """The same for what operators and jobs write: settings, requests, holds, rollouts, moves, tables, mined numbers."""
    cycles_under_fire(chance, of_others)


def cycles_under_fire(chance: random.Random, places: Callable[[World, str], Mapping[str, bytes]]) -> None:
    """Cycles of a controller with two topologies; before each, some of these places of one are written over."""
    world = HostileWorld("a", "b", "c")
    good, other = world.submit(GOOD), world.submit(OTHER, "other")
    world.tell(20)
    world.wanted = {other: ELSEWHERE}
    for _ in range(ROUNDS):
        for path, honest in places(world, other).items():
            if chance.random() < WRITE_RATIO:
                WRITTEN["/".join(path.split("/")[3:5] if "/settings/" in path else path.split("/")[3:4])] += 1
                world.zookeeper.put(path, hostile(honest, chance))
        world.tell(10)
    world.wanted = {good: BETTER}
    world.tell(60)
    assert world.slots(good) == BETTER
    assert not world.cycle.rollout_runner._failures  # an error of ours, though it stopped nobody


def of_topology(world: World, topology_id: str) -> dict[str, bytes]:
    """The znodes that hold something of a topology, and its history not."""
    nodes: dict[str, Node] = world.zookeeper._nodes
    named = [p for p in nodes if topology_id in p.split("/") and "plan-history" not in p]
    return {p: nodes[p].data for p in sorted(named) if nodes[p].data}


def of_others(_: World, topology_id: str) -> dict[str, bytes]:
    """Znodes that people and other programs write for this topology, with an honest message for each."""
    name, p = topology_id.rsplit("-", 2)[0], Paths()
    places = {
        **{p.mode(name): "mode", p.pause(name): "pause", p.pin(pin_key(name, "count")): "pin"},
        **{p.request(topology_id): "request", p.hold(topology_id): "hold", p.rollout(topology_id): "rollout"},
        **{p.routes(topology_id): "routes", p.thresholds(topology_id): "thresholds", p.profile(topology_id): "profile"},
        p.moves(topology_id): "moves",
    }
    return {path: _about(topology_id, name, kind) for path, kind in places.items()}


@functools.cache
def _about(topology_id: str, name: str, kind: str) -> bytes:
    """The example of a message, said of this topology."""
    fields: dict[str, Any] = json.loads((TESTS / "contract" / f"{kind}.json").read_bytes())
    ours: dict[str, Any] = {"topologyId": topology_id, "topology": name}
    return json.dumps(fields | {key: value for key, value in ours.items() if key in fields}).encode()


TARGETS: dict[str, Target] = {
    **{f"message {name}": message(name) for name in sorted(KINDS)},
    "configuration": configuration,
    "model file": model_file,
    "snapshots": snapshots,
    "controller": controller,
    "steered controller": steered_controller,
}
OF_CYCLES = ("controller", "steered controller")
"""Targets of which an input is several cycles and many znodes."""


def run(target: str, seed: int) -> None:
    """One input; raises what broke."""
    began_s = time.process_time()
    TARGETS[target](random.Random(seed))
    took_s = time.process_time() - began_s
    assert target in OF_CYCLES or took_s < SLOWEST_S, f"one input took {took_s:.1f} s"


def keep(target: str, seed: int) -> Path:
    """Keep an input that broke something."""
    CASES.mkdir(parents=True, exist_ok=True)
    file = CASES / f"{target.replace(' ', '-')}-{seed}.json"
    file.write_text(json.dumps({"target": target, "seed": seed}) + "\n")
    return file


def cases() -> list[tuple[str, int]]:
    """All that broke something once."""
    found: list[dict[str, Any]] = [json.loads(f.read_text()) for f in sorted(CASES.glob("*.json"))]
    return [(c["target"], c["seed"]) for c in found]


def fuzz(target: str, first_seed: int, count: int, seconds: float) -> int:
    """Run one target with progress to stderr, print its line of the table, return how many inputs broke something."""
    began_s = shown_s = time.monotonic()
    slowest_s, done, broken = 0.0, 0, 0
    while done < count and broken < MOST_BROKEN and time.monotonic() - began_s < seconds:
        one_s = time.monotonic()
        try:
            run(target, first_seed + done)
        except Exception:  # noqa: BLE001 (whatever it is: it is what is looked for)
            traceback.print_exc(limit=-6)
            print(f"kept as {keep(target, first_seed + done).relative_to(TESTS.parent)}", flush=True)
            broken += 1
        done += 1
        now_s = time.monotonic()
        slowest_s = max(slowest_s, now_s - one_s)
        if now_s - shown_s > PROGRESS_S:
            shown_s = now_s
            print(f"  {target}: {done:,} of {count:,} inputs in {now_s - began_s:.0f} s", file=sys.stderr, flush=True)
    took_s = time.monotonic() - began_s
    print(f"{target:<24}{done:>9,}{took_s:>10.1f}{slowest_s * 1000:>12.0f}  {broken or '-'}", flush=True)
    return broken


def main() -> int:
    """Run every target; print how many inputs of each took how long, and what broke."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--count", type=int, default=10_000, help="inputs of each target; for cycles: znodes of a kind")
    parser.add_argument("--seconds", type=float, default=1800.0, help="at most so long for each target")
    parser.add_argument("--seed", type=int, default=0, help="the first seed")
    parser.add_argument("--only", default="", help="targets whose name contains this")
    asked = parser.parse_args()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    print(f"{'target':<24}{'inputs':>9}{'seconds':>10}{'slowest ms':>12}  broken", flush=True)
    broken = []
    for target in (t for t in TARGETS if asked.only in t):
        count = round(asked.count / ROUNDS / WRITE_RATIO) if target in OF_CYCLES else asked.count
        broken.append(fuzz(target, asked.seed, count, asked.seconds))
    if WRITTEN:
        print("hostile znodes in those cycles: " + ", ".join(f"{n:,} of {kind}" for kind, n in sorted(WRITTEN.items())))
    return 1 if sum(broken) else 0


if __name__ == "__main__":
    sys.exit(main())
