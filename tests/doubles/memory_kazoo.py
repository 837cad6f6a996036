"""A client of ZooKeeper (kazoo) in memory, for what keeps progress: the calls of the topologies, with versions."""

from __future__ import annotations

from typing import NamedTuple

from kazoo.exceptions import BadVersionError, ConnectionLoss, NodeExistsError, NoNodeError


class Stat(NamedTuple):
    version: int


class MemoryKazoo:
    """Behaves as a started KazooClient does towards znodes without children of their own."""

    def __init__(self) -> None:
        self._nodes: dict[str, tuple[bytes, int]] = {}
        self.gone = False

    def get(self, path: str) -> tuple[bytes, Stat]:
        self._connected()
        if path not in self._nodes:
            raise NoNodeError
        data, version = self._nodes[path]
        return data, Stat(version)

    def set(self, path: str, data: bytes, version: int = -1) -> Stat:
        self._connected()
        _, stat = self.get(path)
        if version not in (-1, stat.version):
            raise BadVersionError
        self._nodes[path] = (data, stat.version + 1)
        return Stat(stat.version + 1)

    def create(self, path: str, data: bytes, makepath: bool = False) -> str:
        self._connected()
        if path in self._nodes:
            raise NodeExistsError
        self._nodes[path] = (data, 0)
        return path

    def delete(self, path: str) -> None:
        self.get(path)
        del self._nodes[path]

    def get_children(self, path: str) -> list[str]:
        self._connected()
        below = [node.removeprefix(path + "/") for node in self._nodes if node.startswith(path + "/")]
        if not below:
            raise NoNodeError
        return sorted({name.split("/")[0] for name in below})

    def _connected(self) -> None:
        if self.gone:
            raise ConnectionLoss
