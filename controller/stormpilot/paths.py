"""The names of our znodes, in one place (design, section 3). `root` is configurable, default `/stormpilot`."""

from __future__ import annotations

from dataclasses import dataclass

DEFAULT_ROOT = "/stormpilot"
VERSION = "v1"


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
    def leader(self) -> str:
        """Parent of the controllers' election nodes."""
        return f"{self.base}/leader"

    @property
    def epoch(self) -> str:
        """The number (decimal text) that each new leading controller raises by one by compare-and-set."""
        return f"{self.base}/epoch"

    @property
    def controller(self) -> str:
        """What the leading controller saw, decided and expects, written at the end of every cycle."""
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

    def advice(self, topology_id: str = "") -> str:
        """The plan that the controller would publish if the mode were `act`; nobody applies it."""
        return self._under("advice", topology_id)

    def plan_history(self, topology_id: str = "", n: str = "") -> str:
        """Earlier plans with their decisions."""
        return self._under("plan-history", topology_id, n)

    def status(self, topology_id: str = "") -> str:
        """What the shim did with the plan."""
        return self._under("status", topology_id)

    def pause(self, topology_name: str = "_all") -> str:
        """Exists = paused."""
        return self._under("settings", "pause", topology_name)

    def mode(self, topology_name: str = "") -> str:
        """Mode of a topology."""
        return self._under("settings", "mode", topology_name)

    def _under(self, *parts: str) -> str:
        return "/".join([self.base, *(p for p in parts if p)])
