"""Names of our znodes, in one place. `root` is configurable, default `/stormpilot` (docs/reference/zookeeper.md)."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import quote

DEFAULT_ROOT = "/stormpilot"
VERSION = "v1"


def normal_root(root: str) -> str:
    """A root as storm.yaml may have it, `a//b/`, in the form in which Nimbus and workers use it: `/a/b`."""
    return "/" + "/".join(name for name in root.strip().split("/") if name)


@dataclass(frozen=True)
class Paths:
    """Absolute znode paths below `root`."""

    root: str = DEFAULT_ROOT

    @property
    def base(self) -> str:
        """Where everything of this schema version lives."""
        return f"{self.root.rstrip('/')}/{VERSION}"

    @property
    def cluster(self) -> str:
        """Snapshot of the cluster, written by the shim."""
        return f"{self.base}/cluster"

    @property
    def owner(self) -> str:
        """The Storm cluster that all of this is of, written by the shim."""
        return f"{self.base}/owner"

    @property
    def leader(self) -> str:
        """Parent of the controllers' election nodes."""
        return f"{self.base}/leader"

    @property
    def epoch(self) -> str:
        """The number (decimal text) that each new leading controller raises by one by compare-and-set."""
        return f"{self.base}/epoch"

    @property
    def controller(self) -> str:
        """State of the leading controller: observations, decisions, expectations; written at the end of every cycle."""
        return f"{self.base}/controller"

    def topology(self, topology_id: str = "") -> str:
        """Snapshot of a topology (without an id: their parent), written by the shim."""
        return self._under("topologies", topology_id)

    def load(self, topology_id: str = "", reporter: str = "") -> str:
        """Load reports."""
        return self._under("load", topology_id, reporter)

    def plan(self, topology_id: str = "") -> str:
        """The plan that the shim is to apply."""
        return self._under("plans", topology_id)

    def proposal(self, topology_id: str = "") -> str:
        """The plan that the controller would publish if the mode were `act`; nobody applies it."""
        return self._under("proposals", topology_id)

    def plan_history(self, topology_id: str = "", n: str = "") -> str:
        """Earlier plans with their decisions."""
        return self._under("plan-history", topology_id, n)

    def moves(self, topology_id: str = "") -> str:
        """Outcome of the last moves: effect check, back-off, move budget."""
        return self._under("moves", topology_id)

    def rollout(self, topology_id: str = "") -> str:
        """A plan that is carried out by rolling moves, and how far it came."""
        return self._under("rollouts", topology_id)

    def routes(self, topology_id: str = "") -> str:
        """Which tasks get tuples, where a topology's groupings follow that; read by workers."""
        return self._under("routes", topology_id)

    def keyed(self, topology_id: str = "", *below: str) -> str:
        """Keyed state that is handed over: `tasks/<task>` has what a task did, `states/<name>` what it saved."""
        return self._under("keyed", topology_id, *below)

    def trial(self, topology_id: str = "", name: str = "") -> str:
        """Trial runs of a component: `command` is what the source is to do, `source-<index>` what it measured."""
        return self._under("trials", topology_id, name)

    def status(self, topology_id: str = "") -> str:
        """Status of the plan in the plug-in."""
        return self._under("status", topology_id)

    def request(self, topology_id: str = "") -> str:
        """Request of an operator to the leading controller; gone when it is done or refused."""
        return self._under("requests", topology_id)

    def hold(self, topology_id: str = "") -> str:
        """Until when a topology stays as it is, after a rollback or a discarded plan."""
        return self._under("holds", topology_id)

    def thresholds(self, topology_id: str = "") -> str:
        """Thresholds that were mined from the history of a topology."""
        return self._under("thresholds", topology_id)

    def profile(self, topology_id: str = "") -> str:
        """Profile of a topology's week, by its history."""
        return self._under("profiles", topology_id)

    def audit(self, name: str = "") -> str:
        """The newest records of what operators and controllers did; a name ends in ZooKeeper's number."""
        return self._under("audit", name)

    def pause(self, key: str = "_all") -> str:
        """Exists = paused; `key` is a `setting_key`."""
        return self._under("settings", "pause", key)

    def mode(self, key: str = "") -> str:
        """Mode of a topology; `key` is a `setting_key`, and that of all topologies is for those without their own."""
        return self._under("settings", "mode", key)

    def drain(self, host: str = "") -> str:
        """Exists = nothing may run on the supervisors of this host (the name is quoted)."""
        return self._under("settings", "drain", quote(host, safe=""))

    def pin(self, key: str = "") -> str:
        """Executors that must run on one supervisor; `key` is `PinSetting.key`."""
        return self._under("settings", "pin", key)

    def threshold_setting(self, key: str = "") -> str:
        """A threshold that an operator set or froze; `key` is `ThresholdSetting.key`."""
        return self._under("settings", "thresholds", key)

    def exclusion(self, key: str = "") -> str:
        """Executors that may not run on a host or a supervisor; `key` is `ExcludeSetting.key`."""
        return self._under("settings", "exclude", key)

    def _under(self, *parts: str) -> str:
        return "/".join([self.base, *(p for p in parts if p)])
