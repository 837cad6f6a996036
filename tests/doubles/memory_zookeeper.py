"""`stormpilot.zookeeper.ZooKeeper` in memory, on a clock of the test's own."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from stormpilot.zookeeper.client import ConflictError, DeniedError, HasChildrenError, Node, NodeStat
from stormpilot.zookeeper.transaction import ANY_VERSION, Append, Check, Delete, Put, Step, check_size


class MemoryZooKeeper:
    """The calls that reading and publishing make; there are no sessions and no watches.

    `commits` are the transactions that were written; `before_commit` is called before each, to write in between.
    `denied` are the znodes whose access lists do not let us read or write them.
    """

    def __init__(self, clock_ms: Callable[[], int]):
        self._clock_ms = clock_ms
        self._nodes: dict[str, Node] = {}
        self._numbers: dict[str, int] = {}
        self._transaction = 0
        self.commits: list[list[Step]] = []
        self.before_commit: Callable[[], None] = lambda: None
        self.denied: set[str] = set()

    def read(self, paths: Sequence[str], watch: object = None, *, keep_denied: bool = False) -> list[Node | None]:
        if not keep_denied:
            self._refuse_denied(paths)
        return [
            Node(b"", ANY_VERSION, 0, denied=True) if p in self.denied and p in self._nodes else self._nodes.get(p)
            for p in paths
        ]

    def stats(self, paths: Sequence[str], *, keep_denied: bool = False) -> list[NodeStat | None]:
        if not keep_denied:
            self._refuse_denied(paths)
        return [None if (n := self._nodes.get(p)) is None else self._stat(p, n) for p in paths]

    def _stat(self, path: str, node: Node) -> NodeStat:
        if path in self.denied:
            return NodeStat(0, 0, 0, 0, denied=True)
        return NodeStat(node.transaction, node.written_at_ms, len(node.data), len(self._children(path)))

    def _node(self, data: bytes, version: int) -> Node:
        return Node(data, version, self._clock_ms(), transaction=self._transaction)

    def children(self, paths: Sequence[str], watch: object = None) -> list[list[str]]:
        self._refuse_denied(paths)
        return [self._children(p) for p in paths]

    def besides(self, *folders: str) -> dict[str, Node]:
        """All that is there but these znodes and what is below them."""
        return {p: n for p, n in self._nodes.items() if not p.startswith(folders)}

    def ensure(self, paths: Iterable[str]) -> None:
        self._transaction += 1
        for path in paths:
            self._ensure(path)

    def put(self, path: str, data: bytes) -> None:
        self._transaction += 1
        self._put(path, data)

    def _put(self, path: str, data: bytes) -> None:
        before = self._nodes.get(path)
        self._ensure(path)
        self._nodes[path] = self._node(data, 0 if before is None else before.version + 1)

    def delete(self, path: str) -> bool:
        for name in self.children([path])[0]:
            self.delete(f"{path}/{name}")
        return self._nodes.pop(path, None) is not None

    def commit(self, steps: Sequence[Step]) -> None:
        check_size(steps)
        self.before_commit()
        self._refuse_denied([s.path for s in steps if isinstance(s, Put)])
        self._refuse_denied([s.path.rpartition("/")[0] for s in steps if isinstance(s, Delete)])  # as ZooKeeper does
        before = dict(self._nodes)
        self._transaction += 1
        try:
            for step in steps:
                self._do(step)
        except (ConflictError, HasChildrenError):
            self._nodes = before
            raise
        self.commits.append(list(steps))

    def _refuse_denied(self, paths: Iterable[str]) -> None:
        for path in paths:
            if path in self.denied and path in self._nodes:
                raise DeniedError(path)

    def _do(self, step: Step) -> None:
        if isinstance(step, Append):
            number = self._numbers[step.prefix] = self._numbers.get(step.prefix, -1) + 1
            self._put(f"{step.prefix}{number:010d}", step.data)
            return
        node = self._nodes.get(step.path)
        if isinstance(step, Put) and step.version is None:
            parent = step.path.rpartition("/")[0]
            if node is not None or (parent and parent not in self._nodes):
                raise ConflictError(step.path)
            self._nodes[step.path] = self._node(step.data, 0)
            return
        if node is None or step.version not in (node.version, ANY_VERSION):
            raise ConflictError(step.path)
        if isinstance(step, Put):
            self._nodes[step.path] = self._node(step.data, node.version + 1)
        elif isinstance(step, Delete):
            if self._children(step.path):
                raise HasChildrenError(step.path)
            del self._nodes[step.path]
            self.denied.discard(step.path)
        else:
            assert isinstance(step, Check)

    def _children(self, path: str) -> list[str]:
        head = path.rstrip("/") + "/"
        return sorted({p[len(head) :].split("/")[0] for p in self._nodes if p.startswith(head)})

    def _ensure(self, path: str) -> None:
        parts = path.split("/")
        for i in range(2, len(parts) + 1):
            self._nodes.setdefault("/".join(parts[:i]), self._node(b"", 0))
