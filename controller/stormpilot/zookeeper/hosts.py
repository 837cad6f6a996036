"""Addresses of ZooKeeper's servers as a user writes them."""

from __future__ import annotations

from kazoo.hosts import collect_hosts

from stormpilot.errors import UsageError


def check_hosts(hosts: str, where: str) -> None:
    """Read addresses as the client of ZooKeeper does; `UsageError` names `where` wrong ones are written."""
    try:
        _, chroot = collect_hosts(hosts)
    except ValueError as e:
        raise UsageError(f"{where}: {hosts!r}: {e}; expected host:port,host:port") from e
    if chroot:
        raise UsageError(f"{where}: {hosts!r}: expected no path behind the addresses: the root is zookeeper.root")
