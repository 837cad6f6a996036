"""What everything of ours expects of `stormpilot.zookeeper.ZooKeeper`, of real servers and of the double."""

from __future__ import annotations

from typing import Any

import pytest

from stormpilot.zookeeper.client import ConflictError, HasChildrenError
from stormpilot.zookeeper.transaction import Append, Check, Delete, Put


class ZooKeeperContract:
    """Derive from it and give a fixture `zk`: something with the calls of `ZooKeeper`, and an empty tree."""

    def test_what_is_put_is_read_with_its_version_and_parents_are_made(self, zk: Any) -> None:
        zk.put("/a/b/c", b"1")
        zk.put("/a/b/c", b"2")
        (node, missing) = zk.read(["/a/b/c", "/a/none"])
        assert (node.data, node.version, missing) == (b"2", 1, None)
        assert node.written_at_ms > 0

    def test_transactions_number_the_writes_in_their_order(self, zk: Any) -> None:
        zk.put("/first", b"1")
        zk.put("/second", b"1")
        zk.commit([Put("/third", b"1", None)])
        zk.put("/first", b"2")
        second, third, first = (n.transaction for n in zk.read(["/second", "/third", "/first"]))
        assert 0 < second < third < first
        assert [s.transaction for s in zk.stats(["/second", "/third", "/first"])] == [second, third, first]

    def test_children_are_sorted_and_of_a_missing_znode_none(self, zk: Any) -> None:
        zk.ensure(["/p/b", "/p/a"])
        assert zk.children(["/p", "/none"]) == [["a", "b"], []]

    def test_a_znode_goes_with_what_is_below_it(self, zk: Any) -> None:
        zk.ensure(["/p/a/b", "/q"])
        assert zk.delete("/p")
        assert not zk.delete("/p")
        assert zk.read(["/p", "/p/a/b"]) == [None, None]
        assert zk.read(["/q"])[0] is not None

    def test_a_transaction_is_done_as_a_whole(self, zk: Any) -> None:
        zk.put("/old", b"x")
        zk.ensure(["/log"])
        zk.commit([Check("/old", 0), Put("/new", b"1", None), Append("/log/n-", b"first"), Put("/old", b"y", 0)])
        assert [n.data for n in zk.read(["/new", "/old"])] == [b"1", b"y"]
        (name,) = zk.children(["/log"])[0]
        assert name.startswith("n-")
        zk.commit([Delete("/new", 0)])
        assert zk.read(["/new"]) == [None]

    @pytest.mark.parametrize(
        ("step", "path"),
        [
            (Check("/old", 7), "/old"),
            (Check("/none", 0), "/none"),
            (Put("/old", b"z", 7), "/old"),
            (Put("/old", b"z", None), "/old"),
            (Delete("/old", 7), "/old"),
        ],
    )
    def test_one_step_that_does_not_fit_undoes_all(self, zk: Any, step: Any, path: str) -> None:
        zk.put("/old", b"x")
        with pytest.raises(ConflictError) as refused:
            zk.commit([Put("/before", b"1", None), step])
        assert refused.value.path == path
        assert zk.read(["/before"]) == [None]
        assert zk.read(["/old"])[0].data == b"x"

    def test_a_transaction_removes_no_znode_with_others_below_it(self, zk: Any) -> None:
        zk.put("/old", b"x")
        zk.put("/old/below", b"y")
        with pytest.raises(HasChildrenError, match="wrote below it") as refused:
            zk.commit([Put("/before", b"1", None), Delete("/old", 0)])
        assert refused.value.path == "/old"
        assert zk.read(["/before"]) == [None]
        assert [n.data for n in zk.read(["/old", "/old/below"])] == [b"x", b"y"]
