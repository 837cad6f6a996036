"""The faults of a soak. Each is drawn for the world as it is; whoever runs it begins it, waits, and ends it."""

from __future__ import annotations

import os
import random
import signal
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field

import msgspec
from kazoo.exceptions import KazooException, NoNodeError

from doubles.hostile import bombs
from scene import PATHS, until
from soak.world import JOBS, Controller, SoakScene
from stormpilot.nimbus import Nimbus

SMALL_BYTES = 60_000
"""Larger bombs fill the heaps of the ZooKeepers."""
STILL_S = (3.0, 14.0)
"""For so long a process is stopped: less than Nimbus waits for heartbeats."""
HOST_S = (5.0, 50.0)
"""For so long a host is lost: sometimes less, sometimes more than Nimbus waits for it."""


@dataclass
class Fault:
    """A fault that was drawn: `slots`, `topologies` and daemons (`ends`) that it takes away; how to begin and end it.

    `blocks`: meanwhile nobody can be placed. `lasts_s` is how long it lasts; `zxids` of what it wrote, by path, are
    known once it has begun.
    """

    name: str
    begin: Callable[[], None]
    end: Callable[[], None] = lambda: None
    lasts_s: float = 0.0
    slots: list[str] = field(default_factory=list)
    topologies: list[str] = field(default_factory=list)
    ends: list[str] = field(default_factory=list)
    blocks: bool = False
    zxids: dict[str, int] = field(default_factory=dict)
    touches: str = ""
    """What only one fault at a time may have."""


HALTED = "java.lang.RuntimeException: not a leader, current leader is"
HALTED_WITHIN = 20_000
"""Characters at the end of Nimbus's log: the reason why it halts comes before what its end writes."""

Draw = Callable[[SoakScene, random.Random], Fault | None]


# --- controllers ------------------------------------------------------------------------------------------------------


def kill_leader(scene: SoakScene, _: random.Random) -> Fault | None:
    return _kill(scene.leader())


def kill_standby(scene: SoakScene, chance: random.Random) -> Fault | None:
    return _kill(chance.choice(scene.others() or [None]))  # type: ignore[list-item]


def _kill(controller: Controller | None) -> Fault | None:
    if controller is None:
        return None
    return Fault("controller killed", controller.kill, controller.start, 1.0, touches=controller.name)


def stop_leader(scene: SoakScene, chance: random.Random) -> Fault | None:
    leader = scene.leader()
    if leader is None:
        return None
    begin, end = (lambda n=n: leader.signal(n) for n in (signal.SIGSTOP, signal.SIGCONT))
    return Fault("controller stopped", begin, end, chance.uniform(*STILL_S), touches=leader.name)


def cut_leader(scene: SoakScene, chance: random.Random) -> Fault | None:
    leader = scene.leader()
    if leader is None:
        return None
    proxies = leader.proxies

    def begin() -> None:
        for proxy in proxies:
            proxy.cut()

    def end() -> None:
        for proxy in proxies:
            proxy.mend()

    return Fault("controller cut off", begin, end, chance.uniform(*STILL_S), touches=leader.name)


def slow_network(scene: SoakScene, chance: random.Random) -> Fault | None:
    proxies = [p for c in scene.controllers for p in c.proxies]
    delay_s, drop_ratio = chance.uniform(0.02, 0.4), chance.choice((0.0, 0.01, 0.05))

    def set_all(delay: float, drop: float) -> None:
        for proxy in proxies:
            proxy.delay_s, proxy.drop_ratio = delay, drop

    return Fault(
        "ZooKeeper slow and dropped for controllers",
        lambda: set_all(delay_s, drop_ratio),
        lambda: set_all(0.0, 0.0),
        chance.uniform(*STILL_S),
        touches="proxies",
    )


# --- Storm and ZooKeeper ----------------------------------------------------------------------------------------------


def kill_worker(scene: SoakScene, chance: random.Random) -> Fault | None:
    workers = scene.cluster.workers()
    if not workers:
        return None
    one = chance.choice(workers)
    return Fault("worker killed", lambda: _signal(one.pid, signal.SIGKILL), slots=[f"{one.supervisor}:{one.port}"])


def stop_workers(scene: SoakScene, chance: random.Random) -> Fault | None:
    pids = [w.pid for w in scene.cluster.workers()]
    return _stopped("workers stopped", chance.sample(pids, chance.randint(1, len(pids))) if pids else [], chance)


def stop_supervisor(scene: SoakScene, chance: random.Random) -> Fault | None:
    name = chance.choice(scene.cluster.supervisor_ids)
    return _stopped("supervisor stopped", [scene.cluster.pid(name)], chance, name)


def stop_nimbus(scene: SoakScene, chance: random.Random) -> Fault | None:
    fault = _stopped("Nimbus stopped", [scene.cluster.pid("nimbus")], chance, "nimbus")
    if fault is not None:
        fault.blocks = True
    return fault


def stop_zookeeper(scene: SoakScene, chance: random.Random) -> Fault | None:
    one = chance.choice(scene.cluster.description.of_kind("zookeeper")).id
    return _stopped("ZooKeeper stopped", [scene.cluster.pid(one)], chance, "zookeeper")


def _stopped(name: str, pids: list[int | None], chance: random.Random, touches: str = "") -> Fault | None:
    alive = [pid for pid in pids if pid is not None]
    if not alive:
        return None

    def send(number: signal.Signals) -> None:
        for pid in alive:
            _signal(pid, number)

    return Fault(
        name, lambda: send(signal.SIGSTOP), lambda: send(signal.SIGCONT), chance.uniform(*STILL_S), touches=touches
    )


def kill_supervisor(scene: SoakScene, chance: random.Random) -> Fault | None:
    return _daemon_killed(scene, chance.choice(scene.cluster.supervisor_ids), "supervisor killed", chance)


def kill_nimbus(scene: SoakScene, chance: random.Random) -> Fault | None:
    fault = _daemon_killed(scene, "nimbus", "Nimbus killed", chance)
    if fault is not None:
        fault.blocks, fault.ends = True, ["nimbus"]
    return fault


def kill_zookeeper(scene: SoakScene, chance: random.Random) -> Fault | None:
    one = chance.choice(scene.cluster.description.of_kind("zookeeper")).id
    fault = _daemon_killed(scene, one, "ZooKeeper killed", chance)
    if fault is not None:
        fault.touches = "zookeeper"
    return fault


def lose_host(scene: SoakScene, chance: random.Random) -> Fault | None:
    """The supervisor and what runs on its host end at once, as with the power."""
    name = chance.choice(scene.cluster.supervisor_ids)
    fault = _daemon_killed(scene, name, "host lost", chance)
    if fault is None:
        return None
    fault.slots = [f"{name}:{port}" for s in scene.cluster.description.supervisors if s.id == name for port in s.slots]
    kill = fault.begin

    def begin() -> None:
        kill()
        for worker in scene.cluster.workers():
            if worker.supervisor == name:
                _signal(worker.pid, signal.SIGKILL)

    fault.begin, fault.lasts_s = begin, chance.uniform(*HOST_S)
    return fault


def _daemon_killed(scene: SoakScene, daemon: str, name: str, chance: random.Random) -> Fault | None:
    if scene.cluster.pid(daemon) is None:
        return None
    kill, start = (lambda: scene.cluster.kill_daemon(daemon)), (lambda: scene.cluster.start_daemon(daemon))
    return Fault(name, kill, start, chance.uniform(1.0, 8.0), touches=daemon)


# --- hostile hands, and users -----------------------------------------------------------------------------------------


def bombs_everywhere(scene: SoakScene, chance: random.Random) -> Fault | None:
    """Znodes that are no message, of topologies that do not exist, in every folder that somebody reads."""
    small = [data for _, data in sorted(bombs().items()) if 0 < len(data) < SMALL_BYTES]
    nobody = f"nobody-{chance.randrange(1_000_000)}"
    paths = [
        *(PATHS.plan(f"{nobody}-1"), PATHS.topology(f"{nobody}-1"), PATHS.status(f"{nobody}-1")),
        *(PATHS.load(f"{nobody}-1", "x"), PATHS.moves(f"{nobody}-1"), PATHS.rollout(f"{nobody}-1")),
        *(PATHS.request(f"{nobody}-1"), PATHS.hold(f"{nobody}-1"), PATHS.thresholds(f"{nobody}-1")),
        *(PATHS.mode(nobody), PATHS.pause(nobody)),
    ]
    znodes = {path: chance.choice(small) for path in paths}
    fault = Fault("bombs", lambda: None, lasts_s=chance.uniform(2.0, 10.0))

    def begin() -> None:
        fault.zxids = {path: _put(scene, path, data) for path, data in znodes.items()}

    def end() -> None:
        for path in znodes:
            with suppress(NoNodeError):
                scene.zookeeper.client.delete(path)

    fault.begin, fault.end = begin, end
    return fault


def old_plan(scene: SoakScene, chance: random.Random) -> Fault | None:
    """An earlier plan of a topology is written over the one in force, as it was published then."""
    ids = sorted(scene.ids().values())
    if not ids:
        return None
    topology = chance.choice(ids)
    names = scene.zookeeper.children([PATHS.plan_history(topology)])[0]
    if len(names) < 2:
        return None
    entry = scene.read(PATHS.plan_history(topology, chance.choice(names[:-1])))
    fault = Fault("old plan written by hand", lambda: None)

    def begin() -> None:
        plan = msgspec.json.decode(entry)["plan"] if entry[:2] != b"\x1f\x8b" else None
        if plan is not None:
            fault.zxids = {PATHS.plan(topology): _put(scene, PATHS.plan(topology), msgspec.json.encode(plan))}

    fault.begin = begin
    return fault


def resubmit(scene: SoakScene, chance: random.Random) -> Fault | None:
    """A user kills a topology and submits it again under its name, whatever is going on with it.

    Nimbus halts itself if it is not the leader when it carries out a kill, as after a moment without ZooKeeper; what
    watches over daemons starts it again. Any other end of Nimbus ends the soak.
    """
    job, ids = chance.choice(JOBS), scene.ids()
    if job.name not in ids or scene.cluster.pid("nimbus") is None:
        return None
    topology = ids[job.name]

    def begin() -> None:
        with Nimbus.connect(scene.cluster.nimbus_address) as nimbus:
            nimbus.kill(job.name, wait_s=0)

    def end() -> None:
        if scene.cluster.pid("nimbus") is None:
            log = scene.cluster.log_file("nimbus").read_text(errors="replace")
            assert HALTED in log[-HALTED_WITHIN:], "Nimbus ended, and not as it ends itself when it does not lead"
            scene.cluster.start_daemon("nimbus")
        until(lambda: scene.ids().get(job.name) != topology, f"{job.name} to be gone")
        if job.name not in scene.ids():
            scene.submit_job(job)
        until(lambda: job.name in scene.ids(), f"{job.name} to be there")

    fault = Fault("killed and submitted again", begin, end, 1.0, topologies=[topology], touches="nimbus")
    fault.blocks, fault.ends = True, ["nimbus"]
    return fault


def _put(scene: SoakScene, path: str, data: bytes) -> int:
    """Write a znode whatever it holds; the transaction."""
    client = scene.zookeeper.client
    try:
        return int(client.set(path, data).mzxid)
    except NoNodeError:
        client.create(path, data, makepath=True)
        return int(client.get(path)[1].mzxid)


def _signal(pid: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, number)


FAULTS: dict[Draw, int] = {
    kill_leader: 4,
    kill_standby: 2,
    stop_leader: 4,
    cut_leader: 4,
    slow_network: 3,
    kill_worker: 2,
    stop_workers: 2,
    stop_supervisor: 2,
    stop_nimbus: 2,
    stop_zookeeper: 3,
    kill_supervisor: 2,
    kill_nimbus: 2,
    kill_zookeeper: 3,
    lose_host: 2,
    bombs_everywhere: 3,
    old_plan: 3,
    resubmit: 2,
}
"""Faults with their weights."""
RETRIED = (KazooException, OSError)
