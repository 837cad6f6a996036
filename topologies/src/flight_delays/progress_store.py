"""Writing a task's progress to ZooKeeper such that, of two processes that run the same task, only the newer one can."""

from __future__ import annotations

from dataclasses import replace

from kazoo.client import KazooClient
from kazoo.exceptions import BadVersionError, NodeExistsError, NoNodeError

from flight_delays.progress import TaskProgress, task_path


class DeposedError(Exception):
    """A newer process runs this task: this one must neither write nor emit any more."""


class ZooKeeperStore:
    """The znode of one task of the spout. Calls block until ZooKeeper answers and pass its errors on.

    Parameters
    ----------
    client : KazooClient
        Started, or starting.
    root, topology_id, index, tasks
        Which task, see `flight_delays.progress`.
    """

    def __init__(self, client: KazooClient, root: str, topology_id: str, index: int, tasks: int) -> None:
        self._client = client
        self._path = task_path(root, topology_id, index)
        self._new = TaskProgress(index=index, tasks=tasks)
        self._version = -1

    def claim(self) -> TaskProgress:
        """Take the task over: raise its incarnation by one and return where to go on from."""
        while True:
            try:
                data, stat = self._client.get(self._path)
                found = TaskProgress.from_json(data, self._path)
                claimed = replace(found, incarnation=found.incarnation + 1)
                self._version = self._client.set(self._path, claimed.to_json(), version=stat.version).version
            except NoNodeError:
                claimed = replace(self._new, incarnation=1)
                try:
                    self._client.create(self._path, claimed.to_json(), makepath=True)
                except NodeExistsError:
                    continue
                self._version = 0
            except BadVersionError:
                continue
            return claimed

    def save(self, progress: TaskProgress) -> None:
        """Write the progress of the incarnation that `claim` returned.

        Raises
        ------
        DeposedError
            A newer incarnation has claimed the task.
        """
        while True:
            try:
                self._version = self._client.set(self._path, progress.to_json(), version=self._version).version
                return
            except NoNodeError:  # somebody cleared the store: a newer incarnation would have made it anew
                self._client.create(self._path, progress.to_json(), makepath=True)
                self._version = 0
                return
            except BadVersionError:  # an older incarnation wrote, or an answer to ourselves was lost
                data, stat = self._client.get(self._path)
                found = TaskProgress.from_json(data, self._path)
                if found.incarnation > progress.incarnation:
                    raise DeposedError(f"{self._path} is run by process {found.incarnation}") from None
                self._version = stat.version
