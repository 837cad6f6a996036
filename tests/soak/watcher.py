"""Looks at a running world twice a second and writes what changed into the history.

It reads znodes as they lie there (JSON), with the transaction that wrote them, and processes from the system: nothing
of the product decodes or judges for it.
"""

from __future__ import annotations

import gzip
import json
import re
import threading
import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from kazoo.client import KazooClient
from kazoo.exceptions import KazooException, NoNodeError
from kazoo.handlers.threading import KazooTimeoutError

from soak.history import History
from stormpilot.local.cluster import LocalCluster

LOOK_S = 0.5
AGAIN_S = 5.0
"""Settings are written down so often, also where they did not change."""
CALL_S = 10.0
BASE = "/stormpilot/v1"
BARRIER = "/soak"
LEADING = re.compile(r"leading: .*controller=(\S+) epoch=(\d+)")
STARVED = "PlannerLostError: no answer"
OWN_ERROR = re.compile(r" ERROR |Traceback \(most recent call last\)")


class Watcher(threading.Thread):
    """Watches a ZooKeeper, and the processes of a cluster where there is one, until it is stopped."""

    def __init__(self, hosts: str, history: History, cluster: LocalCluster | None = None) -> None:
        super().__init__(daemon=True)
        self._cluster = cluster
        self._history = history
        self._client = KazooClient(hosts=hosts, timeout=20)
        self._stopping = threading.Event()
        self._last: dict[tuple[str, str], Any] = {}
        self._settings_s = float("-inf")
        self._kept: set[str] = set()
        self.lost_looks = 0
        self._failure: Exception | None = None

    def run(self) -> None:
        try:
            self._watch()
        except Exception as e:  # noqa: BLE001 (a history with a hole is none: `stop` raises it)
            self._failure = e

    def _watch(self) -> None:
        self._client.start(timeout=120)
        self._client.ensure_path_async(BARRIER).get(timeout=60)
        while not self._stopping.wait(LOOK_S):
            self._processes()
            try:
                self._znodes()
            except (KazooException, KazooTimeoutError, OSError):
                self.lost_looks += 1  # a time without ZooKeeper tells nothing

    def stop(self) -> None:
        """One last look, at everything."""
        self._stopping.set()
        self.join(60)
        if self._failure is not None:
            raise self._failure
        self._settings_s = float("-inf")
        self._processes()
        self._znodes()
        self._client.stop()
        self._client.close()

    # --- processes ----------------------------------------------------------------------------------------------------

    def _processes(self) -> None:
        if self._cluster is None:
            return
        slots = {f"{w.supervisor}:{w.port}": [w.pid, w.topology_id] for w in self._cluster.workers()}
        self._changed("workers", "", slots=slots)
        pids = {d.id: self._cluster.pid(d.id) for d in self._cluster.description.daemons}
        self._changed("daemons", "", pids={daemon: pid for daemon, pid in pids.items() if pid is not None})

    # --- znodes -------------------------------------------------------------------------------------------------------

    def _znodes(self) -> None:
        began = self._history.now_s()
        # A server may be behind the others, and a leader that was frozen answers even `sync` until it learns that it
        # leads no more. After a write, which a majority confirms, its answers are as new as that.
        self._client.set_async(BARRIER, b"").get(timeout=CALL_S)
        self._settings(began)
        (epoch, controller, cluster) = self._get([f"{BASE}/epoch", f"{BASE}/controller", f"{BASE}/cluster"])
        if epoch is not None and epoch[0].strip().isdigit():
            self._changed("epoch", "", value=int(epoch[0]), zxid=epoch[1].mzxid)
        state = as_json(controller)
        if isinstance(state, dict):
            self._changed("claim", "", controller=state.get("controller"), epoch=state.get("epoch"), source="state")
        seen = as_json(cluster)
        if isinstance(seen, dict):
            parts = {s["id"]: {"host": s["host"], "ports": s["ports"]} for s in seen.get("supervisors", [])}
            self._changed("cluster", "", supervisors=parts)
        ids = [i for i in self._children("topologies") if not i.startswith("nobody-")]
        self._placements(ids)
        for topology in ids:
            self._plans(topology)

    def _placements(self, ids: list[str]) -> None:
        nodes = self._get([f"{BASE}/topologies/{i}" for i in ids] + [f"{BASE}/status/{i}" for i in ids])
        for topology, node, status in zip(ids, nodes[: len(ids)], nodes[len(ids) :], strict=True):
            found, said = as_json(node), as_json(status)
            if isinstance(found, dict) and "executors" in found:
                executors = [
                    [e["start"], e["end"], e["component"], f"{e['supervisor']}:{e['port']}" if _placed(e) else None]
                    for e in found["executors"]
                ]
                self._changed("placement", topology, topology=topology, name=found["name"], executors=executors)
            if isinstance(said, dict):
                fields = {"plan_id": said.get("planId"), "state": said.get("state"), "code": said.get("code")}
                self._changed("status", topology, topology=topology, **fields)
        for kind, topology in [k for k in self._last if k[0] == "placement" and k[1] not in ids]:
            del self._last[kind, topology]
            self._history.add("placement", topology=topology, name="", executors=None)

    def _plans(self, topology: str) -> None:
        """The history of its plans first: an entry is of the same transaction as the plan."""
        names = [n for n in self._children(f"plan-history/{topology}") if f"{topology}/{n}" not in self._kept]
        nodes = self._get([f"{BASE}/plan-history/{topology}/{n}" for n in names] + [f"{BASE}/plans/{topology}"])
        for name, node in zip(names, nodes[:-1], strict=True):
            self._kept.add(f"{topology}/{name}")
            entry = as_json(node)
            if node is not None and isinstance(entry, dict):
                plan, by = entry["plan"], entry.get("publishedBy", "")
                self._plan(plan, node[1].czxid, entry.get("reason", ""))
                self._changed("claim", f"plan {plan['planId']}", controller=by, epoch=plan["epoch"], source="plan")
        plan = as_json(nodes[-1])
        if nodes[-1] is not None and isinstance(plan, dict) and plan.get("topologyId") == topology:
            self._plan(plan, nodes[-1][1].mzxid, "")

    def _plan(self, plan: dict[str, Any], zxid: int, reason: str) -> None:
        try:
            workers = [{k: w[k] for k in ("supervisor", "port", "executors")} for w in plan["workers"]]
            fields = {"topology": plan["topologyId"], "plan_id": plan["planId"], "epoch": plan["epoch"]}
        except (KeyError, TypeError):
            return  # written by a hostile hand
        self._changed("plan", f"{zxid} {fields['plan_id']}", zxid=zxid, workers=workers, reason=reason, **fields)

    def _settings(self, began: float) -> None:
        paths, pending = [], [f"{BASE}/settings"]
        while pending:
            path = pending.pop()
            try:
                below = self._client.get_children_async(path).get(timeout=CALL_S)
            except NoNodeError:
                continue
            pending += [f"{path}/{name}" for name in below]
            if path.count("/") > 4:
                paths.append(path)
        nodes = self._get(sorted(paths))
        values = {p: as_json(n) for p, n in zip(sorted(paths), nodes, strict=True) if n is not None}
        if self._changed("settings", "", _ignored={"began": round(began, 3)}, values=values):
            self._settings_s = began
        elif began - self._settings_s > AGAIN_S:
            self._settings_s = began
            self._history.add("settings", began=round(began, 3), values=values)

    # --- reading ------------------------------------------------------------------------------------------------------

    def _changed(self, kind: str, key: str, _ignored: dict[str, Any] | None = None, **fields: Any) -> bool:
        """Write this down where it is not what was seen last."""
        if self._last.get((kind, key)) == fields:
            return False
        self._last[kind, key] = fields
        self._history.add(kind, **fields, **(_ignored or {}))
        return True

    def _children(self, name: str) -> list[str]:
        try:
            found: list[str] = self._client.get_children_async(f"{BASE}/{name}").get(timeout=CALL_S)
        except NoNodeError:
            return []
        return sorted(found)

    def _get(self, paths: Iterable[str]) -> list[Any]:
        """Data and state of many znodes; None for one that is not there."""
        found: list[Any] = []
        for call in [self._client.get_async(path) for path in paths]:
            try:
                found.append(call.get(timeout=CALL_S))
            except NoNodeError:
                found.append(None)
        return found


def read_logs(history: History, logs: Iterable[Path]) -> None:
    """Take from the controllers' logs who led when, and their errors, the first and the last line of each.

    A planner that gets no CPU for long is ended, and told as an error: that says something of the machine.
    """
    for log in logs:
        for entry in re.split(r"\n(?=\d{4}-\d\d-\d\dT)", log.read_text(errors="replace")):
            leading = LEADING.search(entry)
            if leading:
                history.add("claim", controller=leading[1], epoch=int(leading[2]), source=log.name)
            elif OWN_ERROR.search(entry) and STARVED not in entry:
                first, *more = entry.strip().splitlines()
                history.add("log", source=log.name, line=" ... ".join([first, *more[-1:]]))


def as_json(node: Any) -> Any:
    """What a znode holds; None where it is no JSON."""
    if node is None:
        return None
    data = node[0]
    try:
        return json.loads(gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data)
    except (ValueError, OSError, EOFError, RecursionError, zlib.error):
        return "unreadable"


def _placed(executor: dict[str, Any]) -> bool:
    return executor.get("supervisor") is not None and executor.get("port") is not None
