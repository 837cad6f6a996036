"""Messages as they were when they could last be read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

from stormpilot.errors import UsageError
from stormpilot.messages.core import Message
from stormpilot.observe.plausible import read_message
from stormpilot.zookeeper.client import Node

M = TypeVar("M", bound=Message)


class LastGood:
    """Decodes znodes and remembers the messages by path: a znode that got unreadable stays believed as it was.

    What was not changed since the last time is not decoded again."""

    def __init__(self) -> None:
        self._messages: dict[str, tuple[bytes, Message]] = {}

    def decode(self, node: Node | None, kind: type[M], path: str, problems: dict[str, str]) -> M | None:
        """The message, or the last readable one of that path; `problems` gets the reason by path. None: neither."""
        if node is None:
            return None
        try:
            return self.read(node, kind, path)
        except UsageError as e:
            problems[path] = str(e)
            _, last = self._messages.get(path, (b"", None))
            return last if isinstance(last, kind) else None

    def read(self, node: Node, kind: type[M], path: str) -> M:
        """The message: the same object again while the znode holds the same; `UsageError` where it cannot be read."""
        data, last = self._messages.get(path, (b"", None))
        if isinstance(last, kind) and data == node.data and not node.denied:
            return last
        message = read_message(node, kind, path)
        self._messages[path] = node.data, message
        return message

    def keep_only(self, nodes: Mapping[str, Node | None]) -> None:
        """Forget znodes that are gone."""
        self._messages = {path: m for path, m in self._messages.items() if nodes.get(path) is not None}
